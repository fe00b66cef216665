//! Ports at which nobody listens.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A port of the loopback that nobody else gets while this lives. Connections to it are refused, until a server of the test
/// listens there: it may, as this one does not listen, and both allow it (`SO_REUSEADDR`).
#[derive(Debug)]
pub struct Port(TcpSocket);

impl Port {
    /// Takes a free one.
    pub fn take() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self(socket)
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }
}
