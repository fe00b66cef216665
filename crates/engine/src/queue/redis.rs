//! The queue in Redis: sorted sets, and one script per call, so each call is one atomic step on the server's clock.

mod aside;
mod errors;
mod promote;
mod repair;
mod stats;
mod words;

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use async_trait::async_trait;
use redis::{Cmd, RedisWrite, Script, ToRedisArgs};

use self::words::DueArgument;
use super::keys::{self, Keys};
use super::{
    Adoption, Batch, Claim, ClaimRequest, Due, Fence, Inbox, Incoming, Job, Jobs, Lane, Lateness, NewJob,
    PostponeOutcome, PromoteOutcome, QueueError, Result, ScheduleOutcome, SettleOutcome, Verdict, Workers, check_id,
    check_ids, rank,
};
use crate::base::backend::RefusedWrites;
use crate::base::backend::redis::{ALLOW_OOM, Call, DENY_OOM, RedisPool, Steps, script};
use crate::base::clock::{self, Millis, QueueTime, Stopwatch};

/// Time for which a drainer of `incoming` keeps its role after its last read.
const DRAINER_HOLD_MS: Millis = 10_000;
/// Time for which a worker stays on the list after its last heartbeat.
const WORKER_EXPIRY_MS: Millis = 60_000;
/// Maximum number of ids in a claim: Lua's `unpack` takes up to 8,000 values.
const CLAIM_LIMIT: usize = 5_000;
/// Jobs per `schedule` script: 1,000 take about 2 ms of Redis's only thread.
const SCHEDULE_CHUNK: usize = 1_000;

static REGISTER: LazyLock<Script> = LazyLock::new(|| script(ALLOW_OOM, include_str!("lua/register.lua")));
static SCHEDULE: LazyLock<Script> = LazyLock::new(|| script(DENY_OOM, include_str!("lua/schedule.lua")));
static CLAIM: LazyLock<Script> =
    LazyLock::new(|| script(ALLOW_OOM, concat!(include_str!("lua/pick.lua"), "\n", include_str!("lua/claim.lua"))));
static SETTLE: LazyLock<Script> = LazyLock::new(|| script(ALLOW_OOM, include_str!("lua/settle.lua")));
static TRIAL: LazyLock<Script> = LazyLock::new(|| script(ALLOW_OOM, include_str!("lua/trial.lua")));
static INCOMING: LazyLock<Script> = LazyLock::new(|| script(ALLOW_OOM, include_str!("lua/incoming.lua")));
static BEAT: LazyLock<Script> = LazyLock::new(|| script(ALLOW_OOM, include_str!("lua/beat.lua")));

#[derive(Debug, Clone)]
pub struct RedisQueue {
    pool: RedisPool,
    namespace: String,
    keys: Keys,
}

impl RedisQueue {
    #[must_use]
    pub fn new(pool: RedisPool, namespace: &str) -> Self {
        Self { pool, namespace: namespace.to_owned(), keys: Keys::new(namespace) }
    }

    async fn lanes(&self) -> Result<Vec<String>> {
        self.pool.read(&self.keys.prefix, redis::cmd("HKEYS").arg(self.keys.lanes())).await
    }

