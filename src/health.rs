//! What a process knows of itself: whether its loop still turns, and whether it can work.
//!
//! Nothing is asked for it. The loop says when it turns, and whoever talks to a service says how it went; so
//! being alive depends on no service, and a Redis that is out gets nobody killed.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{Stopwatch, millis};
use crate::shutdown::Stop;

/// The state of one process.
#[derive(Debug)]
pub struct Health {
    started: Stopwatch,
    /// When the loop last turned, ms since the start.
    beat: AtomicI64,
    patience: Duration,
    contact: Mutex<Contact>,
    stop: Stop,
}

/// How the last contact with a service went.
#[derive(Debug, PartialEq, Eq)]
enum Contact {
    /// There was none yet.
    None,
    Works,
    /// Why it did not.
    Out(String),
}

impl Health {
    /// Of a process that starts now, whose loop turns at least once per `patience`.
    #[must_use]
    pub fn new(patience: Duration, stop: Stop) -> Self {
        Self {
            started: Stopwatch::start(),
            beat: AtomicI64::new(0),
            patience,
            contact: Mutex::new(Contact::None),
            stop,
        }
    }

    /// The loop turns.
    pub fn beat(&self) {
        self.beat.store(self.started.elapsed_ms(), Ordering::Relaxed);
    }

    /// The services answered. Answers whether that is news.
    pub fn works(&self) -> bool {
        self.note(Contact::Works)
    }

    /// A service is out, for this reason. Answers whether that is news: that it is out, not why.
    pub fn is_out(&self, why: &str) -> bool {
        self.note(Contact::Out(why.to_owned()))
    }

    fn note(&self, contact: Contact) -> bool {
        let mut last = self.contact.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *last, contact);
        std::mem::discriminant(&before) != std::mem::discriminant(&*last)
    }

    /// Whether the loop turns.
    ///
    /// # Errors
    /// One line: for how long it has not.
    pub fn live(&self) -> Result<(), String> {
        let still = self.started.elapsed_ms() - self.beat.load(Ordering::Relaxed);
        if still <= millis(self.patience) { Ok(()) } else { Err(format!("the loop has not turned for {still} ms")) }
    }

    /// Whether the process is to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.is_draining()
    }

    /// Until the process is to stop.
    pub async fn stopping(&self) {
        self.stop.draining().await;
    }

    /// Whether the process can work: its services are open, the last contact with them went well, and it is
    /// not stopping.
    ///
    /// # Errors
    /// One line that says why not.
    pub fn ready(&self) -> Result<(), String> {
        if self.stop.is_draining() {
            return Err("it is stopping".to_owned());
        }
        match &*self.contact.lock().unwrap_or_else(PoisonError::into_inner) {
            Contact::Works => Ok(()),
            Contact::None => Err("its services are not open yet".to_owned()),
            Contact::Out(why) => Err(format!("a service is out: {why}")),
        }
    }
}

impl Default for Health {
    /// Of a process that nobody watches.
    fn default() -> Self {
        Self::new(Duration::MAX, Stop::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_stands_still_is_not_live_whatever_the_services_do() {
        let health = Health::new(Duration::from_secs(30), Stop::new());
        assert!(health.live().is_ok());
        health.is_out("no route");
        for _ in 0..10 {
            tokio::time::advance(Duration::from_secs(29)).await;
            assert!(health.live().is_ok());
            health.beat();
        }
        health.works();
        tokio::time::advance(Duration::from_millis(30_001)).await;
        assert_eq!(health.live().unwrap_err(), "the loop has not turned for 30001 ms");
        health.beat();
        assert!(health.live().is_ok());
        assert!(Health::default().live().is_ok());
    }

    #[test]
    fn it_is_ready_while_the_last_contact_went_well_and_nobody_stops_it() {
        let stop = Stop::new();
        let health = Health::new(Duration::from_secs(30), stop.clone());
        assert!(health.ready().unwrap_err().contains("not open yet"));
        assert!(health.works());
        assert!(!health.works());
        assert!(health.ready().is_ok());
        assert!(health.is_out("no route"));
        assert!(!health.is_out("still no route"));
        assert_eq!(health.ready().unwrap_err(), "a service is out: still no route");
        assert!(health.works());
        stop.drain();
        assert_eq!(health.ready().unwrap_err(), "it is stopping");
        assert!(health.live().is_ok());
    }
}
