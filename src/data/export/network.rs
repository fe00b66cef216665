//! Networks of accounts as a file: replies, mentions or reposts.
//!
//! Each pair of accounts has one edge, from the author of the posts, weighted by their number. An account that replies to itself or reposts
//! its own post has an edge to itself. Mentions of itself give none, since on X each reply to itself has one. Memory: some 50 bytes per
//! pair and 150 per account.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use futures::StreamExt;

use super::format::format_time;
use super::graph_markup::{Attribute, GraphFormat, GraphReport, GraphSchema, Markup, MarkupEdge};
use super::{ExportError, ExportNote, Sink, write_to};
use engine::base::clock::{Millis, Stopwatch};
use engine::base::shutdown::Stop;
use networks::model::account::{Person, Role};
use store::Forgetting;
use store::export::{Cell, ExportFilter, ExportTables, ExportedRow, HANDLES, OBJECTS, REPLIES, Table};

/// Accounts per query for forgotten accounts.
const IDS_PER_QUERY: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Replies,
    /// Mentions in posts, and replies; not in reposts.
    Mentions,
    Reposts,
}

impl Network {
    pub const ALL: [Self; 3] = [Self::Replies, Self::Mentions, Self::Reposts];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replies => "replies",
            Self::Mentions => "mentions",
            Self::Reposts => "reposts",
        }
    }

    #[must_use]
    pub fn from_name(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|network| network.as_str() == word)
    }

    fn table(self) -> &'static Table {
        match self {
            Self::Replies => &REPLIES,
            Self::Mentions | Self::Reposts => &OBJECTS,
        }
    }
}

#[derive(Debug)]
pub struct NetworkExport {
    pub tables: Arc<dyn ExportTables>,
    pub forgetting: Arc<dyn Forgetting>,
    /// Name of the network in the list of forgotten accounts.
    pub forgotten_network: String,
    pub network: Network,
    pub posts: ExportFilter,
    pub profiles: String,
    /// Reads the accounts of a post's object.
    pub read_people: fn(&str) -> Vec<Person>,
    pub request: String,
    pub format: GraphFormat,
}

const NODE: [Attribute; 2] = [("handle", "string"), ("author", "boolean")];
const EDGE: [Attribute; 2] = [("first_at", "string"), ("last_at", "string")];

#[derive(Debug, Default)]
struct Account {
    handle: Option<String>,
    /// Date of the post that states the handle, ms since the epoch.
    handle_at: Option<Millis>,
    is_author: bool,
    is_forgotten: bool,
}

/// Posts of one account that refer to another account: their number and dates.
#[derive(Debug, Clone, Copy)]
struct Pair {
    posts: u64,
    first: Option<Millis>,
    last: Option<Millis>,
}

#[derive(Debug, Default)]
struct NetworkCounts {
    numbers: HashMap<String, u32>,
    accounts: Vec<Account>,
    pairs: HashMap<(u32, u32), Pair>,
}

impl NetworkCounts {
    fn account_number(&mut self, id: &str) -> u32 {
        if let Some(number) = self.numbers.get(id) {
            return *number;
        }
        // Ids of four billion accounts do not fit into memory.
        let number = u32::try_from(self.accounts.len()).unwrap_or(u32::MAX);
        self.accounts.push(Account::default());
        self.numbers.insert(id.to_owned(), number);
        number
    }

    /// Counts a post by account `id` (with its handle, if known) that refers to the accounts `others`. `at`: its date, ms since the epoch.
    fn add(&mut self, (id, handle): (&str, Option<&str>), others: &[String], at: Option<Millis>) {
        if others.is_empty() {
            return;
        }
        let source = self.account_number(id);
        let account = &mut self.accounts[source as usize];
        account.is_author = true;
        if let Some(handle) = handle.filter(|handle| !handle.is_empty() && at >= account.handle_at) {
            (account.handle, account.handle_at) = (Some(handle.to_owned()), at);
        }
        for other in others {
            let target = self.account_number(other);
            let pair = self.pairs.entry((source, target)).or_insert(Pair { posts: 0, first: at, last: at });
            pair.posts += 1;
            pair.first = pair.first.into_iter().chain(at).min();
            pair.last = pair.last.into_iter().chain(at).max();
        }
    }
}

impl NetworkExport {
    /// Writes to a file or to standard output; starts over after an interruption. `None`: the reader of standard output
    /// stopped reading, which is no error.
    pub async fn write_to(
        &self,
        file: Option<&Path>,
        stop: &Stop,
        progress: impl Fn(u64),
    ) -> Result<Option<GraphReport>, ExportError> {
        let write = async |to: &mut Sink, _| self.write(to, stop, progress).await;
        write_to(file, ExportNote::new(&self.request), false, write).await
    }