    async fn settle_groups(
        &self,
        fence: &Fence,
        groups: &[VerdictGroup<'_>],
        tally: &[(&str, i64)],
    ) -> Result<SettleOutcome> {
        let mut call = Call::new(&SETTLE, &self.keys.prefix);
        call.arg(fence.deadline).arg(&fence.token).arg(tally.len());
        for (counter, by) in tally {
            call.arg(*counter).arg(*by);
        }
        for VerdictGroup { verdict, lane, kind, ids, values } in groups {
            // Most schedules delay all jobs of a lane by the same time: then one value is sent for all.
            let alike = values.iter().all(|value| *value == values[0]);
            let values = if alike { &values[..values.len().min(1)] } else { values };
            call.arg(*verdict).arg(*lane).arg(kind).arg(ids.len()).arg(values.len()).arg(ids).arg(values);
        }
        let (settled, lost) = self.pool.invoke(&call).await?;
        Ok(SettleOutcome { settled, lost })
    }

    async fn schedule_jobs(&self, word: &str, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>> {
        check_ids(jobs.iter().map(|job| &job.id))?;
        let mut answers = Vec::with_capacity(jobs.len());
        for jobs in jobs.chunks(SCHEDULE_CHUNK) {
            // The script gets the first of equal ids; the others copy its answer below.
            let mut first: HashMap<&str, usize> = HashMap::with_capacity(jobs.len());
            let asked = jobs.iter().enumerate().filter(|(at, job)| *first.entry(&job.id).or_insert(*at) == *at);
            let lanes = words::group_by_lane(asked.map(|(at, job)| (at, &job.lane)));
            let mut call = Call::new(&SCHEDULE, &self.keys.prefix);
            call.arg(word);
            for (lane, members) in &lanes {
                call.arg(&*lane.name).arg(words::lane_text(lane)).arg(members.len());
                for &at in members {
                    call.arg(&jobs[at].id);
                }
                for &at in members {
                    call.arg(DueArgument(jobs[at].due));
                }
            }
            let letters: String = self.pool.invoke(&call).await?;
            let mut of_chunk = vec![ScheduleOutcome::Known; jobs.len()];
            for (at, letter) in words::with_positions(&lanes, &letters) {
                of_chunk[at] = parse_scheduled(letter);
            }
            for (at, job) in jobs.iter().enumerate() {
                let asked = first.get(&*job.id).copied().unwrap_or(at);
                if asked != at && of_chunk[asked] != ScheduleOutcome::Scheduled {
                    of_chunk[at] = of_chunk[asked];
                }
            }
            answers.extend(of_chunk);
        }
        Ok(answers)
    }
}

fn parse_scheduled(letter: u8) -> ScheduleOutcome {
    match letter {
        b's' => ScheduleOutcome::Scheduled,
        b'l' => ScheduleOutcome::Leased,
        b'd' => ScheduleOutcome::Dead,
        _ => ScheduleOutcome::Known,
    }
}

struct VerdictGroup<'a> {
    verdict: &'static str,
    lane: &'a str,
    kind: Argument<'a>,
    ids: Vec<&'a str>,
    /// Due time or reason of each id; empty if the verdict needs none.
    values: Vec<Argument<'a>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Argument<'a> {
    Nothing,
    Number(Millis),
    Due(Due),
    Lane(&'a Lane),
    Text(&'a str),
}

impl ToRedisArgs for Argument<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        match self {
            Self::Nothing => out.write_arg(b""),
            Self::Number(ms) => ms.write_redis_args(out),
            Self::Due(due) => DueArgument(*due).write_redis_args(out),
            Self::Lane(lane) => words::lane_text(lane).write_redis_args(out),
            Self::Text(text) => out.write_arg(text.as_bytes()),
        }
    }
}

/// Adds an id to the group with the same verdict and lane. A batch has a handful of groups.
fn add_to_group<'a>(
    groups: &mut Vec<VerdictGroup<'a>>,
    id: &'a str,
    (verdict, lane, kind): (&'static str, &'a str, Argument<'a>),
    value: Option<Argument<'a>>,
) {
    let is_alike = |group: &VerdictGroup<'a>| (group.verdict, group.lane, group.kind) == (verdict, lane, kind);
    let at = groups.iter().position(is_alike).unwrap_or_else(|| {
        groups.push(VerdictGroup { verdict, lane, kind, ids: Vec::new(), values: Vec::new() });
        groups.len() - 1
    });
    groups[at].ids.push(id);
    groups[at].values.extend(value);
}

fn parse_claim(kind: &str, now: Millis, wait: Millis, text: &[u8], token: &str) -> Result<Claim> {
    if kind != "batch" {
        let why = String::from_utf8_lossy(text).into_owned();
        return Ok(Claim::Empty { wait: clock::span(wait), paused: (!why.is_empty()).then_some(why) });
    }
    let unknown = || QueueError::Refused("Redis gave an answer of unknown format to a claim".to_owned());
    parse_batch(text, token, now).map(Claim::Batch).ok_or_else(unknown)
}

/// Parses a line "fence claimed_at", followed by " over" for expired leases. Then comes a line per run of jobs: "lane kind
/// deliveries failures id due id due …". `None` if a member is not an id.
fn parse_batch(record: &[u8], token: &str, now: Millis) -> Option<Batch> {
    let mut lines = std::str::from_utf8(record).ok()?.lines();
    let mut head = lines.next()?.split(' ');
    let (deadline, claimed_at): (Millis, Millis) = (head.next()?.parse().ok()?, head.next()?.parse().ok()?);
    let is_over = head.next().is_some();
    let mut jobs = Vec::with_capacity(128);
    for line in lines {
        let mut fields = line.split(' ');
        let lane = words::parse_lane(fields.next()?, fields.next()?)?;
        let (deliveries, failures) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        while let Some(id) = fields.next() {
            check_id(id).ok()?;
            let due = fields.next()?;
            // A score written by hand may have a fraction.
            let due = due.parse::<Millis>().or_else(|_| due.parse::<f64>().map(|due| due as Millis)).ok()?;
            let job = Job { id: id.to_owned(), lane: lane.name.clone(), due, deliveries, failures, order: lane.order };
            jobs.push((rank(&lane, due, claimed_at), job));
        }
    }
    if !is_over {
        // Each run is in order, but there may be several.
        jobs.sort_by(|((a, of_a), _), ((b, of_b), _)| a.cmp(b).then_with(|| of_b.total_cmp(of_a)));
    }
    Some(Batch {
        fence: Fence { deadline, token: token.to_owned() },
        now: QueueTime::starting_at(now),
        claimed_at,
        jobs: jobs.into_iter().map(|(_, job)| job).collect(),
    })
}

fn check_server(info: &redis::InfoDict) -> Result<Vec<String>> {
    let version: String = info.get("redis_version").unwrap_or_default();
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < 7) {
        return Err(QueueError::Refused(format!("Redis 7 or newer is needed, this is {version:?}")));
    }
    let policy: String = info.get("maxmemory_policy").unwrap_or_default();
    if policy != "noeviction" {
        return Err(QueueError::Refused(format!(
            "Redis has maxmemory-policy {policy:?} and would evict scheduled ids; set it to noeviction"
        )));
    }
    let aof = info.get::<String>("aof_enabled").is_some_and(|on| on == "1");
    let mut findings =
        vec![format!("Redis {version}, maxmemory-policy noeviction, AOF {}", if aof { "on" } else { "off" })];
    if !aof {
        findings.push(
            "Redis runs without an AOF: a restart loses all ids scheduled since its last snapshot (set appendonly yes)"
                .to_owned(),
        );
    }
    Ok(findings)
}

/// Errors of a server that only reads: its disk is full, or its replicas are gone.
const WRITE_REFUSAL_CODES: [&str; 2] = ["MISCONF", "NOREPLICAS"];

impl RedisQueue {
    async fn register(&self) -> Result<()> {
        self.pool.invoke(Call::new(&REGISTER, keys::NAMESPACES).arg(&self.namespace)).await
    }
}

#[async_trait]
impl Jobs for RedisQueue {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    async fn check(&self) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        for info in self.pool.info().await? {
            for finding in check_server(&info)? {
                if !findings.contains(&finding) {
                    findings.push(finding); // the masters of a cluster are mostly equal
                }
            }
        }
        self.register().await?;
        Ok(findings)
    }

