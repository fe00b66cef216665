//! The pages of one namespace: what they are made from, and what of them is kept for all who watch.

use std::borrow::Cow;
use std::sync::Arc;

use secrecy::SecretString;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::task::AbortOnDropHandle;

use super::guesses::Guesses;
use super::routes::Routes;
use super::young::Young;
use crate::base::clock::{self, Millis};
use crate::base::reload::Reloadable;
use crate::engine::queue::Buried;
use crate::ops::polled::Polled;
use crate::ops::{Archive, Reader, Seen, Terms, WholeQueue};

/// A part of a page, by its id.
pub(super) type Part = Cow<'static, str>;

/// What of a front page changes by itself: each part has an id, under which it is put into place.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// The moment of its figures, or of now where there are none, ms since the epoch.
    pub at: Millis,
    /// The parts, by their ids, from the top.
    pub parts: Vec<(Part, String)>,
}

/// A namespace that is shown.
#[derive(Debug)]
pub struct Shown {
    /// Its queue, and the credentials that serve it.
    pub whole: Arc<WholeQueue>,
    /// For its tweets and its dead.
    pub archive: Archive,
    /// What its figures are reckoned by.
    pub terms: Reloadable<Terms>,
}

/// The pages of one namespace, and what they are made from.
#[derive(Debug)]
pub(super) struct Page {
    pub whole: Arc<WholeQueue>,
    pub archive: Archive,
    pub routes: Routes,
    pub token: Option<SecretString>,
    pub reader: Arc<Reader>,
    /// Ends with the page.
    _reading: AbortOnDropHandle<()>,
    /// A place for each who watches, here or on another page.
    pub places: Arc<Semaphore>,
    /// The front page, as it was made last for all who watch.
    pub made: Mutex<Option<(Seen, Arc<Front>)>>,
    /// The last that were buried, when there were so many.
    pub latest: Mutex<(u64, Vec<Buried>)>,
    pub young: Young,
    /// At the token, here or on another namespace's page.
    pub guesses: Arc<Guesses>,
    /// Where no other page shows them.
    pub polled: Option<Arc<Polled>>,
}

/// What the pages of all namespaces have in common.
#[derive(Debug, Clone)]
pub(super) struct InCommon {
    pub token: Option<SecretString>,
    pub places: Arc<Semaphore>,
    pub guesses: Arc<Guesses>,
    pub polled: Option<Arc<Polled>>,
}

impl Page {
    /// Starts the one who reads the figures: call it on the runtime.
    pub(super) fn new(shown: Shown, routes: Routes, in_common: InCommon, is_alone: bool) -> Arc<Self> {
        let InCommon { token, places, guesses, polled } = in_common;
        let Shown { whole, archive, terms } = shown;
        let reader = Reader::new(whole.clone(), archive.store(), terms);
        let reader = Arc::new(match &polled {
            Some(polled) => reader.with_polled(polled.clone()),
            None => reader,
        });
        // Of several, the overview shows the sources.
        let polled = polled.filter(|_| is_alone);
        let reading = {
            let reader = reader.clone();
            tokio::spawn(async move { reader.run().await })
        };
        Arc::new(Self {
            whole,
            archive,
            routes,
            token,
            reader,
            _reading: AbortOnDropHandle::new(reading),
            places,
            made: Mutex::default(),
            latest: Mutex::default(),
            young: Young::default(),
            guesses,
            polled,
        })
    }
}

/// Now, by the clock of the figures, which is the queue's; by our own where they are old, or none. ms since the epoch.
pub(super) fn now(seen: &Seen) -> Millis {
    let fresh = seen.snapshot.as_ref().filter(|_| seen.outage.is_none());
    fresh.map_or_else(clock::wall_ms, |snapshot| snapshot.at_ms())
}
