//! Errors are decisions: every answer in the table of docs/internals/answers.md, given by the simulated API,
//! with what became of the batch, of the credential and of the next call. The table is read, so a row
//! that says otherwise fails here, and so does an answer that only one of the two knows.

mod answers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use twitter_updater::engine::queue::{Job, Place, Verdict};
use twitter_updater::engine::worker::{Handler, Outlook};
use twitter_updater::model::post::ItemState;
use twitter_updater::quota::{AcquireOutcome, CredentialStatus};
use twitter_updater::simulator::{Endpoint, Fault, Rule, SimulatorOptions};
use twitter_updater::store::{Lifecycle, PostgresStore};

use self::answers::{APP, Answer, Given, TOKENS, answers, code, page};
use crate::support::postgres;
use crate::support::rig::{Backends, DAY, Rig, Round, Setup};

const ANSWERS: &str = include_str!("../../../docs/internals/answers.md");

/// A row of the table, in its words.
#[derive(Debug, Clone, Copy)]
struct Decision {
    batch: &'static str,
    credential: &'static str,
    next: &'static str,
}

/// The table of the document: each answer with its row.
fn documented() -> BTreeMap<&'static str, Decision> {
    let section = ANSWERS.split_once("## Result of each answer").expect("the section").1;
    let rows = section.lines().skip_while(|line| !line.starts_with("|--")).skip(1);
    let mut documented = BTreeMap::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [answers, batch, credential, next] = cells[..] else { panic!("{row}") };
        for answer in answers.split('`').skip(1).step_by(2) {
            let twice = documented.insert(answer, Decision { batch, credential, next });
            assert!(twice.is_none(), "{answer} is in two rows");
        }
    }
    documented
}

/// What was done, as far as it can be seen from outside.
struct Seen<'a> {
    rig: &'a Rig,
    ids: &'a [String],
    dues: BTreeMap<String, i64>,
    round: Round,
    says: &'a str,
}

