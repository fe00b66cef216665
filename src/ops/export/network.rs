//! Networks of accounts as a file: replies, mentions or reposts.
//!
//! Each pair of accounts has one edge, from the author of the posts; its weight is their number. An account that replies to itself (a
//! thread) or repeats its own post has an edge to itself. One that names itself has none, since on X each reply to itself does. Pairs are
//! counted in memory: some 50 bytes each, and 150 for each account.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use futures::StreamExt;

use super::format::time;
use super::graph_markup::{Attribute, GraphFormat, Markup, MarkupEdge, Subject};
use super::{Drawn, ExportError, Note, Sink, WRITTEN_BYTES, into_file, into_output};
use crate::base::clock::{Millis, Stopwatch};
use crate::base::shutdown::Stop;
use crate::model::account::{Person, Role};
use crate::store::Forgetting;
use crate::store::export::{Cell, Exported, HANDLES, OBJECTS, REPLIES, Table, Tables, Wanted};

const ASKED: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Replies,
    /// One names the other in its post, or replies to it.
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
    pub fn named(word: &str) -> Option<Self> {
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
    pub tables: Arc<dyn Tables>,
    pub forgetting: Arc<dyn Forgetting>,
    /// The name of the accounts' network in the list of forgotten accounts.
    pub people_of: String,
    pub network: Network,
    pub posts: Wanted,
    pub profiles: String,
    /// Reads the accounts of a post's object.
    pub people: fn(&str) -> Vec<Person>,
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
    /// True if a counted post is by it.
    is_author: bool,
    is_forgotten: bool,
}

/// The posts of one account that lead to another.
#[derive(Debug, Clone, Copy)]
struct Pair {
    posts: u64,
    first: Option<Millis>,
    last: Option<Millis>,
}

/// Accounts and pairs so far. Each account has a number.
#[derive(Debug, Default)]
struct Counted {
    numbers: HashMap<String, u32>,
    accounts: Vec<Account>,
    pairs: HashMap<(u32, u32), Pair>,
}

impl Counted {
    fn number(&mut self, id: &str) -> u32 {
        if let Some(number) = self.numbers.get(id) {
            return *number;
        }
        // Ids of four billion accounts do not fit into memory.
        let number = u32::try_from(self.accounts.len()).unwrap_or(u32::MAX);
        self.accounts.push(Account::default());
        self.numbers.insert(id.to_owned(), number);
        number
    }

    /// Adds a post that leads from its author, of that id and handle, to others.
    fn add(&mut self, (id, handle): (&str, Option<&str>), others: &[String], at: Option<Millis>) {
        if others.is_empty() {
            return;
        }
        let source = self.number(id);
        let account = &mut self.accounts[source as usize];
        account.is_author = true;
        if let Some(handle) = handle.filter(|handle| !handle.is_empty() && at >= account.handle_at) {
            (account.handle, account.handle_at) = (Some(handle.to_owned()), at);
        }
        for other in others {
            let target = self.number(other);
            let pair = self.pairs.entry((source, target)).or_insert(Pair { posts: 0, first: at, last: at });
            pair.posts += 1;
            pair.first = pair.first.into_iter().chain(at).min();
            pair.last = pair.last.into_iter().chain(at).max();
        }
    }
}

impl NetworkExport {
    /// Writes it to standard output. `None`: the reader stopped reading, which is no error.
    pub async fn to_output(&self, stop: &Stop, progress: impl Fn(u64)) -> Result<Option<Drawn>, ExportError> {
        into_output(async |to| self.write(to, stop, progress).await).await
    }

    /// Writes it to a file; starts again after an interruption.
    pub async fn to_file(&self, path: &Path, stop: &Stop, progress: impl Fn(u64)) -> Result<Drawn, ExportError> {
        into_file(path, Note::of(&self.request), false, async |to, _| self.write(to, stop, progress).await).await
    }

