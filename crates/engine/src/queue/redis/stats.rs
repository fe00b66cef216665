//! Read-only views of the queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use async_trait::async_trait;
use redis::Script;

use super::super::{
    DUE_SLACK, DeadJob, HOURS_KEPT, Hour, Inspection, Lane, LaneDue, LaneStats, MINUTES_KEPT, Minute, PAGE_LIMIT,
    Place, QueueError, Result, RowRange, Sample, Stats, WorkerStats, worker_name_of_token,
};
use super::{RedisQueue, SCHEDULE_CHUNK, WORKER_EXPIRY_MS, words};
use crate::base::backend::redis::{Call, NO_WRITES, Steps, script};
use crate::base::clock::{self, Millis};
use crate::lateness::Lateness;

static STATS: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("../lua/stats.lua")));
static DUE: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("../lua/due.lua")));
static DUE_BY: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("../lua/due_by.lua")));
static MINUTES: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("../lua/minutes.lua")));
static HOURS: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("../lua/hours.lua")));
/// Hours that one call reads, in about 1 ms of Redis's thread.
const HOURS_PER_CALL: usize = 48;
static HOLDERS: LazyLock<Script> = LazyLock::new(|| script(NO_WRITES, include_str!("../lua/holders.lua")));

/// Keys per step of a scan of the server's keys, and maximum number of steps. With many foreign keys some claims are not found.
const KEY_SCAN: (u32, usize) = (1_000, 20);

#[async_trait]
impl Inspection for RedisQueue {
    async fn stats(&self) -> Result<Stats> {
        type Answer = (
            Millis,
            Vec<(String, String, u64, u64, Millis, u64)>,
            (u64, u64, u64, u64, u64, Millis),
            String,
            Vec<(String, String)>,
            Vec<(String, Millis, Vec<(String, String)>)>,
        );
        let mut call = Call::new(&STATS, &self.keys.prefix);
        let (now, lanes, numbers, paused, flat, workers): Answer =
            self.pool.invoke(call.arg(WORKER_EXPIRY_MS).arg(clock::millis(DUE_SLACK))).await?;
        let (leased, expired, dead, incoming, incoming_refused, fence_ahead_ms) = numbers;
        let lane = |(name, written, delayed, due, oldest, beyond): (String, String, u64, u64, Millis, u64)| {
            let lane = words::parse_lane(&name, &written)?;
            Some(LaneStats::from_counts(&lane, now, [delayed, due, beyond], (due > 0).then_some(oldest)))
        };
        let lanes = lanes.into_iter().filter_map(lane).collect();
        let workers = workers
            .into_iter()
            .map(|(worker, beat, fields)| WorkerStats {
                worker,
                beat_age_ms: WorkerStats::heartbeat_age(beat, now),
                fields: fields.into_iter().collect(),
            })
            .collect();
        Ok(Stats {
            namespace: self.namespace.clone(),
            now_ms: now,
            leased,
            expired,
            dead,
            incoming,
            incoming_refused,
            fence_ahead_ms,
            paused: (!paused.is_empty()).then_some(paused),
            counters: parse_counters(flat),
            workers,
            ..Stats::default()
        }
        .with_lanes(lanes))
    }

    async fn due_count(&self) -> Result<u64> {
        self.pool.invoke(&Call::new(&DUE, &self.keys.prefix)).await
    }

    async fn due_counts_by(&self, offsets: &[Millis]) -> Result<Vec<LaneDue>> {
        let lanes: Vec<Vec<String>> = self.pool.invoke(Call::new(&DUE_BY, &self.keys.prefix).arg(offsets)).await?;
        let unknown = || QueueError::Refused("Redis gave an answer of unknown format about due ids".to_owned());
        let lane = |row: Vec<String>| {
            let (lane, counts) = row.split_first()?;
            let counts: Vec<u64> = counts.iter().map(|count| count.parse().ok()).collect::<Option<_>>()?;
            Some(LaneDue { lane: lane.clone(), counts })
        };
        lanes.into_iter().map(lane).collect::<Option<_>>().ok_or_else(unknown)
    }

    async fn minutes(&self, count: u32) -> Result<Vec<Minute>> {
        let rows: Vec<(Millis, Pairs, Pairs)> =
            self.pool.invoke(Call::new(&MINUTES, &self.keys.prefix).arg(count.min(MINUTES_KEPT))).await?;
        let minute =
            |(at_ms, flat, late)| Minute { at_ms, counters: parse_counters(flat), lateness: parse_lateness(late) };
        Ok(rows.into_iter().map(minute).collect())
    }

    async fn hours(&self, count: u32) -> Result<Vec<Hour>> {
        // Keyed by start, since a new hour may start between two calls.
        let mut hours = BTreeMap::new();
        let count = count.min(HOURS_KEPT);
        for last in (0..count).step_by(HOURS_PER_CALL) {
            let first = (last + HOURS_PER_CALL as u32).min(count) - 1;
            let rows: Vec<(Millis, Pairs, Pairs)> =
                self.pool.invoke(Call::new(&HOURS, &self.keys.prefix).arg(first).arg(last)).await?;
            hours.extend(rows.into_iter().map(|(at_ms, flat, late)| {
                (at_ms, Hour::from_counters(at_ms, parse_counters(flat), parse_lateness(late)))
            }));
        }
        Ok(hours.into_values().collect())
    }

