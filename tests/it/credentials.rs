//! Credentials of both kinds, from the settings to the simulated API, which checks every signature by
//! itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tempfile::NamedTempFile;
use twitter_updater::app::credentials;
use twitter_updater::base::clock::wall_ms;
use twitter_updater::config::{BadConfig, Settings};
use twitter_updater::model::provider::Provider;
use twitter_updater::ops::report::credentials::{CheckOutcome, check_credentials};
use twitter_updater::providers::lookup::{Lookup, LookupError};
use twitter_updater::providers::twitter_v1::{LookupMethod, TwitterV1, TwitterV1Options};
use twitter_updater::quota::{
    AppToken, Credential, CredentialKind, Credentials, EmbeddedLedger, Pacing, UserKeys, Window,
};
use twitter_updater::simulator::{self, Running, SimulatedCredential, SimulatedKeys, SimulatorOptions, Standing};

use crate::support::http::{Canned, CannedServer, anonymous, bearer, ids, options, twitter};
use crate::support::process::{run, text, variables};

/// Keys with characters that have to be encoded.
const CONSUMER: (&str, &str) = ("consumer+key", "consumer/secret&=");
const USER: (&str, &str) = ("12-user~token", "user%secret");

fn secret(text: &str) -> SecretString {
    SecretString::from(text)
}

fn keys() -> UserKeys {
    UserKeys {
        consumer_key: secret(CONSUMER.0),
        consumer_secret: secret(CONSUMER.1),
        token: secret(USER.0),
        token_secret: secret(USER.1),
    }
}

fn user_of(keys: UserKeys) -> Credential {
    Credential { name: "main".to_owned(), kind: CredentialKind::User(keys) }
}

fn user() -> Credential {
    user_of(keys())
}

fn app_of(key: &str, secret: &str) -> Credential {
    Credential { name: "main-app".to_owned(), kind: CredentialKind::App(AppToken::new(key.into(), secret.into())) }
}

fn app() -> Credential {
    app_of(CONSUMER.0, CONSUMER.1)
}

fn known() -> Vec<SimulatedCredential> {
    let UserKeys { consumer_key, consumer_secret, token, token_secret } = keys();
    let app = SimulatedKeys::App { consumer_key: consumer_key.clone(), consumer_secret: consumer_secret.clone() };
    let user = SimulatedKeys::User { consumer_key, consumer_secret, token, token_secret };
    let named = |name: &str, keys| SimulatedCredential { name: name.to_owned(), keys };
    vec![named("main", user), named("main-app", app)]
}

async fn start(options: SimulatorOptions) -> Running {
    simulator::start(SocketAddr::from(([127, 0, 0, 1], 0)), options).await.unwrap()
}

/// Who knows the keys above.
async fn strict() -> Running {
    start(SimulatorOptions { credentials: Some(known()), ..SimulatorOptions::default() }).await
}

