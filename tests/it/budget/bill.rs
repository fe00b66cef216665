//! Random calls around midnights and the ends of periods, with lost replies, against a model of X's bill: what is counted
//! is never less than what is charged, and what is granted is never above the budget. On every backend, by a clock that
//! the test sets.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use proptest::prelude::*;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Script};
use twitter_updater::base::clock::Millis;
use twitter_updater::quota::{
    Budget, ChargedReads, CountedReads, DAY_MS, EmbeddedLedger, Ledger, LedgerError, Period, Span,
};

use crate::support::memory_ledger::MemoryLedger;
use crate::support::memory_queue::ServiceClock;
use crate::support::redis::{TestRedis, namespace};

const MARGIN: Millis = 30_000;
/// The last minutes of January 2031: in the future, or keys would expire by the server's own clock.
const START: Millis = 22_311 * DAY_MS - 200_000;

/// A ledger by a clock that is set.
#[async_trait]
trait Clocked {
    async fn reserve(&self, now: Millis, call: &str, ids: &[String], budget: &Budget) -> Vec<bool>;
    async fn settle(&self, now: Millis, call: &str, charged: &ChargedReads, budget: &Budget);
    async fn counted(&self, now: Millis, per: Period) -> CountedReads;
}

#[async_trait]
impl Clocked for EmbeddedLedger {
    async fn reserve(&self, now: Millis, call: &str, ids: &[String], budget: &Budget) -> Vec<bool> {
        self.reserve_at(now, call, ids, budget).await.unwrap()
    }

    async fn settle(&self, now: Millis, call: &str, charged: &ChargedReads, budget: &Budget) {
        self.charge_at(now, call, charged, budget).await.unwrap();
    }

    async fn counted(&self, now: Millis, per: Period) -> CountedReads {
        self.counted_at(now, per).await.unwrap()
    }
}

struct InMemory {
    clock: Arc<ServiceClock>,
    ledger: MemoryLedger,
}

impl InMemory {
    /// A moment passes between the two: far less than there is to a margin.
    fn set(&self, now: Millis) {
        self.clock.step(now - self.clock.now());
    }
}

#[async_trait]
impl Clocked for InMemory {
    async fn reserve(&self, now: Millis, call: &str, ids: &[String], budget: &Budget) -> Vec<bool> {
        self.set(now);
        self.ledger.reserve(call, ids, budget).await.unwrap()
    }

    async fn settle(&self, now: Millis, call: &str, charged: &ChargedReads, budget: &Budget) {
        self.set(now);
        self.ledger.charge(call, charged, budget).await.unwrap();
    }

    async fn counted(&self, now: Millis, per: Period) -> CountedReads {
        self.set(now);
        let counted: Result<CountedReads, LedgerError> = self.ledger.counted_reads(per).await;
        CountedReads { now, ..counted.unwrap() }
    }
}

/// The scripts themselves, by a clock that lies in a key.
struct OnRedis {
    redis: MultiplexedConnection,
    prefix: String,
}

/// A script as the ledger builds it.
fn script(own: &str) -> Script {
    let common = include_str!("../../../crates/engine/src/base/backend/common.lua");
    let set = common.replace("redis.call('TIME')", "{ 0, redis.call('GET', key('clock')) * 1000 }");
    assert_ne!(common, set, "the clock is read elsewhere now");
    Script::new(&format!("{set}\n{}\n{own}", include_str!("../../../crates/engine/src/quota/lua/reads.lua")))
}

impl OnRedis {
    async fn run<T: redis::FromRedisValue>(&self, now: Millis, own: &str, args: Vec<String>) -> T {
        let mut redis = self.redis.clone();
        let set: RedisResult<()> =
            redis::cmd("SET").arg(format!("{}clock", self.prefix)).arg(now).query_async(&mut redis).await;
        set.unwrap();
        let script = script(own);
        let mut call = script.key(&self.prefix);
        for arg in args {
            call.arg(arg);
        }
        call.invoke_async(&mut redis).await.unwrap()
    }
}

fn length(per: Period) -> [String; 2] {
    match per {
        Period::Month { from_day } => ["0".to_owned(), from_day.to_string()],
        Period::Every(length) => [length.to_string(), "0".to_owned()],
    }
}

#[async_trait]
impl Clocked for OnRedis {
    async fn reserve(&self, now: Millis, call: &str, ids: &[String], budget: &Budget) -> Vec<bool> {
        let [per, from_day] = length(budget.per);
        let head = [call.to_owned(), budget.reads.to_string(), per, from_day, budget.margin.to_string()];
        let own = include_str!("../../../crates/engine/src/quota/lua/reserve.lua");
        let granted: String = self.run(now, own, [&head[..], ids].concat()).await;
        granted.bytes().map(|granted| granted == b'1').collect()
    }

