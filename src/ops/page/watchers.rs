//! Viewers of live pages: a limited number, of which no address takes all.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::base::subnets::subnet;
use crate::ops::server::Client;

/// Maximum number of streams. A further one takes the place of another.
const WATCHERS: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// Streams in order of arrival: the subnet of the client, and the token that closes its connection.
    streams: BTreeMap<u64, (IpAddr, CancellationToken)>,
}

/// The place of a stream, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    watchers: Arc<Watchers>,
    number: u64,
}

impl Watchers {
    /// Returns a place for a stream of that client. If all are taken, it closes the oldest stream of the address with the most streams;
    /// this stream counts, too.
    pub fn admit(self: &Arc<Self>, client: &Client) -> Place {
        let from = subnet(client.address);
        let mut open = self.open();
        if open.streams.len() >= WATCHERS {
            let mut by_address = HashMap::from([(from, 1)]);
            open.streams.values().for_each(|(of, _)| *by_address.entry(*of).or_default() += 1);
            let oldest_of_most = |(number, (of, _)): &(&u64, &(IpAddr, _))| (by_address[of], Reverse(**number));
            let evicted = open.streams.iter().max_by_key(oldest_of_most).map(|(number, _)| *number);
            if let Some((of, close)) = evicted.and_then(|number| open.streams.remove(&number)) {
                tracing::debug!(address = %of, "a viewer is closed for another one");
                close.cancel();
            }
        }
        let number = open.next;
        open.next += 1;
        open.streams.insert(number, (from, client.close.clone()));
        Place { watchers: self.clone(), number }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.watchers.open().streams.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> Client {
        Client { address: IpAddr::from([10, 0, 0, last]), close: CancellationToken::new() }
    }

    fn watch(watchers: &Arc<Watchers>, last: u8) -> (Place, CancellationToken) {
        let client = client(last);
        (watchers.admit(&client), client.close)
    }

    #[test]
    fn the_address_with_the_most_streams_loses_its_oldest() {
        let watchers = Arc::new(Watchers::default());
        let small = watch(&watchers, 1);
        let mut many: Vec<_> = (1..WATCHERS).map(|_| watch(&watchers, 2)).collect();
        many.extend((0..10).map(|_| watch(&watchers, 2)));
        let other = watch(&watchers, 3);
        assert!(!small.1.is_cancelled() && !other.1.is_cancelled());
        let closed: Vec<bool> = many.iter().map(|(_, close)| close.is_cancelled()).collect();
        assert!(closed[..11].iter().all(|closed| *closed) && closed[11..].iter().all(|closed| !closed), "{closed:?}");
        drop((small, other, many));
        assert_eq!(watchers.open().streams.len(), 0);
    }
}
