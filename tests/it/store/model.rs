//! Random calls, on both backends and on a model in plain Rust: they must never differ.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use twitter_updater::base::clock::Millis;
use twitter_updater::model::account::Absence;
use twitter_updater::model::post::{Details, ItemState, Metrics, Tweet};
use twitter_updater::store::{
    Change, DeadResolution, Expiry, Finding, ListedItem, Listing, MetricsAt, NewItem, ONCE, Observation, RecordCounts,
    SaveCounts, Standing, StateCounts, Store, StoredTweet, Way,
};

use super::{T, postgres_world, sqlite_world};

const SEQUENCES: u64 = 200;
const STEPS: u32 = 12;
const IDS: [&str; 5] = ["1", "2", "3", "30", "9223372036854775807"];

/// The contract, with a map for a database. Answers are taken one by one.
#[derive(Default)]
struct Model {
    rows: BTreeMap<String, StoredTweet>,
    history: BTreeMap<String, Vec<MetricsAt>>,
    changes: BTreeMap<String, Vec<Change>>,
    ways: BTreeMap<String, Vec<(Millis, Way)>>,
}

/// The changes from one row to the next, the state's last.
fn changes_of(was: &StoredTweet, is: &StoredTweet) -> Vec<Change> {
    if was.checked_at == is.checked_at {
        return Vec::new();
    }
    let answered = was.checked_at.is_some();
    let state = |of: &StoredTweet| Some(of.state.as_str().to_owned());
    let unavailable = [was.state, is.state].contains(&ItemState::Unavailable);
    let fields = [
        ("current_id", was.current_id.clone(), is.current_id.clone(), true),
        (
            "reply_settings",
            was.details.reply_settings.clone(),
            is.details.reply_settings.clone(),
            was.details.reply_settings.is_some(),
        ),
        (
            "text",
            was.text.clone(),
            is.text.clone(),
            was.text.is_some() && was.details.truncated != Some(true) && is.details.retweet_of.is_none(),
        ),
        ("withheld_in", was.withheld_in.clone(), is.withheld_in.clone(), answered),
        ("state", state(was), state(is), answered && unavailable),
    ];
    let changed = fields.into_iter().filter(|(_, old, new, counts)| *counts && old != new);
    let at = is.checked_at.unwrap();
    changed.map(|(field, old, new, _)| Change { at, field: field.to_owned(), old, new }).collect()
}

impl Model {
    fn row(&mut self, id: &str, first_seen: Millis) -> &mut StoredTweet {
        let blank = || StoredTweet { id: id.to_owned(), first_seen, ..StoredTweet::default() };
        self.rows.entry(id.to_owned()).or_insert_with(blank)
    }

    fn record(&mut self, at: Millis, tweets: &[NewItem]) -> RecordCounts {
        let mut recorded = RecordCounts::default();
        let mut done = Vec::new();
        for new in tweets {
            if done.contains(&&new.id) {
                recorded.known += 1;
                continue;
            }
            done.push(&new.id);
            // Of an id given twice, the first that brings it to life.
            let new = tweets.iter().find(|other| other.id == new.id && other.next_due.is_some()).unwrap_or(new);
            match self.rows.get_mut(&new.id) {
                None => {
                    recorded.new += 1;
                    let row = self.row(&new.id, at);
                    if let Some(content) = &new.content {
                        take(row, content, None);
                    }
                    row.created_at = new.created_at;
                    row.next_due = new.next_due;
                    row.state = if new.next_due.is_some() { ItemState::Live } else { ItemState::Ended };
                }
                Some(row) if new.next_due.is_some() && row.state == ItemState::Ended => {
                    recorded.revived += 1;
                    row.state = ItemState::Live;
                    row.created_at = row.created_at.or(new.created_at);
                    row.next_due = new.next_due;
                }
                Some(_) => recorded.known += 1,
            }
        }
        for id in done {
            self.count(id, tweets);
        }
        recorded
    }

