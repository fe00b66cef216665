//! A bad network: a TCP proxy in front of a service that cuts, half-closes, delays and trickles what passes
//! through it, when it is told to.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The service behind it.
#[derive(Debug, Clone)]
pub enum Upstream {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Whose bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The client's: a request.
    Up,
    /// The server's: a reply.
    Down,
}

/// What befalls a connection.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// It breaks off, when so many bytes more have passed: a request that is not heard or in part, or a
    /// reply that is lost.
    Cut { after: usize },
    /// Nothing more passes this way, and the other end is told so; the other way stays open.
    HalfClose(Way),
    /// Nothing passes for so long.
    Delay(Duration),
    /// The next so many bytes of either way pass in pieces of this size, a millisecond each.
    Trickle { bytes: usize, piece: usize },
}

/// When it does.
#[derive(Debug, Clone, Copy)]
enum When {
    Now,
    /// With the bytes after so many other pieces that way. Clients ask whether a connection is well before
    /// they use it: what came at once would meet that question alone.
    Passing(Way, usize),
}

impl Fault {
    /// By lot. Short delays are a slow network; those beyond a second are past the time limits.
    fn draw(lots: &mut StdRng) -> (When, Self) {
        let way = if lots.random_bool(0.5) { Way::Up } else { Way::Down };
        let when = if lots.random_bool(0.2) { When::Now } else { When::Passing(way, lots.random_range(0..6)) };
        let fault = match lots.random_range(0..10) {
            0..3 => Self::Cut { after: 0 },
            3 => Self::Cut { after: lots.random_range(1..200) },
            4 => Self::HalfClose(way),
            5 | 6 => Self::Delay(Duration::from_millis(lots.random_range(5..200))),
            7 => Self::Delay(Duration::from_millis(lots.random_range(900..2_500))),
            _ => Self::Trickle { bytes: lots.random_range(10..300), piece: lots.random_range(1..8) },
        };
        (when, fault)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Cut { .. } => "cut",
            Self::HalfClose(_) => "half-closed",
            Self::Delay(_) => "delayed",
            Self::Trickle { .. } => "trickled",
        }
    }
}

/// How often each thing happened, by its name. "in flight" are the connections cut or half-closed while
/// bytes passed or a request was not answered.
pub type Happened = BTreeMap<&'static str, usize>;

/// The line to one service. It ends with this value, and so do its connections.
pub struct Line {
    pub addr: SocketAddr,
    connections: Connections,
    happened: Arc<Mutex<Happened>>,
    listener: JoinHandle<()>,
}

/// What reaches the connections that are open.
type Connections = Arc<Mutex<Vec<mpsc::UnboundedSender<(When, Fault)>>>>;

impl Line {
    pub async fn to(upstream: Upstream) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (connections, happened) = (Connections::default(), Arc::<Mutex<Happened>>::default());
        let listener = tokio::spawn({
            let (connections, happened) = (connections.clone(), happened.clone());
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    let (sender, faults) = mpsc::unbounded_channel();
                    connections.lock().unwrap().push(sender);
                    let carried = Carried::new(faults, happened.clone());
                    tokio::spawn(carry(client, upstream.clone(), carried));
                }
            }
        });
        Self { addr, connections, happened, listener }
    }

    /// One fault, by lot, on one of its connections.
    pub fn befall(&self, lots: &mut StdRng) {
        // Drawn first: which connections there are must not change what the seed gives.
        let (which, fault) = (lots.random::<u32>() as usize, Fault::draw(lots));
        let mut connections = self.connections.lock().unwrap();
        connections.retain(|connection| !connection.is_closed());
        if !connections.is_empty() {
            let _ = connections[which % connections.len()].send(fault);
        }
    }

    pub fn happened(&self) -> Happened {
        self.happened.lock().unwrap().clone()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.listener.abort();
        self.connections.lock().unwrap().clear();
    }
}

/// What one connection has met.
struct Carried {
    faults: mpsc::UnboundedReceiver<(When, Fault)>,
    happened: Arc<Mutex<Happened>>,
    /// What lies in wait.
    ambush: Option<(Way, usize, Fault)>,
    /// Ways on which nothing passes any more.
    deaf: Vec<Way>,
    /// Bytes still to pass in pieces, and the pieces' size.
    trickle: (usize, usize),
    /// Bytes pass, or the client waits for an answer.
    in_flight: bool,
}

