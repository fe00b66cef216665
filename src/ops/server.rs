//! One listening socket: its access rules, its time limits, and its shutdown.

mod crowd;
mod door;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{ConnectInfo, Request};
use axum::middleware::{from_fn_with_state, map_request};
use axum::{BoxError, Router};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use self::crowd::{Busy, Crowd, Seat};
pub use self::door::Door;

/// The head of a request comes within this time, and a connection without one is closed after it.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// The time limit for a body, since a slow sender occupies a place. The starter gives up sooner, and says why.
const BODY_PATIENCE: Duration = Duration::from_secs(40);
/// Connections at once, unless the settings say otherwise.
const CONNECTIONS: usize = 512;
/// After a connection could not be taken (no file descriptor is left), for so long none is.
const AFTER_FAILURE: Duration = Duration::from_millis(20);

/// The address cannot be listened at.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {addr}: {error}; choose another with {remedy}")]
pub struct ServerError {
    addr: SocketAddr,
    error: io::Error,
    remedy: &'static str,
}

impl ServerError {
    /// The same where the address came from elsewhere than `--listen` or `http.listen`.
    #[must_use]
    pub fn remedied_by(self, remedy: &'static str) -> Self {
        Self { remedy, ..self }
    }
}

/// A listening socket; clients wait until [`Server::run`].
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    addr: SocketAddr,
    door: Door,
    connections: usize,
}

impl Server {
    /// Listens; port 0 takes a free one.
    ///
    /// # Errors
    /// The address is taken, or not this machine's.
    pub async fn bind(addr: SocketAddr) -> Result<Self, ServerError> {
        Self::bind_as("serves HTTP", addr).await
    }

    /// The same with another line in the log.
    ///
    /// # Errors
    /// As [`Server::bind`].
    pub async fn bind_as(line: &'static str, addr: SocketAddr) -> Result<Self, ServerError> {
        let bound = async {
            let listener = TcpListener::bind(addr).await?;
            let addr = listener.local_addr()?;
            Ok(Self { listener, addr, door: Door::default(), connections: CONNECTIONS })
        };
        let remedy = "--listen or http.listen";
        let server = bound.await.map_err(|error| ServerError { addr, error, remedy })?;
        tracing::info!(address = %server.addr, "{line}");
        Ok(server)
    }

    /// The same with that door, for so many connections at once.
    #[must_use]
    pub fn guarded(self, door: Door, connections: usize) -> Self {
        Self { door, connections, ..self }
    }

    /// The address at which it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers until `close`, then accepts no more and ends when what is in work is answered.
    pub async fn run(self, router: Router, close: impl Future<Output = ()> + Send + 'static) {
        let router = router.layer(from_fn_with_state(Arc::new(self.door), door::pass)).layer(map_request(timed));
        let crowd = Arc::new(Crowd::new(self.connections));
        let (guests, closing) = (TaskTracker::new(), CancellationToken::new());
        let mut close = pin!(close);
        loop {
            let accepted = tokio::select! {
                () = &mut close => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, from)) => {
                    // Whoever finds no seat is not answered: to say so would take what there is not.
                    if let Some(seat) = crowd.enter(from.ip()) {
                        guests.spawn(serve(stream, from, seat, router.clone(), closing.clone()));
                    }
                }
                Err(error) if is_of_one(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted: idle ones are closed");
                    crowd.clear();
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
        drop(self.listener);
        closing.cancel();
        guests.close();
        guests.wait().await;
    }
}

/// Returns true if the error is that of one connection, so that the next one can be accepted.
fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionAborted | ConnectionReset)
}

/// Answers one connection until it is closed, has to leave, or `closing` finds it without a request.
async fn serve(stream: TcpStream, from: SocketAddr, seat: Seat, router: Router, closing: CancellationToken) {
    // A small answer must not wait for the acknowledgement of the one before it.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let answer = service_fn(|request: hyper::Request<Incoming>| {
        let busy = seat.busy();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(from));
        let answered = router.clone().call(request);
        async move { Ok::<_, Infallible>(answered.await?.map(|body| Answering { body, _busy: busy })) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    tokio::select! {
        ended = connection.as_mut() => return said(ended),
        () = seat.leaving() => return,
        () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    // Half a head is not a request: do not wait for the rest of it.
    if seat.is_busy() {
        said(connection.await);
    }
}

fn said(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}

/// A request whose body has to come in time.
async fn timed(request: Request) -> Request {
    if request.body().is_end_stream() {
        return request;
    }
    request.map(|body| Body::new(Timed { body, until: Box::pin(tokio::time::sleep(BODY_PATIENCE)) }))
}

/// A body that breaks off when it takes too long.
struct Timed {
    body: Body,
    until: Pin<Box<Sleep>>,
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
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

/// The body of an answer; until it is sent, the connection is busy.
struct Answering {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
