//! Renderings of live pages. Each is made once for all watchers, who share its bytes.
//!
//! A page is rendered while it has a watcher. A watcher holds only the newest rendering. A slow watcher skips the renderings between, and
//! then gets all parts.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::body::Bytes;
use futures::stream::{Stream, StreamExt};
use serde::Serialize;
use tokio::sync::watch;

use super::assets::VERSION;
use super::words::without_times;
use crate::base::clock::Millis;

/// Delay after which a browser reconnects a broken stream, ms.
const RETRY_MS: u64 = 1_000;

pub(super) type Part = Cow<'static, str>;

#[derive(Debug)]
pub(super) struct Shot {
    /// Time of its figures, ms since the epoch.
    pub at: Millis,
    /// Time at which it was made, by the same clock.
    pub now: Millis,
    pub parts: Vec<(Part, String)>,
}

#[derive(Debug, Serialize)]
struct Snapshot<'a> {
    /// Time of the figures, ms since the epoch,
    at: Millis,
    /// and the time at which they are sent, by the same clock: the figures may be old.
    now: Millis,
    version: &'a str,
    parts: HashMap<&'a str, &'a str>,
}

/// A rendering. Its events are made when the first watcher needs them.
#[derive(Debug)]
pub(super) struct Rendering {
    number: u64,
    shot: Shot,
    /// For each part, true if it differs from the previous rendering.
    changed: Vec<bool>,
    all: OnceLock<Bytes>,
    changes: OnceLock<Bytes>,
}

impl Rendering {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the event for a watcher whose last rendering had this number. Each rendering has an event, even without changes: it shows
    /// that the figures are current.
    pub(super) fn event_after(&self, sent: Option<u64>) -> Bytes {
        match sent.is_some_and(|sent| sent + 1 == self.number) {
            true => self.changes.get_or_init(|| self.event(|part| self.changed[part])).clone(),
            false => self.all.get_or_init(|| self.event(|_| true)).clone(),
        }
    }

    fn event(&self, is_sent: impl Fn(usize) -> bool) -> Bytes {
        let Shot { at, now, parts } = &self.shot;
        let parts = parts.iter().enumerate().filter(|(part, _)| is_sent(*part));
        let parts = parts.map(|(_, (id, html))| (&**id, &**html)).collect();
        let snapshot = Snapshot { at: *at, now: *now, version: &VERSION, parts };
        // The data holds only texts and numbers: serializing cannot fail and makes no line breaks.
        let data = serde_json::to_string(&snapshot).unwrap_or_default();
        format!("event: figures\nretry: {RETRY_MS}\ndata: {data}\n\n").into()
    }
}

#[derive(Debug, Default)]
struct Renderer {
    number: u64,
    hasher: RandomState,
    /// Hashes of the parts without their running times.
    parts: HashMap<Part, u64>,
}

impl Renderer {
    fn render(&mut self, shot: Shot) -> Rendering {
        self.number += 1;
        let changed = shot.parts.iter().map(|(id, html)| {
            let hash = self.hasher.hash_one(without_times(html));
            self.parts.insert(id.clone(), hash) != Some(hash)
        });
        let changed = changed.collect();
        Rendering { number: self.number, shot, changed, all: OnceLock::new(), changes: OnceLock::new() }
    }
}

type Sender = watch::Sender<Option<Arc<Rendering>>>;
/// Receives the newest rendering of a page; closed when the page has no more of them.
pub(super) type Receiver = watch::Receiver<Option<Arc<Rendering>>>;

/// The watched pages, by name.
#[derive(Debug, Default)]
pub(super) struct Broadcasts(Mutex<HashMap<String, Sender>>);

impl Broadcasts {
    /// Watches a page. `shots` opens its source if it has no watcher yet.
    pub(super) fn watch<Shots>(self: &Arc<Self>, page: String, shots: impl FnOnce() -> Shots) -> Receiver
    where
        Shots: Stream<Item = Shot> + Send + 'static,
    {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = watched.get(&page) {
            let mut receiver = sender.subscribe();
            // The current rendering is sent at once.
            receiver.mark_changed();
            return receiver;
        }
        let (sender, receiver) = watch::channel(None);
        watched.insert(page.clone(), sender.clone());
        let entry = Entry { broadcasts: self.clone(), page, sender };
        tokio::spawn(entry.render(shots()));
        receiver
    }
}

/// A watched page. When it is dropped, even by a panic, the streams of its watchers end.
struct Entry {
    broadcasts: Arc<Broadcasts>,
    page: String,
    sender: Sender,
}

impl Entry {
    async fn render(self, shots: impl Stream<Item = Shot> + Send) {
        let (mut shots, mut renderer) = (std::pin::pin!(shots), Renderer::default());
        loop {
            tokio::select! {
                () = self.sender.closed() => if self.is_removed(|of| of.receiver_count() == 0) { return },
                shot = shots.next() => match shot {
                    Some(shot) => drop(self.sender.send_replace(Some(Arc::new(renderer.render(shot))))),
                    None => return,
                },
            }
        }
    }

    /// Removes the page if `holds` returns true; no watcher can join in between. Returns false if it stays.
    fn is_removed(&self, holds: impl FnOnce(&Sender) -> bool) -> bool {
        let mut watched = self.broadcasts.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = watched.get(&self.page).is_some_and(|of| of.same_channel(&self.sender));
        if is_own && !holds(&self.sender) {
            return false;
        }
        if is_own {
            watched.remove(&self.page);
        }
        true
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.is_removed(|_| true);
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use tokio::sync::mpsc;

    use super::*;

    fn shot(at: Millis, parts: &[(&'static str, &str)]) -> Shot {
        Shot { at, now: at, parts: parts.iter().map(|(id, html)| ((*id).into(), (*html).to_owned())).collect() }
    }

    fn text(bytes: &Bytes) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_page_is_rendered_once_for_all_who_watch() {
        let broadcasts = Arc::new(Broadcasts::default());
        let (sender, source) = mpsc::channel(1);
        let shots = || stream::unfold(source, async |mut source| Some((source.recv().await?, source)));
        let mut first = broadcasts.watch("page".to_owned(), shots);
        let other = || -> stream::Empty<Shot> { panic!("the page is watched already") };
        let mut second = broadcasts.watch("page".to_owned(), other);
        sender.send(shot(1, &[("a", "old"), ("b", "same")])).await.unwrap();
        first.changed().await.unwrap();
        let rendering = first.borrow_and_update().clone().unwrap();
        let whole = rendering.event_after(None);
        assert!(text(&whole).contains("old") && text(&whole).contains("same"), "{}", text(&whole));
        // The first watcher reads on. The second one has not read yet.
        sender.send(shot(2, &[("a", "new"), ("b", "same")])).await.unwrap();
        first.changed().await.unwrap();
        let rendering = first.borrow_and_update().clone().unwrap();
        let change = text(&rendering.event_after(Some(1)));
        assert!(change.contains("new") && !change.contains("same"), "{change}");
        second.changed().await.unwrap();
        let skipped = second.borrow_and_update().clone().unwrap();
        let [one, two] = [rendering.event_after(None), skipped.event_after(None)];
        assert!(text(&one).contains("same") && one.as_ptr() == two.as_ptr(), "its bytes are shared");
        drop((first, second));
        sender.closed().await;
        let again = broadcasts.watch("page".to_owned(), || stream::iter([shot(3, &[])]));
        drop(again);
    }
}
