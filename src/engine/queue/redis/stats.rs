//! Looking at the queue: `stats`, `sample`, `due`, `due_by`, `minutes`, `locate`. Nothing is changed here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use redis::Script;

use super::super::{
    Lane, LaneDue, LaneStats, MEND_SLACK, Minute, PAGE_LIMIT, Place, QueueError, Sample, Stats, WorkerStats, worker_of,
};
use super::{RedisQueue, SCHEDULE_CHUNK, WORKER_EXPIRY_MS, words};
use crate::base::backend::redis::{Call, NO_WRITES, Steps, script};
use crate::base::clock::{self, Millis};
use crate::engine::lateness::Lateness;

static STATS: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("../lua/stats.lua")));
static DUE: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("../lua/due.lua")));
static DUE_BY: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("../lua/due_by.lua")));
static MINUTES: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("../lua/minutes.lua")));
static HOLDERS: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("../lua/holders.lua")));

/// Of a walk over the server's keys: how many a step looks at, and how many steps there are at the most. A Redis of
/// our own has fewer keys than that; in one that others fill, some claims are not found.
const WALK: (u32, usize) = (1_000, 20);

pub(super) async fn stats(queue: &RedisQueue) -> Result<Stats, QueueError> {
    type Answer = (
        Millis,
        Vec<(String, String, u64, u64, Millis, u64)>,
        (u64, u64, u64, u64, u64, Millis),
        String,
        Vec<(String, String)>,
        Vec<(String, Millis, Vec<(String, String)>)>,
    );
    let mut call = Call::new(&STATS, &queue.keys.prefix);
    let (now, lanes, numbers, paused, flat, workers): Answer =
        queue.pool.invoke(call.arg(WORKER_EXPIRY_MS).arg(clock::millis(MEND_SLACK))).await?;
    let (leased, expired, dead, incoming, incoming_refused, fence_ahead_ms) = numbers;
    let lane = |(name, written, delayed, due, oldest, beyond): (String, String, u64, u64, Millis, u64)| {
        let lane = words::lane(&name, &written)?;
        Some(LaneStats::of(&lane, now, [delayed, due, beyond], (due > 0).then_some(oldest)))
    };
    let lanes = lanes.into_iter().filter_map(lane).collect();
    let workers = workers
        .into_iter()
        .map(|(worker, beat, fields)| WorkerStats {
            worker,
            beat_age_ms: now - beat,
            fields: fields.into_iter().collect(),
        })
        .collect();
    Ok(Stats {
        namespace: queue.namespace.clone(),
        now_ms: now,
        leased,
        expired,
        dead,
        incoming,
        incoming_refused,
        fence_ahead_ms,
        paused: (!paused.is_empty()).then_some(paused),
        counters: counters(flat),
        workers,
        ..Stats::default()
    }
    .with_lanes(lanes))
}

/// Flat `name, number, …` as a map; what is no number is left out.
fn counters(flat: Vec<(String, String)>) -> BTreeMap<String, i64> {
    flat.into_iter().filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect()
}

pub(super) async fn sample(queue: &RedisQueue, most: usize) -> Result<Vec<Sample>, QueueError> {
    let flat: Vec<(String, String)> =
        queue.pool.read(&queue.keys.prefix, redis::cmd("HGETALL").arg(queue.keys.lanes())).await?;
    let mut lanes: Vec<Lane> = flat.iter().filter_map(|(name, written)| words::lane(name, written)).collect();
    lanes.sort_by(|a, b| (a.tier, a.patience, &a.name).cmp(&(b.tier, b.patience, &b.name)));
    let mut steps = Steps::reading(&queue.keys.prefix);
    for set in lanes.iter().map(|lane| queue.keys.delayed(&lane.name)).chain([queue.keys.leased()]) {
        steps.add(redis::cmd("ZCARD").arg(&set));
        // A positive count: distinct ids.
        steps.add(redis::cmd("ZRANDMEMBER").arg(&set).arg(most.min(PAGE_LIMIT)));
    }
    let answers: Vec<redis::Value> = queue.pool.run(&steps).await?;
    let unknown = || QueueError::Refused("Redis answered a sample in a shape we do not know".to_owned());
    let (pairs, _) = answers.as_chunks::<2>();
    let of = lanes.into_iter().map(Some).chain([None]);
    of.zip(pairs)
        .map(|(lane, [total, ids])| {
            let total = redis::from_redis_value_ref(total).map_err(|_| unknown())?;
            let ids: Vec<Vec<u8>> = redis::from_redis_value_ref(ids).map_err(|_| unknown())?;
            // What is no text is set aside by the claim that meets it.
            let ids = ids.into_iter().filter_map(|id| String::from_utf8(id).ok()).collect();
            Ok(Sample {
                lane: lane.as_ref().map(|lane| lane.name.to_string()),
                patience_ms: lane.as_ref().map(|lane| lane.patience),
                order: lane.map(|lane| lane.order).unwrap_or_default(),
                total,
                ids,
            })
        })
        .collect()
}

