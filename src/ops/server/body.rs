//! The bodies of requests and answers.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;

use super::connections::{InWork, Receiving};

/// The body of a request. It breaks off when it takes too long.
pub(super) struct Received {
    body: Body,
    until: Pin<Box<Sleep>>,
    /// `None` once the body is complete.
    receiving: Option<Receiving>,
}

impl Received {
    pub fn new(body: Body, patience: Duration, receiving: Receiving) -> Self {
        Self { body, until: Box::pin(tokio::time::sleep(patience)), receiving: Some(receiving) }
    }
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            if frame.is_none() || self.body.is_end_stream() {
                self.receiving = None;
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)));
        }
        self.until.as_mut().poll(cx).map(|()| Some(Err("the body took too long".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer. Its request is in work until it is sent.
pub(super) struct Sent {
    pub body: Body,
    pub _in_work: InWork,
    /// True if it has to panic: for tests.
    pub panics: bool,
}

impl HttpBody for Sent {
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