async fn refusal(twitter: &TwitterV1, credential: &Credential) -> String {
    match twitter.look_up(&ids(&["20"]), credential).await.unwrap_err() {
        LookupError::Credential(why) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn signed_calls_are_let_in_by_address_and_by_form() {
    let running = strict().await;
    let many: Vec<String> = (1..=100).map(|id: u64| (1_000_000_000_000_000_000 + id).to_string()).collect();
    for method in [LookupMethod::Get, LookupMethod::Post] {
        let twitter = TwitterV1::new(TwitterV1Options { method, ..options(&running.base_url()) }).unwrap();
        for asked in [&many[..], &ids(&["20"])] {
            assert_eq!(twitter.look_up(asked, &user()).await.unwrap().outcomes.len(), asked.len(), "{method:?}");
        }
    }
}

#[tokio::test]
async fn wrong_keys_are_refused_for_what_they_are() {
    let running = strict().await;
    let twitter = twitter(&running.base_url());
    for (wrong, code) in [
        (user_of(UserKeys { consumer_secret: secret("other"), ..keys() }), "code 32"),
        (user_of(UserKeys { token_secret: secret("other"), ..keys() }), "code 32"),
        (user_of(UserKeys { consumer_key: secret("other"), ..keys() }), "code 32"),
        (user_of(UserKeys { token: secret("other"), ..keys() }), "code 89"),
        (app_of(CONSUMER.0, "other"), "code 99"),
        (app_of("other", CONSUMER.1), "code 99"),
        (bearer("other"), "code 89"),
        (anonymous(), "code 215"),
    ] {
        let why = refusal(&twitter, &wrong).await;
        assert!(why.contains(code), "{wrong:?}: {why}");
    }
    // Nobody was let in, so nobody's calls were counted.
    assert_eq!(running.counters().ids, 0);
}

#[tokio::test]
async fn a_signature_is_good_once_and_for_what_it_signs() {
    let running = strict().await;
    let server = CannedServer::start(Canned::new(200, "[]")).await;
    // Signed for this host, as the address of a call says it.
    let recorded = twitter(&server.base_url());
    recorded.look_up(&ids(&["20"]), &user()).await.unwrap();
    let asked = server.asked().remove(0);
    let header = asked.header("authorization").unwrap();
    assert!(header.starts_with("OAuth ") && !header.contains(USER.1) && !header.contains(CONSUMER.1), "{header}");
    let send = async |host: &str, target: &str| {
        let url = format!("{}{target}", running.base_url());
        let request = reqwest::Client::builder().no_proxy().build().unwrap().get(url);
        let answer = request.header("host", host).header("authorization", header).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let host = server.addr.to_string();
    let code = |body: &str| serde_json::from_str::<Value>(body).unwrap()["errors"][0]["code"].as_u64();
    let (status, body) = send(&host, &asked.target.replace("=20", "=21")).await;
    assert_eq!((status, code(&body)), (401, Some(32)), "another id");
    let (status, body) = send("api.x.com", &asked.target).await;
    assert_eq!((status, code(&body)), (401, Some(32)), "another host");
    assert_eq!(send(&host, &asked.target).await.0, 200);
    let (status, body) = send(&host, &asked.target).await;
    assert_eq!((status, code(&body)), (401, Some(32)), "the nonce a second time");
}

#[tokio::test]
async fn users_and_applications_have_windows_of_their_own() {
    let limits = SimulatorOptions { calls_per_window: 3, app_calls_per_window: 2, ..SimulatorOptions::default() };
    let running = start(SimulatorOptions { credentials: Some(known()), ..limits }).await;
    let twitter = twitter(&running.base_url());
    let (user, app) = (user(), app());
    for (credential, limit) in [(&user, 3), (&app, 2)] {
        for left in (0..limit).rev() {
            let quota = twitter.look_up(&ids(&["20"]), credential).await.unwrap().quota.unwrap();
            assert_eq!((quota.limit, quota.remaining), (limit, left), "{credential:?}");
        }
        let error = twitter.look_up(&ids(&["20"]), credential).await.unwrap_err();
        assert!(matches!(error, LookupError::Throttled { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_clock_that_is_off_is_corrected_by_what_the_answer_says() {
    for skew in [-3_600_000, 3_600_000] {
        let options = SimulatorOptions { credentials: Some(known()), clock_skew: skew, ..SimulatorOptions::default() };
        let running = start(options).await;
        let twitter = twitter(&running.base_url());
        match twitter.look_up(&ids(&["20"]), &user()).await.unwrap_err() {
            // Date is in whole seconds.
            LookupError::Clock(offset) => assert!((offset - skew).abs() < 5_000, "{offset}"),
            other => panic!("{other:?}"),
        }
        // A clone is the same provider.
        twitter.clone().look_up(&ids(&["20"]), &user()).await.unwrap();
        twitter.look_up(&ids(&["20"]), &user()).await.unwrap();
    }
    // Within five minutes nothing needs correcting.
    let options = SimulatorOptions { credentials: Some(known()), clock_skew: 240_000, ..SimulatorOptions::default() };
    let running = start(options).await;
    let quota = twitter(&running.base_url()).look_up(&ids(&["20"]), &user()).await.unwrap().quota.unwrap();
    assert!(quota.reset_at > wall_ms() + 15 * 60_000 + 200_000, "windows go by their clock");
}

#[tokio::test]
async fn an_application_token_is_fetched_once_and_again_when_it_is_refused() {
    let running = strict().await;
    let twitter = twitter(&running.base_url());
    let app = app();
    let asked = ids(&["20"]);
    let (one, two) = tokio::join!(twitter.look_up(&asked, &app), twitter.look_up(&asked, &app));
    one.unwrap();
    two.unwrap();
    // Its token ends, and it may have another: nobody notices.
    assert!(running.set_standing("main-app", Standing::Revoked));
    assert!(running.set_standing("main-app", Standing::Good));
    let before = running.counters().requests;
    twitter.look_up(&asked, &app).await.unwrap();
    assert_eq!(running.counters().requests - before, 2, "refused, and repeated with the new one");
    // It ends for good.
    assert!(running.set_standing("main-app", Standing::Revoked));
    let why = refusal(&twitter, &app).await;
    assert!(why.contains("code 99"), "{why}");
}

#[tokio::test]
async fn the_exchange_is_as_documented() {
    let (exchanges, ended) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let server = CannedServer::start_with({
        let (exchanges, ended) = (exchanges.clone(), ended.clone());
        move |asked| match asked.target.as_str() {
            "/oauth2/token" => match exchanges.fetch_add(1, Ordering::Relaxed) {
                0 => Canned::new(503, ""),
                1 => Canned::new(200, r#"{"token_type":"mac","access_token":"x"}"#),
                // The token never changes, as Twitter's does not.
                _ => Canned::new(200, r#"{"token_type":"bearer","access_token":"AAAA%2FAAA%3D"}"#),
            },
            _ if ended.load(Ordering::Relaxed) => {
                Canned::new(401, r#"{"errors":[{"code":89,"message":"Invalid or expired token."}]}"#)
            }
            _ => Canned::new(200, "[]"),
        }
    })
    .await;
    let twitter = twitter(&server.base_url());
    let app = app_of("xvz1evFS4wEEPTGEFPHBog", "L8qq9PZyRg6ieKGEKhZolGC0vJWLw8iEJ88DRdyOg");
    let asked = ids(&["20"]);
    let error = twitter.look_up(&asked, &app).await.unwrap_err();
    assert!(matches!(error, LookupError::Unready(_)), "{error:?}");
    let error = twitter.look_up(&asked, &app).await.unwrap_err();
    assert!(matches!(error, LookupError::Unready(_)), "{error:?}");
    twitter.look_up(&asked, &app).await.unwrap();
    twitter.look_up(&asked, &app).await.unwrap();
    assert_eq!(exchanges.load(Ordering::Relaxed), 3, "the token is kept");
    let calls = server.asked();
    assert_eq!((calls[0].method.as_str(), calls[0].body.as_str()), ("POST", "grant_type=client_credentials"));
    let kind = calls[0].header("content-type").unwrap();
    assert!(kind.starts_with("application/x-www-form-urlencoded"), "{kind}");
    let basic = "Basic eHZ6MWV2RlM0d0VFUFRHRUZQSEJvZzpMOHFxOVBaeVJnNmllS0dFS2hab2xHQzB2SldMdzhpRUo4OERSZHlPZw==";
    assert_eq!(calls[0].header("authorization"), Some(basic));
    assert_eq!(calls.last().unwrap().header("authorization"), Some("Bearer AAAA%2FAAA%3D"));
    ended.store(true, Ordering::Relaxed);
    // Refused, exchanged, and the same again: there is no use in repeating the call.
    let why = refusal(&twitter, &app).await;
    assert!(why.contains("code 89"), "{why}");
    assert_eq!((exchanges.load(Ordering::Relaxed), server.asked().len()), (4, calls.len() + 2));
}

#[tokio::test]
async fn credentials_are_switched_by_name() {
    let running = strict().await;
    let twitter = twitter(&running.base_url());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let put = async |name: &str, standing: &'static str| {
        let url = format!("{}/simulator/credentials/{name}", running.base_url());
        let request = client.put(url).header("content-type", "application/json").body(format!("\"{standing}\""));
        request.send().await.unwrap().status().as_u16()
    };
    let (user, app) = (user(), app());
    for (credential, name) in [(&user, "main"), (&app, "main-app")] {
        twitter.look_up(&ids(&["20"]), credential).await.unwrap();
        for (standing, status, code) in [("locked", 403, 326), ("suspended", 403, 64)] {
            assert_eq!(put(name, standing).await, 204);
            let why = refusal(&twitter, credential).await;
            assert!(why.contains(&format!("HTTP {status}, code {code}")), "{why}");
        }
        assert_eq!(put(name, "good").await, 204);
        twitter.look_up(&ids(&["20"]), credential).await.unwrap();
    }
    assert_eq!(put("main", "revoked").await, 204);
    assert!(refusal(&twitter, &user).await.contains("HTTP 401, code 89"));
    twitter.look_up(&ids(&["20"]), &app).await.unwrap();
    assert_eq!(running.standings()["main"], Standing::Revoked);
    let told = client.get(format!("{}/simulator/credentials", running.base_url())).send().await.unwrap();
    assert_eq!(told.text().await.unwrap(), r#"{"main":"revoked","main-app":"good"}"#);
    assert_eq!(put("main", "good").await, 204);
    twitter.look_up(&ids(&["20"]), &user).await.unwrap();
    assert_eq!(put("nobody", "good").await, 404);
    assert!(!running.set_standing("nobody", Standing::Good));
}

/// These credentials, with a ledger of their own.
async fn accounted(all: Vec<Credential>) -> (Credentials, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let ledger = EmbeddedLedger::open(&folder.path().join("queue.db"), "twitter", Duration::from_secs(20)).await;
    let credentials = Credentials::new(all, Arc::new(ledger.unwrap()), Pacing::Auto, Duration::from_secs(60));
    (credentials, folder)
}

#[tokio::test]
async fn a_check_signs_fetches_and_corrects_its_clock() {
    let options = SimulatorOptions { credentials: Some(known()), clock_skew: 3_600_000, ..SimulatorOptions::default() };
    let running = start(options).await;
    let (credentials, _folder) = accounted(vec![user(), app()]).await;
    let checks = check_credentials(&credentials, &twitter(&running.base_url()), async |_: &_| None, "statuses/lookup")
        .await
        .unwrap();
    for (one, limit) in checks.iter().zip([900, 300]) {
        let CheckOutcome::Works { window: Some(window), freed: false, looked_up: false } = one else {
            panic!("{one:?}")
        };
        assert_eq!(
            (window.limit, window.remaining),
            (limit, limit),
            "users' calls and applications' are counted apart"
        );
    }
    assert_eq!(checks.len(), 2);
    assert_eq!(running.counters().requests, 0, "no lookup was made");
    for (account, limit) in credentials.statuses("statuses/lookup").await.unwrap().into_iter().zip([900, 300]) {
        assert_eq!((account.limit, account.remaining, account.calls_today), (Some(limit), Some(limit), 0));
        // By their clock, an hour from ours.
        let window = account.window_ms.unwrap();
        assert!((895_000..=902_000).contains(&window), "{window}");
    }
}

#[tokio::test]
async fn the_outcome_of_the_tried_lookup_decides_and_a_window_belongs_to_its_endpoint() {
    let running = start(SimulatorOptions { credentials: Some(known()), ..SimulatorOptions::default() }).await;
    let empty = Window { limit: 900, remaining: 0, reset_at: wall_ms() + 60_000, reset_in: 60_000, length: None };
    let throttled = || LookupError::Throttled { status: 429, pause: Duration::from_secs(5), quota: Some(empty) };
    for (endpoint, outcome, expected) in [
        ("statuses/lookup", Ok(None), ("works", Some(true), Some(900))),
        ("statuses/lookup", Ok(Some(Window { remaining: 7, ..empty })), ("works", Some(true), Some(7))),
        ("statuses/lookup", Err(throttled()), ("works", Some(false), Some(0))),
        ("statuses/lookup", Err(LookupError::BadRequest("no".to_owned())), ("no_answer", None, None)),
        ("statuses/lookup", Err(LookupError::Credential("no".to_owned())), ("refused", None, None)),
        // The window that the API states for posts is none of another endpoint.
        ("users/lookup", Ok(None), ("works", Some(true), None)),
    ] {
        let (credentials, _folder) = accounted(vec![user()]).await;
        let outcome = std::sync::Mutex::new(Some(outcome));
        let look_up = async |_: &_| outcome.lock().unwrap().take();
        let checks = check_credentials(&credentials, &twitter(&running.base_url()), look_up, endpoint).await.unwrap();
        let json = serde_json::to_value(&checks[0]).unwrap();
        let remaining = json["window"]["remaining"].as_u64();
        assert_eq!((json["result"].as_str().unwrap(), json["looked_up"].as_bool(), remaining), expected, "{json}");
        let account = credentials.statuses(endpoint).await.unwrap().remove(0);
        assert_eq!(account.remaining.map(u64::from), expected.2, "{endpoint}: the ledger knows what was stated");
    }
}

#[tokio::test]
async fn what_a_check_meets_on_its_own_way_parks_nobody() {
    let refusal = |status, code: u32| Canned::new(status, format!("{{\"errors\":[{{\"code\":{code}}}]}}"));
    let throttled = refusal(429, 88).header("x-rate-limit-limit", "180").header("x-rate-limit-remaining", "0");
    for (answer, says) in [
        (throttled.header("x-rate-limit-reset", "4000000000"), "no_answer"),
        (refusal(503, 130), "no_answer"),
        (refusal(404, 34), "no_answer"),
        // As a worker would: it ends, and parks nobody.
        (refusal(403, 453), "refused"),
    ] {
        let server = CannedServer::start(answer).await;
        let (credentials, _folder) = accounted(vec![bearer("any")]).await;
        let checks =
            check_credentials(&credentials, &twitter(&server.base_url()), async |_: &_| None, "statuses/lookup")
                .await
                .unwrap();
        assert_eq!(serde_json::to_value(&checks[0]).unwrap()["result"], says, "{checks:?}");
        let account = credentials.statuses("statuses/lookup").await.unwrap().remove(0);
        assert_eq!((account.parked_for_ms, account.limit), (0, None), "{checks:?}");
    }
}

#[tokio::test]
async fn without_credentials_to_know_the_simulator_takes_every_kind() {
    let running =
        start(SimulatorOptions { calls_per_window: 2, app_calls_per_window: 2, ..SimulatorOptions::default() }).await;
    let twitter = twitter(&running.base_url());
    for credential in [user(), app(), bearer("any"), anonymous()] {
        for left in [1, 0] {
            let answer = twitter.look_up(&ids(&["20"]), &credential).await.unwrap();
            assert_eq!(answer.quota.unwrap().remaining, left, "{credential:?} has a window of its own");
        }
    }
    // Named tokens know no keys.
    let tokens = SimulatorOptions { bearer_tokens: Some(vec![secret("fine")]), ..SimulatorOptions::default() };
    let running = start(tokens).await;
    let twitter = self::twitter(&running.base_url());
    twitter.look_up(&ids(&["20"]), &bearer("fine")).await.unwrap();
    assert!(refusal(&twitter, &user()).await.contains("code 32"));
    assert!(refusal(&twitter, &app()).await.contains("code 99"));
}

// Settings.

fn file_of(text: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn settings(file: &str, environment: &[(&str, &str)]) -> Result<Settings, BadConfig> {
    let environment = variables(environment);
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
    Settings::load_with(&[], Some(file_of(file).path()), &environment)
}

#[test]
fn one_pair_of_keys_gives_two_credentials() {
    let (consumer_secret, token) = (file_of("cs-of-file\n"), file_of("  t-of-file"));
    let file = format!(
        "[twitter]\napi = \"http://127.0.0.1:9\"\n[twitter.credentials.main]\nkind = \"both\"\n\
         consumer_secret_file = {:?}\ntoken_file = {:?}\n[twitter.credentials.a-2]\nkind = \"app\"\n",
        consumer_secret.path(),
        token.path()
    );
    let environment = [
        ("twitter.credentials.main.consumer_key", "ck"),
        ("twitter.credentials.main.token_secret", "ts"),
        ("twitter.credentials.a-2.bearer_token", "given"),
        ("twitter.credentials.by_env.kind", "user"),
        ("twitter.credentials.by_env.consumer_key", "1"),
        ("twitter.credentials.by_env.consumer_secret", "2"),
        ("twitter.credentials.by_env.token", "3"),
        ("twitter.credentials.by_env.token_secret", "4"),
        ("twitter.bearer_token", "single"),
    ];
    let all = credentials(&settings(&file, &environment).unwrap(), &Provider::Twitter).unwrap();
    let named: Vec<String> = all.iter().map(|one| format!("{} {:?}", one.name, one.kind)).collect();
    assert_eq!(named, ["bearer bearer", "a-2 bearer", "by_env user", "main user", "main-app app"]);
    // The names are known without the secrets.
    let callers = settings(&file, &environment).unwrap().callers(&Provider::Twitter).unwrap();
    let callers: Vec<String> = callers.iter().map(|(name, caller)| format!("{name} {caller}")).collect();
    assert_eq!(callers, ["bearer app-only", "a-2 app-only", "by_env user", "main user", "main-app app-only"]);
    let CredentialKind::User(keys) = &all[3].kind else { panic!("{named:?}") };
    let shown = [&keys.consumer_key, &keys.consumer_secret, &keys.token, &keys.token_secret].map(|s| s.expose_secret());
    assert_eq!(shown, ["ck", "cs-of-file", "t-of-file", "ts"]);
    let CredentialKind::App(app) = &all[4].kind else { panic!("{named:?}") };
    assert_eq!(app.basic_header().expose_secret(), "Basic Y2s6Y3Mtb2YtZmlsZQ==", "ck:cs-of-file");
    // X's are its own, and Twitter's are not lent to it.
    let both = [("x.bearer_token", "x"), ("twitter.bearer_token", "twitter")];
    let both = settings("", &both).unwrap();
    for (provider, token) in [(Provider::Twitter, "twitter"), (Provider::X, "x")] {
        let all = credentials(&both, &provider).unwrap();
        let [Credential { kind: CredentialKind::Bearer(secret), .. }] = &all[..] else { panic!("{all:?}") };
        assert_eq!(secret.expose_secret(), token);
    }
    let local = settings("[twitter]\napi = \"http://127.0.0.1:9\"\n", &[]).unwrap();
    for provider in [Provider::Twitter, Provider::Bluesky] {
        let none = credentials(&local, &provider).unwrap();
        assert!(matches!(&none[..], [Credential { kind: CredentialKind::Anonymous, .. }]), "{none:?}");
    }
    let error = credentials(&local, &Provider::X).unwrap_err().to_string();
    assert!(error.contains("https://api.x.com needs a credential: set TWITTER_UPDATER__X__BEARER_TOKEN"), "{error}");
}

/// The file, settings from the environment, and what the line names.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);

#[test]
fn a_credential_that_cannot_be_is_one_line_that_names_the_key() {
    const MAIN: &str = "twitter.credentials.main";
    let empty_one = file_of("\n");
    let empty = empty_one.path().to_str().unwrap();
    let user = ("twitter.credentials.main.kind", "user");
    let app = ("twitter.credentials.main.kind", "app");
    let key = ("twitter.credentials.main.consumer_key", "canary");
    let consumer_secret = ("twitter.credentials.main.consumer_secret", "canary");
    let token = ("twitter.credentials.main.token", "canary");
    let token_secret = ("twitter.credentials.main.token_secret", "canary");
    let bearer_token = ("twitter.credentials.main.bearer_token", "canary");
    let mut cases: Vec<Case<'_>> = vec![
        ("", &[("twitter.credentials.main.tokn", "canary")], &["environment", "tokn", MAIN]),
        ("[twitter.credentials.main]\nkind = \"all\"\n", &[], &["my.toml", "all"]),
        ("[twitter.credentials.\"a b\"]\nkind = \"app\"\n", &[], &["\"a b\"", "a to z"]),
        ("[twitter.credentials.\"ä\"]\nkind = \"app\"\n", &[], &["a to z"]),
        ("[twitter.credentials.main]\n", &[], &["main.kind is missing", "user, app or both"]),
    ];
    let missing: [Case<'_>; 9] = [
        ("", &[token], &["main.kind is missing"]),
        ("", &[app], &["main.consumer_key is missing", "__MAIN__CONSUMER_KEY", "consumer_key_file", "bearer_token"]),
        ("", &[app, key], &["main.consumer_secret is missing"]),
        ("", &[user, key, consumer_secret, token], &["main.token_secret is missing", "__MAIN__TOKEN_SECRET"]),
        ("", &[user, key, consumer_secret, ("twitter.credentials.main.token", " ")], &["main.token is empty"]),
        ("", &[app, token, bearer_token], &["main.token has no effect", "app"]),
        ("", &[user, key, consumer_secret, token, token_secret, bearer_token], &["main.bearer_token has no effect"]),
        ("", &[app, key, bearer_token], &["both", "main.bearer_token", "consumer keys"]),
        (
            "",
            &[app, key, ("twitter.credentials.main.consumer_secret", "canary two")],
            &["main.consumer_secret has white space"],
        ),
    ];
    cases.extend(missing);
    let both_forms = [app, key, ("twitter.credentials.main.consumer_key_file", empty)];
    let empty_file = [app, ("twitter.credentials.main.bearer_token_file", empty)];
    let no_file = [app, ("twitter.credentials.main.bearer_token_file", "/nowhere/token")];
    cases.push(("", &both_forms, &["both", "main.consumer_key ", "main.consumer_key_file"]));
    cases.push(("", &empty_file, &["main.bearer_token_file", "is empty"]));
    cases.push(("", &no_file, &["main.bearer_token_file /nowhere/token cannot be read"]));
    let twice = "[twitter.credentials.main]\nkind = \"both\"\n[twitter.credentials.main-app]\nkind = \"app\"\n";
    let twice_keys =
        [key, consumer_secret, token, token_secret, ("twitter.credentials.main-app.bearer_token", "canary")];
    cases.push((twice, &twice_keys, &["\"main-app\"", "rename twitter.credentials.main-app"]));
    let called_bearer = [("twitter.bearer_token", "canary"), ("twitter.credentials.bearer.bearer_token", "canary")];
    cases.push((
        "[twitter.credentials.bearer]\nkind = \"app\"\n",
        &called_bearer,
        &["\"bearer\"", "rename twitter.credentials.bearer"],
    ));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.toml");
    let check = |file: &str, environment: &[(&str, &str)], names: &[&str]| {
        std::fs::write(&path, file).unwrap();
        let api = [("twitter.api", "http://127.0.0.1:9")];
        let output = run(&["--config", path.to_str().unwrap(), "check"], &variables(&[&api, environment].concat()));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{names:?}: {said}");
        // One line each, where several are wrong.
        let one = said.lines().find(|line| names.iter().all(|name| line.contains(name)));
        assert!(one.is_some(), "{names:?} are not in a line of: {said}");
        assert!(said.lines().all(|line| line.starts_with("twitter-updater: configuration: ")), "{said}");
        assert!(output.stdout.is_empty() && !said.contains("canary"), "{said}");
    };
    for (file, environment, names) in &cases {
        check(file, environment, names);
    }
    for part in ["consumer_key", "consumer_secret", "token", "token_secret", "bearer_token"] {
        let file = format!("[twitter.credentials.main]\nkind = \"both\"\n{part} = \"canary\"\n");
        let variable = format!("TWITTER_UPDATER__TWITTER__CREDENTIALS__MAIN__{}", part.to_uppercase());
        check(&file, &[], &[&format!("{MAIN}.{part} has no place"), &variable, &format!("{MAIN}.{part}_file")]);
    }
}

#[test]
fn what_is_shown_of_a_credential_is_whether_it_is_set() {
    let file = "[twitter.credentials.main]\nkind = \"user\"\ntoken_file = \"/run/token\"\n";
    let settings = settings(file, &[("twitter.credentials.main.consumer_key", "canary")]).unwrap();
    let masked_toml: toml::Table = settings.masked_toml().parse().unwrap();
    let main = &masked_toml["twitter"]["credentials"]["main"];
    let told = |key: &str| main[key].as_str().unwrap();
    assert_eq!([told("kind"), told("consumer_key"), told("token")], ["user", "(set)", "(not set)"]);
    assert_eq!(told("token_file"), "/run/token");
    assert!(!settings.masked_toml().contains("canary") && !format!("{settings:?}").contains("canary"));
}
