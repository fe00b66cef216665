//! Limit of open connections, which no address can use up.
//!
//! At the limit, a new connection replaces an idle one: the oldest of the address with the most connections. So 20,000 connections that
//! send half a request only replace each other. If none is idle, an address with few connections replaces one of the address that has
//! the most.
//!
//! A connection is idle without a request, before the body of its request is complete, and while its client does not read the answer.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use engine::base::subnets::subnet;

#[derive(Debug)]
pub(super) struct ConnectionLimiter {
    max_connections: usize,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    open: BTreeMap<u64, Connection>,
    by_address: HashMap<IpAddr, usize>,
}

#[derive(Debug, Clone)]
struct Connection {
    from: IpAddr,
    activity: Arc<Activity>,
    close: CancellationToken,
}

#[derive(Debug, Default)]
pub(super) struct Activity {
    requests: AtomicU32,
    /// Requests whose body is not complete.
    receiving: AtomicU32,
    /// True if the client does not read the sent bytes.
    is_stalled: AtomicBool,
}

/// An admitted connection, counted until this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    limiter: Arc<ConnectionLimiter>,
    number: u64,
    connection: Connection,
}

/// Marks a request as active until this is dropped.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<Activity>);

/// Marks a request body as incomplete until this is dropped.
#[derive(Debug)]
pub(super) struct IncompleteBody(Arc<Activity>);

impl ConnectionLimiter {
    pub fn new(max_connections: usize) -> Self {
        Self { max_connections, connections: Mutex::default() }
    }

    /// Admits a connection from that address, and closes another one if necessary. `None` if no other is idle and this address has its
    /// share.
    pub fn admit(self: &Arc<Self>, from: IpAddr) -> Option<ConnectionGuard> {
        let from = subnet(from);
        let mut connections = self.connections();
        if connections.open.len() >= self.max_connections {
            let evicted = connections.find_evictable(from)?;
            connections.remove(evicted);
        }
        let connection = Connection { from, activity: Arc::default(), close: CancellationToken::new() };
        let number = connections.next;
        connections.next += 1;
        connections.open.insert(number, connection.clone());
        *connections.by_address.entry(from).or_default() += 1;
        Some(ConnectionGuard { limiter: self.clone(), number, connection })
    }

    pub fn close_idle(&self) {
        let mut connections = self.connections();
        let idle = connections.open.iter().filter(|(_, connection)| connection.activity.is_idle());
        let idle: Vec<u64> = idle.map(|(number, _)| *number).collect();
        idle.into_iter().for_each(|number| connections.remove(number));
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn count_from(&self, from: &IpAddr) -> usize {
        self.by_address.get(from).copied().unwrap_or(0)
    }

    fn find_evictable(&self, new_address: IpAddr) -> Option<u64> {
        let own = self.count_from(&new_address);
        let oldest_of_most =
            |(number, connection): &(&u64, &Connection)| (self.count_from(&connection.from), Reverse(**number));
        let idle = self
            .open
            .iter()
            .filter(|(_, connection)| connection.activity.is_idle() && self.count_from(&connection.from) >= own);
        let busy = || self.open.iter().filter(|(_, connection)| self.count_from(&connection.from) > own + 1);
        let evicted = idle.max_by_key(oldest_of_most).or_else(|| busy().max_by_key(oldest_of_most));
        evicted.map(|(number, _)| *number)
    }

    fn remove(&mut self, number: u64) {
        let Some(connection) = self.open.remove(&number) else { return };
        connection.close.cancel();
        self.uncount(connection.from);
    }

    fn uncount(&mut self, from: IpAddr) {
        if let Some(count) = self.by_address.get_mut(&from) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&from);
            }
        }
    }
}

impl Activity {
    fn is_idle(&self) -> bool {
        self.requests.load(Relaxed) == 0 || self.receiving.load(Relaxed) > 0 || self.is_stalled.load(Relaxed)
    }

    pub fn set_stalled(&self, is_stalled: bool) {
        self.is_stalled.store(is_stalled, Relaxed);
    }
}

impl ConnectionGuard {
    /// Counts the connection for that address from now on: one connection of a proxy carries requests of many clients.
    pub fn count_for_client(&self, client: IpAddr) {
        let client = subnet(client);
        let mut connections = self.limiter.connections();
        let Some(connection) = connections.open.get_mut(&self.number) else { return };
        let before = std::mem::replace(&mut connection.from, client);
        connections.uncount(before);
        *connections.by_address.entry(client).or_default() += 1;
    }