    async fn write(&self, to: &mut impl Sink, stop: &Stop, progress: impl Fn(u64)) -> Result<Drawn, ExportError> {
        let (name, again) = (to.name().to_owned(), to.again());
        let failed = |why| ExportError::Write(name.clone(), why, again);
        let watch = Stopwatch::start();
        let mut counted = Counted::default();
        let mut posts = 0;
        self.each_row(self.network.table(), &self.posts, stop, again, |row| {
            self.count(&row.cells, &mut counted);
            posts += 1;
            progress(posts);
        })
        .await?;
        let profiles = Wanted { namespace: self.profiles.clone(), ..Wanted::default() };
        self.each_row(&HANDLES, &profiles, stop, again, |row| {
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
        self.find_forgotten(&ids, &mut counted.accounts).await?;

        let subject = Subject { name: self.network.as_str(), nodes: &NODE, edges: &EDGE, is_dynamic: false };
        let mut markup = Markup::new(self.format, subject);
        let mut bytes = 0;
        let mut flush = |markup: &mut Markup, least: usize| {
            if markup.out.len() >= least {
                let ready = std::mem::take(&mut markup.out);
                bytes += ready.len() as u64;
                to.write(&ready)?;
            }
            std::io::Result::Ok(())
        };
        for (id, account) in ids.iter().zip(&counted.accounts).filter(|(_, account)| !account.is_forgotten) {
            let label = account.handle.as_deref().unwrap_or(id);
            markup.node(id, label, &[account.handle.clone(), Some(account.is_author.to_string())]);
            flush(&mut markup, WRITTEN_BYTES).map_err(failed)?;
        }
        let mut pairs: Vec<_> = counted.pairs.iter().collect();
        pairs.sort_unstable_by_key(|(numbers, _)| **numbers);
        for ((source, target), pair) in pairs {
            let [source, target] = [source, target].map(|number| *number as usize);
            if counted.accounts[source].is_forgotten || counted.accounts[target].is_forgotten {
                continue;
            }
            let values = [pair.first.map(time), pair.last.map(time)];
            let (source, target) = (ids[source], ids[target]);
            markup.edge(&MarkupEdge { source, target, weight: Some(pair.posts), values: &values, spells: &[] });
            flush(&mut markup, WRITTEN_BYTES).map_err(failed)?;
        }
        markup.finish();
        flush(&mut markup, 0).map_err(failed)?;
        let (nodes, edges) = (markup.nodes, markup.edges);
        to.note(&Note { bytes, rows: nodes + edges, ..Note::of(&self.request) }).map_err(failed)?;
        Ok(Drawn { nodes, edges, bytes, seconds: watch.elapsed().as_secs_f64() })
    }

    async fn each_row(
        &self,
        table: &Table,
        wanted: &Wanted,
        stop: &Stop,
        again: &'static str,
        mut take: impl FnMut(Exported),
    ) -> Result<(), ExportError> {
        let (mut rows, mut taken) = (self.tables.rows(table, wanted), 0);
        loop {
            let row = tokio::select! {
                biased;
                () = stop.draining() => return Err(ExportError::Stopped(taken, again)),
                row = rows.next() => row,
            };
            let Some(row) = row.transpose()? else { return Ok(()) };
            take(row);
            taken += 1;
        }
    }

    fn count(&self, cells: &[Cell], counted: &mut Counted) {
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
            let people = text(6).map(self.people).unwrap_or_default().into_iter();
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

    async fn find_forgotten(&self, ids: &[&str], accounts: &mut [Account]) -> Result<(), ExportError> {
        for (ids, accounts) in ids.chunks(ASKED).zip(accounts.chunks_mut(ASKED)) {
            let asked: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            let forgotten = self.forgetting.are_blocked(&self.people_of, &asked).await?;
            for (account, is_forgotten) in accounts.iter_mut().zip(forgotten) {
                account.is_forgotten = is_forgotten;
            }
        }
        Ok(())
    }
}
