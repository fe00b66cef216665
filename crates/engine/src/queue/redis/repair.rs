//! Changes of the queue by a rebuild, by a person, and by the repair of due times.

use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use redis::{Cmd, Script};

use super::super::{
    Administration, Adoption, Fence, HOURS_KEPT, Lane, MINUTES_KEPT, PAGE_LIMIT, Result, ScheduleOutcome, check_ids,
};
use super::words::lane_text;
use super::{RedisQueue, SCHEDULE_CHUNK, parse_scheduled};
use crate::base::backend::redis::{ALLOW_OOM, Call, DENY_OOM, Steps, script};
use crate::base::clock::{self, Millis};

static ADOPT: LazyLock<Script> = LazyLock::new(|| script(DENY_OOM, include_str!("../lua/adopt.lua")));
static FORGET: LazyLock<Script> = LazyLock::new(|| {
    let text = concat!(include_str!("../lua/blank_errors.lua"), "\n", include_str!("../lua/forget.lua"));
    script(ALLOW_OOM, text)
});
macro_rules! with_spread {
    ($file:literal) => {
        concat!(include_str!("../lua/spread.lua"), "\n", include_str!($file))
    };
}

static APPLY_LANE: LazyLock<Script> = LazyLock::new(|| script(ALLOW_OOM, with_spread!("../lua/apply_lane.lua")));
static REPAIR_DUE_TIMES: LazyLock<Script> =
    LazyLock::new(|| script(ALLOW_OOM, with_spread!("../lua/repair_due_times.lua")));
static SUM_HOURS: LazyLock<Script> = LazyLock::new(|| script(ALLOW_OOM, include_str!("../lua/sum_hours.lua")));

pub(super) async fn adopt(queue: &RedisQueue, token: &str, ids: &[String], lease: Duration) -> Result<Adoption> {
    let mut call = Call::new(&ADOPT, &queue.keys.prefix);
    check_ids(ids)?;
    call.arg(token).arg(clock::millis(lease).max(1)).arg(ids);
    let (deadline, now, letters): (Millis, Millis, String) = queue.pool.invoke(&call).await?;
    let answers: Vec<ScheduleOutcome> = letters.bytes().map(parse_scheduled).collect();
    Ok(Adoption { fence: Fence { deadline, token: token.to_owned() }, now, answers })
}

pub(super) async fn forget(queue: &RedisQueue, ids: &[String]) -> Result<()> {
    for ids in ids.chunks(SCHEDULE_CHUNK) {
        let mut call = Call::new(&FORGET, &queue.keys.prefix);
        let _: i64 = queue.pool.invoke(call.arg(ids)).await?;
    }
    Ok(())
}

#[async_trait]
impl Administration for RedisQueue {
    async fn repair_due_times(&self, slack: Duration, limit: usize) -> Result<u64> {
        let mut call = Call::new(&REPAIR_DUE_TIMES, &self.keys.prefix);
        self.pool.invoke(call.arg(clock::millis(slack)).arg(limit.min(PAGE_LIMIT))).await
    }

    async fn apply_lane(&self, lane: &Lane, slack: Duration, limit: usize) -> Result<u64> {
        let mut call = Call::new(&APPLY_LANE, &self.keys.prefix);
        call.arg(&*lane.name).arg(lane_text(lane)).arg(clock::millis(slack)).arg(limit.min(PAGE_LIMIT));
        self.pool.invoke(&call).await
    }

    async fn sum_hours(&self) -> Result<()> {
        let mut call = Call::new(&SUM_HOURS, &self.keys.prefix);
        self.pool.invoke::<redis::Value>(call.arg(MINUTES_KEPT).arg(HOURS_KEPT)).await.map(drop)
    }

    async fn pause(&self, reason: Option<&str>) -> Result<()> {
        let command = match reason {
            Some(reason) => Cmd::set(self.keys.paused(), reason),
            None => Cmd::del(self.keys.paused()),
        };
        self.pool.run::<redis::Value>(Steps::allow_oom(&self.keys.prefix).add(&command)).await.map(drop)
    }
}
