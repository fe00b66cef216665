//! What a rebuild, a person who looks after the dead, and the repair of due times do to the queue.

use std::sync::LazyLock;
use std::time::Duration;

use redis::Script;

use super::super::{Adopted, Buried, Fence, PAGE_LIMIT, QueueError, Scheduled, check_id};
use super::{RedisQueue, SCHEDULE_CHUNK, scheduled};
use crate::base::backend::redis::{ALLOW_OOM, Call, DENY_OOM, Steps, script};
use crate::base::clock::{self, Millis};

static ADOPT: LazyLock<Script> = LazyLock::new(|| script(DENY_OOM, include_str!("../lua/adopt.lua")));
static MEND: LazyLock<Script> = LazyLock::new(|| script(ALLOW_OOM, include_str!("../lua/mend.lua")));

pub(super) async fn adopt(
    queue: &RedisQueue,
    token: &str,
    ids: &[String],
    lease: Duration,
) -> Result<Adopted, QueueError> {
    let mut call = Call::new(&ADOPT, &queue.keys.prefix);
    call.arg(token).arg(clock::millis(lease).max(1));
    for id in ids {
        check_id(id).map_err(|why| QueueError::Refused(format!("{why}: {id:?}")))?;
        call.arg(id);
    }
    let (deadline, now, letters): (Millis, Millis, String) = queue.pool.invoke(&call).await?;
    let answers: Vec<Scheduled> = letters.bytes().map(scheduled).collect();
    Ok(Adopted { fence: Fence { deadline, token: token.to_owned() }, now, answers })
}

pub(super) async fn dead(queue: &RedisQueue, from: u64, limit: u32) -> Result<Vec<Buried>, QueueError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let mut range = redis::cmd("ZRANGE");
    range.arg(queue.keys.dead()).arg(from).arg(from + u64::from(limit) - 1).arg("WITHSCORES");
    let prefix = &queue.keys.prefix;
    let page: Vec<(Vec<u8>, f64)> = queue.pool.read(prefix, &range).await?;
    if page.is_empty() {
        return Ok(Vec::new());
    }
    let mut ask = redis::cmd("HMGET");
    ask.arg(queue.keys.dead_why());
    for (id, _) in &page {
        ask.arg(id);
    }
    let reasons: Vec<Option<String>> = queue.pool.read(prefix, &ask).await?;
    let buried = |((id, at), reason): ((Vec<u8>, f64), Option<String>)| Buried {
        id: String::from_utf8_lossy(&id).into_owned(),
        at: at as Millis,
        reason: reason.unwrap_or_default(),
    };
    Ok(page.into_iter().zip(reasons).map(buried).collect())
}

pub(super) async fn forget(queue: &RedisQueue, ids: &[String]) -> Result<(), QueueError> {
    let lanes = queue.lanes().await?;
    for ids in ids.chunks(SCHEDULE_CHUNK) {
        let mut steps = Steps::draining(&queue.keys.prefix);
        for lane in &lanes {
            steps.add(redis::cmd("ZREM").arg(queue.keys.delayed(lane)).arg(ids));
        }
        steps.add(redis::cmd("ZREM").arg(queue.keys.dead()).arg(ids));
        steps.add(redis::cmd("HDEL").arg(queue.keys.dead_why()).arg(ids));
        steps.add(redis::cmd("HDEL").arg(queue.keys.promoted()).arg(ids));
        let _: Vec<redis::Value> = queue.pool.run(&steps).await?;
    }
    Ok(())
}

pub(super) async fn mend(queue: &RedisQueue, slack: Duration, limit: usize) -> Result<u64, QueueError> {
    let mut call = Call::new(&MEND, &queue.keys.prefix);
    queue.pool.invoke(call.arg(clock::millis(slack)).arg(limit.min(PAGE_LIMIT))).await
}
