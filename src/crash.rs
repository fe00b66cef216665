//! Named points at which a process can be made to end as kill -9 ends it, for the crash matrix
//! (`tests/it/crash.rs`): nothing is unwound, nothing is flushed, nobody is told.
//!
//! `TWITTER_UPDATER_CRASH_AT=after_claim` ends the process the first time it comes by that point,
//! `after_claim:3` the third time. Builds without debug assertions (`--release`) have none of it.

/// The points, in the order in which a tweet comes by them.
pub const POINTS: &[&str] = &[
    "after_record",
    "before_accept",
    "after_permit",
    "after_claim",
    "during_lookup",
    "after_answer",
    "before_commit",
    "after_commit",
    "before_settle",
    "after_settle",
    "before_release",
    "after_release",
];

/// Ends the process here, if it was asked to.
#[inline]
pub fn point(name: &'static str) {
    #[cfg(debug_assertions)]
    if armed::is_here(name) {
        std::process::abort();
    }
    let _ = name;
}

/// Ends the process a moment from now, if it was asked to: in the middle of what is awaited next.
#[inline]
pub fn soon(name: &'static str) {
    #[cfg(debug_assertions)]
    if armed::is_here(name) {
        tokio::spawn(async {
            tokio::time::sleep(std::time::Duration::from_millis(30)).await;
            std::process::abort();
        });
    }
    let _ = name;
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI64, Ordering};

    static ASKED: OnceLock<Option<(String, AtomicI64)>> = OnceLock::new();

    /// Whether this is the point, and the time, that was asked for.
    pub fn is_here(name: &str) -> bool {
        debug_assert!(super::POINTS.contains(&name), "{name} is no crash point");
        let asked = ASKED.get_or_init(|| {
            let asked = std::env::var("TWITTER_UPDATER_CRASH_AT").ok()?;
            let (point, times) = asked.split_once(':').unwrap_or((&asked, "1"));
            Some((point.to_owned(), AtomicI64::new(times.parse().unwrap_or(1))))
        });
        asked.as_ref().is_some_and(|(point, left)| point == name && left.fetch_sub(1, Ordering::Relaxed) == 1)
    }
}