    async fn check_writes(&self) -> std::result::Result<(), RefusedWrites> {
        match self.register().await {
            Err(QueueError::Unavailable(why)) if WRITE_REFUSAL_CODES.iter().any(|code| why.contains(code)) => {
                Err(RefusedWrites::Redis(why))
            }
            _ => Ok(()), // a missing response is visible elsewhere, as missing figures
        }
    }

    async fn schedule(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>> {
        self.schedule_jobs("", jobs).await
    }

    async fn promote(&self, jobs: &[NewJob]) -> Result<Vec<PromoteOutcome>> {
        promote::promote(self, jobs).await
    }

    async fn postpone(&self, jobs: &[NewJob]) -> Result<Vec<PostponeOutcome>> {
        promote::postpone(self, jobs).await
    }

    async fn revive(&self, jobs: &[NewJob]) -> Result<Vec<ScheduleOutcome>> {
        self.schedule_jobs("dead", jobs).await
    }

    async fn forget(&self, ids: &[String]) -> Result<()> {
        repair::forget(self, ids).await
    }

    async fn adopt(&self, token: &str, ids: &[String], lease: Duration) -> Result<Adoption> {
        repair::adopt(self, token, ids, lease).await
    }

    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claim> {
        let asked = Stopwatch::start();
        let mut call = Call::new(&CLAIM, &self.keys.prefix);
        call.arg(request.token)
            .arg(request.limit.clamp(1, CLAIM_LIMIT))
            .arg(clock::millis(request.linger))
            .arg(request.lookahead)
            .arg(clock::millis(request.lease).max(1))
            .arg(request.early);
        let (kind, now, wait, text): (String, Millis, Millis, Vec<u8>) = self.pool.invoke(&call).await?;
        let answer = parse_claim(&kind, now, wait, &text, request.token);
        if answer.is_err() && aside::refuse_invalid_members(self, request.token, &text).await? > 0 {
            // The same token returns the rest of the batch, or another one.
            let (kind, now, wait, text): (String, Millis, Millis, Vec<u8>) = self.pool.invoke(&call).await?;
            return parse_claim(&kind, now, wait, &text, request.token).map(|claim| claim.with_request_start(&asked));
        }
        answer.map(|claim| claim.with_request_start(&asked))
    }

    async fn settle(&self, fence: &Fence, verdicts: &[(Job, Verdict)], tally: &[(&str, i64)]) -> Result<SettleOutcome> {
        let mut groups = Vec::new();
        for (job, verdict) in verdicts {
            let back = |word| (word, &*job.lane, Argument::Nothing);
            let later = |after: &Millis| Some(Argument::Number(*after.max(&0)));
            let (like, value) = match verdict {
                Verdict::Reschedule { lane, due } => {
                    (("reschedule", &*lane.name, Argument::Lane(lane)), Some(Argument::Due(*due)))
                }
                Verdict::Finish => (("finish", "", Argument::Nothing), None),
                Verdict::Retry { after, counted: true } => (back("retry+"), later(after)),
                Verdict::Retry { after, counted: false } => (back("retry"), later(after)),
                Verdict::Suspect { after } => (back("suspect"), later(after)),
                Verdict::MarkDead { reason } => (("bury", "", Argument::Nothing), Some(Argument::Text(reason))),
            };
            add_to_group(&mut groups, &job.id, like, value);
        }
        self.settle_groups(fence, &groups, tally).await
    }

    async fn release(&self, fence: &Fence, jobs: &[Job]) -> Result<SettleOutcome> {
        let mut groups = Vec::new();
        for job in jobs {
            add_to_group(
                &mut groups,
                &job.id,
                ("release", &job.lane, Argument::Nothing),
                Some(Argument::Number(job.due)),
            );
        }
        self.settle_groups(fence, &groups, &[]).await
    }

    async fn mark_trial(&self, fence: &Fence) -> Result<bool> {
        let held: u64 =
            self.pool.invoke(Call::new(&TRIAL, &self.keys.prefix).arg(fence.deadline).arg(&fence.token)).await?;
        Ok(held > 0)
    }
}

#[async_trait]
impl Inbox for RedisQueue {
    async fn read_incoming(&self, drainer: &str, limit: usize) -> Result<Vec<Incoming>> {
        let mut call = Call::new(&INCOMING, &self.keys.prefix);
        call.arg(drainer).arg(limit).arg(DRAINER_HOLD_MS);
        let members: Vec<(Vec<u8>, f64)> = self.pool.invoke(&call).await?;
        Ok(members
            .into_iter()
            // A member that is not UTF-8 stays recognizable: it is rejected by its form, then found by its bytes.
            .map(|(member, score)| Incoming { member: escape(&member), created_at: score as Millis })
            .collect())
    }

