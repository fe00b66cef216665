//! Streams of the simulated API: who is let in, what comes, and what each refusal means.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::pipelines::streams::lines::{CutLine, LineSplitter};
use twitter_updater::providers::http::{HttpClient, HttpOptions};
use twitter_updater::providers::stream::{Chunks, Message, Stream, StreamError};
use twitter_updater::providers::x_v2::Fields;
use twitter_updater::providers::x_v2::stream::SearchStream;
use twitter_updater::quota::{AppToken, Credential, CredentialKind, UserKeys};
use twitter_updater::simulator::{
    self, Endpoint, Fault, Rule, Running, SimulatedCredential, SimulatedKeys, SimulatorOptions, Standing,
};

const TARGET: &str = "rust lang";
const WITHIN: Duration = Duration::from_secs(20);

fn secret(text: &str) -> SecretString {
    text.into()
}

fn user() -> Credential {
    let keys = UserKeys {
        consumer_key: secret("ck"),
        consumer_secret: secret("cs"),
        token: secret("t"),
        token_secret: secret("ts"),
    };
    Credential { name: "main".into(), kind: CredentialKind::User(keys) }
}

fn app() -> Credential {
    Credential { name: "main-app".into(), kind: CredentialKind::App(AppToken::new(secret("ck"), secret("cs"))) }
}

async fn simulated(options: SimulatorOptions) -> Running {
    let (consumer_key, consumer_secret) = (secret("ck"), secret("cs"));
    let keys = SimulatedKeys::User {
        consumer_key: consumer_key.clone(),
        consumer_secret: consumer_secret.clone(),
        token: secret("t"),
        token_secret: secret("ts"),
    };
    let credentials = vec![
        SimulatedCredential { name: "main".into(), keys },
        SimulatedCredential { name: "main-app".into(), keys: SimulatedKeys::App { consumer_key, consumer_secret } },
    ];
    let options = SimulatorOptions { credentials: Some(credentials), body_padding: 0, ..options };
    simulator::start(([127, 0, 0, 1], 0).into(), options).await.unwrap()
}

fn quick() -> SimulatorOptions {
    SimulatorOptions {
        posts_per_second: 50.0,
        stream_rules: vec![TARGET.to_owned()],
        missing_share: 0.1,
        ..SimulatorOptions::default()
    }
}

fn http() -> HttpClient {
    let options = HttpOptions { timeout: WITHIN, connect_timeout: WITHIN, ..HttpOptions::default() };
    HttpClient::new(&options).unwrap()
}

fn search(base_url: &str, credential: Credential) -> SearchStream {
    SearchStream::new(http(), base_url, &Fields::default(), Arc::new(credential)).unwrap()
}

/// A user credential, which signs requests, and an application credential, which fetches a token.
fn both(simulator: &Running) -> [Box<dyn Stream>; 2] {
    [user(), app()].map(|credential| Box::new(search(&simulator.base_url(), credential)) as Box<dyn Stream>)
}

