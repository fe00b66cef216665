//! Files of accounts to ids: within the quota, with every line told of, and what is done when something fails.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use twitter_updater::base::clock::{self, Millis, Stopwatch, wall_ms};
use twitter_updater::base::reload::Reloadable;
use twitter_updater::base::retry::RetryPolicy;
use twitter_updater::base::shutdown::Stop;
use twitter_updater::config::Settings;
use twitter_updater::ingest::AccountReader;
use twitter_updater::model::account::{Absence, Account};
use twitter_updater::model::provider::Provider;
use twitter_updater::pipelines::apis::open_handles;
use twitter_updater::pipelines::handles::{ResolveCounts, ResolveError, ResolvedAccount, Resolver};
use twitter_updater::providers::handles::Handles;
use twitter_updater::providers::lookup::{
    Answer, Capabilities, Charge, LookupError, Outcome, Quota, UnsolicitedObjects,
};
use twitter_updater::providers::registry::read_account_ref;
use twitter_updater::quota::{Budget, Credential, CredentialKind, Credentials, Pacing, Period};
use twitter_updater::simulator::{self, SimulatorOptions};

use crate::support::memory_ledger::MemoryLedger;
use crate::support::memory_queue::ServiceClock;

const T: Millis = 1_795_000_000_000;
const TIMEOUT: Duration = Duration::from_secs(10);

/// A network. A handle that begins with `bad` makes it refuse the call; with `hidden` or `secret`, the credential. `gone` is suspended,
/// `none` is not returned, `lost` is not
/// mentioned in the first answer.
#[derive(Debug, Default)]
struct Fake {
    batch_limit: usize,
    calls: Mutex<Vec<Vec<String>>>,
    /// The errors of the next calls; none: the call is answered.
    errors: Mutex<VecDeque<Option<LookupError>>>,
    /// Answers that have none of what was asked for, first.
    slips: AtomicUsize,
}

impl Fake {
    fn taking(batch_limit: usize) -> Self {
        Self { batch_limit, ..Self::default() }
    }

    fn failing(self, errors: impl IntoIterator<Item = Option<LookupError>>) -> Self {
        self.errors.lock().unwrap().extend(errors);
        self
    }

    fn calls(&self) -> Vec<Vec<String>> {
        self.calls.lock().unwrap().clone()
    }

    /// Calls for a handle.
    fn times(&self, handle: &str) -> usize {
        self.calls().iter().filter(|call| call.iter().any(|asked| asked == handle)).count()
    }
}

fn account(handle: &str) -> Account {
    Account { id: format!("id-{}", handle.to_lowercase()), handle: Some(handle.to_owned()), ..Account::default() }
}

#[async_trait]
impl Handles for Fake {
    fn capabilities(&self) -> Capabilities {
        Capabilities { batch_limit: self.batch_limit, charge: Charge::PerCall, endpoint: "fake" }
    }

    async fn resolve(&self, handles: &[String], _: &Credential) -> Result<Answer<Account>, LookupError> {
        self.calls.lock().unwrap().push(handles.to_vec());
        let error = self.errors.lock().unwrap().pop_front();
        if let Some(error) = error.flatten() {
            return Err(error);
        }
        if handles.iter().any(|handle| handle.starts_with("bad")) {
            return Err(LookupError::BadRequest("HTTP 400".to_owned()));
        }
        if handles.iter().any(|handle| handle.starts_with("hidden")) {
            return Err(LookupError::Credential("HTTP 401".to_owned()));
        }
        if handles.iter().any(|handle| handle.starts_with("secret")) {
            return Err(LookupError::Unready("HTTP 403".to_owned()));
        }
        let slips = self.slips.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        let outcome = |handle: &String| match handle {
            _ if slips => Outcome::Unavailable,
            gone if gone.starts_with("gone") => Outcome::Absent(Absence::Suspended),
            none if none.starts_with("none") => Outcome::Unavailable,
            lost if lost.starts_with("lost") && self.times(lost) == 1 => {
                Outcome::Broken("the answer does not mention it".to_owned())
            }
            handle => Outcome::Found(account(handle)),
        };
        let quota = Quota { limit: 1_000, remaining: 900, ..Quota::unmetered() };
        Ok(Answer::new(handles.iter().map(outcome).collect(), Some(quota), UnsolicitedObjects::default()))
    }
}

