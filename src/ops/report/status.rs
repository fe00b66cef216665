//! The queues and their quotas at one moment, for people; and the polled sources.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use serde::{Serialize, Serializer};

use crate::base::clock;
use crate::base::humanize::{one_line, span};
use crate::engine::queue::{Stats, WorkerStats};
use crate::engine::schedule::Schedule;
use crate::engine::schedule::adaptive::budget::Spending;
use crate::ops::report::capacity::{Busiest, Overload, lasting};
use crate::ops::report::crawls::Crawls;
use crate::ops::report::credentials::{budget_line, parked};
use crate::ops::report::known_accounts::KnownAccounts;
use crate::ops::report::list_backlog::ListBacklog;
use crate::ops::report::plan::Fill;
use crate::ops::report::sources::Sources;
use crate::pipelines::kind::Words;
use crate::quota::{CredentialStatus, Reads};
use crate::store::OldReader;

/// Fields of a worker's report that need a line of their own; usually empty.
const SENTENCES: [&str; 5] =
    [WorkerStats::TROUBLE, WorkerStats::FAILING, WorkerStats::CALL_FAILED, "config_refused", "config_needs_restart"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Up to date. Green.
    Fresh,
    /// Some are not up to date, or new ones are not collected. Amber.
    Late,
    /// Nothing is updated. Red.
    Stopped,
    /// Grey.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    pub state: State,
    /// One sentence, with the action to take.
    pub sentence: String,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "fresh",
            Self::Late => "late",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
        })
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// The headline: is everything fresh, and if not, why? `None` if the store was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// The called APIs, in words: those that the workers name, or else that of the settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apis: Vec<String>,
    #[serde(flatten)]
    pub stats: Stats,
    pub quota: Overload,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest: Option<Busiest>,
    /// Calls of an adaptive schedule ÷ calls of the fixed intervals (for posts, `tweet_age`), since the queue's counts started. `None`
    /// without calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_to_table: Option<f64>,
    pub parked: Vec<CredentialStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Reads>,
    /// Present where the pipeline's items are accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_accounts: Option<KnownAccounts>,
    /// Present where the pipeline's items are lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lists: Option<ListBacklog>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crawls: Option<Crawls>,
    /// The oldest transaction in the store's database, if it is older than five minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_reader: Option<OldReader>,
}

impl Status {
    /// The status of a queue and of the credentials that serve it. `fill` describes its requests, `words` and `schedule` its items.
    #[must_use]
    pub fn new(
        stats: Stats,
        accounts: Vec<CredentialStatus>,
        fill: Fill,
        (words, schedule): (Words, &dyn Schedule),
    ) -> Self {
        let lanes = lasting(&stats.lanes, schedule);
        let quota = Overload::new(&lanes, &accounts, fill).with_words(words);
        let busiest = Busiest::of(&lanes, words);
        let calls_to_table = Spending::of_counters(&stats.counters).calls_to_table();
        let parked = accounts.into_iter().filter(|account| account.parked_for_ms > 0).collect();
        let apis: BTreeSet<&String> =
            stats.workers.iter().filter_map(|worker| worker.fields.get(WorkerStats::API)).collect();
        let apis = apis.into_iter().filter(|api| !api.is_empty()).map(|api| one_line(api)).collect();
        Self {
            answer: None,
            apis,
            stats,
            quota,
            busiest,
            calls_to_table,
            parked,
            budget: None,
            known_accounts: None,
            lists: None,
            crawls: None,
            old_reader: None,
        }
    }

    /// Sets the API of the settings if no worker names one.
    #[must_use]
    pub fn with_api(self, api: Option<String>) -> Self {
        let apis = if self.apis.is_empty() { api.into_iter().collect() } else { self.apis };
        Self { apis, ..self }
    }

    #[must_use]
    pub fn with_old_reader(self, old_reader: Option<OldReader>) -> Self {
        Self { old_reader, ..self }
    }

    #[must_use]
    pub fn with_reads(self, budget: Option<Reads>) -> Self {
        Self { budget, ..self }
    }

    #[must_use]
    pub fn with_accounts(self, known_accounts: Option<KnownAccounts>) -> Self {
        Self { known_accounts, ..self }
    }

    /// Adds the lists, whose visits become the demand.
    #[must_use]
    pub fn with_lists(self, lists: Option<ListBacklog>) -> Self {
        let upkeep = lists.as_ref().and_then(|lists| Some(lists.figures.as_ref()?.upkeep_calls_per_15_min));
        let quota = upkeep.map_or(self.quota.clone(), |calls| self.quota.of_lists(calls));
        Self { lists: lists.map(|lists| lists.by(&quota)), quota, ..self }
    }