impl Carried {
    fn new(faults: mpsc::UnboundedReceiver<(When, Fault)>, happened: Arc<Mutex<Happened>>) -> Self {
        Self { faults, happened, ambush: None, deaf: Vec::new(), trickle: (0, 1), in_flight: false }
    }

    /// What befalls the bytes that pass this way now.
    fn ambushed(&mut self, way: Way) -> Option<Fault> {
        let (_, pieces, fault) = self.ambush.as_mut().filter(|(at, ..)| *at == way)?;
        let fault = *fault;
        match pieces.checked_sub(1) {
            Some(left) => {
                *pieces = left;
                None
            }
            None => {
                self.ambush = None;
                Some(fault)
            }
        }
    }

    /// It happens; a cut and a closed end are the caller's.
    async fn meet(&mut self, fault: Fault) {
        let breaks = matches!(fault, Fault::Cut { .. } | Fault::HalfClose(_));
        let names = std::iter::once(fault.name()).chain((breaks && self.in_flight).then_some("in flight"));
        for name in names {
            *self.happened.lock().unwrap().entry(name).or_default() += 1;
        }
        match fault {
            Fault::Cut { .. } => {}
            Fault::HalfClose(way) => self.deaf.push(way),
            Fault::Delay(span) => tokio::time::sleep(span).await,
            Fault::Trickle { bytes, piece } => self.trickle = (bytes, piece),
        }
    }

    async fn pass(&mut self, mut bytes: &[u8], to: &mut (dyn AsyncWrite + Unpin + Send)) -> std::io::Result<()> {
        while self.trickle.0 > 0 && !bytes.is_empty() {
            let piece = bytes.len().min(self.trickle.1).min(self.trickle.0);
            to.write_all(&bytes[..piece]).await?;
            bytes = &bytes[piece..];
            self.trickle.0 -= piece;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        to.write_all(bytes).await
    }
}

async fn carry(client: TcpStream, upstream: Upstream, mut carried: Carried) {
    client.set_nodelay(true).unwrap();
    // Dropped, it says RST: what is under way to the client is lost, too.
    client.set_zero_linger().unwrap();
    // An end that breaks off is what this is for.
    let _ = match upstream {
        Upstream::Tcp(addr) => match TcpStream::connect(addr).await {
            Ok(server) => {
                server.set_nodelay(true).unwrap();
                between(client, server, &mut carried).await
            }
            Err(_) => return,
        },
        Upstream::Unix(path) => match UnixStream::connect(path).await {
            Ok(server) => between(client, server, &mut carried).await,
            Err(_) => return,
        },
    };
}

/// Carries bytes both ways until both ends are closed or a fault breaks it off.
async fn between(
    mut client: TcpStream,
    mut server: impl AsyncRead + AsyncWrite + Unpin + Send,
    carried: &mut Carried,
) -> std::io::Result<()> {
    let (mut requests, mut replies) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let (mut up, mut down) = (true, true); // open
    while up || down {
        let (way, read) = tokio::select! {
            read = client.read(&mut requests), if up => (Way::Up, read?),
            read = server.read(&mut replies), if down => (Way::Down, read?),
            befallen = carried.faults.recv() => match befallen {
                None => return Ok(()), // the line is gone
                Some((When::Passing(way, pieces), fault)) => {
                    carried.ambush = Some((way, pieces, fault));
                    continue;
                }
                Some((When::Now, fault)) => {
                    carried.meet(fault).await;
                    match fault {
                        Fault::Cut { .. } => return Ok(()),
                        Fault::HalfClose(Way::Up) => server.shutdown().await?,
                        Fault::HalfClose(Way::Down) => client.shutdown().await?,
                        _ => {}
                    }
                    continue;
                }
            },
        };
        let (bytes, to): (_, &mut (dyn AsyncWrite + Unpin + Send)) = match way {
            Way::Up => (&requests[..read], &mut server),
            Way::Down => (&replies[..read], &mut client),
        };
        if bytes.is_empty() {
            *(if way == Way::Up { &mut up } else { &mut down }) = false;
            to.shutdown().await?;
            continue;
        }
        carried.in_flight = true;
        let fault = carried.ambushed(way);
        if let Some(fault) = fault {
            carried.meet(fault).await;
        }
        if let Some(Fault::Cut { after }) = fault {
            return to.write_all(&bytes[..after.min(bytes.len())]).await;
        }
        if carried.deaf.contains(&way) {
            to.shutdown().await?;
            continue;
        }
        carried.pass(bytes, to).await?;
        carried.in_flight = way == Way::Up;
    }
    Ok(())
}
