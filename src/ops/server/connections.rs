//! Open connections: a limited number, of which no address can take all.
//!
//! When all slots are taken, a new connection replaces an idle one: the oldest of the address with the most connections. So 20,000
//! connections that send half a request only replace each other. If none is idle, an address with few connections gets a slot of the
//! address that has the most.
//!
//! A connection is idle without a request, before the body of its request is complete, and while its client does not read the answer.
//! Such a client holds a slot at no cost of its own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::base::subnets::subnet;

#[derive(Debug)]
pub(super) struct ConnectionLimiter {
    slots: usize,
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

/// A connection's slot, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    limiter: Arc<ConnectionLimiter>,
    number: u64,
    connection: Connection,
}

/// A request in work, until it is dropped.
#[derive(Debug)]
pub(super) struct InWork(Arc<Activity>);

/// A body that is not complete, until it is dropped.
#[derive(Debug)]
pub(super) struct Receiving(Arc<Activity>);

impl ConnectionLimiter {
    pub fn new(slots: usize) -> Self {
        Self { slots, connections: Mutex::default() }
    }

    /// Returns a slot for a connection from that address, taken from another connection if necessary. `None`: no other is idle, and this
    /// address has its share.
    pub fn admit(self: &Arc<Self>, from: IpAddr) -> Option<Slot> {
        let from = subnet(from);
        let mut connections = self.connections();
        if connections.open.len() >= self.slots {
            let evicted = connections.evictable(from)?;
            connections.remove(evicted);
        }
        let connection = Connection { from, activity: Arc::default(), close: CancellationToken::new() };
        let number = connections.next;
        connections.next += 1;
        connections.open.insert(number, connection.clone());
        *connections.by_address.entry(from).or_default() += 1;
        Some(Slot { limiter: self.clone(), number, connection })
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
    fn of(&self, from: &IpAddr) -> usize {
        self.by_address.get(from).copied().unwrap_or(0)
    }

    fn evictable(&self, newcomer: IpAddr) -> Option<u64> {
        let own = self.of(&newcomer);
        let oldest_of_most = |(number, of): &(&u64, &Connection)| (self.of(&of.from), Reverse(**number));
        let idle = self.open.iter().filter(|(_, of)| of.activity.is_idle() && self.of(&of.from) >= own);
        let busy = || self.open.iter().filter(|(_, of)| self.of(&of.from) > own + 1);
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

impl Slot {
    /// Counts the connection for that address from now on: a proxy passes requests of many clients on.
    pub fn count_for(&self, client: IpAddr) {
        let client = subnet(client);
        let mut connections = self.limiter.connections();
        let Some(connection) = connections.open.get_mut(&self.number) else { return };
        let before = std::mem::replace(&mut connection.from, client);
        connections.uncount(before);
        *connections.by_address.entry(client).or_default() += 1;
    }

    pub fn request(&self) -> InWork {
        self.connection.activity.requests.fetch_add(1, Relaxed);
        InWork(self.connection.activity.clone())
    }

    pub fn body(&self) -> Receiving {
        self.connection.activity.receiving.fetch_add(1, Relaxed);
        Receiving(self.connection.activity.clone())
    }

    pub fn has_request(&self) -> bool {
        self.connection.activity.requests.load(Relaxed) > 0
    }

    pub fn activity(&self) -> Arc<Activity> {
        self.connection.activity.clone()
    }

    /// Cancelling the token closes the connection.
    pub fn close(&self) -> &CancellationToken {
        &self.connection.close
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.limiter.connections().remove(self.number);
    }
}

impl Drop for InWork {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Relaxed);
    }
}

impl Drop for Receiving {
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

    fn is_closed(slot: &Slot) -> bool {
        slot.close().is_cancelled()
    }

    fn closed(slots: &[Slot]) -> Vec<bool> {
        slots.iter().map(is_closed).collect()
    }

    #[test]
    fn a_new_connection_replaces_the_oldest_idle_one() {
        let limiter = Arc::new(ConnectionLimiter::new(3));
        let slots: Vec<Slot> = (0..3).map(|_| limiter.admit(from(1)).unwrap()).collect();
        let _in_work = slots[0].request();
        let newcomer = limiter.admit(from(1)).unwrap();
        assert_eq!(closed(&slots), [false, true, false]);
        assert!(!is_closed(&newcomer));
        // A closed connection makes no room a second time.
        drop(slots);
        assert_eq!(limiter.connections().open.len(), 1);
        assert_eq!(limiter.connections().of(&from(1)), 1);
    }

    #[test]
    fn the_address_with_the_most_gives_way_and_a_small_one_keeps_what_it_has() {
        let limiter = Arc::new(ConnectionLimiter::new(4));
        let small = limiter.admit(from(2)).unwrap();
        let many: Vec<Slot> = (0..3).map(|_| limiter.admit(from(1)).unwrap()).collect();
        let _newcomers: Vec<Slot> = (0..100).map(|_| limiter.admit(from(1)).unwrap()).collect();
        assert!(!is_closed(&small) && many.iter().all(is_closed));
    }

    #[test]
    fn when_all_are_being_answered_each_address_has_its_share() {
        let limiter = Arc::new(ConnectionLimiter::new(4));
        let slots: Vec<Slot> = (0..4).map(|_| limiter.admit(from(1)).unwrap()).collect();
        let _in_work: Vec<InWork> = slots.iter().map(Slot::request).collect();
        assert!(limiter.admit(from(1)).is_none(), "it has them all");
        let first = limiter.admit(from(2)).unwrap();
        let _first = first.request();
        let second = limiter.admit(from(2)).unwrap();
        let _second = second.request();
        assert_eq!(closed(&slots), [true, true, false, false]);
        assert!(limiter.admit(from(2)).is_none(), "half of them");
    }

    #[test]
    fn a_connection_counts_for_the_client_of_its_last_request() {
        let limiter = Arc::new(ConnectionLimiter::new(4));
        let slots: Vec<Slot> = (0..4).map(|_| limiter.admit(from(1)).unwrap()).collect();
        slots[0].count_for(from(7));
        slots[1..].iter().for_each(|slot| slot.count_for(from(8)));
        let _newcomer = limiter.admit(from(1)).unwrap();
        assert_eq!(closed(&slots), [false, true, false, false]);
        drop(slots);
        assert_eq!(limiter.connections().by_address.len(), 1);
    }

    #[test]
    fn an_incomplete_body_and_an_unread_answer_are_idle() {
        let limiter = Arc::new(ConnectionLimiter::new(3));
        let slots: Vec<Slot> = (0..3).map(|_| limiter.admit(from(1)).unwrap()).collect();
        let _in_work: Vec<InWork> = slots.iter().map(Slot::request).collect();
        let body = slots[1].body();
        slots[2].activity().set_stalled(true);
        let _first = limiter.admit(from(1)).unwrap();
        assert_eq!(closed(&slots), [false, true, false]);
        drop(body);
        limiter.close_idle();
        assert_eq!(closed(&slots), [false, true, true]);
        assert!(slots[1].has_request() && slots[2].has_request());
    }
}
