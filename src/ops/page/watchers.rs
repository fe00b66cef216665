//! Limit of the streams of live pages, which no address can use up.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::ops::server::Client;
use engine::base::subnets::subnet;

/// Maximum number of streams; a further one replaces another.
const MAX_STREAMS: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<OpenStreams>);

#[derive(Debug, Default)]
struct OpenStreams {
    next: u64,
    /// By order of arrival: the subnet of the client, and the token that closes its connection.
    streams: BTreeMap<u64, (IpAddr, CancellationToken)>,
}

/// A stream, counted until this is dropped.
#[derive(Debug)]
pub(super) struct WatcherGuard {
    watchers: Arc<Watchers>,
    number: u64,
}

impl Watchers {
    /// Admits a stream of that client. At the limit, it closes the oldest stream of the address with the most streams, this one included.
    pub fn admit(self: &Arc<Self>, client: &Client) -> WatcherGuard {
        let from = subnet(client.address);
        let mut open = self.lock_streams();
        if open.streams.len() >= MAX_STREAMS {
            let mut by_address = HashMap::from([(from, 1)]);
            open.streams.values().for_each(|(of, _)| *by_address.entry(*of).or_default() += 1);
            let oldest_of_most = |(number, (of, _)): &(&u64, &(IpAddr, _))| (by_address[of], Reverse(**number));
            let evicted = open.streams.iter().max_by_key(oldest_of_most).map(|(number, _)| *number);
            if let Some((of, close)) = evicted.and_then(|number| open.streams.remove(&number)) {
                tracing::debug!(address = %of, "closed the oldest stream of a page for another viewer");
                close.cancel();
            }
        }
        let number = open.next;
        open.next += 1;
        open.streams.insert(number, (from, client.close.clone()));
        WatcherGuard { watchers: self.clone(), number }
    }

    fn lock_streams(&self) -> MutexGuard<'_, OpenStreams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WatcherGuard {
    fn drop(&mut self) {
        self.watchers.lock_streams().streams.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(last: u8) -> Client {
        Client { address: IpAddr::from([10, 0, 0, last]), close: CancellationToken::new() }
    }

    fn watch(watchers: &Arc<Watchers>, last: u8) -> (WatcherGuard, CancellationToken) {
        let client = client(last);
        (watchers.admit(&client), client.close)
    }

    #[test]
    fn the_address_with_the_most_streams_loses_its_oldest() {
        let watchers = Arc::new(Watchers::default());
        let small = watch(&watchers, 1);
        let mut many: Vec<_> = (1..MAX_STREAMS).map(|_| watch(&watchers, 2)).collect();
        many.extend((0..10).map(|_| watch(&watchers, 2)));
        let other = watch(&watchers, 3);
        assert!(!small.1.is_cancelled() && !other.1.is_cancelled());
        let closed: Vec<bool> = many.iter().map(|(_, close)| close.is_cancelled()).collect();
        assert!(closed[..11].iter().all(|closed| *closed) && closed[11..].iter().all(|closed| !closed), "{closed:?}");
        drop((small, other, many));
        assert_eq!(watchers.lock_streams().streams.len(), 0);
    }
}
