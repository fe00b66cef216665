//! Named points at which a process can be made to end as kill -9 ends it (nothing is unwound, nothing is
//! flushed, nobody is told), or to stop as SIGSTOP stops it: for `tests/it/faults`.
//!
//! `TWITTER_UPDATER_CRASH_AT=after_claim` ends the process the first time it comes by that point,
//! `after_claim:3` the third time; `TWITTER_UPDATER_STOP_AT` stops it there. Builds without debug
//! assertions (`--release`) have none of it.
//!
//! `TWITTER_UPDATER_PANIC_AT=after_claim:3` has the task panic that comes by that point, the first three times, and
//! `TWITTER_UPDATER_HANG_AT` has it hang there (at `after_claim` and `before_accept`). `TWITTER_UPDATER_PANIC_POISON` is as
//! `TWITTER_UPDATER_POISON`, with a panic.
//!
//! If `TWITTER_UPDATER_FAIL_IN` names a pipeline, only its tasks come by the points.

/// The points, in the order in which an id comes by them.
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

/// Ends or stops the process here, if it was asked to.
#[inline]
pub fn point(name: &'static str) {
    #[cfg(debug_assertions)]
    armed::come_by(name);
    let _ = name;
}

/// Ends the process a moment from now, if it was asked to: in the middle of what is awaited next.
#[inline]
pub fn soon(name: &'static str) {
    #[cfg(debug_assertions)]
    armed::come_by_soon(name);
    let _ = name;
}

/// Ends the process if an id is among these that `TWITTER_UPDATER_POISON` names: as one would that
/// makes the process abort.
#[inline]
pub fn poison(ids: &[String]) {
    #[cfg(debug_assertions)]
    armed::taste(ids);
    let _ = ids;
}

/// Hangs here for ever, if the task was asked to.
#[inline]
pub async fn hang(name: &'static str) {
    #[cfg(debug_assertions)]
    if armed::hangs(name) {
        std::future::pending::<()>().await;
    }
    let _ = name;
}

#[cfg(debug_assertions)]
mod armed {
    use std::process::{Command, abort, id};
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use crate::base::task;

    static CRASH: LazyLock<Option<Ask>> = LazyLock::new(|| Ask::of("TWITTER_UPDATER_CRASH_AT"));
    static STOP: LazyLock<Option<Ask>> = LazyLock::new(|| Ask::of("TWITTER_UPDATER_STOP_AT"));
    static PANIC: LazyLock<Option<Ask>> = LazyLock::new(|| Ask::of("TWITTER_UPDATER_PANIC_AT"));
    static HANG: LazyLock<Option<Ask>> = LazyLock::new(|| Ask::of("TWITTER_UPDATER_HANG_AT"));
    static FAIL_IN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("TWITTER_UPDATER_FAIL_IN").ok());
    static PANIC_POISON: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("TWITTER_UPDATER_PANIC_POISON").ok());

    const STOP_AND_SEE: &str = "kill -STOP $0; until grep -q '^State:[[:space:]]*T' /proc/$0/status; do :; done";

    static POISON: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("TWITTER_UPDATER_POISON").ok());

    /// A point, and how often it is still to be passed.
    struct Ask {
        point: String,
        left: AtomicI64,
    }

    impl Ask {
        fn of(variable: &str) -> Option<Self> {
            let asked = std::env::var(variable).ok()?;
            let (point, times) = asked.split_once(':').unwrap_or((&asked, "1"));
            Some(Self { point: point.to_owned(), left: AtomicI64::new(times.parse().unwrap_or(1)) })
        }

        /// The times that are left, with this one, in the pipeline that is meant; 0 elsewhere.
        fn left(&self, name: &str) -> i64 {
            debug_assert!(super::POINTS.contains(&name), "{name} is no crash point");
            let is_meant = || FAIL_IN.as_ref().is_none_or(|meant| task::pipeline().as_ref() == Some(meant));
            if self.point == name && is_meant() { self.left.fetch_sub(1, Ordering::Relaxed) } else { 0 }
        }

        fn is(&self, name: &str) -> bool {
            self.left(name) == 1
        }

        fn is_one_of_the_first(&self, name: &str) -> bool {
            self.left(name) > 0
        }
    }

    pub fn hangs(name: &str) -> bool {
        HANG.as_ref().is_some_and(|ask| ask.is_one_of_the_first(name))
    }

    pub fn come_by(name: &str) {
        assert!(!PANIC.as_ref().is_some_and(|ask| ask.is_one_of_the_first(name)), "asked to panic at {name}");
        if CRASH.as_ref().is_some_and(|ask| ask.is(name)) {
            abort();
        }
        if STOP.as_ref().is_some_and(|ask| ask.is(name)) {
            // A signal to a process stops one thread after the other. This one waits for a child that
            // ends when the first of them has stopped, so it goes on only after SIGCONT.
            let _ = Command::new("sh").args(["-c", STOP_AND_SEE, &id().to_string()]).status();
        }
    }

    pub fn taste(ids: &[String]) {
        if POISON.as_ref().is_some_and(|poison| ids.contains(poison)) {
            abort();
        }
        let is_bad = PANIC_POISON.as_ref().is_some_and(|poison| ids.contains(poison));
        assert!(!is_bad, "asked to panic at an id");
    }

    pub fn come_by_soon(name: &'static str) {
        if CRASH.as_ref().is_some_and(|ask| ask.is(name)) {
            tokio::spawn(async {
                tokio::time::sleep(Duration::from_millis(30)).await;
                abort();
            });
        }
    }
}
