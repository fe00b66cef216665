//! Open connections: a limited number, of which no address can take all.
//!
//! When all seats are taken, a new connection replaces an idle one: of the address with the most connections, the one
//! that came first. So 20,000 connections that send half a request only drive out each other. Where all are being
//! answered, an address with few connections gets a seat of the one that has the most.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The seats of a server.
#[derive(Debug)]
pub(super) struct Crowd {
    seats: usize,
    guests: Mutex<Guests>,
}

#[derive(Debug, Default)]
struct Guests {
    next: u64,
    /// By the order in which they came.
    here: BTreeMap<u64, Guest>,
    by_address: HashMap<IpAddr, usize>,
}

#[derive(Debug, Clone)]
struct Guest {
    from: IpAddr,
    /// Requests in work.
    requests: Arc<AtomicU32>,
    leave: CancellationToken,
}

/// A connection's place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    crowd: Arc<Crowd>,
    number: u64,
    guest: Guest,
}

/// While it is there, a request of the connection is in work.
#[derive(Debug)]
pub(super) struct Busy(Arc<AtomicU32>);

impl Crowd {
    pub fn new(seats: usize) -> Self {
        Self { seats, guests: Mutex::default() }
    }

    /// A seat for a connection from that address, taken from another connection if necessary. `None`: all others are
    /// being answered, and this address has its share.
    pub fn enter(self: &Arc<Self>, from: IpAddr) -> Option<Seat> {
        let from = household(from);
        let mut guests = self.guests();
        if guests.here.len() >= self.seats {
            let leaver = guests.leaver(from)?;
            guests.remove(leaver);
        }
        let guest = Guest { from, requests: Arc::default(), leave: CancellationToken::new() };
        let number = guests.next;
        guests.next += 1;
        guests.here.insert(number, guest.clone());
        *guests.by_address.entry(from).or_default() += 1;
        Some(Seat { crowd: self.clone(), number, guest })
    }

    /// Closes all who say nothing.
    pub fn clear(&self) {
        let mut guests = self.guests();
        let idle: Vec<u64> = guests.here.iter().filter(|(_, guest)| !guest.is_busy()).map(|(of, _)| *of).collect();
        idle.into_iter().for_each(|number| guests.remove(number));
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guests {
    fn of(&self, from: &IpAddr) -> usize {
        self.by_address.get(from).copied().unwrap_or(0)
    }

    /// The connection that is closed for a new one from that address.
    fn leaver(&self, newcomer: IpAddr) -> Option<u64> {
        let own = self.of(&newcomer);
        let first_of_most = |(number, guest): &(&u64, &Guest)| (self.of(&guest.from), Reverse(**number));
        let idle = self.here.iter().filter(|(_, guest)| !guest.is_busy() && self.of(&guest.from) >= own);
        let busy = || self.here.iter().filter(|(_, guest)| self.of(&guest.from) > own + 1);
        let leaver = idle.max_by_key(first_of_most).or_else(|| busy().max_by_key(first_of_most));
        leaver.map(|(number, _)| *number)
    }

    fn remove(&mut self, number: u64) {
        let Some(guest) = self.here.remove(&number) else { return };
        guest.leave.cancel();
        if let Some(count) = self.by_address.get_mut(&guest.from) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&guest.from);
            }
        }
    }
}

impl Guest {
    fn is_busy(&self) -> bool {
        self.requests.load(Relaxed) > 0
    }
}

impl Seat {
    /// A request has come.
    pub fn busy(&self) -> Busy {
        self.guest.requests.fetch_add(1, Relaxed);
        Busy(self.guest.requests.clone())
    }

    /// Returns true if a request is in progress.
    pub fn is_busy(&self) -> bool {
        self.guest.is_busy()
    }

    /// Waits until the seat is taken by another connection.
    pub async fn leaving(&self) {
        self.guest.leave.cancelled().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.crowd.guests().remove(self.number);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The client's address; of IPv6 its /64 prefix, since a household has 2^64 addresses.
fn household(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn must_leave(seat: &Seat) -> bool {
        seat.guest.leave.is_cancelled()
    }

    #[test]
    fn whoever_says_nothing_leaves_for_a_newcomer_and_the_first_of_them_first() {
        let crowd = Arc::new(Crowd::new(3));
        let seats: Vec<Seat> = (0..3).map(|_| crowd.enter(from(1)).unwrap()).collect();
        let _busy = seats[0].busy();
        let newcomer = crowd.enter(from(1)).unwrap();
        assert_eq!(seats.iter().map(must_leave).collect::<Vec<_>>(), [false, true, false]);
        assert!(!must_leave(&newcomer));
        // Whoever left makes no room a second time.
        drop(seats);
        assert_eq!(crowd.guests().here.len(), 1);
        assert_eq!(crowd.guests().of(&from(1)), 1);
    }

    #[test]
    fn the_address_with_the_most_gives_way_and_a_small_one_keeps_what_it_has() {
        let crowd = Arc::new(Crowd::new(4));
        let small = crowd.enter(from(2)).unwrap();
        let many: Vec<Seat> = (0..3).map(|_| crowd.enter(from(1)).unwrap()).collect();
        let _newcomers: Vec<Seat> = (0..100).map(|_| crowd.enter(from(1)).unwrap()).collect();
        assert!(!must_leave(&small) && many.iter().all(must_leave));
    }

    #[test]
    fn when_all_are_being_answered_each_address_has_its_share() {
        let crowd = Arc::new(Crowd::new(4));
        let seats: Vec<Seat> = (0..4).map(|_| crowd.enter(from(1)).unwrap()).collect();
        let _busy: Vec<Busy> = seats.iter().map(Seat::busy).collect();
        assert!(crowd.enter(from(1)).is_none(), "it has them all");
        let first = crowd.enter(from(2)).unwrap();
        let _first = first.busy();
        let second = crowd.enter(from(2)).unwrap();
        let _second = second.busy();
        assert_eq!(seats.iter().map(must_leave).collect::<Vec<_>>(), [true, true, false, false]);
        assert!(crowd.enter(from(2)).is_none(), "half of them");
    }

    #[test]
    fn clearing_closes_those_who_say_nothing() {
        let crowd = Arc::new(Crowd::new(4));
        let seats: Vec<Seat> = (0..4).map(|_| crowd.enter(from(1)).unwrap()).collect();
        let busy = seats[2].busy();
        crowd.clear();
        assert_eq!(seats.iter().map(must_leave).collect::<Vec<_>>(), [true, true, false, true]);
        drop(busy);
        crowd.clear();
        assert!(must_leave(&seats[2]));
    }

    #[test]
    fn a_household_of_ipv6_is_one_address() {
        let of = |text: &str| household(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
