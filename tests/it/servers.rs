//! The updater with servers of other authors, replayed from recorded exchanges (`tests/fixtures/servers`).

mod bluesky;
mod takahe;

use std::collections::BTreeMap;
use std::path::Path;

use reqwest::Url;
use serde_json::Value;

use crate::support::http::{Asked, Canned};

/// Parameters that identify the requested page.
const NAMES: [&str; 7] = ["actor", "actors", "repo", "collection", "acct", "max_id", "cursor"];

/// A call: its path and the parameters that matter.
type Call = (String, BTreeMap<String, String>);

/// Recorded exchanges of a server.
#[derive(Clone)]
pub struct Recorded(BTreeMap<Call, Canned>);

fn call(target: &str) -> Call {
    let url = Url::parse("http://any.invalid").unwrap().join(target).unwrap();
    let parameters = url.query_pairs().filter(|(name, _)| NAMES.contains(&&**name));
    (url.path().to_owned(), parameters.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
}

impl Recorded {
    pub fn of(server: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/servers/{server}.jsonl"));
        let text = std::fs::read_to_string(file).unwrap();
        let exchange = |line: &str| {
            let exchange: Value = serde_json::from_str(line).unwrap();
            let status = exchange["status"].as_u64().unwrap().try_into().unwrap();
            let mut canned = Canned::new(status, exchange["body"].as_str().unwrap());
            for (name, value) in exchange["headers"].as_object().unwrap() {
                canned = canned.header(name, value.as_str().unwrap());
            }
            (call(exchange["path"].as_str().unwrap()), canned)
        };
        Self(text.lines().map(exchange).collect())
    }

    /// The recorded answer to that call; `None` where there is none.
    pub fn answer(&self, asked: &Asked) -> Option<Canned> {
        self.get(&asked.target)
    }

    pub fn get(&self, target: &str) -> Option<Canned> {
        self.0.get(&call(target)).cloned()
    }
}