/// What a connection says until that is enough.
async fn heard(stream: &dyn Stream, chunks: &mut dyn Chunks, mut enough: impl FnMut(&Message) -> bool) {
    let mut lines = LineSplitter::default();
    let listening = async {
        loop {
            let bytes = chunks.chunk().await.unwrap().expect("the connection goes on");
            for cut in lines.push(&bytes) {
                let CutLine::Line(line) = cut else { panic!("{cut:?}") };
                if enough(&stream.read(&line)) {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(WITHIN, listening).await.expect("it says enough in time");
}

async fn why_not(stream: &dyn Stream) -> StreamError {
    match stream.connect().await {
        Ok(_) => panic!("it is connected"),
        Err(broken) => broken,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_post_that_becomes_visible_is_in_it() {
    let simulator = simulated(quick()).await;
    for stream in both(&simulator) {
        let mut chunks = stream.connect().await.unwrap();
        let from = wall_ms();
        let mut ids = Vec::new();
        heard(&*stream, &mut *chunks, |message| {
            let Message::Post { post, broken: None } = message else { panic!("{message:?}") };
            assert!(post.content.is_some() && post.created_at.is_some());
            ids.push(post.id.clone());
            ids.len() == 100
        })
        .await;
        let until = wall_ms();
        // Out of order by up to a second, so the ends are uncertain by as much.
        let due = simulator.timeline(TARGET, from, until - 1_500);
        assert!(due.len() > 10, "{}", due.len());
        let missing = due.iter().filter(|post| !ids.contains(&post.id.to_string())).count();
        assert_eq!(missing, 0, "{stream:?}");
        let mut once = ids.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), ids.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_has_nothing_to_say_says_that_it_lives() {
    let soon = Duration::from_millis(50);
    let options = SimulatorOptions { posts_per_second: 0.001, keep_alive: soon, ..quick() };
    let simulator = simulated(options).await;
    for stream in both(&simulator) {
        let mut chunks = stream.connect().await.unwrap();
        // A post every quarter of an hour may fall into it.
        let mut blank = 0;
        while blank < 3 {
            let bytes = tokio::time::timeout(WITHIN, chunks.chunk()).await.unwrap().unwrap().unwrap();
            blank += u32::from(bytes.iter().all(|byte| b"\r\n".contains(byte)));
        }
        assert!((Duration::from_secs(21)..=Duration::from_secs(90)).contains(&stream.read_timeout()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_has_one() {
    let simulator = simulated(quick()).await;
    let [one, _] = both(&simulator);
    let older = one.connect().await.unwrap();
    assert!(matches!(why_not(&*one).await, StreamError::RateLimited { .. }));
    assert_eq!(simulator.streams().collisions, 1);
    drop(older);
    // The API hears of it when it next writes.
    let again = async {
        while one.connect().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(WITHIN, again).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_refusal_says_when_to_come_again() {
    let simulator = simulated(quick()).await;
    let rule = |fault| Rule { times: Some(1), at: Endpoint::Stream, ..Rule::from(fault) };
    for stream in both(&simulator) {
        let refused = async |fault| {
            simulator.faults().add(rule(fault));
            why_not(&*stream).await
        };
        for status in [500, 502, 503, 404] {
            let broken = refused(Fault::Status { status, code: None }).await;
            assert!(matches!(broken, StreamError::Http(_)), "{status}: {broken:?}");
        }
        for (status, code) in [(401, Some(32)), (403, None), (403, Some(453)), (401, None)] {
            let broken = refused(Fault::Status { status, code }).await;
            assert!(matches!(broken, StreamError::Refused(_)), "{status}: {broken:?}");
        }
        let minute = Duration::from_secs(60);
        let broken = refused(Fault::Calm).await;
        assert!(matches!(broken, StreamError::RateLimited { at_least, .. } if at_least == minute), "{broken:?}");
        let broken = refused(Fault::RateLimited { reset_s: 300 }).await;
        let five = Duration::from_secs(298)..=Duration::from_secs(300);
        assert!(matches!(&broken, StreamError::RateLimited { at_least, .. } if five.contains(at_least)), "{broken:?}");
        assert!(matches!(refused(Fault::Close).await, StreamError::Network(_)));
        // A token that was good when it was fetched is fetched anew; an account that is locked stays refused.
        drop(stream.connect().await.unwrap());
    }
    for (stream, name) in both(&simulator).iter().zip(["main", "main-app"]) {
        for standing in [Standing::Locked, Standing::Revoked] {
            assert!(simulator.set_standing(name, standing));
            let broken = why_not(&**stream).await;
            assert!(matches!(&broken, StreamError::Refused(why) if !why.contains("cs")), "{standing:?}: {broken:?}");
        }
        assert!(simulator.set_standing(name, Standing::Good));
    }
    let nowhere = search("http://127.0.0.1:9", user());
    assert!(matches!(why_not(&nowhere).await, StreamError::Network(_)));
    let unruly = simulated(SimulatorOptions { stream_rules: vec![], ..quick() }).await;
    let broken = why_not(&search(&unruly.base_url(), app())).await;
    assert!(matches!(&broken, StreamError::Refused(why) if why.contains("no rules")), "{broken:?}");
    assert_eq!(unruly.streams().connects, 0);
}