fn credentials(names: &[&str]) -> Credentials {
    let credential = |name: &&str| Credential { name: (*name).to_owned(), kind: CredentialKind::Anonymous };
    let ledger = Arc::new(MemoryLedger::new(ServiceClock::right()));
    Credentials::new(names.iter().map(credential).collect(), ledger, Pacing::Greedy, 2 * TIMEOUT)
}

/// What came of a file.
struct Run {
    result: Result<ResolveCounts, ResolveError<String>>,
    handed: Vec<Vec<ResolvedAccount>>,
    refused: Vec<(u64, String)>,
}

impl Run {
    /// Lines and ids in the order handed over.
    fn ids(&self) -> Vec<(u64, &str)> {
        self.handed.iter().flatten().map(|one| (one.line, one.id.as_str())).collect()
    }

    fn refused(&self) -> Vec<u64> {
        self.refused.iter().map(|(line, _)| *line).collect()
    }

    fn error(&self) -> String {
        self.result.as_ref().unwrap_err().to_string()
    }
}

/// Resolves a file; `after` is called when so many batches were handed over, and may refuse the next.
async fn run(
    handles: &dyn Handles,
    credentials: &Credentials,
    of: &Provider,
    file: &str,
    stop: &Stop,
    mut after: impl FnMut(usize) -> Result<(), String>,
) -> Run {
    let resolver =
        Resolver { handles, credentials, call_timeout: TIMEOUT, retry: RetryPolicy::default(), stop: stop.clone() };
    let (mut handed, mut refused) = (Vec::new(), Vec::new());
    let mut lines = AccountReader::new(file.as_bytes(), read_account_ref(of));
    let hand_over = async |some: Vec<ResolvedAccount>| {
        handed.push(some);
        after(handed.len())
    };
    let result = resolver.resolve(&mut lines, hand_over, |line, why| refused.push((line, why.to_owned()))).await;
    Run { result, handed, refused }
}

async fn resolve(fake: &Fake, credentials: &Credentials, file: &str) -> Run {
    run(fake, credentials, &Provider::X, file, &Stop::new(), |_| Ok(())).await
}

