//! Accounts as people see them: `status`, the overview, their pages, and the metrics.

use std::collections::BTreeMap;

use twitter_updater::model::pipeline_id::PipelineId;
use twitter_updater::model::provider::Provider;
use twitter_updater::store::{Accounts, SqliteStore};

use super::documents::{documented, shown};
use super::*;

const ACCOUNTS: &str = "profiles:twitter";
const PATIENCE: Duration = Duration::from_secs(30);

/// The entry of the accounts in an answer of `/status`.
fn of_accounts(status: &str) -> Value {
    let status: Value = serde_json::from_str(status).unwrap_or_else(|_| panic!("{status}"));
    let found = status["namespaces"].as_array().and_then(|all| all.iter().find(|one| one["namespace"] == ACCOUNTS));
    found.cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_are_seen_as_accounts() {
    let home = Home::new().await;
    let settings = home.settings(&[("accounts.collect", "true")]);
    let file = home.path("ids.txt");
    std::fs::write(&file, young(40).join("\n")).unwrap();
    assert_eq!(run(&["enqueue", file.to_str().unwrap()], &settings).status.code(), Some(0));
    // None of them is found yet: the number is nought, and their age is unknown.
    let before: Value = serde_json::from_slice(&run(&["status", "--json"], &settings).stdout).unwrap();
    let before = of_accounts(&before.to_string());
    assert_eq!(
        (&before["known_accounts"]["states"]["live"], &before["known_accounts"]["oldest_data_ms"]),
        (&0.into(), &Value::Null)
    );

    let updater = home.role("updater", &settings).await;
    let ops = home.role("ops", &settings).await;
    let mut seen = Value::Null;
    until_true("the authors of the posts are counted", PATIENCE, async || {
        seen = of_accounts(&ops.get("/status").await.1);
        let live = seen["known_accounts"]["states"]["live"].as_u64();
        live.is_some_and(|live| live >= 20) && seen["answer"]["state"] == "fresh"
    })
    .await;
    let known = &seen["known_accounts"];
    let states = known["states"].as_object().unwrap();
    let named: Vec<&str> = states.keys().map(String::as_str).collect();
    let mut words = ["live", "protected", "suspended", "deactivated", "deleted", "unknown"];
    words.sort_unstable();
    assert_eq!(named.len(), words.len(), "{known}");
    assert!(words.iter().all(|word| states[*word].is_u64()), "{known}");
    assert!(
        known["oldest_data_ms"].as_i64().is_some_and(|age| (0..PATIENCE.as_millis() as i64 * 2).contains(&age)),
        "{known}"
    );

    // On a busy machine one of them may be late for a moment.
    let own = until("status says that they are up to date", PATIENCE, async || {
        let status = text(&run(&["status"], &settings).stdout);
        let own = status.split_once(&format!("{ACCOUNTS}\n")).unwrap_or_else(|| panic!("{status}")).1;
        own.lines().next().unwrap().contains("accounts are up to date").then(|| own.to_owned())
    })
    .await;
    assert!(!own.contains(" posts"), "{own}");
    let row = |word: &str| own.lines().find_map(|line| line.strip_prefix(word)).map(str::trim);
    assert_eq!(row("live"), Some(states["live"].to_string().as_str()), "{own}");
    assert!(row("oldest data").is_some_and(|age| age.ends_with('s')), "{own}");

    // The overview, its card, and the pages of the namespace.
    let overview = ops.get("/").await.1;
    let card = overview.split_once(&format!("href=\"/n/{ACCOUNTS}/\"")).map(|(_, rest)| rest).unwrap_or_default();
    assert!(overview.contains("<dt>Oldest data</dt>") && overview.contains("<dt>live</dt>"), "{overview}");
    assert!(!card.is_empty() && overview.contains("placeholder=\"Id, address or @handle\""), "{overview}");
    let front = until("and so does its page", PATIENCE, async || {
        Some(ops.get(&format!("/n/{ACCOUNTS}/")).await.1).filter(|front| front.contains("accounts are up to date"))
    })
    .await;
    for says in
        ["id=\"accounts\"", "Accounts by state", "the network returns it", "accounts are up to date", ">Accounts</th>"]
    {
        assert!(front.contains(says), "{says}: {front}");
    }
    for never in ["Youngest posts", " posts are", "Id or address of a post", "tweets leased"] {
        assert!(!front.contains(never), "{never}: {front}");
    }
    assert!(front.contains(&format!("action=\"/n/{ACCOUNTS}/account\"")), "{front}");
    assert!(ops.get("/n/tweet:update/").await.1.contains("Youngest posts"));

    // An account is at an address of its own, by id and by handle, and where it was before.
    let person = 7;
    let people = home.api.people();
    let id = people.id(&Provider::Twitter, person);
    let handles = home.path("handles.txt");
    std::fs::write(&handles, format!("{id}\n")).unwrap();
    let put_in = run(&["enqueue", "--accounts", handles.to_str().unwrap()], &settings);
    assert_eq!(put_in.status.code(), Some(0), "{}", text(&put_in.stderr));
    let handle = people.person_at(person, wall_ms()).handle;
    let page = format!("/n/{ACCOUNTS}/account?id=");
    until_true("its page has its handle", PATIENCE, async || {
        ops.get(&format!("{page}{id}")).await.1.contains(&format!("@{handle}"))
    })
    .await;
    for asked in [
        format!("{page}{handle}"),
        format!("{page}@{handle}"),
        format!("/n/{ACCOUNTS}/tweet?id={id}"),
        format!("/find?id=@{handle}"),
    ] {
        let (status, found) = ops.get(&asked).await;
        assert!(status == 200 && found.contains(&format!("@{handle}")), "{asked}: {status} {found}");
    }
    assert_eq!(ops.get(&format!("{page}nobody-has-it")).await.0, 404);
    assert_eq!(ops.get("/find?id=@nobody_has_it").await.0, 400);
    assert_eq!(ops.get(&format!("/n/tweet:update/account?id={id}")).await.0, 404, "posts are no accounts");
    assert_eq!(PipelineId::items(&Provider::Twitter, "profiles").to_string(), ACCOUNTS);

    // Handles come over HTTP, too, and wait for a call.
    let starter = home.role("starter", &settings).await;
    let (other, nobody) = (people.person_at(person + 1, wall_ms()).handle, "nobody_has_it");
    let sent = starter.client.post(format!("{}/accounts", starter.url));
    let sent = sent.header("content-type", "application/json").body(json!([format!("@{other}"), nobody]).to_string());
    let receipt: Value = serde_json::from_str(&sent.send().await.unwrap().text().await.unwrap()).unwrap();
    assert_eq!(receipt["handles"], 2, "{receipt}");
    until_true("the one has its account", PATIENCE, async || {
        ops.get(&format!("{page}{other}")).await.1.contains(&people.id(&Provider::Twitter, person + 1))
    })
    .await;
    // Of the other one no answer says why it is not there: it is asked for a second time later.
    let none = ops.get(&format!("{page}{nobody}")).await.1;
    assert!(none.contains("an API call will resolve it to an account"), "{none}");
    let store = SqliteStore::open(&home.path("home.db"), PATIENCE).await.unwrap();
    store.settle_handles(ACCOUNTS, wall_ms(), &[], &[(nobody.to_owned(), "no account".to_owned())]).await.unwrap();
    let none = ops.get(&format!("{page}{nobody}")).await.1;
    assert!(none.contains("This handle was rejected at"), "{none}");
    assert_eq!(starter.stopped().await, Some(0));

    // What programs see.
    let metrics = ops.get("/metrics").await.1;
    let of = |name: &str| value(&metrics, &format!("twitter_updater_{name}"));
    let live = of(&format!("accounts{{namespace=\"{ACCOUNTS}\",state=\"live\"}}"));
    assert!(live >= Some(20.0), "{metrics}");
    assert!(of(&format!("accounts_oldest_data_seconds{{namespace=\"{ACCOUNTS}\"}}")) >= Some(0.0), "{metrics}");
    let own: BTreeMap<_, _> =
        shown(&metrics).into_iter().filter(|(name, _)| name.starts_with("twitter_updater_accounts")).collect();
    assert_eq!(own, documented("### Stored accounts"));
    assert_eq!(updater.stopped().await, Some(0));
}