impl Seen<'_> {
    /// No token, no key, no id.
    fn silent(&self, text: &str) {
        assert!(!text.contains("canary"), "a secret is told: {text}");
        assert!(!self.ids.iter().any(|id| text.contains(id)), "an id is told: {text}");
    }

    fn reason(&self, text: &str) {
        self.silent(text);
        assert!(text.contains(self.says), "{text:?} does not say {:?}", self.says);
    }

    fn sizes(&self) -> Vec<usize> {
        self.rig.journal.looked_up().iter().map(Vec::len).collect()
    }

    fn rescheduled(&self) -> usize {
        let verdicts = &self.round.handled.verdicts;
        verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Reschedule { .. })).count()
    }

    async fn batch(&self, decision: &str) {
        let handled = &self.round.handled;
        let counts = self.rig.store.counts(&self.rig.handler.items.namespace).await.unwrap();
        let stored = (counts.live, counts.unavailable, counts.ended + counts.dead);
        let all = self.ids.len();
        let told = (self.rescheduled(), handled.verdicts.len(), handled.release.len());
        match decision {
            "saved" => assert_eq!((stored, told), ((all as u64, 0, 0), (all, all, 0))),
            "saved as missing" => {
                assert_eq!((stored, told), ((all as u64, 0, 0), (all, all, 0)));
                for id in self.ids {
                    assert_eq!(self.rig.stored(id).await.misses, 1, "a miss, which is not believed yet");
                }
            }
            "halved" => {
                assert_eq!((stored, told), ((all as u64, 0, 0), (all, all, 0)));
                assert_eq!(self.sizes(), [4, 2, 2], "one call more");
            }
            "released" => {
                assert_eq!((stored, told), ((0, 0, 0), (0, 0, all)), "nothing is saved, nobody is blamed");
                assert_eq!(self.rig.dues(self.ids).await.as_ref(), Some(&self.dues), "as they were");
            }
            "bisected" => {
                assert_eq!((stored, told), ((all as u64 - 1, 0, 0), (all - 1, all, 0)));
                let blamed: Vec<_> = handled
                    .verdicts
                    .iter()
                    .filter(|(_, verdict)| !matches!(verdict, Verdict::Reschedule { .. }))
                    .collect();
                let [(Job { id, .. }, Verdict::Retry { counted: true, .. })] = &blamed[..] else {
                    panic!("{blamed:?}")
                };
                assert_eq!(id, self.bad());
                let mut sizes = self.sizes();
                sizes.sort_unstable();
                assert_eq!(sizes, [1, 1, 2, 2, 4]);
            }
            other => panic!("the table says {other:?} of the batch"),
        }
    }

    /// The one that spoils its requests, where one does.
    fn bad(&self) -> &String {
        &self.ids[1]
    }

    async fn credential(&self, decision: &str) {
        let accounts = self.rig.credentials.statuses(self.rig.handler.endpoint()).await.unwrap();
        let elsewhere = self.rig.credentials.statuses("another/endpoint").await.unwrap();
        if decision == "usable" {
            assert!(accounts.iter().all(|account| account.parked_for_ms == 0), "{accounts:?}");
            return;
        }
        let of = |accounts: &[CredentialStatus]| -> Vec<(String, i64)> {
            let parked = accounts.iter().filter(|account| account.parked_for_ms > 0);
            parked.map(|account| (account.name.clone(), account.parked_for_ms)).collect()
        };
        let (parked, place) = decision.rsplit_once(", ").expect("for how long, and where");
        // What was asked first, and it alone.
        let [(name, parked_for_ms)] = &of(&accounts)[..] else { panic!("{accounts:?}") };
        assert_eq!(name, &accounts[0].name);
        let everywhere = of(&elsewhere).iter().any(|(elsewhere, _)| elsewhere == name);
        assert_eq!(everywhere, place == "everywhere", "{decision}: {elsewhere:?}");
        // Wide below, for a machine that is busy meanwhile; a reset is told in whole seconds.
        let seconds = match parked {
            "parked to the reset" => 120..=301,
            "parked for Retry-After" => 60..=120,
            "parked for 60 s" => 5..=60,
            "parked for 5 s" => 0..=5,
            "parked for long" => 600..=i64::MAX,
            other => panic!("the table says {other:?} of the credential"),
        };
        assert!(seconds.contains(&(parked_for_ms / 1_000)), "{parked}: {parked_for_ms} ms");
        self.reason(accounts[0].parked_why.as_deref().expect("a reason"));
        assert_eq!(accounts[0].calls_today, 1);
    }

    /// Whatever was wrong is over.
    async fn next(&self, decision: &str) {
        let outlook = &self.round.handled.outlook;
        match decision {
            "as usual" => assert_eq!((outlook, self.sizes()), (&Outlook::Fine, vec![4])),
            "next credential, at once" => {
                assert_eq!((outlook, self.sizes()), (&Outlook::Fine, vec![4, 4]));
                let accounts = self.rig.credentials.statuses(self.rig.handler.endpoint()).await.unwrap();
                assert_eq!((accounts[0].calls_today, accounts[1].calls_today), (1, 1), "{accounts:?}");
            }
            "the same, by the corrected clock" => assert_eq!((outlook, self.sizes()), (&Outlook::Fine, vec![4, 4])),
            "the halves, at once" => {
                assert_eq!(outlook, &Outlook::Fine);
                assert!(self.sizes().len() > 2 && self.sizes()[1] == 2, "{:?}", self.sizes());
            }
            "after back-off" => {
                let Outlook::Outage(why) = outlook else { panic!("{outlook:?}") };
                self.reason(why);
                let before = self.sizes().len();
                let round = self.rig.round().await;
                assert!(round.batch.jobs.iter().all(|job| job.deliveries == 0), "an outage is nobody's fault");
                assert_eq!(round.handled.outlook, Outlook::Fine);
                assert_eq!(self.sizes()[before..], [4], "whole again");
                assert_eq!(self.rig.stored_tweets().await, 4);
            }
            "none: the process stops" => {
                let Outlook::Stop(why) = outlook else { panic!("{outlook:?}") };
                assert!(why.contains("with the credential \"of "), "whose plan it is: {why}");
                // The credential's name has its token in it, for this test's convenience.
                self.reason(&TOKENS.iter().fold(why.clone(), |why, token| why.replace(&format!("of {token}"), "")));
            }
            other => panic!("the table says {other:?} of the next call"),
        }
    }

    /// Alone again, `max_deliveries` are reached: dead, in the store too, and no other is.
    async fn buried(&self) {
        let round = self.rig.round().await;
        let [(job, Verdict::MarkDead { .. })] = &round.handled.verdicts[..] else { panic!("{:?}", round.handled) };
        assert_eq!((&job.id, job.deliveries), (self.bad(), 1));
        let dead = self.rig.stored(self.bad()).await;
        assert_eq!(dead.state, ItemState::Dead);
        self.reason(&dead.reason.expect("a reason"));
        assert_eq!(self.rig.store.counts(&self.rig.handler.items.namespace).await.unwrap().live, 3);
    }
}

