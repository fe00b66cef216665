//! One listening socket: its access rules, its time limits, and its shutdown.

mod body;
mod connections;
mod door;
mod forwarded;
mod headers;
mod host;
pub(super) mod panics;
mod stream;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::{Response, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioTimer;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service;

use self::body::{Received, Sent};
use self::connections::{ConnectionLimiter, Slot};
pub use self::door::Door;
use self::stream::NotedStream;
use crate::base::failpoint;
use crate::base::subnets::Subnets;
use crate::base::supervise::contain;
use crate::base::task::{Task, waits};

/// Time limit for the head of a request. A connection without one is closed after it.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// Time limit for a body, since a slow sender holds a slot. Forms and the starter give up sooner, and say why.
const BODY_PATIENCE: Duration = Duration::from_secs(40);
const CONNECTIONS: usize = 512;
/// Pause after a connection could not be accepted because no file descriptor was left.
const AFTER_FAILURE: Duration = Duration::from_millis(20);

#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {addr}: {error}; choose another with {remedy}")]
pub struct ServerError {
    addr: SocketAddr,
    error: io::Error,
    remedy: &'static str,
}

impl ServerError {
    /// Names another source of the address than `--listen` or `http.listen`.
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
    proxies: Subnets,
    connections: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Client {
    /// Its address: behind a trusted proxy, the one that the proxy names.
    pub address: IpAddr,
    pub close: CancellationToken,
}

impl Server {
    /// Listens; port 0 takes a free one.
    ///
    /// # Errors
    /// The address is taken, or belongs to another machine.
    pub async fn bind(addr: SocketAddr) -> Result<Self, ServerError> {
        Self::bind_as("serves HTTP", addr).await
    }

    /// Listens as [`Server::bind`] does, with another line in the log.
    pub async fn bind_as(line: &'static str, addr: SocketAddr) -> Result<Self, ServerError> {
        let bound = async {
            let listener = TcpListener::bind(addr).await?;
            let addr = listener.local_addr()?;
            let (door, proxies) = (Door::default(), Subnets::default());
            Ok(Self { listener, addr, door, proxies, connections: CONNECTIONS })
        };
        let remedy = "--listen or http.listen";
        let server = bound.await.map_err(|error| ServerError { addr, error, remedy })?;
        tracing::info!(address = %server.addr, "{line}");
        Ok(server)
    }

    /// Sets the door and the number of concurrent connections.
    #[must_use]
    pub fn guarded(self, door: Door, connections: usize) -> Self {
        Self { door, connections, ..self }
    }

    /// Trusts these proxies, which name the addresses of their clients.
    #[must_use]
    pub fn behind(self, proxies: Subnets) -> Self {
        Self { proxies, ..self }
    }

    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers until `close`. Then it accepts no more, and ends after the requests in work.
    pub async fn run(self, router: Router, close: impl Future<Output = ()> + Send + 'static) {
        let router = router.layer(from_fn_with_state(Arc::new(self.door), door::pass));
        let served = Arc::new(Served { router, proxies: self.proxies, task: Task::new("process", "http") });
        let limiter = Arc::new(ConnectionLimiter::new(self.connections));
        let (serving, closing) = (TaskTracker::new(), CancellationToken::new());
        let mut close = pin!(close);
        loop {
            let accepted = tokio::select! {
                () = &mut close => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    // A connection without a slot gets no answer: an answer would need the slot.
                    if let Some(slot) = limiter.admit(peer.ip()) {
                        let (served, closing) = (served.clone(), closing.clone());
                        serving.spawn(async move {
                            if let Err(why) = contain(&served.task, served.serve(stream, peer, slot, closing)).await {
                                panics::note("", &why);
                            }
                        });
                    }
                }
                Err(error) if is_of_one(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection cannot be accepted: idle ones are closed");
                    limiter.close_idle();
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
        drop(self.listener);
        closing.cancel();
        serving.close();
        serving.wait().await;
    }
}

/// Returns true if the error concerns one connection only, so that the next one can be accepted.
fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionAborted | ConnectionReset)
}

struct Served {
    router: Router,
    proxies: Subnets,
    task: Arc<Task>,
}

impl Served {
    /// Answers one connection until it is closed, is evicted, or `closing` finds it without a request.
    async fn serve(&self, stream: TcpStream, peer: SocketAddr, slot: Slot, closing: CancellationToken) {
        waits("answers requests", None);
        // A small answer must not wait for the acknowledgement of the one before it.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let answer = service_fn(|request| {
            let answered = self.answer(request, peer, &slot);
            async move { Ok::<_, Infallible>(answered.await) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
        let stream = NotedStream::new(stream, slot.activity());
        let mut connection = pin!(builder.serve_connection(stream, answer));
        tokio::select! {
            ended = connection.as_mut() => return log(ended),
            () = slot.close().cancelled() => return,
            () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        // Half a head is not a request: do not wait for the rest of it.
        if slot.has_request() {
            log(connection.await);
        }
    }

    /// Answers one request. If its handler panics, the answer is 500.
    fn answer(
        &self,
        request: hyper::Request<Incoming>,
        peer: SocketAddr,
        slot: &Slot,
    ) -> impl Future<Output = Response<Sent>> + use<> {
        let client = forwarded::client(request.headers(), peer.ip(), &self.proxies);
        slot.count_for(client);
        let in_work = slot.request();
        let mut request = request.map(Body::new);
        if !request.body().is_end_stream() {
            request = request.map(|body| Body::new(Received::new(body, BODY_PATIENCE, slot.body())));
        }
        request.extensions_mut().insert(ConnectInfo(SocketAddr::new(client, peer.port())));
        request.extensions_mut().insert(Client { address: client, close: slot.close().clone() });
        let path = request.uri().path().to_owned();
        let (mut router, task) = (self.router.clone(), self.task.clone());
        async move {
            let handled = async {
                failpoint::request(&path);
                router.call(request).await
            };
            let mut response = match contain(&task, handled).await {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(why) => {
                    panics::note(&path, &why);
                    (StatusCode::INTERNAL_SERVER_ERROR, "the request failed here: the log says why\n").into_response()
                }
            };
            headers::complete(response.headers_mut());
            let panics = failpoint::panics_in_body(&path);
            response.map(|body| Sent { body, _in_work: in_work, panics })
        }
    }
}

fn log(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}
