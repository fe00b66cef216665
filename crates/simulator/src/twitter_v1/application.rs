//! `POST /oauth2/token` and `application/rate_limit_status`: an application's token, and the current windows.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use serde_json::{Map, Value, json};

use super::dialect::refusal;
use super::timelines::limits;
use crate::api::{Api, ApiState, Routes};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::faults::Endpoint;
use crate::faulty;
use crate::gate::Caller;
use crate::reply::success;
use crate::windows::{Limit, Window};
use engine::base::clock;

const STATUS: &str = "/application/rate_limit_status";

const STATUS_CALLS: u32 = 180;

pub fn routes(router: Routes) -> Routes {
    let status = async |State(api): ApiState, call: Call| api.rate_limit_status(&call);
    let token = async |State(api): ApiState, call: Call| api.token(&call).await;
    router.route("/1.1/application/rate_limit_status.json", get(status)).route("/oauth2/token", post(token))
}

impl Api {
    async fn token(&self, call: &Call) -> Result<Response, Response> {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
        let token = self.gate.exchange_keys(call).map_err(|(status, code)| refusal(status, code))?;
        let body = || json!({ "token_type": "bearer", "access_token": token }).to_string();
        if let Some(fault) = self.draw_fault(Endpoint::Token, &[]).await
            && let Some(response) = faulty::faulty_response(self, Dialect::TwitterV1, &fault, None, body).await
        {
            return Ok(response);
        }
        Ok(success(body()))
    }

    #[expect(clippy::result_large_err, reason = "a refusal is sent at once")]
    fn rate_limit_status(&self, call: &Call) -> Result<Response, Response> {
        let Caller { name, pool } =
            self.gate.admit(call, self.now()).map_err(|(status, code)| refusal(status, code))?;
        let dialect = Dialect::TwitterV1;
        let status_limit = Limit { calls: STATUS_CALLS, length: clock::millis(self.options.window), aligned: false };
        let refused = |window| dialect.with_window(Some(window), refusal(429, 88));
        let window = self.take_call(&name, STATUS, status_limit).map_err(refused)?;
        let families = call.parameter("resources");
        let asked = |family: &str| families.is_none_or(|families| families.split(',').any(|one| one == family));
        let own = [(dialect.endpoint(), dialect.limit(&self.options, pool)), (STATUS, status_limit)];
        let mut resources: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
        for (endpoint, limit) in own.into_iter().chain(limits(&self.options, pool)) {
            let family = endpoint.split('/').nth(1).unwrap_or_default();
            if asked(family) {
                let limit = if limit.calls == 0 { Limit { calls: u32::MAX, ..limit } } else { limit };
                let Window { limit, remaining, reset, .. } = self.windows.current(&name, endpoint, limit, self.now());
                let quota = json!({ "limit": limit, "remaining": remaining, "reset": reset });
                resources.entry(family).or_default().insert(endpoint.to_owned(), quota);
            }
        }
        let body = json!({ "rate_limit_context": { "application": "dummykey" }, "resources": resources });
        Ok(dialect.with_window(window, success(body.to_string())))
    }
}
