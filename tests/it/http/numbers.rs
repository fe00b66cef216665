//! Numbers and hostile text in the queries of all pages.

use super::*;
use crate::support::postgres;

/// 0, −1, 2⁶³, 2⁶⁴−1 and 10³⁰; then text that a database may reject.
const VALUES: [&str; 9] = [
    "0",
    "-1",
    "9223372036854775808",
    "18446744073709551615",
    "1000000000000000000000000000000",
    "",
    "x",
    "%00",
    "%FF",
];
/// Queries of the pages of a namespace, before the value.
const QUERIES: [&str; 14] = [
    "/?range=",
    "/dead?from=",
    "/dead?below=",
    "/dead?reason=",
    "/dead?retried=",
    "/dead?dropped=",
    "/dead?already=",
    "/dead?done=1&refused=2&many=",
    "/dead?many=retried&done=",
    "/dead?many=dropped&refused=",
    "/tweet?id=",
    "/events?tweet=",
    "/events?range=",
    "/errors?text=",
];
/// Those of all namespaces.
const IN_COMMON: [&str; 2] = ["/find?id=", "/status?namespace="];

/// The fields of each query that a page reads.
fn parameters() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops/page");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = Vec::new();
    for text in files.filter(|file| file.is_file()).map(|file| std::fs::read_to_string(file).unwrap()) {
        let Some((_, rest)) = text.split_once("Query {\n") else { continue };
        let fields = rest
            .split('}')
            .next()
            .unwrap()
            .lines()
            .map(str::trim)
            .filter(|line| line.ends_with(',') && !line.starts_with('/'));
        found.extend(fields.map(|line| line.split(':').next().unwrap().rsplit(' ').next().unwrap().to_owned()));
    }
    assert!(!found.is_empty(), "no query is found");
    found
}

async fn no_query_ends_it(name: &str, settings: &Variables, log: &std::path::Path, roots: &[&str]) {
    assert!(run(&["migrate"], settings).status.success());
    let mut ops = Role::start_ready("ops", settings, log).await;
    until_true("the store is open", Duration::from_secs(30), async || {
        ops.get(&format!("{}/dead", roots[0])).await.0 == 200
    })
    .await;
    let of_pages = roots.iter().flat_map(|root| QUERIES.iter().map(move |query| format!("{root}{query}")));
    let accounts = roots.iter().filter(|root| root.contains("profiles")).map(|root| format!("{root}/account?id="));
    let mut asked = 0;
    for query in of_pages.chain(accounts).chain(IN_COMMON.map(str::to_owned)) {
        for value in VALUES {
            let url = format!("{}{query}{value}", ops.url);
            // Not its body: a stream has no end.
            let status = ops.client.get(&url).send().await.map(|response| response.status().as_u16());
            assert!(ops.process.runs(), "{name}: {query}{value} ended the process");
            assert!(status.as_ref().is_ok_and(|status| *status < 500), "{name}: {query}{value}: {status:?}");
            asked += 1;
        }
    }
    let metrics = ops.get("/metrics").await.1;
    assert_eq!(value(&metrics, "twitter_updater_http_panics_total"), Some(0.0), "{name}: {metrics}");
    println!("{name}: {asked} queries");
    assert_eq!(ops.stopped().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_number_in_a_query_is_an_error_of_the_server() {
    for parameter in parameters() {
        let is_asked = |query: &&str| query.ends_with(&format!("{parameter}="));
        assert!(QUERIES.iter().chain(&IN_COMMON).any(is_asked), "{parameter} is in no query here");
    }
    let home = Home::new().await;
    let (redis, database) = (TestRedis::start(&[]), postgres::database().await);
    let postgres = [("store.backend", "postgres"), ("store.postgres.url", &*database)];
    let accounts = [("accounts.collect", "true")];
    let several = ["/n/tweet:update", "/n/profiles:twitter"];
    for (name, settings, roots) in [
        ("redis-one", home.on(&redis, &postgres), &[""][..]),
        ("redis-several", home.on(&redis, &[&postgres[..], &accounts].concat()), &several),
        ("sqlite-one", home.settings(&[]), &[""]),
        ("sqlite-several", home.settings(&accounts), &several),
    ] {
        no_query_ends_it(name, &settings, &home.path(name), roots).await;
    }
}