async fn holds(answer: Answer, decision: Decision, backends: Backends) {
    let Answer { given, says, .. } = answer;
    // Short only where the time is what it is about. An exchange may take half of it.
    let lookup_timeout = match given {
        Given::Lookup(Fault::Timeout) => Duration::from_secs(2),
        Given::Token(Fault::Timeout) => Duration::from_secs(4),
        _ => Duration::from_secs(20),
    };
    let app = matches!(given, Given::Token(_)).then_some(APP);
    let tokens = TOKENS.to_vec();
    let mut rig = Rig::start(Setup { backends, lookup_timeout, app, tokens, ..Setup::default() }).await;
    let ids = rig.there(4, 3 * DAY);
    rig.schedule_late(&ids, 5_000).await;
    let dues = rig.dues(&ids).await.expect("all in their lanes");
    let rule = |fault, times| Rule { times: Some(times), ..Rule::from(fault) };
    match given {
        Given::Nothing => rig.stop_api().await,
        Given::Token(fault) => rig.simulator().faults().add(Rule { at: Endpoint::Token, ..rule(fault, 1) }),
        Given::Twice(fault) => rig.simulator().faults().add(rule(fault, 2)),
        Given::Lookup(fault) if decision.batch == "bisected" => {
            rig.simulator().faults().add(Rule { asked: vec![ids[1].clone()], ..Rule::from(fault) });
        }
        Given::Lookup(fault) => rig.simulator().faults().add(rule(fault, 1)),
    }
    let round = rig.round().await;
    assert_eq!(round.batch.jobs.len(), 4);
    if rig.simulator.is_none() {
        rig.restart_api().await;
    } else if decision.batch != "bisected" {
        assert_eq!(rig.simulator().faults().rules(), [], "the answer was given");
    }
    let seen = Seen { rig: &rig, ids: &ids, dues, round, says: &says };
    // First, while it is parked.
    seen.credential(decision.credential).await;
    seen.batch(decision.batch).await;
    seen.next(decision.next).await;
    if decision.batch == "bisected" {
        seen.buried().await;
    }
}