    pub fn start_request(&self) -> ActiveRequest {
        self.connection.activity.requests.fetch_add(1, Relaxed);
        ActiveRequest(self.connection.activity.clone())
    }

    pub fn start_body(&self) -> IncompleteBody {
        self.connection.activity.receiving.fetch_add(1, Relaxed);
        IncompleteBody(self.connection.activity.clone())
    }

    pub fn has_request(&self) -> bool {
        self.connection.activity.requests.load(Relaxed) > 0
    }

    pub fn activity(&self) -> Arc<Activity> {
        self.connection.activity.clone()
    }

    pub fn close_token(&self) -> &CancellationToken {
        &self.connection.close
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.limiter.connections().remove(self.number);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Relaxed);
    }
}

impl Drop for IncompleteBody {
    fn drop(&mut self) {
        self.0.receiving.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn is_closed(guard: &ConnectionGuard) -> bool {
        guard.close_token().is_cancelled()
    }

    fn closed(guards: &[ConnectionGuard]) -> Vec<bool> {
        guards.iter().map(is_closed).collect()
    }

    #[test]
    fn a_new_connection_replaces_the_oldest_idle_one() {
        let limiter = Arc::new(ConnectionLimiter::new(3));
        let guards: Vec<ConnectionGuard> = (0..3).map(|_| limiter.admit(from(1)).unwrap()).collect();
        let _active = guards[0].start_request();
        let newcomer = limiter.admit(from(1)).unwrap();
        assert_eq!(closed(&guards), [false, true, false]);
        assert!(!is_closed(&newcomer));
        // A closed connection makes no room a second time.
        drop(guards);
        assert_eq!(limiter.connections().open.len(), 1);
        assert_eq!(limiter.connections().count_from(&from(1)), 1);
    }

    #[test]
    fn the_address_with_the_most_gives_way_and_a_small_one_keeps_what_it_has() {
        let limiter = Arc::new(ConnectionLimiter::new(4));
        let small = limiter.admit(from(2)).unwrap();
        let many: Vec<ConnectionGuard> = (0..3).map(|_| limiter.admit(from(1)).unwrap()).collect();
        let _newcomers: Vec<ConnectionGuard> = (0..100).map(|_| limiter.admit(from(1)).unwrap()).collect();
        assert!(!is_closed(&small) && many.iter().all(is_closed));
    }

    #[test]
    fn when_all_are_being_answered_each_address_has_its_share() {
        let limiter = Arc::new(ConnectionLimiter::new(4));
        let guards: Vec<ConnectionGuard> = (0..4).map(|_| limiter.admit(from(1)).unwrap()).collect();
        let _active: Vec<ActiveRequest> = guards.iter().map(ConnectionGuard::start_request).collect();
        assert!(limiter.admit(from(1)).is_none(), "it has them all");
        let first = limiter.admit(from(2)).unwrap();
        let _first = first.start_request();
        let second = limiter.admit(from(2)).unwrap();
        let _second = second.start_request();
        assert_eq!(closed(&guards), [true, true, false, false]);
        assert!(limiter.admit(from(2)).is_none(), "half of them");
    }

    #[test]
    fn a_connection_counts_for_the_client_of_its_last_request() {
        let limiter = Arc::new(ConnectionLimiter::new(4));
        let guards: Vec<ConnectionGuard> = (0..4).map(|_| limiter.admit(from(1)).unwrap()).collect();
        guards[0].count_for_client(from(7));
        guards[1..].iter().for_each(|guard| guard.count_for_client(from(8)));
        let _newcomer = limiter.admit(from(1)).unwrap();
        assert_eq!(closed(&guards), [false, true, false, false]);
        drop(guards);
        assert_eq!(limiter.connections().by_address.len(), 1);
    }

    #[test]
    fn an_incomplete_body_and_an_unread_answer_are_idle() {
        let limiter = Arc::new(ConnectionLimiter::new(3));
        let guards: Vec<ConnectionGuard> = (0..3).map(|_| limiter.admit(from(1)).unwrap()).collect();
        let _active: Vec<ActiveRequest> = guards.iter().map(ConnectionGuard::start_request).collect();
        let body = guards[1].start_body();
        guards[2].activity().set_stalled(true);
        let _first = limiter.admit(from(1)).unwrap();
        assert_eq!(closed(&guards), [false, true, false]);
        drop(body);
        limiter.close_idle();
        assert_eq!(closed(&guards), [false, true, true]);
        assert!(guards[1].has_request() && guards[2].has_request());
    }
}