#[tokio::test]
async fn each_network_resolves_a_file() {
    let running = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await.unwrap();
    let at = running.base_url();
    let settings = format!(
        "[twitter]\napi = \"{at}\"\n[x]\napi = \"{at}\"\n[bluesky]\napi = \"{at}\"\n\
         [mastodon.instances.social]\napi = \"{at}\"\n"
    );
    let settings = Settings::load_text("settings.toml".as_ref(), &settings, &[]).unwrap();
    let domain = ".bsky.example.org";
    for of in [Provider::Twitter, Provider::X, Provider::Mastodon("social".to_owned()), Provider::Bluesky] {
        let is_bluesky = of == Provider::Bluesky;
        let handle = |name: &str| if is_bluesky { format!("{name}{domain}") } else { name.to_owned() };
        let id = |author: u64| running.people().id(&of, author);
        let address = match of {
            Provider::Bluesky => format!("https://bsky.app/profile/{}/post/3l6oveex3ii2l", handle("bright_heron0")),
            Provider::Mastodon(_) => "https://social.example.org/@bright_heron0/12".to_owned(),
            _ => "https://twitter.com/bright_heron0/status/20?s=1".to_owned(),
        };
        let lines = [
            "# friends".to_owned(),
            handle("quiet_heron0"),
            format!("@{},2020", handle("Blue_Sparrow99")),
            id(7),
            handle("missing"),
            address,
            "two words".to_owned(),
            format!("\"@{}\"", handle("QUIET_HERON0")),
        ];
        let handles = open_handles(&settings, &of).unwrap();
        let run = run(&*handles, &credentials(&["nobody"]), &of, &lines.join("\n"), &Stop::new(), |_| Ok(())).await;
        let sum = run.result.as_ref().unwrap_or_else(|error| panic!("{of}: {error}"));
        assert_eq!(*sum, ResolveCounts { ids: 1, handles: 4, refused: 2 }, "{of}: {:?}", run.refused);
        let mut came: Vec<_> = run.handed.iter().flatten().collect();
        came.sort_by_key(|one| one.line);
        let ids: Vec<_> = came.iter().map(|one| (one.line, one.id.clone())).collect();
        assert_eq!(ids, [(2, id(0)), (3, id(9_999)), (4, id(7)), (6, id(1)), (8, id(0))], "{of}");
        for one in came {
            let whole = one.account.as_ref().map(|account| (&account.id, account.counts.followers.is_some()));
            assert_eq!(whole, (one.line != 4).then_some((&one.id, true)), "{of}: {one:?}");
        }
        let mut refused = run.refused.clone();
        refused.sort();
        assert!(refused[0].0 == 5 && refused[0].1.contains("account"), "{of}: {refused:?}");
        assert!(refused[1].0 == 7 && refused[1].1.contains("white space"), "{of}: {refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_as_many_handles_as_it_may() {
    let _clock = clock::simulate_clock(T);
    let fake = Fake::taking(3);
    let file = "a\n12\nb\nc\n13\nnone\ngone\nd d\ne\nf\n";
    let done = resolve(&fake, &credentials(&["app"]), file).await;
    assert_eq!(done.result.as_ref().unwrap(), &ResolveCounts { ids: 2, handles: 5, refused: 3 });
    assert_eq!(fake.calls(), [vec!["a", "b", "c"], vec!["none", "gone", "e"], vec!["f"], vec!["none"]]);
    let ids = [(2, "12"), (1, "id-a"), (3, "id-b"), (4, "id-c"), (5, "13"), (9, "id-e"), (10, "id-f")];
    assert_eq!(done.ids(), ids);
    assert_eq!(done.handed.len(), 3, "what a call brought is handed over at once");
    let whys: Vec<_> = done.refused.iter().map(|(line, why)| (*line, why.split(':').next().unwrap())).collect();
    let (none, gone) = ("no account is returned for the handle", "the account is suspended");
    let white = "the line has white space inside; write one account a line";
    assert_eq!(whys, [(8, white), (7, gone), (6, none)]);
    // Without a handle no call is made.
    let ids: String = (1..=2_500).map(|id| format!("{id}\n")).collect();
    let done = resolve(&fake, &credentials(&["app"]), &ids).await;
    assert_eq!(done.handed.iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 1_000, 500]);
    assert_eq!(fake.calls().len(), 4);
    assert_eq!(resolve(&fake, &credentials(&["app"]), "# none\n").await.result.unwrap(), ResolveCounts::default());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_has_none_is_believed_when_it_comes_twice() {
    let _clock = clock::simulate_clock(T);
    let fake = Fake { slips: 1.into(), ..Fake::taking(3) };
    let done = resolve(&fake, &credentials(&["app"]), "a\nb\nc\nd\n").await;
    assert_eq!(done.result.as_ref().unwrap(), &ResolveCounts { ids: 0, handles: 4, refused: 0 });
    assert_eq!(fake.calls(), [vec!["a", "b", "c"], vec!["d"], vec!["a", "b", "c"]]);

    let fake = Fake::taking(3);
    let done = resolve(&fake, &credentials(&["app"]), "none1\nnone2\nnone3\nnone4\n").await;
    assert_eq!((done.refused(), fake.calls().len()), (vec![1, 2, 3, 4], 4));
    // Also where each call has one handle.
    let fake = Fake { slips: 1.into(), ..Fake::taking(1) };
    let done = resolve(&fake, &credentials(&["app"]), "a\nb\n").await;
    assert_eq!((done.ids(), done.refused()), (vec![(2, "id-b"), (1, "id-a")], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_no_answer_explains_is_asked_for_again() {
    let _clock = clock::simulate_clock(T);
    let fake = Fake::taking(3);
    let done = resolve(&fake, &credentials(&["app"]), "a\nlost\nnone\ngone\nb\n").await;
    assert_eq!(done.result.as_ref().unwrap(), &ResolveCounts { ids: 0, handles: 3, refused: 2 });
    assert_eq!(fake.calls(), [vec!["a", "lost", "none"], vec!["gone", "b"], vec!["lost", "none"]]);
    assert_eq!((done.ids().last(), done.refused()), (Some(&(2, "id-lost")), vec![4, 3]));
    // Where the file ends early, they are told of as they are.
    let out = || Some(LookupError::Outage("HTTP 503".to_owned()));
    let fake = Fake::taking(2).failing(std::iter::once(None).chain((0..20).map(|_| out())));
    let done = resolve(&fake, &credentials(&["app"]), "a\nnone\nb\nc\n").await;
    assert!(done.error().contains("up to line 2, then: "), "{}", done.error());
    assert_eq!(done.refused(), [2]);
}

/// An answer at fault would refuse what came over HTTP until somebody sends it again.
#[tokio::test(start_paused = true)]
async fn a_kept_handle_is_refused_when_it_comes_the_second_time_and_none_by_an_api_that_refuses_all() {
    let _clock = clock::simulate_clock(T);
    let (mut doubted, credentials) = (HashSet::new(), credentials(&["app"]));
    let round = async |fake: &Fake, file: &str, doubted: &mut HashSet<String>| {
        let (retry, stop) = (RetryPolicy::default(), Stop::new());
        let resolver = Resolver { handles: fake, credentials: &credentials, call_timeout: TIMEOUT, retry, stop };
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        let mut lines = AccountReader::new(file.as_bytes(), read_account_ref(&Provider::X));
        let hand_over = async |some: Vec<ResolvedAccount>| {
            found.extend(some.into_iter().map(|one| one.line));
            Ok::<(), String>(())
        };
        let result = resolver.resolve_stored(&mut lines, doubted, hand_over, |line, _| refused.push(line)).await;
        (result.is_ok(), found, refused)
    };
    let fake = Fake::taking(3);
    assert_eq!(round(&fake, "a\nlost\nnone\ngone\n", &mut doubted).await, (true, vec![1], vec![4]));
    assert_eq!(doubted, ["lost", "none"].map(str::to_owned).into());
    assert_eq!(round(&fake, "lost\nnone\nnone2\n", &mut doubted).await, (true, vec![1], vec![2]));
    assert_eq!(fake.calls().len(), 3, "each once a round");

    doubted.clear();
    let all: String = (0..40).map(|n| format!("bad{n}\n")).collect();
    assert_eq!(round(&Fake::taking(1), &all, &mut doubted).await, (false, vec![], vec![]));
    assert_eq!(doubted.len(), 0);
    // A few are not told from an API that refuses them all, unless it answers others.
    assert_eq!(round(&Fake::taking(1), "bad\n", &mut doubted).await, (true, vec![], vec![]));
    assert_eq!(round(&Fake::taking(1), "bad\n", &mut doubted).await, (true, vec![], vec![1]));
    assert_eq!(round(&Fake::taking(1), "bad\na\n", &mut doubted).await, (true, vec![2], vec![1]));
}

#[tokio::test(start_paused = true)]
async fn one_bad_handle_costs_itself_alone() {
    let _clock = clock::simulate_clock(T);
    let fake = Fake::taking(100);
    let file: String = (0..100).map(|n| if n == 70 { "bad\n".to_owned() } else { format!("h{n}\n") }).collect();
    let done = resolve(&fake, &credentials(&["app"]), &file).await;
    assert_eq!(done.result.as_ref().unwrap(), &ResolveCounts { ids: 0, handles: 99, refused: 1 });
    assert_eq!(done.refused(), [71]);
    assert!(done.refused[0].1.contains("refuses the request"), "{:?}", done.refused);
    assert!(fake.calls().len() <= 15, "{} calls", fake.calls().len());

    // An API that refuses them all is asked no more.
    let all: String = (0..40).map(|n| format!("bad{n}\n")).collect();
    let fake = Fake::taking(1);
    let done = resolve(&fake, &credentials(&["app"]), &all).await;
    assert_eq!((done.refused(), fake.calls().len()), (vec![], 9));
    assert!(done.error().starts_with("the file is done up to line 0, then: "), "{}", done.error());
}

#[tokio::test(start_paused = true)]
async fn a_handle_refused_with_401_or_403_ends_no_other() {
    let _clock = clock::simulate_clock(T);
    for batch_limit in [1, 2] {
        let (fake, credentials) = (Fake::taking(batch_limit), credentials(&["app"]));
        let watch = Stopwatch::start();
        let done = resolve(&fake, &credentials, "a\nb\nhidden\nc\nsecret\nd\n").await;
        assert_eq!(done.result.as_ref().unwrap(), &ResolveCounts { ids: 0, handles: 4, refused: 2 }, "{batch_limit}");
        assert_eq!(done.refused(), [3, 5]);
        assert!(done.refused[0].1.contains("may not be seen"), "{:?}", done.refused);
        assert!(watch.elapsed() < Duration::from_secs(5), "nothing is parked: {:?}", watch.elapsed());
    }
    // Without a witness the refusal is blamed on the credential.
    let done = resolve(&Fake::taking(1), &credentials(&["app"]), "hidden\na\n").await;
    assert!(done.error().contains("HTTP 401"), "{}", done.error());
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_out_and_a_long_one_ends_the_file() {
    let _clock = clock::simulate_clock(T);
    let out = || Some(LookupError::Outage("HTTP 503".to_owned()));
    let fake = Fake::taking(2).failing([None, out(), out(), out()]);
    let done = resolve(&fake, &credentials(&["app"]), "a\nb\nc\nd\n").await;
    assert_eq!(done.result.as_ref().unwrap(), &ResolveCounts { ids: 0, handles: 4, refused: 0 });
    assert_eq!(fake.calls().len(), 5);

    let fake = Fake::taking(2).failing(std::iter::once(None).chain((0..20).map(|_| out())));
    let done = resolve(&fake, &credentials(&["app"]), "a\n7\nb\nc\n8\nd\ne\n").await;
    assert_eq!(done.ids(), [(2, "7"), (1, "id-a"), (3, "id-b"), (5, "8")], "the good part is done");
    let error = done.error();
    assert!(error.contains("up to line 3, then: ") && error.contains("HTTP 503"), "{error}");
    assert_eq!(fake.calls().len(), 9, "eight tries");

    // Nothing that comes in time is waited for longer.
    #[derive(Debug)]
    struct Silent;
    #[async_trait]
    impl Handles for Silent {
        fn capabilities(&self) -> Capabilities {
            Fake::taking(2).capabilities()
        }

        async fn resolve(&self, _: &[String], _: &Credential) -> Result<Answer<Account>, LookupError> {
            std::future::pending().await
        }
    }
    let done = run(&Silent, &credentials(&["app"]), &Provider::X, "a", &Stop::new(), |_| Ok(())).await;
    assert!(done.error().contains("no whole answer within 10000 ms"), "{}", done.error());
}

#[tokio::test(start_paused = true)]
async fn a_throttled_credential_is_waited_for() {
    let _clock = clock::simulate_clock(T);
    let pause = Duration::from_secs(300);
    let throttled = || Some(LookupError::Throttled { status: 429, pause, quota: None });
    let fake = Fake::taking(2).failing((0..12).map(|_| throttled()));
    let watch = Stopwatch::start();
    let done = resolve(&fake, &credentials(&["app"]), "a\nb\nc\n").await;
    assert_eq!(done.result.unwrap().handles, 3);
    assert!((3_600..3_720).contains(&watch.elapsed().as_secs()), "{:?}", watch.elapsed());
    assert_eq!(fake.calls().len(), 14, "one call for each window");
    // The next one is asked at once.
    let fake = Fake::taking(2).failing([throttled()]);
    let watch = Stopwatch::start();
    assert_eq!(resolve(&fake, &credentials(&["one", "two"]), "a").await.result.unwrap().handles, 1);
    assert!(watch.elapsed() < Duration::from_secs(5), "{:?}", watch.elapsed());
}

#[tokio::test(start_paused = true)]
async fn credentials_that_are_all_refused_end_it() {
    let _clock = clock::simulate_clock(T);
    let refused = || Some(LookupError::Credential("HTTP 401".to_owned()));
    let fake = Fake::taking(2).failing([refused()]);
    assert_eq!(resolve(&fake, &credentials(&["one", "two"]), "a").await.result.unwrap().handles, 1);
    let fake = Fake::taking(2).failing([refused(), refused()]);
    let done = resolve(&fake, &credentials(&["one", "two"]), "7\na").await;
    assert_eq!((done.error().contains("HTTP 401"), done.ids()), (true, vec![(1, "7")]), "{}", done.error());
    assert_eq!(fake.calls().len(), 2);
    let fake = Fake::taking(2).failing([Some(LookupError::Stop("the plan does not include it".to_owned()))]);
    assert!(resolve(&fake, &credentials(&["one"]), "a").await.error().contains("the plan does not include it"));
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_reads_is_kept() {
    let _clock = clock::simulate_clock(T);
    let per = Period::Every(60_000);
    let budget = Budget { reads: 3, per, margin: 0, price_per_read: 0.01 };
    let credentials = credentials(&["app"]).with_budget(Reloadable::new(budget));
    let fake = Fake::taking(5);
    let begun = wall_ms();
    let done = resolve(&fake, &credentials, "a\nnone\ngone\nb\nc\nd\nA\ne\nf\n").await;
    assert_eq!(done.result.as_ref().unwrap(), &ResolveCounts { ids: 0, handles: 7, refused: 2 });
    assert_eq!(fake.calls()[0], ["a", "none", "gone"], "no more than there is room for");
    // Six accounts are two periods of three: what does not come is not charged, and one that comes twice is charged once. In
    // the third there is room to ask for the missing one again.
    assert_eq!(fake.calls().last().unwrap(), &["none"]);
    let periods = wall_ms().div_euclid(60_000) - begun.div_euclid(60_000);
    assert_eq!(periods, 2, "{:?}", fake.calls());
    let reads = credentials.budget_status().await.unwrap().unwrap();
    assert_eq!((reads.reads, reads.today), (0, 6), "{reads:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_or_a_failed_hand_over_ends_it_after_what_is_done() {
    let _clock = clock::simulate_clock(T);
    let (fake, credentials, stop) = (Fake::taking(2), credentials(&["app"]), Stop::new());
    let file = "a\nb\n7\nc\nd\ne\n";
    let stopped = run(&fake, &credentials, &Provider::X, file, &stop, |_| {
        stop.drain();
        Ok(())
    });
    let stopped = stopped.await;
    assert!(matches!(stopped.result, Err(ResolveError::Stopped { line: 2 })), "{:?}", stopped.result);
    assert_eq!((stopped.ids(), fake.calls().len()), (vec![(1, "id-a"), (2, "id-b")], 1));
    // While it waits for the quota, too.
    let throttled = Some(LookupError::Throttled { status: 429, pause: Duration::from_secs(900), quota: None });
    let (fake, stop) = (Fake::taking(2).failing([None, throttled]), Stop::new());
    let soon = stop.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        soon.drain();
    });
    let stopped = run(&fake, &credentials, &Provider::X, file, &stop, |_| Ok(())).await;
    assert!(matches!(stopped.result, Err(ResolveError::Stopped { line: 3 })), "{:?}", stopped.result);
    assert_eq!(stopped.ids(), [(1, "id-a"), (2, "id-b"), (3, "7")]);

    let fake = Fake::taking(2);
    let full = |batches| if batches == 2 { Err("the store is full".to_owned()) } else { Ok(()) };
    let failed = run(&fake, &credentials, &Provider::X, file, &Stop::new(), full).await;
    assert!(matches!(&failed.result, Err(ResolveError::HandOver { line: 2, .. })), "{:?}", failed.result);
    assert_eq!(failed.error(), "the file is done up to line 2, then: the store is full");
}

#[tokio::test(start_paused = true)]
async fn any_number_of_lines_is_held_a_call_at_a_time() {
    let _clock = clock::simulate_clock(T);
    let fake = Fake::taking(100);
    let file: String =
        (0..30_000).map(|n| if n % 3 == 0 { format!("h{n}\n") } else { format!("{}\n", n + 1) }).collect();
    let done = resolve(&fake, &credentials(&["app"]), &file).await;
    assert_eq!(done.result.as_ref().unwrap(), &ResolveCounts { ids: 20_000, handles: 10_000, refused: 0 });
    assert_eq!(fake.calls().len(), 100);
    assert!(done.handed.iter().all(|some| some.len() <= 1_100), "a call and the ids since the last one");
    let mut lines: Vec<u64> = done.ids().iter().map(|(line, _)| *line).collect();
    lines.sort_unstable();
    assert!(lines.into_iter().eq(1..=30_000), "each line once");
}