    /// Counts of a known time, the newest of an id.
    fn count(&mut self, id: &str, tweets: &[NewItem]) {
        let mut newest: Option<(Millis, Metrics)> = None;
        for new in tweets.iter().filter(|new| new.id == id) {
            if let (Some(at), Some(content)) = (new.read_at, &new.content)
                && content.metrics != Metrics::default()
                && newest.is_none_or(|(newest, _)| at > newest)
            {
                newest = Some((at, content.metrics));
            }
        }
        let (Some((at, metrics)), Some(row)) = (newest, self.rows.get_mut(id)) else { return };
        if row.state == ItemState::Dead || row.misses > 0 || row.checked_at >= Some(at) {
            return;
        }
        let before = row.metrics;
        (row.checked_at, row.metrics, row.recent) = (Some(at), metrics.or(before), None);
        let history = self.history.entry(id.to_owned()).or_default();
        if row.metrics != before || history.is_empty() {
            history.push(MetricsAt { checked_at: at, metrics: row.metrics });
        }
    }

    fn came(&mut self, at: Millis, way: &Way, tweets: &[NewItem]) {
        for new in tweets {
            let ways = self.ways.entry(new.id.clone()).or_default();
            if !ways.iter().any(|(_, known)| known == way) {
                ways.push((at, way.clone()));
            }
            ways.sort_by_key(|(at, way)| (*at, way.pipeline.clone(), way.source.clone()));
        }
    }

    fn save(&mut self, observations: &[Observation]) -> SaveCounts {
        let mut saved = SaveCounts::default();
        for (n, answer) in observations.iter().enumerate() {
            let beaten = observations.iter().enumerate().any(|(m, other)| {
                other.id == answer.id
                    && (other.answered_at > answer.answered_at || (other.answered_at == answer.answered_at && m < n))
            });
            if beaten {
                saved.older += 1;
                continue;
            }
            let known = self.rows.contains_key(&answer.id);
            let row = self.row(&answer.id, answer.answered_at);
            if row.state == ItemState::Dead || row.checked_at > Some(answer.answered_at) {
                saved.older += 1;
                continue;
            }
            saved.saved += 1;
            if row.checked_at == Some(answer.answered_at) {
                continue;
            }
            let (before, was) = (row.metrics, row.clone());
            row.state = answer.state;
            row.next_due = answer.next_due;
            // Broken is no answer, also where it makes the row.
            if !matches!(answer.finding, Finding::Broken(_)) {
                row.checked_at = Some(answer.answered_at);
                // A miss has no counts: what was learnt stays.
                if !known || !matches!(answer.finding, Finding::Missing { misses: 1.., .. }) {
                    row.recent = answer.recent;
                }
                row.lookups += 1;
            }
            let mut counted = false;
            match &answer.finding {
                Finding::Found(tweet) => {
                    take(row, tweet, answer.follow.as_ref());
                    (row.misses, row.missing_since, row.missing_reason, row.unreadable) = (0, None, None, None);
                    counted = tweet.metrics != Metrics::default();
                }
                Finding::Missing { misses, since, reason, .. } => {
                    (row.misses, row.missing_since) = (*misses, Some(*since));
                    row.missing_reason = reason.map(|reason| reason.as_str().to_owned());
                    (row.current_id, row.unreadable) = (None, None);
                    if answer.forget {
                        (row.text, row.author_id, row.author_name) = (None, None, None);
                        (row.details.reply_to_author, row.details.labels) = (None, None);
                        // A row that is made by it has nothing to forget.
                        row.raw = (!known).then(String::new);
                    }
                }
                Finding::Broken(why) => row.unreadable = Some(why.clone()),
            }
            let changes = if known { changes_of(&was, row) } else { Vec::new() };
            let (metrics, checked_at) = (row.metrics, answer.answered_at);
            let all = self.changes.entry(answer.id.clone()).or_default();
            all.extend(changes);
            all.retain(|change| !answer.forget || change.field != "text");
            let history = self.history.entry(answer.id.clone()).or_default();
            if metrics != before || (counted && history.is_empty()) {
                history.push(MetricsAt { checked_at, metrics });
                saved.changed += 1;
            }
        }
        saved
    }

    fn mark_dead(&mut self, at: Millis, ids: &[(String, String)]) {
        for (id, reason) in ids {
            let row = self.row(id, at);
            if row.state != ItemState::Dead {
                row.state = ItemState::Dead;
                row.next_due = None;
                row.reason = Some(reason.clone());
            }
        }
    }

    fn resolve_dead(&mut self, at: Millis, tweets: &[DeadResolution]) {
        for tweet in tweets {
            let fresh = !self.rows.contains_key(&tweet.id);
            let row = self.row(&tweet.id, at);
            if fresh || row.state == ItemState::Dead {
                row.state = if tweet.next_due.is_some() { ItemState::Live } else { ItemState::Ended };
                row.created_at = row.created_at.or(tweet.created_at);
                row.next_due = tweet.next_due;
                row.lookups = if row.lookups > row.misses { row.lookups } else { 0 };
                (row.misses, row.missing_since, row.missing_reason, row.reason) = (0, None, None, None);
            }
        }
    }