    async fn accept_incoming(&self, members: &[String]) -> Result<()> {
        if members.is_empty() {
            return Ok(());
        }
        let mut steps = Steps::allow_oom(&self.keys.prefix);
        for members in members.chunks(SCHEDULE_CHUNK) {
            steps.add(redis::cmd("ZREM").arg(self.keys.incoming()).arg(members));
        }
        self.pool.run::<redis::Value>(&steps).await.map(drop)
    }

    async fn refuse_incoming(&self, members: &[(String, String)]) -> Result<()> {
        let members: Vec<_> = members.iter().map(|(member, reason)| (unescape(member), &**reason)).collect();
        aside::move_to_refused(self, ("", ""), &members).await
    }

    async fn add_incoming(&self, members: &[Incoming]) -> Result<()> {
        let mut steps = Steps::deny_oom(&self.keys.prefix);
        for members in members.chunks(SCHEDULE_CHUNK) {
            let mut put = redis::cmd("ZADD");
            put.arg(self.keys.incoming());
            for incoming in members {
                put.arg(incoming.created_at).arg(&incoming.member);
            }
            steps.add(&put);
        }
        self.pool.run::<redis::Value>(&steps).await.map(drop)
    }
}

#[async_trait]
impl Workers for RedisQueue {
    async fn heartbeat(
        &self,
        worker: &str,
        fields: &[(&str, String)],
        counters: &[(&str, i64)],
        lateness: &Lateness,
    ) -> Result<()> {
        let mut call = Call::new(&BEAT, &self.keys.prefix);
        call.arg(worker).arg(WORKER_EXPIRY_MS).arg(fields.len());
        for (field, value) in fields {
            call.arg(*field).arg(value);
        }
        call.arg(counters.len());
        for (counter, by) in counters {
            call.arg(*counter).arg(*by);
        }
        for (upper, ids) in lateness.bounds() {
            call.arg(upper).arg(ids);
        }
        self.pool.invoke(&call).await
    }

