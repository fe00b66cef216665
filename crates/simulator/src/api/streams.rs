//! The simulated stream, `GET /2/tweets/search/stream`.
//!
//! A stream has the posts of its rules' timelines, each at the time at which it becomes visible there. It has no posts from
//! before the connection. An account has one connection; a second one is rejected (429).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::stream;
use serde_json::json;

use super::connections::OpenStream;
use super::shared::{AdmittedCall, Api, ApiState, Routes};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::faults::{Endpoint, Fault};
use crate::faulty;
use crate::render::{RenderContext, View};
use crate::reply::{failure, success};
use crate::timeline::{Network, TimelinePost};
use crate::x_v2::dialect::{Fields, refuse_parameter};
use engine::base::clock::Millis;

const X_CONNECTS: u32 = 50;

pub fn routes(router: Routes) -> Routes {
    let stream = async |State(api): ApiState, call: Call| api.stream(&call).await;
    let rules = async |State(api): ApiState, call: Call| api.stream_rules(&call);
    router.route("/2/tweets/search/stream", get(stream)).route("/2/tweets/search/stream/rules", get(rules))
}

impl Api {
    fn stream_rules(&self, call: &Call) -> Response {
        if let Err((status, code)) = self.gate.admit(call, self.now()) {
            return Dialect::XV2.refusal(status, code);
        }
        let rule = |(number, value): (usize, &String)| json!({ "id": format!("{}", 1_000 + number), "value": value });
        let rules: Vec<_> = self.options.stream_rules.iter().enumerate().map(rule).collect();
        let mut body = json!({ "meta": { "sent": "2026-11-20T00:00:00.000Z", "result_count": rules.len() } });
        if !rules.is_empty() {
            body["data"] = rules.into();
        }
        success(body.to_string())
    }

    async fn stream(self: Arc<Self>, call: &Call) -> Result<Response, Response> {
        let (dialect, calls) = (Dialect::XV2, (X_CONNECTS, X_CONNECTS));
        let AdmittedCall { caller, window } =
            self.admit_with_limits(dialect, call, "/2/tweets/search/stream", calls).await?;
        let fields = dialect
            .fields(call, &["backfill_minutes", "start_time", "end_time"])
            .map_err(|unknown| dialect.with_window(window, refuse_parameter(&unknown)))?;
        let fault = self.draw_fault(Endpoint::Stream, &[]).await;
        if let Some(fault) = &fault
            && let Some(response) = faulty::faulty_response(&self, dialect, fault, window, String::new).await
        {
            return Ok(response);
        }
        let targets = self.options.stream_rules.clone();
        if targets.is_empty() {
            return Err(dialect.with_window(window, conflict()));
        }
        let Some(connection) = self.streams.connect(&caller.name) else {
            return Err(dialect.with_window(window, dialect.refusal(429, 88)));
        };
        let cursor = (self.now(), 0);
        let sending = Sending { api: self, fields, targets, cursor, sent: 0, fault, connection };
        let body = Body::from_stream(stream::unfold(sending, async |mut sending| {
            let bytes = sending.next().await?;
            Some((bytes, sending))
        }));
        Ok(dialect.with_window(window, ([(CONTENT_TYPE, "application/json; charset=utf-8")], body).into_response()))
    }

    /// The first post of these timelines that becomes visible after `after`; with equal times, ordered by id.
    fn next_visible(&self, targets: &[String], after: (Millis, u64)) -> Option<(TimelinePost, usize)> {
        let mut first: Option<(TimelinePost, usize)> = None;
        let timelines = self.world.timelines();
        for (at, target) in targets.iter().map(|target| self.target(target, after.0)).enumerate() {
            // A post becomes visible after the start of its slot, and at most `late_ms` after its end.
            let mut slot = timelines.slot(after.0 - timelines.late_ms()) - 1;
            while first.is_none_or(|(post, _)| timelines.slot_start(slot) <= post.visible_at) {
                let post = timelines.post(Network::Twitter, target, slot);
                let key = |post: &TimelinePost| (post.visible_at, post.id.get());
                if timelines.has_post(target, slot)
                    && key(&post) > after
                    && first.is_none_or(|(known, _)| key(&post) < key(&known))
                {
                    first = Some((post, at));
                }
                slot += 1;
            }
        }
        first
    }

    fn streamed(&self, fields: &Fields, post: TimelinePost, rule: usize) -> Option<String> {
        let view = View { extended: false, trim_user: false, entities: true };
        let context = RenderContext { fields: fields.clone(), ..self.render_context(self.now(), view) };
        let id = post.id.to_string();
        let object = self.object(Dialect::XV2, &id, &context)?;
        let includes = self.includes(&[&id], &context).map(|of| format!(",\"includes\":{of}")).unwrap_or_default();
        let rule = format!("[{{\"id\":\"{}\",\"tag\":\"\"}}]", 1_000 + rule);
        Some(format!("{{\"data\":{object}{includes},\"matching_rules\":{rule}}}\r\n"))
    }
}

struct Sending {
    api: Arc<Api>,
    fields: Fields,
    targets: Vec<String>,
    /// The last sent post: the time at which it became visible, and its id.
    cursor: (Millis, u64),
    sent: u64,
    fault: Option<Fault>,
    connection: OpenStream,
}

impl Sending {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let line = |line: String| Some(Ok(Bytes::from(line)));
        let due = |after: u64| self.sent >= after;
        match &self.fault {
            Some(Fault::Drops { after }) if due(*after) => {
                // Lets the server send its buffer first.
                tokio::task::yield_now().await;
                return Some(Err(faulty::connection_error()));
            }
            Some(Fault::Stalls { after }) if due(*after) => {
                self.api.stop.cancelled().await;
                return None;
            }
            Some(Fault::Line { after, line: said }) if due(*after) => {
                let said = format!("{said}\r\n");
                self.fault = None;
                return line(said);
            }
            _ => {}
        }
        let blank = tokio::time::sleep(self.api.options.keep_alive);
        tokio::pin!(blank);
        loop {
            let (post, rule) = self.api.next_visible(&self.targets, self.cursor)?;
            tokio::select! {
                biased;
                () = self.api.stop.cancelled() => return None,
                () = &mut blank => return line("\r\n".to_owned()),
                () = until(&self.api, post.visible_at) => {}
            }
            self.cursor = (post.visible_at, post.id.get());
            // The post was deleted before it became visible.
            let Some(mut text) = self.api.streamed(&self.fields, post, rule) else { continue };
            if let Some(Fault::HalfLine { after }) = &self.fault
                && self.sent >= *after
            {
                self.fault = Some(Fault::Drops { after: 0 });
                text.truncate((0..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
                return line(text);
            }
            self.sent += 1;
            self.connection.count_post();
            return line(text);
        }
    }
}

/// Waits until a time of the simulated clock, ms since the epoch.
async fn until(api: &Api, at: Millis) {
    let left = at - api.now();
    if left > 0 {
        tokio::time::sleep(Duration::from_millis(left.unsigned_abs())).await;
    }
}

fn conflict() -> Response {
    let body = json!({
        "title": "ConnectionException",
        "detail": "Rules must be configured before connecting.",
        "connection_issue": "RuleConfigurationIssue",
        "type": "https://api.twitter.com/2/problems/streaming-connection",
    });
    failure(409, &body)
}