    async fn write(&self, to: &mut Sink, stop: &Stop, progress: impl Fn(u64)) -> Result<GraphReport, ExportError> {
        let (name, rerun_effect) = (to.name().to_owned(), to.rerun_effect());
        let failed = |why| ExportError::Write(name.clone(), why, rerun_effect);
        let watch = Stopwatch::start();
        let mut counted = NetworkCounts::default();
        let mut posts = 0;
        self.for_each_row(self.network.table(), &self.posts, stop, rerun_effect, |row| {
            self.count_row(&row.cells, &mut counted);
            posts += 1;
            progress(posts);
        })
        .await?;
        let profiles = ExportFilter { namespace: self.profiles.clone(), ..ExportFilter::default() };
        self.for_each_row(&HANDLES, &profiles, stop, rerun_effect, |row| {
            if let [Cell::Text(id), Cell::Text(handle)] = &row.cells[..]
                && let Some(number) = counted.numbers.get(id).filter(|_| !handle.is_empty())
            {
                counted.accounts[*number as usize].handle = Some(handle.clone());
            }
        })
        .await?;
        let mut ids = vec![""; counted.accounts.len()];
        for (id, number) in &counted.numbers {
            ids[*number as usize] = id;
        }
        self.mark_forgotten(&ids, &mut counted.accounts).await?;

        let schema = GraphSchema { name: self.network.as_str(), nodes: &NODE, edges: &EDGE, is_dynamic: false };
        let mut markup = Markup::new(self.format, schema);
        for (id, account) in ids.iter().zip(&counted.accounts).filter(|(_, account)| !account.is_forgotten) {
            let label = account.handle.as_deref().unwrap_or(id);
            markup.add_node(id, label, &[account.handle.clone(), Some(account.is_author.to_string())]);
            markup.write_ready(to).map_err(failed)?;
        }
        let mut pairs: Vec<_> = counted.pairs.iter().collect();
        pairs.sort_unstable_by_key(|(numbers, _)| **numbers);
        for ((source, target), pair) in pairs {
            let [source, target] = [source, target].map(|number| *number as usize);
            if counted.accounts[source].is_forgotten || counted.accounts[target].is_forgotten {
                continue;
            }
            let values = [pair.first.map(format_time), pair.last.map(format_time)];
            let (source, target) = (ids[source], ids[target]);
            markup.add_edge(&MarkupEdge { source, target, weight: Some(pair.posts), values: &values, spells: &[] });
            markup.write_ready(to).map_err(failed)?;
        }
        markup.finish(to, &self.request, &watch).map_err(failed)
    }

    async fn for_each_row(
        &self,
        table: &Table,
        wanted: &ExportFilter,
        stop: &Stop,
        rerun_effect: &'static str,
        mut visit: impl FnMut(ExportedRow),
    ) -> Result<(), ExportError> {
        let (mut rows, mut taken) = (self.tables.rows(table, wanted), 0);
        loop {
            let row = tokio::select! {
                biased;
                () = stop.wait_for_drain() => return Err(ExportError::Stopped(taken, rerun_effect)),
                row = rows.next() => row,
            };
            let Some(row) = row.transpose()? else { return Ok(()) };
            visit(row);
            taken += 1;
        }
    }

    fn count_row(&self, cells: &[Cell], counted: &mut NetworkCounts) {
        let text = |at: usize| match cells.get(at) {
            Some(Cell::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let Some(author) = text(0) else { return };
        let at = match cells.get(2) {
            Some(Cell::Number(at)) => Some(*at),
            _ => None,
        };
        let answered = text(3).map(str::to_owned);
        let named = |role: Role| {
            let people = text(6).map(self.read_people).unwrap_or_default().into_iter();
            people.filter(move |person| person.role == role).map(|person| person.id)
        };
        let is_other = |id: &String| id != author;
        let mut others: Vec<String> = match self.network {
            Network::Replies => answered.into_iter().collect(),
            // On Twitter and X a repost has the mentions of the original.
            Network::Mentions if text(4).is_some() => Vec::new(),
            Network::Mentions => named(Role::Mentioned).chain(answered).filter(is_other).collect(),
            Network::Reposts => named(Role::Reposted).chain(text(5).map(str::to_owned)).take(1).collect(),
        };
        others.sort_unstable();
        others.dedup();
        counted.add((author, text(1)), &others, at);
    }

    async fn mark_forgotten(&self, ids: &[&str], accounts: &mut [Account]) -> Result<(), ExportError> {
        for (ids, accounts) in ids.chunks(IDS_PER_QUERY).zip(accounts.chunks_mut(IDS_PER_QUERY)) {
            let asked: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            let forgotten = self.forgetting.are_blocked(&self.forgotten_network, &asked).await?;
            for (account, is_forgotten) in accounts.iter_mut().zip(forgotten) {
                account.is_forgotten = is_forgotten;
            }
        }
        Ok(())
    }
}