    fn remove(&mut self, which: Expiry, ids: &[String]) -> u64 {
        let is_expired = |row: &StoredTweet| match which {
            Expiry::Before(moment) => row.checked_at.unwrap_or(row.first_seen) < moment,
            Expiry::Deleted => row.misses > 0 && row.lookups > row.misses && row.raw.is_none(),
        };
        let mut removed = 0;
        for id in ids {
            if self.rows.get(id).is_some_and(|row| row.state == ItemState::Ended && is_expired(row)) {
                self.rows.remove(id);
                self.history.remove(id);
                self.changes.remove(id);
                self.ways.remove(id);
                removed += 1;
            }
        }
        removed
    }

    fn page(&self, of: Listing) -> Vec<ListedItem> {
        let is_of = |row: &&StoredTweet| match row.state {
            ItemState::Live | ItemState::Unavailable => of == Listing::Tracked,
            ItemState::Dead => of == Listing::Dead,
            ItemState::Ended => of == Listing::Ended,
        };
        let listed = |row: &StoredTweet| ListedItem {
            id: row.id.clone(),
            state: row.state,
            created_at: row.created_at,
            next_due: row.next_due,
            checked_at: row.checked_at,
            reason: row.reason.clone(),
            once: self.is_once(&row.id),
        };
        self.rows.values().rev().filter(is_of).map(listed).collect()
    }

    fn standing(&self, id: &str) -> Option<Standing> {
        self.rows.get(id).map(|row| Standing {
            state: row.state,
            created_at: row.created_at,
            checked_at: row.checked_at,
            misses: row.misses,
            missing_since: row.missing_since,
            first_seen: row.first_seen,
            lookups: row.lookups,
            current_id: row.current_id.clone(),
            unreadable: row.unreadable.clone(),
            metrics: row.metrics,
            recent: row.recent,
            once: self.is_once(id),
            is_blanked: row.raw.is_none() && row.lookups > row.misses,
        })
    }

    fn is_once(&self, id: &str) -> bool {
        self.ways.get(id).is_some_and(|ways| !ways.is_empty() && ways.iter().all(|(_, way)| way.pipeline == ONCE))
    }

    fn counts(&self) -> StateCounts {
        let of = |state| self.rows.values().filter(|row| row.state == state).count() as u64;
        StateCounts {
            live: of(ItemState::Live),
            unavailable: of(ItemState::Unavailable),
            ended: of(ItemState::Ended),
            dead: of(ItemState::Dead),
        }
    }
}

/// What a tweet says goes into the row; what it does not say stays. A text that is cut short is no better than a longer one.
fn take(row: &mut StoredTweet, tweet: &Tweet, follow: Option<&String>) {
    let current = follow.or(Some(&tweet.id).filter(|id| **id != row.id)).cloned();
    let same_version = current == row.current_id;
    row.created_at = match current {
        Some(_) => row.created_at.or(tweet.created_at),
        None => tweet.created_at.or(row.created_at),
    };
    row.current_id = current;
    let is_cut = tweet.details.truncated == Some(true)
        && same_version
        && row
            .text
            .as_ref()
            .zip(tweet.text.as_ref())
            .is_some_and(|(old, new)| old.chars().count() >= new.chars().count());
    if !is_cut {
        row.text = tweet.text.clone().or(row.text.take());
    }
    let (old, new) = (row.details.clone(), tweet.details.clone());
    row.details = Details {
        lang: new.lang.or(old.lang),
        reply_to: new.reply_to.or(old.reply_to),
        reply_to_author: new.reply_to_author.or(old.reply_to_author),
        retweet_of: new.retweet_of.or(old.retweet_of),
        quote_of: new.quote_of.or(old.quote_of),
        conversation_id: new.conversation_id.or(old.conversation_id),
        reply_settings: new.reply_settings.or(old.reply_settings),
        labels: new.labels,
        truncated: if is_cut { Some(old.truncated.unwrap_or(false)) } else { new.truncated.or(old.truncated) },
    };
    row.withheld_in.clone_from(&tweet.withheld_in);
    row.author_id = tweet.author_id.clone().or(row.author_id.take());
    row.author_name = tweet.author_name.clone().or(row.author_name.take());
    row.raw = Some(tweet.raw.clone());
    let (old, new) = (row.metrics, tweet.metrics);
    row.metrics = Metrics {
        retweet_count: new.retweet_count.or(old.retweet_count),
        favorite_count: new.favorite_count.or(old.favorite_count),
        reply_count: new.reply_count.or(old.reply_count),
        quote_count: new.quote_count.or(old.quote_count),
        bookmark_count: new.bookmark_count.or(old.bookmark_count),
        impression_count: new.impression_count.or(old.impression_count),
    };
}

