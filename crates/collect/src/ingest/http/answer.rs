//! Responses of the ingest API: the results of the posts, or the reason why none was accepted.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::ingest::{FORGOTTEN, Queued};

/// Maximum number of rejected posts listed in a response; others are counted.
const NAMED_REFUSALS: usize = 1_000;

#[derive(Debug, Default, Serialize)]
pub(super) struct Receipt {
    pub scheduled: u64,
    pub known: u64,
    pub leased: u64,
    pub dead: u64,
    pub too_old: u64,
    pub handles: u64,
    pub refused: Vec<Refused>,
    refused_unnamed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Refused {
    pub index: u64,
    pub reason: String,
}

impl Receipt {
    pub fn count(&mut self, index: u64, queued: Queued) {
        match queued {
            Queued::Scheduled => self.scheduled += 1,
            Queued::Known => self.known += 1,
            Queued::Leased => self.leased += 1,
            Queued::Dead => self.dead += 1,
            Queued::TooOld => self.too_old += 1,
            Queued::Forgotten => self.refuse(index, FORGOTTEN.to_owned()),
            Queued::Refused(why) => self.refuse(index, why.to_string()),
        }
    }

    fn refuse(&mut self, index: u64, reason: String) {
        match self.refused.len() < NAMED_REFUSALS {
            true => self.refused.push(Refused { index, reason }),
            false => self.refused_unnamed += 1,
        }
    }

    pub fn accepted(&self) -> u64 {
        self.scheduled + self.known + self.leased + self.dead + self.too_old + self.handles
    }

    pub fn refused(&self) -> u64 {
        self.refused.len() as u64 + self.refused_unnamed
    }
}

#[derive(Debug, Serialize)]
struct Problem {
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<Refused>,
}

pub(super) struct Refusal {
    status: StatusCode,
    header: Option<(HeaderName, &'static str)>,
    problem: Problem,
}

impl Refusal {
    pub fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self { status, header: None, problem: Problem { reason: reason.into(), index: None, refused: Vec::new() } }
    }

    pub fn with(self, name: HeaderName, value: &'static str) -> Self {
        Self { header: Some((name, value)), ..self }
    }

    pub fn at_index(mut self, index: u64) -> Self {
        self.problem.index = Some(index);
        self
    }

    pub fn with_refused(mut self, refused: Vec<Refused>) -> Self {
        self.problem.refused = refused;
        self
    }

    pub fn retry_later(reason: &str, seconds: &'static str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, reason).with(RETRY_AFTER, seconds)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.problem)).into_response();
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
