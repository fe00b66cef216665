//! Random follows, unfollows, pages, restarts and late pages: each stored interval contains its true moment.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use twitter_updater::base::clock::Millis;
use twitter_updater::store::{
    ClosingLimit, CrawlEnd, CrawlKind, Edge, EdgeChange, EdgePage, End, ListedMember, NewCrawl, Next,
};

use super::{EdgeStore, NS, T, record};

const CASES: u32 = 60;
const MEMBERS: usize = 8;
const PAGE: usize = 3;

#[derive(Debug, Clone)]
enum Event {
    /// A member follows, or leaves if it is there.
    Turn(usize),
    Begin(bool),
    /// A page, while others follow or leave before the network reads its list, and before its answer arrives.
    Page {
        before: Option<usize>,
        after: Option<usize>,
        overlaps: bool,
    },
    Late,
    Stale,
}

#[derive(Debug, Clone)]
struct Case {
    events: Vec<Event>,
    /// The network tells when each followed.
    told: bool,
    guard: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let turn = proptest::option::weighted(0.3, 0..MEMBERS);
    let page = (turn.clone(), turn, any::<bool>());
    let page = page.prop_map(|(before, after, overlaps)| Event::Page { before, after, overlaps });
    let event = prop_oneof![
        4 => (0..MEMBERS).prop_map(Event::Turn),
        3 => any::<bool>().prop_map(Event::Begin),
        8 => page,
        1 => Just(Event::Late),
        1 => Just(Event::Stale),
    ];
    (proptest::collection::vec(event, 10..120), any::<bool>(), proptest::bool::weighted(0.3))
        .prop_map(|(events, told, guard)| Case { events, told, guard })
}

/// The times for which a member was on the list.
#[derive(Debug, Clone, Copy)]
struct Stay {
    from: Millis,
    until: Option<Millis>,
}

struct World<'a> {
    store: &'a dyn EdgeStore,
    owner: String,
    case: Case,
    began: Millis,
    now: Millis,
    stays: Vec<Vec<Stay>>,
    /// Members on pages, with the moment at which the network read its list.
    shown: Vec<(usize, Millis)>,
    last: Option<EdgePage>,
}