    async fn settle(&self, now: Millis, call: &str, charged: &ChargedReads, budget: &Budget) {
        let [per, from_day] = length(budget.per);
        let count = charged.unread.len().to_string();
        let mut args = vec![call.to_owned(), per, from_day, budget.margin.to_string(), count];
        args.extend(charged.unread.iter().cloned());
        args.extend(charged.edited.iter().flat_map(|(asked, read)| [asked.clone(), read.clone()]));
        let own = include_str!("../../../crates/engine/src/quota/lua/charge_reads.lua");
        self.run::<redis::Value>(now, own, args).await;
    }

    async fn counted(&self, now: Millis, per: Period) -> CountedReads {
        let own = include_str!("../../../crates/engine/src/quota/lua/counted.lua");
        let [per, _] = length(per);
        let told: (Millis, std::collections::BTreeMap<i64, u64>, String, u64) = self.run(now, own, vec![per]).await;
        let (now, by_day, number, reads) = told;
        CountedReads { now, by_day, part: number.parse().ok().map(|number| (number, reads)) }
    }
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// It is answered; what is missing, or comes as a later version, is by lot.
    Answered { missing: u16, edited: u16 },
    /// It is refused.
    Refused,
    /// Its answer is lost: charged or not.
    Lost { charged: bool },
}

#[derive(Debug, Clone)]
enum Step {
    Wait(Millis),
    /// A call for some of sixteen ids. The provider's clock is off by so much when it counts.
    Call {
        ids: u16,
        reply_lost: bool,
        off: Millis,
        fate: Fate,
    },
    /// The oldest call under way has its answer told to the ledger: never, once, or twice.
    Settle {
        times: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        4 => (any::<u16>(), any::<u16>()).prop_map(|(missing, edited)| Fate::Answered { missing, edited: edited & 0x1111 }),
        1 => Just(Fate::Refused),
        1 => any::<bool>().prop_map(|charged| Fate::Lost { charged }),
    ];
    prop_oneof![
        2 => prop_oneof![0..5_000i64, 10_000..60_000i64, Just(DAY_MS / 3), Just(DAY_MS - 20_000)].prop_map(Step::Wait),
        4 => (any::<u16>(), any::<bool>(), 1_000 - MARGIN..MARGIN - 1_000, fate)
            .prop_map(|(ids, reply_lost, off, fate)| Step::Call { ids, reply_lost, off, fate }),
        3 => (0..3u8).prop_map(|times| Step::Settle { times }),
    ]
}

fn periods() -> impl Strategy<Value = Period> {
    prop_oneof![
        (1..=2u32).prop_map(|from_day| Period::Month { from_day }),
        Just(Period::Every(DAY_MS)),
        Just(Period::Every(2 * DAY_MS)),
        Just(Period::Every(45_000)),
        Just(Period::Every(7 * 3_600_000)),
    ]
}

fn of(ids: u16) -> Vec<String> {
    (0..16).filter(|bit| ids & (1 << bit) != 0).map(|id| format!("id{id}")).collect()
}

