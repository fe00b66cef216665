//! The queues, their quotas and the polled sources at one moment, for people.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use serde::{Serialize, Serializer};

use crate::ops::NoAnswer;
use crate::ops::report::crawls::Crawls;
use crate::ops::report::credentials::{budget_line, parked_text};
use crate::ops::report::known_accounts::KnownAccounts;
use crate::ops::report::list_backlog::ListBacklog;
use crate::ops::report::plan::RequestFill;
use crate::ops::report::quota_load::{BusiestLanes, QuotaLoad, recurring_lanes};
use crate::ops::report::sources::Sources;
use crate::table::Table;
use collect::pipelines::kind::ItemWords;
use engine::base::clock;
use engine::base::humanize::{one_line, span};
use engine::queue::{Stats, WorkerStats};
use engine::quota::{BudgetStatus, CredentialStatus};
use engine::schedule::adaptive::budget::Spending;
use store::OldReader;

/// Fields of a worker's heartbeat with a line of their own; usually empty.
const SENTENCE_FIELDS: [&str; 5] =
    [WorkerStats::TROUBLE, WorkerStats::FAILING, WorkerStats::CALL_FAILED, "config_refused", "config_needs_restart"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FreshnessState {
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
pub struct Headline {
    pub state: FreshnessState,
    /// One sentence, with the action to take.
    pub sentence: String,
}

impl fmt::Display for FreshnessState {
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
    /// The headline; `None` if the store was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Headline>,
    /// The called APIs in words: those of the workers' heartbeats, or else that of the settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apis: Vec<String>,
    #[serde(flatten)]
    pub stats: Stats,
    pub quota: QuotaLoad,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest: Option<BusiestLanes>,
    /// Calls of an adaptive schedule ÷ calls of the fixed intervals (`tweet_age` for posts), since the queue's counts started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demand_to_budget: Option<f64>,
    pub parked: Vec<CredentialStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetStatus>,
    /// Present if the items are accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_accounts: Option<KnownAccounts>,
    /// Present if the items are lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lists: Option<ListBacklog>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crawls: Option<Crawls>,
    /// The oldest transaction in the store's database, if it is older than five minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_reader: Option<OldReader>,
}

impl Status {
    /// `fill` describes the requests, `words` the items.
    #[must_use]
    pub fn new(stats: Stats, accounts: Vec<CredentialStatus>, fill: RequestFill, words: ItemWords) -> Self {
        let lanes = recurring_lanes(&stats.lanes);
        let quota = QuotaLoad::new(&lanes, &accounts, fill).with_words(words);
        let busiest = BusiestLanes::find(&lanes, words);
        let demand_to_budget = Spending::from_counters(&stats.counters).demand_to_budget();
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
            demand_to_budget,
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

    /// Adds the lists. Their visits replace the demand.
    #[must_use]
    pub fn with_lists(self, lists: Option<ListBacklog>) -> Self {
        let upkeep = lists.as_ref().and_then(|lists| Some(lists.figures.as_ref()?.upkeep_calls_per_15_min));
        let quota = upkeep.map_or(self.quota.clone(), |calls| self.quota.with_list_demand(calls));
        Self { lists: lists.map(|lists| lists.with_read_once(&quota)), quota, ..self }
    }

    /// Adds the crawls under way, with the time left by the quota.
    #[must_use]
    pub fn with_crawls(self, crawls: Option<Crawls>) -> Self {
        Self { crawls: crawls.map(|crawls| crawls.with_time_left(&self.quota)), ..self }
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
        answer: Option<Headline>,
    },
}

/// The status of all requested namespaces, and the polled sources. A single namespace is written as its status, several as a list.
#[derive(Debug, Clone)]
pub struct StatusReport {
    namespaces: Vec<NamespaceStatus>,
    sources: Sources,
}

impl StatusReport {
    #[must_use]
    pub fn new(read: Vec<(String, Result<Status, NoAnswer>)>, sources: Sources) -> Self {
        let known = |(namespace, read): (String, Result<Status, NoAnswer>)| match read {
            Ok(status) => NamespaceStatus::Status(Box::new(status)),
            Err(error) => NamespaceStatus::Out { namespace, error: error.to_string(), answer: None },
        };
        Self::from_namespaces(read.into_iter().map(known).collect(), sources)
    }

    #[must_use]
    pub fn from_namespaces(namespaces: Vec<NamespaceStatus>, sources: Sources) -> Self {
        let mut report = Self { namespaces, sources: Sources::default() };
        report.sources = sources.with_time_until_due(report.now());
        report
    }

    /// Returns true if at least one namespace answered.
    #[must_use]
    pub fn has_answer(&self) -> bool {
        self.namespaces.iter().any(|known| matches!(known, NamespaceStatus::Status(_)))
    }

    /// Returns the time of a queue's clock, or else of our own, ms since the epoch.
    fn now(&self) -> clock::Millis {
        let answered = self.namespaces.iter().find_map(|known| match known {
            NamespaceStatus::Status(status) => Some(status.stats.now_ms),
            NamespaceStatus::Out { .. } => None,
        });
        answered.unwrap_or_else(clock::wall_ms)
    }
}

impl Serialize for StatusReport {
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

impl fmt::Display for StatusReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for known in &self.namespaces {
            match known {
                NamespaceStatus::Status(status) => writeln!(text, "{}", render_table(status))?,
                NamespaceStatus::Out { namespace, error, .. } => writeln!(text, "{namespace}\nOUT: {error}")?,
            }
            text.push('\n');
        }
        self.sources.write_text(&mut text, self.now())?;
        f.write_str(text.trim_end())
    }
}

#[must_use]
pub fn render_table(status: &Status) -> String {
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
        demand_to_budget,
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
        writeln!(out, "{} is {} old and slows down all others; end it", one_line(what), span(age_ms / 1_000 * 1_000))?;
    }
    let mut lanes = Table::new("<14>10>12>10>18", &["lane", "interval", "delayed", "due", "oldest lateness"]);
    for lane in &stats.lanes {
        let (interval, lateness) = (span(lane.patience_ms), span(lane.oldest_lateness_ms));
        lanes.row(&[&lane.lane, &interval, &lane.delayed, &lane.due, &lateness]);
    }
    lanes.row(&[&"all", &"", &stats.delayed, &stats.due, &span(stats.oldest_lateness_ms)]);
    writeln!(out, "\n{lanes}")?;
    if let Some(busiest) = busiest {
        writeln!(out, "{busiest}")?;
    }
    if let Some(calls) = demand_to_budget {
        writeln!(out, "{:.2} of the calls of the fixed intervals", calls)?;
    }
    let mut counts = Table::figures(20, 12);
    counts.figure("leased", stats.leased, format!("({} of them expired)", stats.expired));
    counts.figure("dead", stats.dead, "");
    counts.figure("incoming", stats.incoming, format!("({} refused)", stats.incoming_refused));
    writeln!(out, "\n{counts}")?;
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
        let mut parked = Table::new("<19 <", &[]);
        for account in left_alone {
            parked.row(&[&account.name, &parked_text(account).unwrap_or_default()]);
        }
        writeln!(out, "\nparked credentials\n{parked}")?;
    }
    if !stats.counters.is_empty() {
        let mut counters = Table::figures(20, 12);
        for (name, value) in &stats.counters {
            counters.figure(name, value, "");
        }
        writeln!(out, "\ncounters\n{counters}")?;
    }
    writeln!(out, "\nworkers: {}", stats.workers.len())?;
    for worker in &stats.workers {
        let shown = worker.fields.iter().filter(|(name, value)| !value.is_empty() && *name != WorkerStats::API);
        let (sentences, fields): (Vec<_>, Vec<_>) =
            shown.partition(|(name, _)| SENTENCE_FIELDS.contains(&name.as_str()));
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
    use networks::providers::twitter_v1::CAPABILITIES;

    fn of(namespace: &str, read: Result<(), &str>) -> (String, Result<Status, NoAnswer>) {
        let stats = Stats { namespace: namespace.to_owned(), now_ms: 9, ..Stats::default() };
        let fill = RequestFill::new(CAPABILITIES, Duration::from_secs(5), 0.1);
        let read = read
            .map(|()| Status::new(stats, Vec::new(), fill, ItemWords::POSTS))
            .map_err(|why| NoAnswer::Failed(why.to_owned()));
        (namespace.to_owned(), read)
    }

    #[test]
    fn a_transaction_that_is_old_is_named() {
        let (name, status) = of("x:update", Ok(()));
        let old = OldReader { age_ms: 400_900, what: "the transaction of process 7".to_owned() };
        let report = StatusReport::new(
            vec![(name, status.map(|status| Status { old_reader: Some(old), ..status }))],
            Sources::default(),
        );
        let line = "the transaction of process 7 is 6m 40s old and slows down all others; end it";
        assert!(report.to_string().lines().any(|said| said == line), "{report}");
        assert_eq!(serde_json::to_value(&report).unwrap()["old_reader"]["age_ms"], 400_900);
    }

    #[test]
    fn one_namespace_is_written_flat_and_several_as_a_list() {
        let none = Sources::default;
        let one = StatusReport::new(vec![of("x:update", Ok(()))], none());
        let json = serde_json::to_value(&one).unwrap();
        assert_eq!((&json["namespace"], json.get("sources")), (&"x:update".into(), None));
        assert!(one.to_string().starts_with("x:update\n") && !one.to_string().contains("sources"), "{one}");

        let sources = Sources { error: Some("no route".to_owned()), ..none() };
        let two = StatusReport::new(vec![of("x:update", Err("refused")), of("tweet:update", Ok(()))], sources.clone());
        let json = serde_json::to_value(&two).unwrap();
        assert_eq!(json["namespaces"][0], serde_json::json!({"namespace": "x:update", "error": "refused"}));
        assert_eq!(json["namespaces"][1]["now_ms"], 9);
        assert_eq!(json["sources_error"], "no route");
        let text = two.to_string();
        assert!(text.starts_with("x:update\nOUT: refused\n\ntweet:update\n"), "{text}");
        assert!(text.ends_with("\n\nsources\nunknown: no route"), "{text}");
        assert!(two.has_answer() && !StatusReport::new(vec![of("x:update", Err("refused"))], sources).has_answer());
    }
}
