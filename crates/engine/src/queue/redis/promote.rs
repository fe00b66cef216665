//! `promote`: jobs that are due earlier, or in another lane; `postpone`: jobs that are due later.

use std::sync::LazyLock;

use redis::Script;

use super::super::promote::{DistinctPromotes, Promote};
use super::super::{NewJob, PostponeOutcome, PromoteOutcome, Result, check_ids};
use super::{RedisQueue, SCHEDULE_CHUNK, words};
use crate::base::backend::redis::{Call, DENY_OOM, script};

static PROMOTE: LazyLock<Script> = LazyLock::new(|| script(DENY_OOM, include_str!("../lua/promote.lua")));

pub(super) async fn promote(queue: &RedisQueue, jobs: &[NewJob]) -> Result<Vec<PromoteOutcome>> {
    let letters = run_promote_script(queue, "sooner", jobs).await?;
    Ok(letters.into_iter().map(parse_promoted).collect())
}

pub(super) async fn postpone(queue: &RedisQueue, jobs: &[NewJob]) -> Result<Vec<PostponeOutcome>> {
    let letters = run_promote_script(queue, "later", jobs).await?;
    Ok(letters.into_iter().map(parse_postponed).collect())
}

async fn run_promote_script(queue: &RedisQueue, when: &str, jobs: &[NewJob]) -> Result<Vec<u8>> {
    check_ids(jobs.iter().map(|job| &job.id))?;
    let mut answers = Vec::with_capacity(jobs.len());
    for jobs in jobs.chunks(SCHEDULE_CHUNK) {
        let promotes = DistinctPromotes::from_jobs(jobs);
        let lanes = words::group_by_lane(promotes.distinct.iter().map(|job| job.lane).enumerate());
        let mut call = Call::new(&PROMOTE, &queue.keys.prefix);
        call.arg(when);
        for (lane, members) in &lanes {
            let of = |at: &usize| -> &Promote<'_> { &promotes.distinct[*at] };
            call.arg(&*lane.name).arg(words::lane_text(lane)).arg(members.len());
            call.arg(members.iter().map(|at| of(at).id).collect::<Vec<_>>());
            call.arg(members.iter().map(|at| words::due_pair_text(of(at).delay, of(at).moment)).collect::<Vec<_>>());
        }
        let letters: String = queue.pool.invoke(&call).await?;
        let mut of_distinct = vec![b'a'; promotes.distinct.len()];
        for (at, letter) in words::with_positions(&lanes, &letters) {
            of_distinct[at] = letter;
        }
        answers.extend(promotes.expand(&of_distinct));
    }
    Ok(answers)
}

fn parse_postponed(letter: u8) -> PostponeOutcome {
    match letter {
        b'm' => PostponeOutcome::Moved,
        b'k' => PostponeOutcome::Kept,
        b'n' => PostponeOutcome::Leased,
        b'd' => PostponeOutcome::Dead,
        _ => PostponeOutcome::Absent,
    }
}

fn parse_promoted(letter: u8) -> PromoteOutcome {
    match letter {
        b'm' => PromoteOutcome::Moved,
        b'n' => PromoteOutcome::Noted,
        b'd' => PromoteOutcome::Dead,
        _ => PromoteOutcome::Absent,
    }
}
