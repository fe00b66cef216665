//! Processor time: of each process as the kernel books it, and of one by part as `perf` samples it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The kernel books in hundredths of a second, whatever its own tick is (USER_HZ).
const TICKS: f64 = 100.0;

/// Seconds of processor time.
#[derive(Debug, Clone, Copy)]
pub struct Cpu {
    pub updater: f64,
    pub simulator: f64,
    pub redis: Option<f64>,
    pub postgres: Option<f64>,
    /// What all cores had to give.
    pub cores: f64,
    /// What was spent of it on anything, these processes or not; between two moments, the share.
    pub busy: f64,
}

/// The processes that serve an updater.
#[derive(Debug, Clone, Copy, Default)]
pub struct Served {
    pub redis: Option<u32>,
    pub postgres: Option<u32>,
}

/// Bytes and flushes that the disk gets.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// Bytes that the updater wrote.
    pub bytes: f64,
    /// Flushes of all disks of the machine, whoever asked.
    pub flushes: f64,
}

impl Written {
    pub fn now(updater: u32) -> Self {
        let io = std::fs::read_to_string(format!("/proc/{updater}/io")).unwrap();
        let bytes = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse().unwrap();
        // The 19th number of a disk: <https://docs.kernel.org/admin-guide/iostats.html>.
        let disks = std::fs::read_to_string("/proc/diskstats").unwrap();
        let flushes = disks.lines().filter_map(|disk| disk.split_whitespace().nth(18)?.parse::<f64>().ok()).sum();
        Self { bytes, flushes }
    }

    pub fn since(&self, before: &Self) -> Self {
        Self { bytes: self.bytes - before.bytes, flushes: self.flushes - before.flushes }
    }
}

impl Cpu {
    /// Those of the machine now; an updater that does not run yet has spent nothing.
    pub fn now(updater: Option<u32>, simulator: u32, served: Served) -> Self {
        let (busy, cores) = machine();
        Self {
            updater: updater.map_or(0.0, |pid| of(pid).unwrap().1),
            simulator: of(simulator).unwrap().1,
            redis: served.redis.map(|pid| of(pid).unwrap().1),
            postgres: served.postgres.map(seconds),
            cores,
            busy,
        }
    }

    pub fn since(&self, before: &Self) -> Self {
        let both = |now: Option<f64>, before: Option<f64>| Some(now? - before?);
        let cores = self.cores - before.cores;
        Self {
            updater: self.updater - before.updater,
            simulator: self.simulator - before.simulator,
            redis: both(self.redis, before.redis),
            postgres: both(self.postgres, before.postgres),
            cores,
            busy: (self.busy - before.busy) / cores,
        }
    }

    pub fn sum(&self) -> f64 {
        self.updater + self.simulator + self.redis.unwrap_or(0.0) + self.postgres.unwrap_or(0.0)
    }
}

/// A process's parent and its seconds, those of its children that have ended included.
fn of(pid: u32) -> Option<(u32, f64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = fields(&stat);
    Some((fields[1].parse().ok()?, ticks(&fields[11..15])))
}

/// The fields after the name in "pid (name) state parent …"; the name may hold anything.
fn fields(stat: &str) -> Vec<&str> {
    stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect()
}

fn ticks(fields: &[&str]) -> f64 {
    fields.iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS
}

/// The seconds of this process's children that have ended.
pub fn ended_children() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    ticks(&fields(&stat)[13..15])
}

/// The seconds of a process and of its children.
fn seconds(parent: u32) -> f64 {
    family(parent).filter_map(|pid| Some(of(pid)?.1)).sum()
}

/// A process and its children.
pub fn family(parent: u32) -> impl Iterator<Item = u32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(move |pid| *pid == parent || of(*pid).is_some_and(|(its_parent, _)| its_parent == parent))
}

/// The seconds of all cores that were spent on anything, and all that there were.
fn machine() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let fields = stat.lines().next().unwrap().split_whitespace().skip(1).take(8);
    let ticks: Vec<f64> = fields.map(|ticks| ticks.parse().unwrap()).collect();
    let all: f64 = ticks.iter().sum();
    ((all - ticks[3] - ticks[4]) / TICKS, all / TICKS) // idle, and waiting for the disk
}

/// The parts of a process, and words that stand in the names of their functions.
pub type Words = &'static [(&'static str, &'static [&'static str])];

pub const UPDATER: Words = &[
    ("reading the answer (JSON)", &["twitter_v1::answer", "twitter_v1::object", "serde_json", "read_answer"]),
    ("HTTP", &["reqwest", "hyper", "providers::"]),
    ("store", &["sqlx", "store::", "sqlite"]),
    ("queue and quota", &["redis", "queue::", "credential"]),
    ("log", &["tracing", "log::"]),
    ("judging, the loop", &["refresh::", "worker::"]),
];

pub const POSTGRES: Words = &[
    ("packing objects (LZ4)", &["LZ4_"]),
    ("log and commit", &["XLog", "CommitTransaction", "xlog"]),
    ("indexes", &["_bt_", "btinsert", "btget", "index_"]),
    ("rows", &["heap_", "heapam"]),
    ("receiving values, answering", &["exec_bind_message", "secure_read", "secure_write", "pq_"]),
    ("unnesting and sorting them", &["array_unnest", "tuplestore", "tuplesort", "ExecSort"]),
    ("the statement, otherwise", &["Executor", "Portal", "exec_", "Exec"]),
];

/// The shares of a process's time by part, the largest first.
pub struct Parts(pub Vec<(&'static str, f64)>);

impl Parts {
    /// Samples it; `None` where there is no `perf`.
    pub fn of(pids: &[u32], words: Words, span: Duration, folder: &Path) -> Option<Self> {
        let data = folder.join("perf.data");
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let (pids, data, span) = (pids.join(","), data.to_str()?, span.as_secs().to_string());
        let recorded = Command::new("perf")
            .args(["record", "-q", "-F", "499", "--call-graph", "dwarf,16384", "-p", &pids, "-o", data, "--"])
            .args(["sleep", &span])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .ok()?;
        let script =
            Command::new("perf").args(["script", "--no-inline", "-F", "comm,ip,sym", "-i", data]).output().ok()?;
        (recorded.success() && script.status.success()).then(|| fold(&String::from_utf8_lossy(&script.stdout), words))
    }
}

/// Each sample is a paragraph: the thread's name, then its frames, the innermost first. It belongs to the first part
/// that one of them names. SQLite has threads of its own.
fn fold(script: &str, words: Words) -> Parts {
    let mut samples = BTreeMap::<&str, f64>::new();
    let mut all = 0.0;
    for stack in script.split("\n\n").filter(|stack| !stack.trim().is_empty()) {
        let named = |line: &str| words.iter().find(|(_, words)| words.iter().any(|word| line.contains(word)));
        let part = match stack.trim_start() {
            thread if thread.starts_with("store-") => "store",
            thread if thread.starts_with("sqlx-sqlite") => "queue and quota",
            _ => stack.lines().skip(1).find_map(named).map_or("the rest", |(part, _)| part),
        };
        *samples.entry(part).or_default() += 1.0;
        all += 1.0;
    }
    let mut parts: Vec<_> = samples.into_iter().map(|(part, samples)| (part, samples / all)).collect();
    parts.sort_by(|one, other| other.1.total_cmp(&one.1));
    Parts(parts)
}
