//! The common part of all lookups of accounts.

use axum::response::Response;

use super::shared::Api;
use crate::simulator::dialect::Dialect;
use crate::simulator::faults::Endpoint;
use crate::simulator::faulty;
use crate::simulator::reply::success;
use crate::simulator::windows::Window;

/// The body of a response, or a ready error response.
pub type Answer = Result<String, Box<Response>>;

pub fn sent(answer: Answer) -> Response {
    answer.map_or_else(|refusal| *refusal, success)
}

impl Api {
    pub(crate) async fn of_accounts(
        &self,
        dialect: Dialect,
        ids: &[&str],
        window: Option<Window>,
        answer: Answer,
    ) -> Response {
        self.unless_struck(Endpoint::Accounts, dialect, ids, window, answer).await
    }

    /// The response, unless a fault at that endpoint replaces it.
    pub(crate) async fn unless_struck(
        &self,
        at: Endpoint,
        dialect: Dialect,
        ids: &[&str],
        window: Option<Window>,
        answer: Answer,
    ) -> Response {
        self.count(ids);
        if let Some(fault) = self.strike(at, ids).await {
            let body = answer.as_ref().cloned().unwrap_or_default();
            if let Some(response) = faulty::answer(self, dialect, &fault, window, || body).await {
                return response;
            }
        }
        dialect.with(window, sent(answer))
    }
}
