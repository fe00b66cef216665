//! Bodies of requests and answers.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;

use super::connections::{ActiveRequest, IncompleteBody};

/// Request body that fails when it takes too long.
pub(super) struct RequestBody {
    body: Body,
    until: Pin<Box<Sleep>>,
    /// `None` once the body is complete.
    receiving: Option<IncompleteBody>,
}

impl RequestBody {
    pub fn new(body: Body, time_limit: Duration, receiving: IncompleteBody) -> Self {
        Self { body, until: Box::pin(tokio::time::sleep(time_limit)), receiving: Some(receiving) }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            if frame.is_none() || self.body.is_end_stream() {
                self.receiving = None;
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        self.until.as_mut().poll(cx).map(|()| Some(Err("the request body took too long".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Response body. Its request is active until it is sent.
pub(super) struct ResponseBody {
    pub body: Body,
    pub _active: ActiveRequest,
    /// Panics when it is read: for tests.
    pub panics: bool,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        assert!(!self.panics, "asked to panic in the body of an answer");
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
