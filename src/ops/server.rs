//! One listening socket, and how it is closed.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

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

/// A socket that listens already; whoever connects waits until [`Server::run`].
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    addr: SocketAddr,
}

impl Server {
    /// Listens; port 0 takes a free one.
    ///
    /// # Errors
    /// The address is taken, or not this machine's.
    pub async fn bind(addr: SocketAddr) -> Result<Self, ServerError> {
        let bound = async {
            let listener = TcpListener::bind(addr).await?;
            let addr = listener.local_addr()?;
            Ok(Self { listener, addr })
        };
        let remedy = "--listen or http.listen";
        let server = bound.await.map_err(|error| ServerError { addr, error, remedy })?;
        tracing::info!(address = %server.addr, "serves HTTP");
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers until `close`, then accepts no more and ends when what is in work is answered.
    pub async fn run(self, router: Router, close: impl Future<Output = ()> + Send + 'static) {
        // A small answer must not wait for the acknowledgement of the one before it.
        let listener = self.listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "cannot set TCP_NODELAY");
            }
        });
        if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(close).await {
            tracing::error!(%error, "stopped serving HTTP");
        }
    }
}