    /// Adds the crawls under way, and the time that each takes by the quota.
    #[must_use]
    pub fn with_crawls(self, crawls: Option<Crawls>) -> Self {
        Self { crawls: crawls.map(|crawls| crawls.by(&self.quota)), ..self }
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum NamespaceStatus {
    Status(Box<Status>),
    Out {
        namespace: String,
        error: String,
        /// The page's headline; `None` without a page.
        #[serde(skip_serializing_if = "Option::is_none")]
        answer: Option<Answer>,
    },
}

/// The status of all requested namespaces, and the polled sources if there are any. A single namespace is written as its status, several
/// as a list.
#[derive(Debug, Clone)]
pub struct Report {
    namespaces: Vec<NamespaceStatus>,
    sources: Sources,
}

impl Report {
    #[must_use]
    pub fn new(read: Vec<(String, Result<Status, String>)>, sources: Sources) -> Self {
        let known = |(namespace, read): (String, Result<Status, String>)| match read {
            Ok(status) => NamespaceStatus::Status(Box::new(status)),
            Err(error) => NamespaceStatus::Out { namespace, error, answer: None },
        };
        Self::of(read.into_iter().map(known).collect(), sources)
    }

    #[must_use]
    pub fn of(namespaces: Vec<NamespaceStatus>, sources: Sources) -> Self {
        let mut report = Self { namespaces, sources: Sources::default() };
        report.sources = sources.at(report.now());
        report
    }

    #[must_use]
    pub fn answers(&self) -> bool {
        self.namespaces.iter().any(|known| matches!(known, NamespaceStatus::Status(_)))
    }

    /// Current time by the queue's clock, or by our own while it is out. ms since the epoch.
    fn now(&self) -> clock::Millis {
        let answered = self.namespaces.iter().find_map(|known| match known {
            NamespaceStatus::Status(status) => Some(status.stats.now_ms),
            NamespaceStatus::Out { .. } => None,
        });
        answered.unwrap_or_else(clock::wall_ms)
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct One<'a> {
            #[serde(flatten)]
            known: &'a NamespaceStatus,
            #[serde(flatten)]
            sources: &'a Sources,
        }
        #[derive(Serialize)]
        struct Several<'a> {
            namespaces: &'a [NamespaceStatus],
            #[serde(flatten)]
            sources: &'a Sources,
        }
        let sources = &self.sources;
        match &self.namespaces[..] {
            [known] => One { known, sources }.serialize(to),
            namespaces => Several { namespaces, sources }.serialize(to),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for known in &self.namespaces {
            match known {
                NamespaceStatus::Status(status) => writeln!(text, "{}", table(status))?,
                NamespaceStatus::Out { namespace, error, .. } => writeln!(text, "{namespace}\nOUT: {error}")?,
            }
            text.push('\n');
        }
        self.sources.write(&mut text, self.now())?;
        f.write_str(text.trim_end())
    }
}

#[must_use]
pub fn table(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_table(&mut text, status);
    text.trim_end().to_owned()
}

fn write_table(out: &mut String, status: &Status) -> std::fmt::Result {
    let Status {
        answer,
        apis,
        stats,
        quota,
        busiest,
        calls_to_table,
        parked: left_alone,
        budget,
        known_accounts,
        lists,
        crawls,
        old_reader,
    } = status;
    writeln!(out, "{}", stats.namespace)?;
    if let Some(answer) = answer {
        writeln!(out, "{}", answer.sentence)?;
    }
    for api in apis {
        writeln!(out, "API: {api}")?;
    }
    if let Some(reason) = &stats.paused {
        writeln!(out, "PAUSED: {reason}")?;
    }
    if let Some(OldReader { age_ms, what }) = old_reader {
        writeln!(out, "{} is {} old: end it, it slows down all others", one_line(what), span(age_ms / 1_000 * 1_000))?;
    }
    writeln!(out, "\n{:<14}{:>10}{:>12}{:>10}{:>18}", "lane", "interval", "delayed", "due", "oldest lateness")?;
    for lane in &stats.lanes {
        writeln!(
            out,
            "{:<14}{:>10}{:>12}{:>10}{:>18}",
            lane.lane,
            span(lane.patience_ms),
            lane.delayed,
            lane.due,
            span(lane.oldest_lateness_ms)
        )?;
    }
    writeln!(
        out,
        "{:<14}{:>10}{:>12}{:>10}{:>18}",
        "all",
        "",
        stats.delayed,
        stats.due,
        span(stats.oldest_lateness_ms)
    )?;
    if let Some(busiest) = busiest {
        writeln!(out, "{busiest}")?;
    }
    if let Some(calls) = calls_to_table {
        writeln!(out, "{:.2} of the calls that the fixed intervals would have made", calls)?;
    }
    writeln!(out, "\n{:<20}{:>12}  ({} of them expired)", "leased", stats.leased, stats.expired)?;
    writeln!(out, "{:<20}{:>12}", "dead", stats.dead)?;
    writeln!(out, "{:<20}{:>12}  ({} refused)", "incoming", stats.incoming, stats.incoming_refused)?;
    if let Some(accounts) = known_accounts {
        writeln!(out, "\naccounts\n{accounts}")?;
    }
    if let Some(lists) = lists {
        writeln!(out, "\nlists\n{lists}")?;
    }
    if let Some(crawls) = crawls {
        writeln!(out, "\ncrawls\n{crawls}")?;
    }
    writeln!(out, "\nquota\n{quota}")?;
    if let Some(reads) = budget {
        writeln!(out, "\nbudget of reads\n{}", budget_line(reads))?;
    }
    if !left_alone.is_empty() {
        writeln!(out, "\nparked credentials")?;
        for account in left_alone {
            writeln!(out, "{:<19} {}", account.name, parked(account).unwrap_or_default())?;
        }
    }
    if !stats.counters.is_empty() {
        writeln!(out, "\ncounters")?;
        for (name, value) in &stats.counters {
            writeln!(out, "{name:<20}{value:>12}")?;
        }
    }
    writeln!(out, "\nworkers: {}", stats.workers.len())?;
    for worker in &stats.workers {
        let shown = worker.fields.iter().filter(|(name, value)| !value.is_empty() && *name != WorkerStats::API);
        let (sentences, fields): (Vec<_>, Vec<_>) = shown.partition(|(name, _)| SENTENCES.contains(&name.as_str()));
        let fields: Vec<String> = fields.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(out, "{:<32} heartbeat {} ago  {}", worker.worker, span(worker.beat_age_ms), fields.join(" "))?;
        for (name, value) in sentences {
            writeln!(out, "  {name}: {value}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::schedule::age::AgeTable;
    use crate::providers::twitter_v1::CAPABILITIES;

    fn of(namespace: &str, read: Result<(), &str>) -> (String, Result<Status, String>) {
        let stats = Stats { namespace: namespace.to_owned(), now_ms: 9, ..Stats::default() };
        let fill = Fill::of(CAPABILITIES, Duration::from_secs(5), 0.1);
        let ages: AgeTable = "1d: 1h".parse().unwrap();
        let read = read.map(|()| Status::new(stats, Vec::new(), fill, (Words::POSTS, &ages))).map_err(str::to_owned);
        (namespace.to_owned(), read)
    }

    #[test]
    fn a_transaction_that_is_old_is_named() {
        let (name, status) = of("x:update", Ok(()));
        let old = OldReader { age_ms: 400_900, what: "the transaction of process 7".to_owned() };
        let report =
            Report::new(vec![(name, status.map(|status| status.with_old_reader(Some(old))))], Sources::default());
        let line = "the transaction of process 7 is 6m 40s old: end it, it slows down all others";
        assert!(report.to_string().lines().any(|said| said == line), "{report}");
        assert_eq!(serde_json::to_value(&report).unwrap()["old_reader"]["age_ms"], 400_900);
    }

    #[test]
    fn one_namespace_is_written_flat_and_several_as_a_list() {
        let none = Sources::default;
        let one = Report::new(vec![of("x:update", Ok(()))], none());
        let json = serde_json::to_value(&one).unwrap();
        assert_eq!((&json["namespace"], json.get("sources")), (&"x:update".into(), None));
        assert!(one.to_string().starts_with("x:update\n") && !one.to_string().contains("sources"), "{one}");

        let sources = Sources { error: Some("no route".to_owned()), ..none() };
        let two = Report::new(vec![of("x:update", Err("refused")), of("tweet:update", Ok(()))], sources.clone());
        let json = serde_json::to_value(&two).unwrap();
        assert_eq!(json["namespaces"][0], serde_json::json!({"namespace": "x:update", "error": "refused"}));
        assert_eq!(json["namespaces"][1]["now_ms"], 9);
        assert_eq!(json["sources_error"], "no route");
        let text = two.to_string();
        assert!(text.starts_with("x:update\nOUT: refused\n\ntweet:update\n"), "{text}");
        assert!(text.ends_with("\n\nsources\nnot known: no route"), "{text}");
        assert!(two.answers() && !Report::new(vec![of("x:update", Err("refused"))], sources).answers());
    }
}