    async fn locate(&self, ids: &[String]) -> Result<Vec<Vec<Place>>> {
        let (keys, lanes) = (&self.keys, self.lanes().await?);
        let mut places = Vec::with_capacity(ids.len());
        for ids in ids.chunks(SCHEDULE_CHUNK) {
            // One step, so an id that moves is seen once.
            let mut steps = Steps::read_only(&keys.prefix);
            for set in lanes.iter().map(|lane| keys.delayed(lane)).chain([keys.leased(), keys.dead()]) {
                steps.add(redis::cmd("ZMSCORE").arg(set).arg(ids));
            }
            steps.add(redis::cmd("HMGET").arg(keys.dead_why()).arg(ids));
            let answers: Vec<Vec<Option<String>>> = self.pool.run(&steps).await?;
            let score = |set: usize, at: usize| -> Option<Millis> {
                let text = answers.get(set)?.get(at)?.as_ref()?;
                text.parse::<f64>().ok().map(|score| score as Millis)
            };
            let (leased, dead, why) = (lanes.len(), lanes.len() + 1, lanes.len() + 2);
            let fences = (0..ids.len()).filter_map(|at| score(leased, at)).collect();
            let holders = find_holders(self, fences).await?;
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

    async fn sample(&self, most: usize) -> Result<Vec<Sample>> {
        let flat: Vec<(String, String)> =
            self.pool.read(&self.keys.prefix, redis::cmd("HGETALL").arg(self.keys.lanes())).await?;
        let mut lanes: Vec<Lane> = flat.iter().filter_map(|(name, written)| words::parse_lane(name, written)).collect();
        lanes.sort_by(|a, b| (a.tier, a.patience, &a.name).cmp(&(b.tier, b.patience, &b.name)));
        let mut steps = Steps::read_only(&self.keys.prefix);
        for set in lanes.iter().map(|lane| self.keys.delayed(&lane.name)).chain([self.keys.leased()]) {
            steps.add(redis::cmd("ZCARD").arg(&set));
            // A positive count returns distinct ids.
            steps.add(redis::cmd("ZRANDMEMBER").arg(&set).arg(most.min(PAGE_LIMIT)));
        }
        let answers: Vec<redis::Value> = self.pool.run(&steps).await?;
        let unknown = || QueueError::Refused("Redis gave a sample of unknown format".to_owned());
        let (pairs, _) = answers.as_chunks::<2>();
        let of = lanes.into_iter().map(Some).chain([None]);
        of.zip(pairs)
            .map(|(lane, [total, ids])| {
                let total = redis::from_redis_value_ref(total).map_err(|_| unknown())?;
                let ids: Vec<Vec<u8>> = redis::from_redis_value_ref(ids).map_err(|_| unknown())?;
                // The next claim that meets a member that is not text sets it aside.
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

    async fn list_dead(&self, rows: RowRange) -> Result<Vec<DeadJob>> {
        let Some(last) = rows.last() else { return Ok(Vec::new()) };
        let mut range = redis::cmd("ZRANGE");
        range.arg(self.keys.dead()).arg(rows.first()).arg(last).arg("WITHSCORES");
        let prefix = &self.keys.prefix;
        let page: Vec<(Vec<u8>, f64)> = self.pool.read(prefix, &range).await?;
        if page.is_empty() {
            return Ok(Vec::new());
        }
        let mut ask = redis::cmd("HMGET");
        ask.arg(self.keys.dead_why());
        for (id, _) in &page {
            ask.arg(id);
        }
        let reasons: Vec<Option<String>> = self.pool.read(prefix, &ask).await?;
        let buried = |((id, at), reason): ((Vec<u8>, f64), Option<String>)| DeadJob {
            id: String::from_utf8_lossy(&id).into_owned(),
            at: at as Millis,
            reason: reason.unwrap_or_default(),
        };
        Ok(page.into_iter().zip(reasons).map(buried).collect())
    }
}

type Pairs = Vec<(String, String)>;

/// Parses `upper bound, ids, …`, and skips entries that are not numbers.
fn parse_lateness(flat: Pairs) -> Lateness {
    let mut lateness = Lateness::default();
    for (upper, ids) in flat {
        if let (Ok(upper), Ok(ids)) = (upper.parse(), ids.parse()) {
            lateness.add(upper, ids);
        }
    }
    lateness
}

/// Parses `name, number, …`, and skips entries that are not numbers.
fn parse_counters(flat: Pairs) -> BTreeMap<String, i64> {
    flat.into_iter().filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect()
}

/// Workers that hold these fences, if their claims are found.
async fn find_holders(queue: &RedisQueue, mut fences: BTreeSet<Millis>) -> Result<BTreeMap<Millis, String>> {
    let (step, steps) = KEY_SCAN;
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
                holders.insert(fence, worker_name_of_token(&token).to_owned());
            }
        }
        if cursor == "0" {
            break;
        }
    }
    Ok(holders)
}
