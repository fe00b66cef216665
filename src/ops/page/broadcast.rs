//! Renders live pages, once for all watchers of a page.
//!
//! A page is rendered while it has a watcher. A slow watcher skips renderings, and then gets all parts.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::body::Bytes;
use futures::stream::{Stream, StreamExt};
use serde::Serialize;
use tokio::sync::watch;

use super::assets::VERSION;
use super::format::without_times;
use engine::base::clock::Millis;

/// Delay after which a browser reconnects a broken stream, ms.
const RETRY_MS: u64 = 1_000;

pub(super) type PartId = Cow<'static, str>;

#[derive(Debug)]
pub(super) struct PageSnapshot {
    /// Time of its figures, ms since the epoch.
    pub at: Millis,
    /// Current time by the same clock.
    pub now: Millis,
    pub parts: Vec<(PartId, String)>,
}

#[derive(Debug, Serialize)]
struct FiguresEvent<'a> {
    at: Millis,
    now: Millis,
    version: &'a str,
    parts: HashMap<&'a str, &'a str>,
}

/// A rendered page. Its events are built when the first watcher needs them.
#[derive(Debug)]
pub(super) struct Rendering {
    number: u64,
    snapshot: PageSnapshot,
    /// For each part, true if it differs from the previous rendering.
    changed: Vec<bool>,
    all: OnceLock<Bytes>,
    changes: OnceLock<Bytes>,
}

impl Rendering {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the event for a watcher whose last rendering had this number. A rendering without changes has an event, too: it shows that
    /// the figures are current.
    pub(super) fn event_after(&self, sent: Option<u64>) -> Bytes {
        match sent.is_some_and(|sent| sent + 1 == self.number) {
            true => self.changes.get_or_init(|| self.event(|part| self.changed[part])).clone(),
            false => self.all.get_or_init(|| self.event(|_| true)).clone(),
        }
    }

    fn event(&self, is_sent: impl Fn(usize) -> bool) -> Bytes {
        let PageSnapshot { at, now, parts } = &self.snapshot;
        let parts = parts.iter().enumerate().filter(|(part, _)| is_sent(*part));
        let parts = parts.map(|(_, (id, html))| (&**id, &**html)).collect();
        let figures = FiguresEvent { at: *at, now: *now, version: &VERSION, parts };
        // The data holds only texts and numbers: serializing cannot fail and makes no line breaks.
        let data = serde_json::to_string(&figures).unwrap_or_default();
        format!("event: figures\nretry: {RETRY_MS}\ndata: {data}\n\n").into()
    }
}

#[derive(Debug, Default)]
struct Renderer {
    number: u64,
    hasher: RandomState,
    /// Hash of each part without its running times.
    parts: HashMap<PartId, u64>,
}

impl Renderer {
    fn render(&mut self, snapshot: PageSnapshot) -> Rendering {
        self.number += 1;
        let changed = snapshot.parts.iter().map(|(id, html)| {
            let hash = self.hasher.hash_one(without_times(html));
            self.parts.insert(id.clone(), hash) != Some(hash)
        });
        let changed = changed.collect();
        Rendering { number: self.number, snapshot, changed, all: OnceLock::new(), changes: OnceLock::new() }
    }
}

type Sender = watch::Sender<Option<Arc<Rendering>>>;
/// Receives the newest rendering of a page; closed when the page ends.
pub(super) type Receiver = watch::Receiver<Option<Arc<Rendering>>>;

/// Watched pages by name.
#[derive(Debug, Default)]
pub(super) struct Broadcasts(Mutex<HashMap<String, Sender>>);

impl Broadcasts {
    /// Watches a page. `snapshots` opens its source if it has no watcher yet.
    pub(super) fn watch<Snapshots>(self: &Arc<Self>, page: String, snapshots: impl FnOnce() -> Snapshots) -> Receiver
    where
        Snapshots: Stream<Item = PageSnapshot> + Send + 'static,
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
        let entry = WatchedPage { broadcasts: self.clone(), page, sender };
        tokio::spawn(entry.render(snapshots()));
        receiver
    }
}

/// A watched page. When it is dropped, even by a panic, the streams of its watchers end.
struct WatchedPage {
    broadcasts: Arc<Broadcasts>,
    page: String,
    sender: Sender,
}

impl WatchedPage {
    async fn render(self, snapshots: impl Stream<Item = PageSnapshot> + Send) {
        let (mut snapshots, mut renderer) = (std::pin::pin!(snapshots), Renderer::default());
        loop {
            tokio::select! {
                () = self.sender.closed() => if self.remove_if(|of| of.receiver_count() == 0) { return },
                snapshot = snapshots.next() => match snapshot {
                    Some(snapshot) => drop(self.sender.send_replace(Some(Arc::new(renderer.render(snapshot))))),
                    None => return,
                },
            }
        }
    }

    /// Removes the page if `condition` returns true; no watcher can join in between. Returns false if it stays.
    fn remove_if(&self, condition: impl FnOnce(&Sender) -> bool) -> bool {
        let mut watched = self.broadcasts.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = watched.get(&self.page).is_some_and(|of| of.same_channel(&self.sender));
        if is_own && !condition(&self.sender) {
            return false;
        }
        if is_own {
            watched.remove(&self.page);
        }
        true
    }
}

impl Drop for WatchedPage {
    fn drop(&mut self) {
        self.remove_if(|_| true);
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use tokio::sync::mpsc;

    use super::*;

    fn snapshot(at: Millis, parts: &[(&'static str, &str)]) -> PageSnapshot {
        PageSnapshot { at, now: at, parts: parts.iter().map(|(id, html)| ((*id).into(), (*html).to_owned())).collect() }
    }

    fn text(bytes: &Bytes) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_page_is_rendered_once_for_all_who_watch() {
        let broadcasts = Arc::new(Broadcasts::default());
        let (sender, source) = mpsc::channel(1);
        let snapshots = || stream::unfold(source, async |mut source| Some((source.recv().await?, source)));
        let mut first = broadcasts.watch("page".to_owned(), snapshots);
        let other = || -> stream::Empty<PageSnapshot> { panic!("the page is watched already") };
        let mut second = broadcasts.watch("page".to_owned(), other);
        sender.send(snapshot(1, &[("a", "old"), ("b", "same")])).await.unwrap();
        first.changed().await.unwrap();
        let rendering = first.borrow_and_update().clone().unwrap();
        let whole = rendering.event_after(None);
        assert!(text(&whole).contains("old") && text(&whole).contains("same"), "{}", text(&whole));
        // The first watcher reads on. The second one has not read yet.
        sender.send(snapshot(2, &[("a", "new"), ("b", "same")])).await.unwrap();
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
        let again = broadcasts.watch("page".to_owned(), || stream::iter([snapshot(3, &[])]));
        drop(again);
    }
}
