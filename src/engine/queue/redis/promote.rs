//! `promote`: jobs that are due earlier, or in another lane; `postpone`: jobs that are due later.

use std::sync::LazyLock;

use redis::Script;

use super::super::promote::{Wish, Wishes};
use super::super::{NewJob, Postponed, Promoted, Result, check_ids};
use super::{RedisQueue, SCHEDULE_CHUNK, words};
use crate::base::backend::redis::{Call, DENY_OOM, script};

static PROMOTE: LazyLock<Script> = LazyLock::new(|| script(DENY_OOM, include_str!("../lua/promote.lua")));

pub(super) async fn promote(queue: &RedisQueue, jobs: &[NewJob]) -> Result<Vec<Promoted>> {
    let letters = moved(queue, "sooner", jobs).await?;
    Ok(letters.into_iter().map(promoted).collect())
}

pub(super) async fn postpone(queue: &RedisQueue, jobs: &[NewJob]) -> Result<Vec<Postponed>> {
    let letters = moved(queue, "later", jobs).await?;
    Ok(letters.into_iter().map(postponed).collect())
}

async fn moved(queue: &RedisQueue, when: &str, jobs: &[NewJob]) -> Result<Vec<u8>> {
    check_ids(jobs.iter().map(|job| &job.id))?;
    let mut answers = Vec::with_capacity(jobs.len());
    for jobs in jobs.chunks(SCHEDULE_CHUNK) {
        let wishes = Wishes::of(jobs);
        let lanes = words::by_lane(wishes.distinct.iter().map(|wish| wish.lane).enumerate());
        let mut call = Call::new(&PROMOTE, &queue.keys.prefix);
        call.arg(when);
        for (lane, members) in &lanes {
            let of = |at: &usize| -> &Wish<'_> { &wishes.distinct[*at] };
            call.arg(&*lane.name).arg(words::written(lane)).arg(members.len());
            call.arg(members.iter().map(|at| of(at).id).collect::<Vec<_>>());
            call.arg(members.iter().map(|at| words::earlier(of(at).delay, of(at).moment)).collect::<Vec<_>>());
        }
        let letters: String = queue.pool.invoke(&call).await?;
        let mut of_distinct = vec![b'a'; wishes.distinct.len()];
        for (at, letter) in words::in_order(&lanes, &letters) {
            of_distinct[at] = letter;
        }
        answers.extend(wishes.answers(&of_distinct));
    }
    Ok(answers)
}

fn postponed(letter: u8) -> Postponed {
    match letter {
        b'm' => Postponed::Moved,
        b'k' => Postponed::Kept,
        b'n' => Postponed::Leased,
        b'd' => Postponed::Dead,
        _ => Postponed::Absent,
    }
}

fn promoted(letter: u8) -> Promoted {
    match letter {
        b'm' => Promoted::Moved,
        b'n' => Promoted::Noted,
        b'd' => Promoted::Dead,
        _ => Promoted::Absent,
    }
}
