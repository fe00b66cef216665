//! An HTTP server on one listening socket: access rules, time limits, shutdown.

mod allowed_hosts;
mod body;
mod connections;
mod forwarded;
mod headers;
mod host_header;
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

pub use self::allowed_hosts::AllowedHosts;
use self::body::{RequestBody, ResponseBody};
use self::connections::{ConnectionGuard, ConnectionLimiter};
use self::stream::StallTrackingStream;
use engine::base::failpoint;
use engine::base::subnets::Subnets;
use engine::base::supervise::catch_panic;
use engine::base::task::{Task, waits};

/// Time limit for the head of a request. A connection without one is closed after it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for a body, since a slow sender holds a connection. Forms and the starter give up sooner, and say why.
const BODY_TIMEOUT: Duration = Duration::from_secs(40);
const MAX_CONNECTIONS: usize = 512;
/// Pause after a failure to accept, when no file descriptor is left.
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(20);

#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {addr}: {error}; choose another with {remedy}")]
pub struct ServerError {
    addr: SocketAddr,
    error: io::Error,
    remedy: &'static str,
}

impl ServerError {
    /// Replaces `--listen or http.listen` as the setting that the error names.
    #[must_use]
    pub fn with_remedy(self, remedy: &'static str) -> Self {
        Self { remedy, ..self }
    }
}

/// A listening socket; clients wait until [`Server::run`].
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    addr: SocketAddr,
    allowed_hosts: AllowedHosts,
    proxies: Subnets,
    connections: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Client {
    /// The client's address; behind a trusted proxy, the address that the proxy states.
    pub address: IpAddr,
    pub close: CancellationToken,
}

impl Server {
    /// Listens at `addr`; port 0 selects a free port. Fails if the address is taken, or belongs to another machine.
    pub async fn bind(addr: SocketAddr) -> Result<Self, ServerError> {
        Self::bind_as("serves HTTP", addr).await
    }

    /// Listens at `addr`, and logs `line` with the address.
    pub async fn bind_as(line: &'static str, addr: SocketAddr) -> Result<Self, ServerError> {
        let bound = async {
            let listener = TcpListener::bind(addr).await?;
            let addr = listener.local_addr()?;
            let (allowed_hosts, proxies) = (AllowedHosts::default(), Subnets::default());
            Ok(Self { listener, addr, allowed_hosts, proxies, connections: MAX_CONNECTIONS })
        };
        let remedy = "--listen or http.listen";
        let server = bound.await.map_err(|error| ServerError { addr, error, remedy })?;
        tracing::info!(address = %server.addr, "{line}");
        Ok(server)
    }

    /// Sets the names of this server and the limit of concurrent connections.
    #[must_use]
    pub fn with_access_rules(self, allowed_hosts: AllowedHosts, connections: usize) -> Self {
        Self { allowed_hosts, connections, ..self }
    }

    /// Trusts these proxies to state their clients' addresses.
    #[must_use]
    pub fn with_trusted_proxies(self, proxies: Subnets) -> Self {
        Self { proxies, ..self }
    }

    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves until `close`, then finishes the current requests.
    pub async fn run(self, router: Router, close: impl Future<Output = ()> + Send + 'static) {
        let router = router.layer(from_fn_with_state(Arc::new(self.allowed_hosts), allowed_hosts::reject_cross_site));
        let served = Arc::new(HttpService { router, proxies: self.proxies, task: Task::new("process", "http") });
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
                    // A connection beyond the limit gets no answer: an answer would keep it open.
                    if let Some(guard) = limiter.admit(peer.ip()) {
                        let (served, closing) = (served.clone(), closing.clone());
                        serving.spawn(async move {
                            if let Err(why) =
                                catch_panic(&served.task, served.serve_connection(stream, peer, guard, closing)).await
                            {
                                panics::record_panic("", &why.to_string());
                            }
                        });
                    }
                }
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "the HTTP server cannot accept a connection and closes idle ones; raise the limit of open files");
                    limiter.close_idle();
                    tokio::time::sleep(ACCEPT_RETRY_AFTER).await;
                }
            }
        }
        drop(self.listener);
        closing.cancel();
        serving.close();
        serving.wait().await;
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionRefused | ConnectionAborted | ConnectionReset)
}

struct HttpService {
    router: Router,
    proxies: Subnets,
    task: Arc<Task>,
}

impl HttpService {
    /// Serves one connection until it is closed or evicted, or until `closing` finds it without a request.
    async fn serve_connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        guard: ConnectionGuard,
        closing: CancellationToken,
    ) {
        waits("answers requests", None);
        // A small answer must not wait for the acknowledgement of the one before it.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "the HTTP server cannot set TCP_NODELAY");
        }
        let answer = service_fn(|request| {
            let answered = self.answer(request, peer, &guard);
            async move { Ok::<_, Infallible>(answered.await) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        let stream = StallTrackingStream::new(stream, guard.activity());
        let mut connection = pin!(builder.serve_connection(stream, answer));
        tokio::select! {
            ended = connection.as_mut() => return log_broken_connection(ended),
            () = guard.close_token().cancelled() => return,
            () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        // Half a head is not a request: do not wait for the rest of it.
        if guard.has_request() {
            log_broken_connection(connection.await);
        }
    }

    /// Answers one request. If its handler panics, the answer is 500.
    fn answer(
        &self,
        request: hyper::Request<Incoming>,
        peer: SocketAddr,
        guard: &ConnectionGuard,
    ) -> impl Future<Output = Response<ResponseBody>> + use<> {
        let client = forwarded::client_address(request.headers(), peer.ip(), &self.proxies);
        guard.count_for_client(client);
        let active = guard.start_request();
        let mut request = request.map(Body::new);
        if !request.body().is_end_stream() {
            request = request.map(|body| Body::new(RequestBody::new(body, BODY_TIMEOUT, guard.start_body())));
        }
        request.extensions_mut().insert(ConnectInfo(SocketAddr::new(client, peer.port())));
        request.extensions_mut().insert(Client { address: client, close: guard.close_token().clone() });
        let path = request.uri().path().to_owned();
        let (mut router, task) = (self.router.clone(), self.task.clone());
        async move {
            let handled = async {
                failpoint::panic_at_path(&path);
                router.call(request).await
            };
            let mut response = match catch_panic(&task, handled).await {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(why) => {
                    panics::record_panic(&path, &why.to_string());
                    (StatusCode::INTERNAL_SERVER_ERROR, "the request failed: the log has the reason\n").into_response()
                }
            };
            headers::add_default_headers(response.headers_mut());
            let panics = failpoint::panics_in_body(&path);
            response.map(|body| ResponseBody { body, _active: active, panics })
        }
    }
}

fn log_broken_connection(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection broke off");
    }
}