async fn every_row_holds(backends: impl Fn() -> Backends) {
    let documented = documented();
    let answers = answers();
    let known: BTreeSet<_> = answers.iter().map(|answer| answer.name).collect();
    assert_eq!(known, documented.keys().copied().collect(), "an answer that only one of document and test knows");
    assert_eq!(known.len(), answers.len());
    let rows = futures::stream::iter(answers).map(|answer| {
        let (name, decision, backends) = (answer.name, documented[answer.name], backends());
        async move { (name, decision, tokio::spawn(holds(answer, decision, backends)).await) }
    });
    let done: Vec<_> = rows.buffer_unordered(6).collect().await;
    let mut failed = Vec::new();
    for (name, Decision { batch, credential, next }, held) in done {
        println!("{name:34} | {batch:20} | {credential:34} | {next}");
        if held.is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "the table does not hold for {failed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_holds_embedded() {
    every_row_holds(|| Backends::Embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_holds_on_servers() {
    let database = postgres::database().await;
    // Once, before all the rigs do it at the same time.
    let store = PostgresStore::connect(&database.as_str().into(), 1, Duration::from_secs(20)).await.unwrap();
    store.migrate().await.unwrap();
    every_row_holds(|| Backends::Servers(database.clone())).await;
}

fn two_tokens() -> Setup {
    Setup { tokens: TOKENS.to_vec(), ..Setup::default() }
}

#[tokio::test]
async fn without_a_credential_left_the_batch_goes_back_and_nobody_asks() {
    for fault in [code(401, 89), Fault::RateLimited { reset_s: 300 }] {
        let rig = Rig::start(two_tokens()).await;
        let ids = rig.there(4, 3 * DAY);
        rig.schedule_late(&ids, 5_000).await;
        let dues = rig.dues(&ids).await;
        rig.api_fails(fault);
        let handled = rig.round().await.handled;
        // It is no outage: there is nothing to probe for before the first is free again.
        assert_eq!((handled.outlook, handled.verdicts.len()), (Outlook::Unchanged, 0));
        assert_eq!(rig.dues(&ids).await, dues);
        assert_eq!(rig.journal.lookups(), 2, "each was tried once");
        let AcquireOutcome::Wait(wait) = rig.leave().await else { panic!("all are parked") };
        assert!(wait > Duration::from_secs(4), "as long as a wait may be: {wait:?}");
        let accounts = rig.credentials.statuses(rig.handler.endpoint()).await.unwrap();
        assert!(accounts.iter().all(|account| account.parked_for_ms > 30_000), "{accounts:?}");
        assert_eq!(rig.stored_tweets().await, 0);
    }
}

/// Where others are answered it is their one sick colleague; where nobody is, it is an outage.
#[tokio::test]
async fn a_token_endpoint_that_is_out_is_an_outage_when_nobody_else_is_answered() {
    let rig = Rig::start(Setup { app: Some(APP), ..Setup::default() }).await;
    let ids = rig.there(4, 3 * DAY);
    rig.schedule_late(&ids, 5_000).await;
    let dues = rig.dues(&ids).await;
    rig.simulator().faults().add(Rule { at: Endpoint::Token, ..code(503, 130).into() });
    let handled = rig.round().await.handled;
    let Outlook::Outage(why) = handled.outlook else { panic!("{:?}", handled.outlook) };
    assert!(why.contains("its token cannot be fetched") && !why.contains("canary"), "{why}");
    assert_eq!((handled.verdicts.len(), rig.dues(&ids).await), (0, dues));
    let counters = rig.simulator().counters();
    assert_eq!((counters.exchanges, counters.requests), (1, 0), "who has no token asks for no tweets");
    // It rests by itself, so that other processes know, too.
    let AcquireOutcome::Wait(wait) = rig.leave().await else { panic!("it is parked") };
    assert!(wait <= Duration::from_secs(5), "{wait:?}");
}

#[tokio::test]
async fn a_further_call_without_a_permit_is_not_made() {
    let simulator = SimulatorOptions { app_calls_per_window: 2, ..Setup::default().simulator };
    let setup = Setup { simulator, tokens: vec![TOKENS[0]], ..Setup::default() };
    let rig = Rig::start(setup).await;
    let ids = rig.there(4, 3 * DAY);
    rig.schedule_late(&ids, 5_000).await;
    let dues = rig.dues(&ids).await.unwrap();
    rig.inject(page(413), 1);
    let handled = rig.round().await.handled;
    assert_eq!((handled.verdicts.len(), handled.release.len()), (2, 2), "the second half had no call left");
    assert_eq!(handled.outlook, Outlook::Fine);
    for job in &handled.release {
        assert_eq!(rig.lane(&job.id).await.1, dues[&job.id]);
    }
    assert_eq!(rig.simulator().counters().throttled, 0);
    assert_eq!(rig.stored_tweets().await, 2);
}

/// One id in a batch that is refused: it may be the id, or the API refuses whatever is asked. Others are
/// asked first.
#[tokio::test]
async fn an_id_that_was_never_told_from_others_is_not_blamed() {
    let rig = Rig::start(Setup { max_deliveries: 1, ..Setup::default() }).await;
    let id = rig.there(1, 3 * DAY);
    rig.schedule_late(&id, 5_000).await;
    rig.api_fails(code(400, 214));
    let handled = rig.round().await.handled;
    assert!(matches!(handled.outlook, Outlook::Outage(_)), "{:?}", handled.outlook);
    let [(_, Verdict::Retry { counted: false, .. })] = &handled.verdicts[..] else { panic!("{handled:?}") };
    assert!(matches!(rig.place(&id[0]).await, Some(Place::Delayed { .. })), "and it is not dead");
    assert_eq!(rig.stored_tweets().await, 0);
}

/// Nothing is smaller than one id.
#[tokio::test]
async fn an_id_that_is_too_large_a_request_by_itself_is_not_blamed() {
    let rig = Rig::start(Setup { max_deliveries: 1, ..Setup::default() }).await;
    let id = rig.there(1, 3 * DAY);
    rig.schedule_late(&id, 5_000).await;
    let dues = rig.dues(&id).await;
    rig.api_fails(page(413));
    for _ in 0..3 {
        let Round { batch, handled } = rig.round().await;
        assert!(matches!(handled.outlook, Outlook::Outage(_)), "{:?}", handled.outlook);
        assert_eq!((handled.verdicts.len(), handled.release.len(), batch.jobs[0].deliveries), (0, 1, 0));
        assert_eq!(rig.dues(&id).await, dues);
    }
    assert_eq!(rig.stored_tweets().await, 0);
}