/// Random calls from few values, so that they meet: equal times, known ids, unchanged counts.
struct Random(StdRng);

impl Random {
    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.0.random_range(0..of.len())].clone()
    }

    fn maybe<T>(&mut self, value: T) -> Option<T> {
        self.0.random_bool(0.7).then_some(value)
    }

    fn time(&mut self) -> Millis {
        T + self.0.random_range(0..16)
    }

    fn count(&mut self) -> Option<i64> {
        let count = self.0.random_range(0..3);
        self.maybe(count)
    }

    fn metrics(&mut self) -> Metrics {
        if self.0.random_bool(0.2) {
            return Metrics::default();
        }
        Metrics {
            retweet_count: self.count(),
            favorite_count: self.count(),
            reply_count: self.count(),
            quote_count: self.count(),
            bookmark_count: self.count(),
            impression_count: self.count(),
        }
    }

    fn details(&mut self, mark: u32) -> Details {
        let truncated = self.0.random_bool(0.5);
        let reply_settings = self.one(&["everyone", "following"]).to_owned();
        Details {
            lang: self.maybe("pt".to_owned()),
            reply_to: self.maybe(mark.to_string()),
            reply_to_author: self.maybe(mark.to_string()),
            retweet_of: self.0.random_bool(0.2).then(|| mark.to_string()),
            quote_of: self.maybe(mark.to_string()),
            conversation_id: self.maybe(mark.to_string()),
            reply_settings: self.maybe(reply_settings),
            labels: self.maybe("!no-unauthenticated".to_owned()),
            truncated: self.maybe(truncated),
        }
    }

    fn tweet(&mut self, id: &str) -> Tweet {
        let mark: u32 = self.0.random();
        let created_at = self.time();
        Tweet {
            id: if self.0.random_bool(0.8) { id.to_owned() } else { mark.to_string() },
            created_at: self.maybe(created_at),
            text: self.maybe("text ".repeat((mark % 4) as usize + 1)),
            author_id: self.maybe(mark.to_string()),
            author_name: self.maybe(format!("author {mark}")),
            metrics: self.metrics(),
            details: self.details(mark),
            withheld_in: self.0.random_bool(0.3).then(|| self.one(&["DE", "XY", "DE,FR"]).to_owned()),
            newer: Vec::new(),
            raw: format!("{{\"mark\":{mark}}}"),
        }
    }

    fn new_tweet(&mut self) -> NewItem {
        let id = self.one(&IDS);
        let (created_at, next_due, content, read_at) = (self.time(), self.time(), self.tweet(id), self.time());
        NewItem {
            id: id.into(),
            created_at: Some(created_at),
            next_due: self.maybe(next_due),
            content: self.maybe(Box::new(content)),
            read_at: self.maybe(read_at),
        }
    }

    fn observation(&mut self) -> Observation {
        let id = self.one(&IDS);
        let seen = match self.0.random_range(0..8) {
            0..6 => Finding::Found(self.tweet(id)),
            6 => Finding::Missing {
                misses: self.0.random_range(1..9),
                since: self.time(),
                reason: self.one(&[None, Some(Absence::NotFound), Some(Absence::Suspended), Some(Absence::Protected)]),
                handle: None,
            },
            _ => Finding::Broken(self.one(&["no text", "no id"]).to_owned()),
        };
        let follow =
            (matches!(seen, Finding::Found(_)) && self.0.random_bool(0.2)).then(|| self.one(&["77", "78"]).to_owned());
        let next_due = self.time();
        let forget = matches!(seen, Finding::Missing { .. }) && self.0.random_bool(0.5);
        let recent = self.0.random_range(0.0..9.0);
        let recent = self.maybe(recent);
        Observation {
            id: id.into(),
            answered_at: self.time(),
            finding: seen,
            state: self.one(&[ItemState::Live, ItemState::Unavailable, ItemState::Ended]),
            next_due: self.maybe(next_due),
            follow,
            forget,
            recent,
        }
    }

    fn many<T>(&mut self, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.0.random_range(1..7)).map(|_| one(self)).collect()
    }
}

