//! The common part of all lookups of accounts.

use axum::response::Response;

use super::shared::Api;
use crate::simulator::dialect::Dialect;
use crate::simulator::faults::Endpoint;
use crate::simulator::faulty;
use crate::simulator::reply::success;
use crate::simulator::windows::Window;

impl Api {
    /// The answer to a lookup of accounts, unless a fault strikes it.
    pub(crate) async fn of_accounts(
        &self,
        dialect: Dialect,
        ids: &[&str],
        window: Option<Window>,
        answer: impl Fn() -> Result<String, Response>,
    ) -> Response {
        self.count(ids);
        if let Some(fault) = self.strike(Endpoint::Accounts, ids).await {
            let body = || answer().unwrap_or_default();
            if let Some(response) = faulty::answer(self, dialect, &fault, window, body).await {
                return response;
            }
        }
        dialect.with(window, answer().map_or_else(|refusal| refusal, success))
    }
}