/// Plays the steps; everything that has to hold is looked at after each.
async fn play(ledger: &dyn Clocked, budget: &Budget, steps: &[Step]) {
    let mut now = START;
    // Each post and day that is on the bill, with the ids of posts that were edited.
    let mut bill: BTreeSet<(String, Millis)> = BTreeSet::new();
    let mut under_way = std::collections::VecDeque::new();
    let mut versions = 0;
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Wait(wait) => now += wait,
            Step::Call { ids, reply_lost, off, fate } => {
                let (call, ids) = (format!("call{number}"), of(*ids));
                let mut granted = ledger.reserve(now, &call, &ids, budget).await;
                if *reply_lost {
                    let again = ledger.reserve(now, &call, &ids, budget).await;
                    assert_eq!(granted, again, "the same call again: the same answer");
                    granted = again;
                }
                let asked: Vec<String> =
                    ids.into_iter().zip(granted).filter(|(_, yes)| *yes).map(|(id, _)| id).collect();
                let day = (now + off).div_euclid(DAY_MS);
                let mut charged = ChargedReads::default();
                for (at, id) in asked.iter().enumerate() {
                    match fate {
                        Fate::Answered { missing, .. } if missing & (1 << at) != 0 => charged.unread.push(id.clone()),
                        Fate::Answered { edited, .. } if edited & (1 << at) != 0 => {
                            versions += usize::from(number % 2 == 0);
                            let version = format!("{id}v{versions}");
                            bill.insert((version.clone(), day));
                            charged.edited.push((id.clone(), version));
                        }
                        Fate::Answered { .. } | Fate::Lost { charged: true } => drop(bill.insert((id.clone(), day))),
                        Fate::Refused => charged.unread.push(id.clone()),
                        Fate::Lost { charged: false } => {}
                    }
                }
                if !charged.edited.is_empty() {
                    // Until that is told, nobody can know it.
                    ledger.settle(now, &call, &charged, budget).await;
                }
                under_way.push_back((call, charged));
            }
            Step::Settle { times } => {
                if let Some((call, charged)) = under_way.pop_front() {
                    for _ in 0..*times {
                        ledger.settle(now, &call, &charged, budget).await;
                    }
                }
            }
        }
        let counted = ledger.counted(now, budget.per).await;
        for (day, charged) in bill.iter().fold(std::collections::BTreeMap::new(), |mut by_day, (_, day)| {
            *by_day.entry(*day).or_insert(0u64) += 1;
            by_day
        }) {
            let known = counted.by_day.get(&day).copied().unwrap_or(0);
            assert!(known >= charged, "{charged} were charged on day {day}, and {known} counted, after {step:?}");
        }
        for (_, span) in budget.days(now) {
            // Edits that nobody could know of before are counted beyond it: for both days, around midnight.
            let beyond = 2 * bill.iter().filter(|(id, _)| id.contains('v')).count() as u64;
            assert!(
                counted.reads_in(span) <= budget.reads + beyond,
                "{:?} of {} in {span:?}",
                counted.reads_in(span),
                budget.reads
            );
            let charged =
                bill.iter().filter(|(_, day)| matches!(span, Span::Days(from, to) if (from..to).contains(day)));
            assert!(charged.count() as u64 <= counted.reads_in(span) || matches!(span, Span::Part(..)));
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn budget(reads: u64, per: Period) -> Budget {
    Budget { reads, per, margin: MARGIN, price_per_read: 0.005 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn never_less_than_the_bill_in_memory(
        reads in 1..60u64, per in periods(), steps in prop::collection::vec(step(), 1..60),
    ) {
        runtime().block_on(async {
            let clock = ServiceClock::starting_at(START);
            let ledger = InMemory { ledger: MemoryLedger::new(clock.clone()), clock };
            play(&ledger, &budget(reads, per), &steps).await;
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn never_less_than_the_bill_on_embedded(
        reads in 1..60u64, per in periods(), steps in prop::collection::vec(step(), 1..60),
    ) {
        runtime().block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let ledger = EmbeddedLedger::open(&folder.path().join("queue.db"), "x", Duration::from_secs(20)).await;
            play(&ledger.unwrap(), &budget(reads, per), &steps).await;
        });
    }

    #[test]
    fn never_less_than_the_bill_on_redis(
        reads in 1..60u64, per in periods(), steps in prop::collection::vec(step(), 1..60),
    ) {
        runtime().block_on(async {
            let redis = TestRedis::shared().connection().await;
            let ledger = OnRedis { redis, prefix: format!("{{{}}}:", namespace()) };
            play(&ledger, &budget(reads, per), &steps).await;
        });
    }
}

/// The calendar of the scripts is that of the ledger in the file.
#[tokio::test]
async fn scripts_know_the_calendar() {
    let redis = TestRedis::shared().connection().await;
    let ledger = OnRedis { redis, prefix: format!("{{{}}}:", namespace()) };
    let own = "local found = {}
        for i = 1, #ARGV, 2 do
          local span = span_of(tonumber(ARGV[i]), 0, 0, tonumber(ARGV[i + 1]))
          found[#found + 1] = span.from
          found[#found + 1] = span.to
        end
        return found";
    // Every day from 2000 to 2135, and with it the year 2100, which has no leap day.
    let asked: Vec<(i64, u32)> = (10_957..60_000).map(|day| (day, (day % 28 + 1) as u32)).collect();
    for some in asked.chunks(3_000) {
        let args = some.iter().flat_map(|(day, from)| [day.to_string(), from.to_string()]).collect();
        let found: Vec<i64> = ledger.run(START, own, args).await;
        for ((day, from_day), found) in some.iter().zip(found.chunks(2)) {
            let span = (Period::Month { from_day: *from_day }).span(*day, 0);
            assert_eq!(span, Span::Days(found[0], found[1]), "{day} from {from_day}");
        }
    }
}
