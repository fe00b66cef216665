//! One that promotes all the time, as a wave that ended or a person does, while others claim and settle.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::RngExt;
use tokio::task::JoinHandle;
use twitter_updater::engine::lane::Lane;
use twitter_updater::engine::queue::{NewJob, PromoteOutcome, Queue, QueueError};

/// Ids in a call.
const IDS: usize = 20;

/// What it was answered.
#[derive(Debug, Default, Clone, Copy)]
pub struct Answers {
    pub moved: u64,
    pub noted: u64,
    /// Dead, or in no place.
    pub others: u64,
    /// Calls without an answer.
    pub failed: u64,
}

/// Promotes random ones of these ids until it is stopped.
pub struct Promoter {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Answers>,
}

impl Promoter {
    pub fn start(queue: Arc<dyn Queue>, ids: Vec<String>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let mut sum = Answers::default();
            while !stopped.load(Ordering::Relaxed) {
                sum.add(promote(&*queue, &ids).await);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            sum
        });
        Self { stop, task }
    }

    pub async fn stop(self) -> Answers {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap()
    }
}

impl Answers {
    fn add(&mut self, answer: Result<Vec<PromoteOutcome>, QueueError>) {
        match answer {
            Ok(answers) => {
                for answer in answers {
                    *match answer {
                        PromoteOutcome::Moved => &mut self.moved,
                        PromoteOutcome::Noted => &mut self.noted,
                        PromoteOutcome::Dead | PromoteOutcome::Absent => &mut self.others,
                    } += 1;
                }
            }
            Err(QueueError::Unavailable(_)) => self.failed += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

async fn promote(queue: &dyn Queue, ids: &[String]) -> Result<Vec<PromoteOutcome>, QueueError> {
    let lane = Lane::new("promoted", Duration::from_millis(500));
    let job = |_| {
        let id = ids[rand::rng().random_range(0..ids.len())].clone();
        NewJob { id, lane: lane.clone(), due: rand::rng().random_range(0..300).into() }
    };
    queue.promote(&(0..IDS).map(job).collect::<Vec<_>>()).await
}