pub(super) async fn due(queue: &RedisQueue) -> Result<u64, QueueError> {
    queue.pool.invoke(&Call::new(&DUE, &queue.keys.prefix)).await
}

pub(super) async fn due_by(queue: &RedisQueue, offsets: &[Millis]) -> Result<Vec<LaneDue>, QueueError> {
    let lanes: Vec<Vec<String>> = queue.pool.invoke(Call::new(&DUE_BY, &queue.keys.prefix).arg(offsets)).await?;
    let unknown = || QueueError::Refused("Redis answered what is due in a shape we do not know".to_owned());
    let lane = |row: Vec<String>| {
        let (lane, counts) = row.split_first()?;
        let counts: Vec<u64> = counts.iter().map(|count| count.parse().ok()).collect::<Option<_>>()?;
        Some(LaneDue { lane: lane.clone(), counts })
    };
    lanes.into_iter().map(lane).collect::<Option<_>>().ok_or_else(unknown)
}

pub(super) async fn minutes(queue: &RedisQueue, count: u32) -> Result<Vec<Minute>, QueueError> {
    type Flat = Vec<(String, String)>;
    let rows: Vec<(Millis, Flat, Flat)> = queue.pool.invoke(Call::new(&MINUTES, &queue.keys.prefix).arg(count)).await?;
    let minute = |(at_ms, flat, late): (Millis, Flat, Flat)| {
        let mut lateness = Lateness::default();
        for (upper, ids) in late {
            if let (Ok(upper), Ok(ids)) = (upper.parse(), ids.parse()) {
                lateness.add(upper, ids);
            }
        }
        Minute { at_ms, counters: counters(flat), lateness }
    };
    Ok(rows.into_iter().map(minute).collect())
}

pub(super) async fn locate(queue: &RedisQueue, ids: &[String]) -> Result<Vec<Vec<Place>>, QueueError> {
    let (keys, lanes) = (&queue.keys, queue.lanes().await?);
    let mut places = Vec::with_capacity(ids.len());
    for ids in ids.chunks(SCHEDULE_CHUNK) {
        // One step: an id on its way from one place to another is seen once.
        let mut steps = Steps::reading(&keys.prefix);
        for set in lanes.iter().map(|lane| keys.delayed(lane)).chain([keys.leased(), keys.dead()]) {
            steps.add(redis::cmd("ZMSCORE").arg(set).arg(ids));
        }
        steps.add(redis::cmd("HMGET").arg(keys.dead_why()).arg(ids));
        let answers: Vec<Vec<Option<String>>> = queue.pool.run(&steps).await?;
        let score = |set: usize, at: usize| -> Option<Millis> {
            let text = answers.get(set)?.get(at)?.as_ref()?;
            text.parse::<f64>().ok().map(|score| score as Millis)
        };
        let (leased, dead, why) = (lanes.len(), lanes.len() + 1, lanes.len() + 2);
        let fences = (0..ids.len()).filter_map(|at| score(leased, at)).collect();
        let holders = holders(queue, fences).await?;
        for at in 0..ids.len() {
            let mut of_id = Vec::new();
            for (set, lane) in lanes.iter().enumerate() {
                of_id.extend(score(set, at).map(|due| Place::Delayed { lane: lane.clone(), due }));
            }
            of_id.extend(score(leased, at).map(|fence| Place::Leased { fence, by: holders.get(&fence).cloned() }));
            of_id.extend(score(dead, at).map(|buried| Place::Dead {
                at: buried,
                reason: answers.get(why).and_then(|why| why.get(at)?.clone()).unwrap_or_default(),
            }));
            places.push(of_id);
        }
    }
    Ok(places)
}

/// The workers that hold these fences, as far as their claims are found.
async fn holders(queue: &RedisQueue, mut fences: BTreeSet<Millis>) -> Result<BTreeMap<Millis, String>, QueueError> {
    let (step, steps) = WALK;
    let (mut holders, mut cursor) = (BTreeMap::new(), "0".to_owned());
    for _ in 0..steps {
        if fences.is_empty() {
            break;
        }
        let mut call = Call::new(&HOLDERS, &queue.keys.prefix);
        call.arg(&cursor).arg(step).arg(fences.iter().copied().collect::<Vec<_>>());
        let mut words = queue.pool.invoke::<Vec<String>>(&call).await?.into_iter();
        cursor = words.next().unwrap_or_else(|| "0".to_owned());
        while let (Some(fence), Some(token)) = (words.next(), words.next()) {
            if let Ok(fence) = fence.parse() {
                fences.remove(&fence);
                holders.insert(fence, worker_of(&token).to_owned());
            }
        }
        if cursor == "0" {
            break;
        }
    }
    Ok(holders)
}
