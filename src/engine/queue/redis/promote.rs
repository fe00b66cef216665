//! `promote`: jobs that are due earlier, or in another lane.

use std::sync::LazyLock;

use redis::Script;

use super::super::promote::{Wish, Wishes};
use super::super::{NewJob, Promoted, Result, check_ids};
use super::{RedisQueue, SCHEDULE_CHUNK, words};
use crate::base::backend::redis::{Call, DENY_OOM, script};

static PROMOTE: LazyLock<Script> = LazyLock::new(|| script(DENY_OOM, include_str!("../lua/promote.lua")));

pub(super) async fn promote(queue: &RedisQueue, jobs: &[NewJob]) -> Result<Vec<Promoted>> {
    check_ids(jobs.iter().map(|job| &job.id))?;
    let mut answers = Vec::with_capacity(jobs.len());
    for jobs in jobs.chunks(SCHEDULE_CHUNK) {
        let wishes = Wishes::of(jobs);
        let lanes = words::by_lane(wishes.distinct.iter().map(|wish| wish.lane).enumerate());
        let mut call = Call::new(&PROMOTE, &queue.keys.prefix);
        for (lane, members) in &lanes {
            let of = |at: &usize| -> &Wish<'_> { &wishes.distinct[*at] };
            call.arg(&*lane.name).arg(words::written(lane)).arg(members.len());
            call.arg(members.iter().map(|at| of(at).id).collect::<Vec<_>>());
            call.arg(members.iter().map(|at| words::earlier(of(at).delay, of(at).moment)).collect::<Vec<_>>());
        }
        let letters: String = queue.pool.invoke(&call).await?;
        let mut of_distinct = vec![Promoted::Absent; wishes.distinct.len()];
        for (at, letter) in words::in_order(&lanes, &letters) {
            of_distinct[at] = promoted(letter);
        }
        answers.extend(wishes.answers(&of_distinct));
    }
    Ok(answers)
}

/// The answer that a script's letter stands for.
fn promoted(letter: u8) -> Promoted {
    match letter {
        b'm' => Promoted::Moved,
        b'n' => Promoted::Noted,
        b'd' => Promoted::Dead,
        _ => Promoted::Absent,
    }
}
