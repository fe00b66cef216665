//! Reads 1,000 meters once, by 300 calls of up to 100 meters per 15 minutes, and schedules each again a minute later. The call
//! itself is left out. Any number of processes may share `meters.db`; a killed one delays its meters by a lease.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lease_lanes::base::clock::wall_ms;
use lease_lanes::base::{reload::Reloadable, shutdown::Stop};
use lease_lanes::health::Health;
use lease_lanes::metrics::Metrics;
use lease_lanes::queue::{Batch, EmbeddedQueue, Jobs, Lane, NewJob, Verdict};
use lease_lanes::quota::{CallRecord, Credential, CredentialKind, Credentials, EmbeddedLedger, Pacing, Permit, Window};
use lease_lanes::worker::{BatchOutcome, ClaimSettings, Handler, HandlerKind, Worker};

const METERS: usize = 1_000;
const MINUTE: Duration = Duration::from_secs(60);
const WINDOW_MS: i64 = 900_000;
const CALLS_PER_WINDOW: u32 = 300;

struct Meters {
    credentials: Arc<Credentials>,
    /// End of the quota window, ms since the epoch.
    window_end: i64,
    calls: AtomicU32,
    meters_read: AtomicUsize,
    stop: Stop,
}

#[async_trait]
impl Handler for Meters {
    fn endpoint(&self) -> &'static str {
        "read"
    }

    async fn handle(&self, batch: &Batch, permit: Permit) -> BatchOutcome {
        // The call to the API stands here. Its answer states what is left of the quota.
        let remaining = CALLS_PER_WINDOW - 1 - self.calls.fetch_add(1, Ordering::Relaxed);
        let (reset_at, reset_in) = (self.window_end, self.window_end - wall_ms());
        let window = Window { limit: CALLS_PER_WINDOW, remaining, reset_at, reset_in, length: Some(WINDOW_MS) };
        self.credentials.record_call(permit, CallRecord { window: Some(window), ..CallRecord::default() }).await;
        if self.meters_read.fetch_add(batch.jobs.len(), Ordering::Relaxed) + batch.jobs.len() >= METERS {
            self.stop.drain();
        }
        let lane = Lane::new("minute", MINUTE);
        let again = Verdict::Reschedule { due: lane.patience.into(), lane };
        let verdicts = batch.jobs.iter().map(|job| (job.clone(), again.clone())).collect();
        BatchOutcome { verdicts, ..BatchOutcome::default() }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (file, stop) = (Path::new("meters.db"), Stop::new());
    let queue = Arc::new(EmbeddedQueue::open(file, "meter:read", MINUTE).await?);
    let lane = Lane::new("minute", MINUTE);
    let meter = |number: usize| NewJob { id: format!("meter-{number}"), lane: lane.clone(), due: 0.into() };
    queue.schedule(&(0..METERS).map(meter).collect::<Vec<_>>()).await?;

    let ledger = Arc::new(EmbeddedLedger::open(file, "meters", MINUTE).await?);
    let credential = Credential { name: "main".to_owned(), kind: CredentialKind::Anonymous };
    let credentials = Arc::new(Credentials::new(vec![credential], ledger, Pacing::Auto, MINUTE));
    let meters = Arc::new(Meters {
        credentials: credentials.clone(),
        window_end: wall_ms() + WINDOW_MS,
        calls: AtomicU32::new(0),
        meters_read: AtomicUsize::new(0),
        stop: stop.clone(),
    });
    let metrics = Arc::new(Metrics::new());
    Worker {
        name: "reader".to_owned(),
        queue,
        handling: HandlerKind::Metered(meters.clone(), credentials),
        claims: Reloadable::new(ClaimSettings {
            limit: 100,
            linger: Duration::from_secs(1),
            lookahead: 0.1,
            lease: MINUTE,
        }),
        early: Reloadable::new(0.0),
        concurrency: Reloadable::new(2),
        metrics,
        health: Arc::new(Health::new(MINUTE, stop.clone())),
        stop,
    }
    .run()
    .await?;
    writeln!(std::io::stdout(), "read {} meters", meters.meters_read.load(Ordering::Relaxed))?;
    Ok(())
}