impl World<'_> {
    fn tick(&mut self) -> Millis {
        self.now += 1;
        self.now
    }

    fn turn(&mut self, member: usize) {
        let now = self.tick();
        match self.stays[member].last_mut() {
            Some(stay) if stay.until.is_none() => stay.until = Some(now),
            _ => self.stays[member].push(Stay { from: now, until: None }),
        }
    }

    /// Those on the list whose follow is older than the cursor, newest first.
    fn listed(&self, below: Millis) -> Vec<(Millis, usize)> {
        let current = self.stays.iter().enumerate().filter_map(|(member, stays)| {
            let stay = stays.last().filter(|stay| stay.until.is_none() && stay.from < below)?;
            Some((stay.from, member))
        });
        let mut listed: Vec<_> = current.collect();
        listed.sort_unstable_by(|one, other| other.cmp(one));
        listed
    }

    async fn take(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Turn(member) => self.turn(member),
            Event::Begin(prefix) => {
                let kind = if prefix { CrawlKind::Prefix { known_tail: 2 } } else { CrawlKind::Complete };
                let at = self.tick();
                self.store
                    .begin_crawl(NS, &self.owner, &NewCrawl { kind, at, stated_total: None })
                    .await
                    .unwrap()
                    .unwrap();
            }
            Event::Page { before, after, overlaps } => return self.page(before, after, overlaps).await,
            Event::Late => {
                if let Some(late) = &self.last
                    && self.store.save_edges(NS, &self.owner, late).await.unwrap().is_some()
                {
                    return Err("a late page was saved".to_owned());
                }
            }
            Event::Stale => {
                if let Some(crawl) = self.store.crawl(NS, &self.owner).await.unwrap() {
                    let (at, waits_for) = (self.tick(), (crawl.number, crawl.cursor.as_deref()));
                    self.store.end_crawl(NS, &self.owner, waits_for, at, End::Stale).await.unwrap().unwrap();
                }
            }
        }
        Ok(())
    }

    async fn page(&mut self, before: Option<usize>, after: Option<usize>, overlaps: bool) -> Result<(), String> {
        let Some(crawl) = self.store.crawl(NS, &self.owner).await.unwrap() else { return Ok(()) };
        let asked_at = self.tick();
        if let Some(member) = before {
            self.turn(member);
        }
        let read_at = self.tick();
        let below = crawl.cursor.as_ref().map_or(Millis::MAX, |cursor| cursor.parse().unwrap());
        let mut listed = self.listed(below);
        let is_whole = listed.len() <= PAGE;
        listed.truncate(PAGE);
        self.shown.extend(listed.iter().map(|(_, member)| (*member, read_at)));
        if let Some(member) = after {
            self.turn(member);
        }
        let guard = ClosingLimit { share: if self.case.guard { 0.4 } else { 1.0 }, least: 1 };
        let next = match listed.last() {
            Some((from, _)) if !is_whole => Next::Page((from + Millis::from(overlaps)).to_string()),
            _ => Next::End(End::Complete(guard)),
        };
        let member = |(from, member): &(Millis, usize)| ListedMember {
            id: format!("m{member}"),
            followed_at: self.case.told.then_some(*from),
        };
        let members = listed.iter().map(member).collect();
        let (cursor, answered_at) = (crawl.cursor, self.tick());
        let page = EdgePage { crawl: crawl.number, cursor, members, unreadable: 0, next, asked_at, answered_at };
        let saved = self.store.save_edges(NS, &self.owner, &page).await.unwrap();
        let saved = saved.ok_or_else(|| format!("a page that was waited for was late: {page:?}"))?;
        self.last = Some(page);
        match saved.ended {
            Some(ended) if ended.end == CrawlEnd::Complete => self.check_whole(crawl.started_at).await,
            Some(ended) if ended.end == CrawlEnd::Looped => Err("no cursor came again".to_owned()),
            _ => Ok(()),
        }
    }

    async fn edges(&self) -> BTreeMap<usize, Vec<Edge>> {
        let all = (self.began, Millis::MAX);
        let all = self.store.edge_changes(NS, EdgeChange::Appeared, all, None, 100_000).await.unwrap();
        let mut edges: BTreeMap<usize, Vec<Edge>> = BTreeMap::new();
        for (_, edge) in all.into_iter().filter(|(_, edge)| edge.owner == self.owner) {
            edges.entry(edge.member[1..].parse().unwrap()).or_default().push(edge);
        }
        edges
    }

    /// After a complete crawl: who was there all the time has an open edge, and who was away all the time has none.
    async fn check_whole(&self, began: Millis) -> Result<(), String> {
        let edges = self.edges().await;
        for (member, stays) in self.stays.iter().enumerate() {
            let is_open = edges.get(&member).is_some_and(|edges| edges.iter().any(|edge| edge.vanished_by.is_none()));
            let stayed = stays.iter().any(|stay| stay.from < began && stay.until.is_none());
            let was_there = stays.iter().any(|stay| stay.until.is_none_or(|until| until > began));
            if stayed && !is_open || !was_there && is_open {
                return Err(format!("m{member} is open: {is_open}, after {began}: {stays:?}, {edges:?}"));
            }
        }
        Ok(())
    }

    async fn check(&self) -> Result<(), String> {
        let edges = self.edges().await;
        for (member, edges) in &edges {
            let stays = &self.stays[*member];
            let mut gone = Millis::MIN;
            for edge in edges {
                let wrong =
                    |what: &str| Err(format!("m{member}: {what} of {edge:?} is none of {stays:?}, all: {edges:?}"));
                let after = edge.appeared_after.unwrap_or(Millis::MIN);
                let came = |stay: &&Stay| stay.from > gone && after < stay.from && stay.from <= edge.appeared_by;
                let Some(first) = stays.iter().find(came) else { return wrong("the follow") };
                if let Some(told) = edge.followed_at
                    && !stays.iter().any(|stay| stay.from == told)
                {
                    return wrong("the told time");
                }
                let (Some(after), Some(by)) = (edge.vanished_after, edge.vanished_by) else {
                    gone = Millis::MAX;
                    continue;
                };
                let left = |stay: &&Stay| {
                    stay.from >= first.from && stay.until.is_some_and(|until| after < until && until <= by)
                };
                let Some(Stay { until: Some(until), .. }) = stays.iter().find(left) else { return wrong("the end") };
                gone = *until;
            }
        }
        for (member, at) in &self.shown {
            let holds = |edge: &Edge| {
                edge.appeared_after.is_none_or(|after| after < *at) && edge.vanished_by.is_none_or(|by| *at < by)
            };
            if !edges.get(member).is_some_and(|edges| edges.iter().any(holds)) {
                return Err(format!("m{member} was shown at {at}: {edges:?}"));
            }
        }
        Ok(())
    }
}

async fn run(store: &dyn EdgeStore, owner: &str, now: &mut Millis, case: Case) -> Result<(), String> {
    record(store, NS, &[owner]).await;
    *now += 1;
    let stays = vec![Vec::new(); MEMBERS];
    let events = case.events.clone();
    let owner = owner.to_owned();
    let mut world = World { store, owner, case, began: *now, now: *now, stays, shown: Vec::new(), last: None };
    for event in events {
        world.take(event).await?;
    }
    world.check().await?;
    *now = world.now;
    Ok(())
}

pub(super) async fn any_list_is_told_as_it_was(store: &dyn EdgeStore) {
    let mut runner = TestRunner::new(Config::default());
    let (mut now, mut owners) = (T, 0..);
    let mut owner = || format!("o{}", owners.next().unwrap());
    for _ in 0..CASES {
        let mut tree = case().new_tree(&mut runner).unwrap();
        let Err(mut why) = run(store, &owner(), &mut now, tree.current()).await else { continue };
        let mut worst = tree.current();
        // The least case that fails as well.
        let mut goes_on = tree.simplify();
        while goes_on {
            now += 1_000;
            goes_on = match run(store, &owner(), &mut now, tree.current()).await {
                Ok(()) => tree.complicate(),
                Err(other) => {
                    (why, worst) = (other, tree.current());
                    tree.simplify()
                }
            };
        }
        panic!("{why}\n{worst:#?}");
    }
}