#[tokio::test]
async fn both_backends_do_as_the_model_does() {
    let seed = std::env::var("STORE_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("again with STORE_SEED={seed}");
    let mut random = Random(StdRng::seed_from_u64(seed));
    let worlds = [postgres_world().await, sqlite_world().await];
    let stores: Vec<&dyn Store> = worlds.iter().map(|world| &*world.store).collect();
    for store in &stores {
        store.migrate().await.unwrap();
    }
    for sequence in 0..SEQUENCES {
        let namespace = &format!("sequence:{sequence}");
        let mut model = Model::default();
        for _ in 0..STEPS {
            step(&mut random, &mut model, &stores, namespace).await;
        }
        for store in &stores {
            compare(&model, *store, namespace).await;
        }
    }
}

async fn step(random: &mut Random, model: &mut Model, stores: &[&dyn Store], namespace: &str) {
    match random.0.random_range(0..24) {
        0..6 => {
            let (at, tweets) = (random.time(), random.many(Random::new_tweet));
            let way = Way {
                source: random.one(&["", "a", "b"]).to_owned(),
                ..Way::new(random.one(&["enqueue", "poll", ONCE]))
            };
            let expected = model.record(at, &tweets);
            model.came(at, &way, &tweets);
            for store in stores {
                let recorded = store.record(namespace, at, &way, &tweets).await.unwrap();
                assert_eq!(recorded, expected, "{store:?} {namespace} {tweets:#?}");
            }
        }
        6..19 => {
            let batch = random.many(Random::observation);
            let expected = model.save(&batch);
            for store in stores {
                let saved = store.save(namespace, &batch).await.unwrap();
                assert_eq!(saved, expected, "{store:?} {namespace} {batch:#?}");
            }
        }
        19 => {
            let (at, created_at, next_due) = (random.time(), random.time(), random.time());
            let id = random.one(&IDS).to_owned();
            let tweets =
                [DeadResolution { id, created_at: random.maybe(created_at), next_due: random.maybe(next_due) }];
            model.resolve_dead(at, &tweets);
            for store in stores {
                store.resolve_dead(namespace, at, &tweets).await.unwrap();
            }
        }
        20..22 => {
            let which = if random.0.random_bool(0.5) { Expiry::Deleted } else { Expiry::Before(random.time()) };
            let ids = random.many(|random| random.one(&IDS).to_owned());
            let expected = model.remove(which, &ids);
            for store in stores {
                let removed = store.remove(namespace, which, &ids).await.unwrap();
                assert_eq!(removed, expected, "{store:?} {namespace} {which:?} {ids:?}");
            }
        }
        _ => {
            let at = random.time();
            let ids = [(random.one(&IDS).to_owned(), format!("reason {at}"))];
            model.mark_dead(at, &ids);
            for store in stores {
                store.mark_dead(namespace, at, &ids).await.unwrap();
            }
        }
    }
}

async fn compare(model: &Model, store: &dyn Store, namespace: &str) {
    for id in IDS {
        let stored = store.tweet(namespace, id).await.unwrap();
        assert_eq!(stored.as_ref(), model.rows.get(id), "{store:?} {namespace}");
        let history = store.history(namespace, id).await.unwrap();
        assert_eq!(&history, model.history.get(id).unwrap_or(&Vec::new()), "{store:?} {namespace} {id}");
        let (changes, ways) = (store.changes(namespace, id).await.unwrap(), store.ways(namespace, id).await.unwrap());
        assert_eq!(&changes, model.changes.get(id).unwrap_or(&Vec::new()), "{store:?} {namespace} {id}");
        assert_eq!(&ways, model.ways.get(id).unwrap_or(&Vec::new()), "{store:?} {namespace} {id}");
    }
    let standing = store.standing(namespace, &IDS.map(String::from)).await.unwrap();
    assert_eq!(standing, IDS.map(|id| model.standing(id)), "{store:?} {namespace}");
    for of in [Listing::Tracked, Listing::Dead, Listing::Ended] {
        let page = store.page(namespace, of, None, 9).await.unwrap();
        assert_eq!(page, model.page(of), "{store:?} {namespace}");
    }
    assert_eq!(store.counts(namespace).await.unwrap(), model.counts(), "{store:?} {namespace}");
}
