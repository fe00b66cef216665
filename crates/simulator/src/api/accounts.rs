//! The common part of all lookups of accounts.

use axum::response::Response;

use super::shared::Api;
use crate::dialect::Dialect;
use crate::faults::Endpoint;
use crate::faulty;
use crate::reply::success;
use crate::windows::Window;

/// The body of a response, or a ready error response.
pub type Answer = Result<String, Box<Response>>;

pub fn into_response(answer: Answer) -> Response {
    answer.map_or_else(|refusal| *refusal, success)
}

impl Api {
    pub(crate) async fn answer_accounts(
        &self,
        dialect: Dialect,
        ids: &[&str],
        window: Option<Window>,
        answer: Answer,
    ) -> Response {
        self.apply_fault(Endpoint::Accounts, dialect, ids, window, answer).await
    }

    pub(crate) async fn apply_fault(
        &self,
        at: Endpoint,
        dialect: Dialect,
        ids: &[&str],
        window: Option<Window>,
        answer: Answer,
    ) -> Response {
        self.count_lookups(ids);
        if let Some(fault) = self.draw_fault(at, ids).await {
            let body = answer.as_ref().cloned().unwrap_or_default();
            if let Some(response) = faulty::faulty_response(self, dialect, &fault, window, || body).await {
                return response;
            }
        }
        dialect.with_window(window, into_response(answer))
    }
}