    async fn deregister(&self, worker: &str) -> Result<()> {
        let mut steps = Steps::allow_oom(&self.keys.prefix);
        steps.add(&Cmd::del(self.keys.worker(worker))).add(&Cmd::zrem(self.keys.workers(), worker));
        self.pool.run::<redis::Value>(&steps).await.map(drop)
    }
}

/// Text for any bytes, reversible: UTF-8 as it is, other bytes as hexadecimal digits after a NUL, which no valid id holds.
fn escape(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with('\0') => text.to_owned(),
        _ => std::iter::once('\0')
            .chain(bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).map(char::from))
            .collect(),
    }
}

fn unescape(text: &str) -> Vec<u8> {
    match text.strip_prefix('\0') {
        None => text.as_bytes().to_vec(),
        Some(hex) => {
            (0..hex.len() / 2).filter_map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_the_way_through_text() {
        for bytes in [&b"123"[..], b"", b"\xff\xfe", b"\0abc", "t\u{fffd}".as_bytes()] {
            assert_eq!(unescape(&escape(bytes)), bytes);
        }
    }

    #[test]
    fn a_record_is_read_back() {
        let batch = parse_batch(b"2000 1000\n18m 100 0 0 10 890 11 900\n1d 10 2 1 12 950.5\n", "t", 1000).unwrap();
        assert_eq!(batch.fence, Fence { deadline: 2000, token: "t".into() });
        assert_eq!(batch.claimed_at, 1000);
        assert_eq!(
            batch.jobs[0],
            Job {
                id: "12".into(),
                lane: "1d".into(),
                due: 950,
                deliveries: 2,
                failures: 1,
                order: super::super::Order::ByLateness
            }
        );
        for spoilt in [&b"11"[..], b"\xff 900", b"1 2 900", b"\x01 900"] {
            let record = [b"2000 1000\n18m 100 0 0 ", spoilt, b"\n"].concat();
            assert!(parse_batch(&record, "t", 1000).is_none(), "{spoilt:?}");
        }
    }
}
