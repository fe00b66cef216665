//! A forgotten person leaves no row in any table, and none comes back.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tempfile::TempDir;
use twitter_updater::base::clock::Millis;
use twitter_updater::model::account::{Account, AccountCounts};
use twitter_updater::model::community::Belonging;
use twitter_updater::model::media::{MediaKind, Medium};
use twitter_updater::model::post::{ItemState, Tweet};
use twitter_updater::store::{
    Appearance, ClosingLimit, Communities, CrawlKind, EdgePage, Edges, End, Expiry, Finding, FollowList, Forgetting,
    FoundPost, HandDecision, ItemSet, Lifecycle, ListedMember, MediumSighting, NewCrawl, NewItem, Next, Observation,
    Positions, PostLanguage, PostgresStore, Reason, SavedPage, Sighting, SourceGap, SourceTrouble, Store, Way,
};

use super::on_sqlite::plain;
use super::{NS, PATIENCE, SqliteStore, T, counts, new_tweet, observation, open_postgres, way};
use crate::support::postgres;

const PROFILES: &str = "profiles:twitter";
const MEDIA: &str = "media:twitter";
const VISITS: &str = "visits:twitter";
const COMMUNITY: &str = "community:twitter:readers";
const LISTS: [&str; 2] = ["followers:twitter", "friends:x"];

/// Tables without rows of people.
const OF_NOBODY: &[&str] = &[
    "community_growth",
    "forgotten_person",
    "forgotten_key",
    "list_network",
    "media_file",
    "media_room",
    "schedule_budget",
    "sqlite_sequence",
    "store_migrations",
    "tweet_fill",
];

trait Whole: Store + Positions + Edges + FollowList + Communities + Forgetting {}
impl<T: Store + Positions + Edges + FollowList + Communities + Forgetting> Whole for T {}

/// What is written of a person: ids that contain its number, and handles.
struct Who {
    id: &'static str,
    handle: &'static str,
    posts: [&'static str; 2],
}

const ANN: Who = Who { id: "700100", handle: "annforget", posts: ["7001001", "7001002"] };
const BOB: Who = Who { id: "800100", handle: "bobstays", posts: ["8001001", "8001002"] };

fn post_of(who: &Who, id: &str, text: &str) -> Tweet {
    Tweet {
        id: id.into(),
        created_at: Some(T),
        text: Some(format!("{text} of {}", who.handle)),
        author_id: Some(who.id.into()),
        author_name: Some(who.handle.into()),
        metrics: counts(text.len() as i64, 1),
        raw: format!(r#"{{"id_str":"{id}","user":{{"id_str":"{}"}}}}"#, who.id),
        ..Tweet::default()
    }
}

fn profile(who: &Who, at: Millis, handle: String) -> Observation<Account> {
    let account = Account {
        id: who.id.into(),
        handle: Some(handle),
        counts: AccountCounts { followers: Some(at - T), ..AccountCounts::default() },
        raw: format!(r#"{{"id_str":"{}"}}"#, who.id),
        ..Account::default()
    };
    let (id, next_due) = (who.id.into(), Some(at + 1_000));
    let (seen, state) = (Finding::Found(account), ItemState::Live);
    Observation { id, answered_at: at, finding: seen, state, next_due, follow: None, forget: false, recent: None }
}

/// Writes something of that person into every table that may hold it; `other` is on its lists.
async fn write(store: &dyn Whole, who: &Who, other: &Who) {
    let posts: Vec<NewItem> = who
        .posts
        .iter()
        .map(|id| {
            let content = Some(Box::new(post_of(who, id, "ingested")));
            NewItem { content, ..new_tweet(id, T, Some(T)) }
        })
        .collect();
    store.record(NS, T, &way(), &posts).await.unwrap();
    for (at, text) in [(T + 1, "first"), (T + 2, "another")] {
        let answers: Vec<_> =
            who.posts.iter().map(|id| observation(id, at, Finding::Found(post_of(who, id, text)))).collect();
        store.save(NS, &answers).await.unwrap();
    }
    store.record(PROFILES, T, &way(), &[new_tweet(who.id, T, Some(T))]).await.unwrap();
    for (at, handle) in [(T + 1, format!("{}former", who.handle)), (T + 2, who.handle.to_owned())] {
        store.save_accounts(PROFILES, &[profile(who, at, handle)]).await.unwrap();
    }
    let sighting = |post: &&str| Sighting { account: who.id.into(), post: (*post).into(), at: T };
    store.record_sightings(PROFILES, &who.posts.iter().map(sighting).collect::<Vec<_>>()).await.unwrap();
    assert!(store.store_handles(PROFILES, &[who.handle.to_owned()], T, 100).await.unwrap());
    let media = [format!("m{}", who.id), "mshared".to_owned()];
    let of_media: Vec<NewItem> = media.iter().map(|id| new_tweet(id, T, Some(T))).collect();
    store.record(MEDIA, T, &way(), &of_media).await.unwrap();
    let shown = |id: &String| {
        let medium = Medium { id: id.clone(), url: format!("https://a/{id}"), kind: MediaKind::Photo };
        MediumSighting { medium, author: Some(who.id.into()), post: who.posts[0].into(), at: T }
    };
    store.record_media(MEDIA, &media.iter().map(shown).collect::<Vec<_>>()).await.unwrap();

    store.follow(VISITS, T, &[(who.id.to_owned(), 1)]).await.unwrap();
    store.record("visits:twitter:p1", T, &way(), &[new_tweet(who.id, T, Some(T))]).await.unwrap();
    let gap = SourceGap { from: "1".into(), to: "2".into(), reason: "gone".into(), noted_at: T };
    let page = SavedPage {
        at: T,
        position: "{}",
        is_start: false,
        gaps: &[gap],
        has_new_posts: true,
        notes: Some("{}"),
        followed_at: Some(T),
    };
    store.save_page(VISITS, who.id, &page).await.unwrap();
    let trouble = SourceTrouble { since: T, failures: 1, error: "HTTP 500".into(), at: T };
    store.save_trouble(VISITS, who.id, &trouble).await.unwrap();
    belong(store, who, other).await;
    let language = |post: &&str| PostLanguage { id: (*post).into(), language: "pt", confidence: 0.5 };
    store.save_languages(NS, &who.posts.iter().map(language).collect::<Vec<_>>()).await.unwrap();
    for list in LISTS {
        store.record(list, T, &way(), &[new_tweet(who.id, T, Some(T))]).await.unwrap();
        let crawl = NewCrawl { kind: CrawlKind::Complete, at: T, stated_total: None };
        let Some(crawl) = store.begin_crawl(list, who.id, &crawl).await.unwrap() else { continue };
        let members = [other.id, "900100"].map(|id| ListedMember { id: id.into(), followed_at: None }).into();
        let next = Next::End(End::Complete(ClosingLimit { share: 1.0, least: 0 }));
        let (asked_at, answered_at) = (T + 1, T + 2);
        let page = EdgePage { crawl: crawl.number, cursor: None, members, unreadable: 0, next, asked_at, answered_at };
        store.save_edges(list, who.id, &page).await.unwrap();
    }
}

/// It is a member by hand, and leads to another one.
async fn belong(store: &dyn Whole, who: &Who, other: &Who) {
    let member = HandDecision { account: who.id.into(), state: Belonging::Member };
    store.save_hand_decisions(COMMUNITY, T, "ann", "known", &[member]).await.unwrap();
    let appeared = |account: &str| Appearance {
        account: account.into(),
        source: who.id.into(),
        reason: Reason::Mentioned,
        post: Some(who.posts[0].into()),
    };
    store.record_arrivals(COMMUNITY, T, &[], &[appeared(other.id)], (NS, &[])).await.unwrap();
}

/// All that a person may have written again by whoever had asked before, or asks now.
async fn write_again(store: &dyn Whole) {
    // Following refuses, and says so; all else goes on with the others.
    let refused = store.follow(VISITS, T, &[(ANN.id.to_owned(), 1)]).await.unwrap_err();
    assert!(refused.to_string().contains("forget account"), "{refused}");
    // A page of a visit to it that shows posts of another one.
    let shown = [BOB.posts[0], "8001009"].map(|id| new_tweet(id, T, Some(T)));
    let recorded = store.record(NS, T, &visit(ANN.id), &shown).await.unwrap();
    assert_eq!((recorded.new, recorded.revived, recorded.known), (0, 0, 2));
    let posts = ANN.posts.map(|id| {
        let content = Some(Box::new(post_of(&ANN, id, "ingested")));
        NewItem { content, ..new_tweet(id, T, Some(T)) }
    });
    let recorded = store.record(NS, T, &way(), &posts).await.unwrap();
    assert_eq!((recorded.new, recorded.revived, recorded.known), (0, 0, 2));
    assert_eq!(store.standing(NS, &ANN.posts.map(str::to_owned)).await.unwrap(), [None, None]);
    let saved = store.save_accounts(PROFILES, &[profile(&ANN, T + 9, ANN.handle.into())]).await.unwrap();
    assert_eq!((saved.saved, saved.older), (0, 1));
    for namespace in [PROFILES, "visits:twitter:p1", LISTS[0], LISTS[1], "profiles:x"] {
        let recorded = store.record(namespace, T, &way(), &[new_tweet(ANN.id, T, Some(T))]).await.unwrap();
        assert_eq!((recorded.new, recorded.revived), (0, 0), "{namespace}");
    }
    store.mark_dead(PROFILES, T, &[(ANN.id.into(), "refused".into())]).await.unwrap();
    // A post of which the id alone was known goes as well, once an answer tells its author; another one in that batch is saved.
    store.record(NS, T, &way(), &[new_tweet("7001003", T, Some(T))]).await.unwrap();
    // Its media are recorded before it is saved.
    store.record(MEDIA, T, &way(), &[new_tweet("m7001late", T, Some(T))]).await.unwrap();
    let medium = Medium { id: "m7001late".into(), url: "https://a/m7001late".into(), kind: MediaKind::Photo };
    store.record_media(MEDIA, &[MediumSighting { medium, author: None, post: "7001003".into(), at: T }]).await.unwrap();
    // And one that has no row any more, with a medium that others show, too.
    let shared = Medium { id: "mshared".into(), url: "https://a/mshared".into(), kind: MediaKind::Photo };
    store
        .record_media(MEDIA, &[MediumSighting { medium: shared, author: None, post: "7001004".into(), at: T }])
        .await
        .unwrap();
    let late = [
        observation("7001004", T + 9, Finding::Found(post_of(&ANN, "7001004", "late"))),
        observation("7001003", T + 9, Finding::Found(post_of(&ANN, "7001003", "late"))),
        observation(BOB.posts[0], T + 2, Finding::Found(post_of(&BOB, BOB.posts[0], "another"))),
    ];
    let saved = store.save(NS, &late).await.unwrap();
    assert_eq!((saved.saved, saved.older), (1, 2));
    no_medium_returns(store).await;
    belong(store, &ANN, &BOB).await;
    belong(store, &BOB, &ANN).await;
    let language = PostLanguage { id: ANN.posts[0].into(), language: "pt", confidence: 0.5 };
    store.save_languages(NS, &[language]).await.unwrap();
    let sighting = Sighting { account: ANN.id.into(), post: ANN.posts[0].into(), at: T };
    store.record_sightings(PROFILES, &[sighting]).await.unwrap();
    let page = SavedPage {
        at: T,
        position: "{}",
        is_start: false,
        gaps: &[],
        has_new_posts: true,
        notes: None,
        followed_at: None,
    };
    store.save_page(VISITS, ANN.id, &page).await.unwrap();
    let trouble = SourceTrouble { since: T, failures: 1, error: "HTTP 500".into(), at: T };
    store.save_trouble(VISITS, ANN.id, &trouble).await.unwrap();
    // A page of another list that has it.
    store.record(LISTS[0], T, &way(), &[new_tweet("900100", T, Some(T))]).await.unwrap();
    let crawl = NewCrawl { kind: CrawlKind::Complete, at: T, stated_total: None };
    let crawl = store.begin_crawl(LISTS[0], "900100", &crawl).await.unwrap().unwrap();
    let members = [ANN.id, BOB.id].map(|id| ListedMember { id: id.into(), followed_at: None }).into();
    let next = Next::End(End::Complete(ClosingLimit { share: 1.0, least: 0 }));
    let (asked_at, answered_at) = (T + 1, T + 2);
    let page = EdgePage { crawl: crawl.number, cursor: None, members, unreadable: 0, next, asked_at, answered_at };
    let saved = store.save_edges(LISTS[0], "900100", &page).await.unwrap().unwrap();
    assert_eq!(saved.new, 1, "the other one alone");
}

/// Her medium was under way when she was forgotten: another post had named it while a worker had it, so that its id was put into
/// `incoming`, its file came, and an answer with its post, too.
async fn no_medium_returns(store: &dyn Whole) {
    let id = format!("m{}", ANN.id);
    let ids = [id.clone()];
    let recorded = store.record(MEDIA, T, &Way::new("incoming"), &[new_tweet(&id, T, Some(T))]).await.unwrap();
    assert_eq!((recorded.new, recorded.revived, recorded.known), (0, 0, 1));
    let medium = Medium { id: id.clone(), url: format!("https://a/{id}"), kind: MediaKind::Photo };
    let seen = |who: &Who| MediumSighting {
        medium: medium.clone(),
        author: Some(who.id.into()),
        post: who.posts[0].into(),
        at: T,
    };
    store.record_media(MEDIA, &[seen(&ANN)]).await.unwrap();
    let life = Observation::new(&id, T + 9, Finding::Found(None), ItemState::Live, Some(T + 60_009));
    store.save_lives(MEDIA, &[life]).await.unwrap();
    store.mark_dead(MEDIA, T, &[(id.clone(), "ended its process".into())]).await.unwrap();
    assert_eq!(store.standing(MEDIA, &ids).await.unwrap(), [None]);
    assert_eq!(
        (store.media(MEDIA, &ids).await.unwrap(), store.media_uses(MEDIA, &id, 9).await.unwrap()),
        (vec![None], vec![])
    );
    // Another one's post that shows it, beside hers in the same answer.
    store.record_media(MEDIA, &[seen(&ANN), seen(&BOB)]).await.unwrap();
    let uses = store.media_uses(MEDIA, &id, 9).await.unwrap();
    assert_eq!(uses, [(BOB.posts[0].to_owned(), T)]);
    assert!(store.standing(MEDIA, &ids).await.unwrap()[0].is_some());
    let items = ItemSet { namespace: MEDIA.into(), ids: ids.to_vec() };
    store.remove_items(&items).await.unwrap();
}

/// Media that an earlier version let return: no post shows them.
async fn media_without_a_post_are_found(store: &dyn Whole) {
    store.record(MEDIA, T, &way(), &[new_tweet("m1", T, Some(T)), new_tweet("m2", T, Some(T))]).await.unwrap();
    let medium = Medium { id: "m2".into(), url: "https://a/m2".into(), kind: MediaKind::Photo };
    let seen = MediumSighting { medium, author: Some(BOB.id.into()), post: BOB.posts[0].into(), at: T };
    store.record_media(MEDIA, &[seen]).await.unwrap();
    let found = store.find_media_without_post("twitter").await.unwrap();
    assert_eq!(found, [ItemSet { namespace: MEDIA.into(), ids: vec!["m1".into()] }]);
    assert_eq!(store.find_media_without_post("bluesky").await.unwrap(), []);
}

#[tokio::test]
async fn media_without_a_post_are_found_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    media_without_a_post_are_found(&in_sqlite(&folder).await.0).await;
}

#[tokio::test]
async fn media_without_a_post_are_found_in_postgres() {
    media_without_a_post_are_found(&in_postgres().await.0).await;
}

fn found_post(who: &Who, id: &str) -> Observation {
    observation(id, T + 1, Finding::Found(post_of(who, id, "the words")))
}

async fn remove(store: &dyn Whole) {
    remove_of(store, "twitter", ANN.id).await;
}

/// Removes all rows, as `data::forget` does it.
async fn remove_of(store: &dyn Whole, network: &str, id: &str) {
    store.remove_account(network, id, &[ANN.handle.to_owned()]).await.unwrap();
    for provider in [network, "x"] {
        store.forget_edges(provider, id).await.unwrap();
    }
    for items in store.find_items_about(network, id).await.unwrap() {
        let media = store.media_of_posts(&items).await.unwrap();
        for of in [media, items] {
            store.remove_items(&of).await.unwrap();
        }
    }
}

/// Rows of each table, and those that hold a text with one of these words.
type Tables = BTreeMap<String, (i64, i64)>;

fn told(columns: &[String], words: &[&str]) -> String {
    let has = |column: &String| {
        words.iter().map(move |word| format!("CAST({column} AS TEXT) LIKE '%{word}%'")).collect::<Vec<_>>().join(" OR ")
    };
    if words.is_empty() { "1 = 0".to_owned() } else { columns.iter().map(has).collect::<Vec<_>>().join(" OR ") }
}

async fn tables_of_sqlite(path: &std::path::Path, words: &[&str]) -> Tables {
    let mut file = plain(path).await;
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table'";
    let names: Vec<String> = sqlx::query_scalar(names).fetch_all(&mut file).await.unwrap();
    let mut tables = Tables::new();
    for name in names {
        let columns = sqlx::query_scalar("SELECT name FROM pragma_table_info(?1)").bind(&name);
        let columns: Vec<String> = columns.fetch_all(&mut file).await.unwrap();
        let columns: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
        let sql = format!("SELECT count(*), COALESCE(SUM({}), 0) FROM {name}", told(&columns, words));
        let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut file).await.unwrap();
        tables.insert(name, (row.get(0), row.get(1)));
    }
    tables
}

async fn tables_of_postgres(url: &str, words: &[&str]) -> Tables {
    let mut server = PgConnection::connect(url).await.unwrap();
    let names = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'";
    let names: Vec<String> = sqlx::query_scalar(names).fetch_all(&mut server).await.unwrap();
    let mut tables = Tables::new();
    for name in names {
        let columns = "SELECT quote_ident(column_name) FROM information_schema.columns WHERE table_schema = 'public' AND table_name = $1";
        let columns: Vec<String> = sqlx::query_scalar(columns).bind(&name).fetch_all(&mut server).await.unwrap();
        let sql = format!("SELECT count(*), count(*) FILTER (WHERE {}) FROM {name}", told(&columns, words));
        let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut server).await.unwrap();
        tables.insert(name, (row.get(0), row.get(1)));
    }
    tables
}

/// What differs between a store that never knew the person and one that has forgotten it.
async fn is_forgotten(store: &dyn Whole, tables: impl AsyncFn(&[&str]) -> Tables) {
    // The other one, and what stands on its lists: all but the person.
    write(store, &BOB, &Who { id: "900200", ..BOB }).await;
    let before = tables(&[]).await;
    write(store, &ANN, &BOB).await;
    // Of others' lists, too.
    store.record(LISTS[0], T, &way(), &[new_tweet("900300", T, Some(T))]).await.unwrap();
    let with = tables(&["7001", ANN.handle]).await;
    for (table, (rows, _)) in &with {
        let is_written = *rows > before[table].0;
        let is_known = OF_NOBODY.contains(&table.as_str());
        assert!(
            is_written != is_known,
            "{table}: {rows} rows; a new table of people belongs into this test and forget.rs"
        );
    }
    let at = T + 5;
    assert!(store.block_account("twitter", ANN.id, at).await.unwrap());
    assert!(!store.block_account("twitter", ANN.id, at).await.unwrap());
    let is_away = store.are_blocked("twitter", &[BOB.id.to_owned(), ANN.id.to_owned()]).await.unwrap();
    assert_eq!(is_away, [false, true]);
    remove(store).await;
    nothing_is_left(&tables(&["7001", ANN.handle]).await, &before);
    assert_eq!(store.find_items_about("twitter", ANN.id).await.unwrap(), []);

    write_again(store).await;
    let after = tables(&["7001", ANN.handle]).await;
    let told: Vec<_> = after.iter().filter(|(_, (_, told))| *told > 0).collect();
    assert!(told.is_empty(), "{told:?}");
    let visited = store.page_followed(VISITS, "", 10).await.unwrap();
    assert_eq!(visited.iter().map(|of| &*of.account).collect::<Vec<_>>(), [BOB.id]);

    // What others' objects say of it is counted, and it may come back.
    let mut reply = post_of(&BOB, "8001003", "a reply");
    reply.raw = format!(r#"{{"in_reply_to_user_id_str":"{}"}}"#, ANN.id);
    store.save(NS, &[observation("8001003", T, Finding::Found(reply))]).await.unwrap();
    assert_eq!(store.count_mentions("twitter", ANN.id).await.unwrap().0, BTreeMap::from([(NS.to_owned(), 1)]));
    assert!(store.unblock_account("twitter", ANN.id).await.unwrap());
    assert!(!store.unblock_account("twitter", ANN.id).await.unwrap());
    let recorded = store.record(PROFILES, T, &way(), &[new_tweet(ANN.id, T, Some(T))]).await.unwrap();
    assert_eq!(recorded.new, 1);
    let items = ItemSet { namespace: PROFILES.into(), ids: vec![ANN.id.into()] };
    assert_eq!(store.find_items_about("twitter", ANN.id).await.unwrap(), [items]);
}

/// Posts that are removed when they expired leave nothing: what remains is which member led to an account. So do those whose
/// authors have deleted them, of whom nothing says by then who that was. Lists of accounts are read, too.
async fn expired_posts_leave_nothing(store: &dyn Whole, tables: impl AsyncFn(&[&str]) -> Tables) {
    write(store, &BOB, &ANN).await;
    write(store, &ANN, &BOB).await;
    let posts = ANN.posts.map(|id| new_tweet(id, T, Some(T)));
    store.record(NS, T, &visit(ANN.id), &posts).await.unwrap();
    for who in [&ANN, &BOB] {
        let sighting = |post: &&str| Sighting { account: who.id.into(), post: (*post).into(), at: T };
        store.record_sightings(LISTS[0], &who.posts.iter().map(sighting).collect::<Vec<_>>()).await.unwrap();
        let search = Way { source: "lisboa".into(), ..Way::new("poll") };
        store.record(NS, T, &search, &[new_tweet(who.posts[1], T, Some(T))]).await.unwrap();
        let found = FoundPost { post: who.posts[1].into(), author: who.id.into() };
        store.record_arrivals(COMMUNITY, T, &[found], &[], (NS, &["lisboa".to_owned()])).await.unwrap();
    }
    assert_eq!(tables(&[]).await["community_appearance"].0, 4);
    let told = async |who: &Who| -> Vec<String> {
        let tables = tables(&who.posts).await;
        tables.into_iter().filter(|(_, (_, told))| *told > 0).map(|(table, _)| table).collect()
    };
    // Whoever found it later was right.
    let before = told(&ANN).await;
    let late = ANN.posts.map(|id| {
        let seen = Finding::Missing { misses: 1, since: T - 9, reason: None, handle: None };
        Observation { forget: true, ..observation(id, T - 9, seen) }
    });
    assert_eq!(store.save(NS, &late).await.unwrap().saved, 0);
    assert_eq!(told(&ANN).await, before);
    for (who, which) in [(&BOB, Expiry::Before(T + 4)), (&ANN, Expiry::Deleted)] {
        assert!(told(who).await.len() >= 4, "{:?}", told(who).await);
        let ended = who.posts.map(|id| {
            let seen = match which {
                Expiry::Before(_) => Finding::Found(post_of(who, id, "first")),
                Expiry::Deleted => Finding::Missing { misses: 1, since: T + 3, reason: None, handle: None },
            };
            let forget = which == Expiry::Deleted;
            Observation { state: ItemState::Ended, next_due: None, forget, ..observation(id, T + 3, seen) }
        });
        store.save(NS, &ended).await.unwrap();
        if which == Expiry::Deleted {
            // Its row alone: when and how it came, its counts, the media that it showed.
            let left = told(who).await;
            assert_eq!(store.ways(NS, who.posts[0]).await.unwrap().len(), 1, "the visit to its author is forgotten");
            let says_who = |table: &String| {
                ["account_post", "community_appearance", "language"].iter().any(|of| table.contains(of))
            };
            assert!(!left.iter().any(says_who), "{left:?}");
        }
        let posts = who.posts.map(str::to_owned);
        assert_eq!(store.remove(NS, which, &posts).await.unwrap(), 2);
        assert_eq!(told(who).await, Vec::<String>::new(), "{which:?}");
    }
    let left = tables(&[]).await;
    assert_eq!(left["community_appearance"].0, 2, "that a member led to an account");
    let language = left.iter().find(|(table, _)| table.starts_with("post_language")).unwrap();
    assert_eq!(language.1.0, 0);
}

fn visit(account: &str) -> Way {
    Way { pipeline: "visit".into(), source: account.into(), query: Some(account.into()) }
}

/// On Bluesky a post's id names its author; everywhere, a visit names the account that showed a post.
async fn what_an_id_or_a_visit_tells_is_forgotten(store: &dyn Whole, tables: impl AsyncFn(&[&str]) -> Tables) {
    const POSTS: &str = "bluesky:update";
    const PEOPLE: &str = "profiles:bluesky";
    const FILES: &str = "media:bluesky";
    const READERS: &str = "community:bluesky:readers";
    let [ann, bob] = ["did:plc:annforget", "did:plc:bobstays"];
    let [hers, his, blank] =
        [(ann, 1), (bob, 2), ("did:plc:nobody", 3)].map(|(did, n)| format!("at://{did}/app.bsky.feed.post/{n}"));
    // Hers alone is known, by its id, and that he showed it; of his that she showed it; and one whose author is not known any more.
    store.record(POSTS, T, &way(), &[new_tweet(&hers, T, Some(T))]).await.unwrap();
    let content = Tweet { id: his.clone(), author_id: Some(bob.into()), ..post_of(&BOB, &his, "his own") };
    let shown = NewItem { content: Some(Box::new(content)), ..new_tweet(&his, T, Some(T)) };
    store.record(POSTS, T, &visit(ann), &[shown, new_tweet(&blank, T, Some(T))]).await.unwrap();
    store.record(PEOPLE, T, &way(), &[new_tweet(bob, T, Some(T))]).await.unwrap();
    let member = HandDecision { account: bob.into(), state: Belonging::Member };
    store.save_hand_decisions(READERS, T, "me", "known", &[member]).await.unwrap();
    // Her post, which he showed, led to a third one.
    let shows = async || {
        store.record_sightings(PEOPLE, &[Sighting { account: bob.into(), post: hers.clone(), at: T }]).await.unwrap();
        let (account, source, post) = ("did:plc:nobody".into(), bob.into(), Some(hers.clone()));
        let appeared = Appearance { account, source, reason: Reason::Reposted, post };
        store.record_arrivals(READERS, T, &[], &[appeared], (POSTS, &[])).await.unwrap();
        let medium = format!("{ann}/bafkrei1");
        store.record(FILES, T, &way(), &[new_tweet(&medium, T, Some(T))]).await.unwrap();
        store.save(FILES, &[observation(&medium, T + 1, Finding::Broken("nobody names it".into()))]).await.unwrap();
    };
    shows().await;
    let told = async || -> Vec<String> {
        let tables = tables(&["annforget"]).await;
        tables.into_iter().filter(|(_, (_, told))| *told > 0).map(|(table, _)| table).collect()
    };
    let before = told().await;
    for table in ["account_post", "community_appearance", "tweet", "tweet_way"] {
        assert!(before.iter().any(|name| name.trim_end_matches("_row") == table), "{table}: {before:?}");
    }

    assert!(store.block_account("bluesky", ann, T + 5).await.unwrap());
    remove_of(store, "bluesky", ann).await;
    assert!(told().await.is_empty(), "{:?}", told().await);
    let known = store.standing(POSTS, &[his.clone(), blank]).await.unwrap();
    assert!(known[0].is_some() && known[1].is_none(), "{known:?}");
    let recorded = store.record(POSTS, T, &way(), &[new_tweet(&hers, T, Some(T)), new_tweet(&his, T, Some(T))]).await;
    assert_eq!(recorded.unwrap().new, 0);
    let late = Finding::Missing { misses: 1, since: T, reason: None, handle: None };
    store.save(POSTS, &[observation(&hers, T + 9, late)]).await.unwrap();
    shows().await;
    assert!(told().await.is_empty(), "{:?}", told().await);
}

#[tokio::test]
async fn what_an_id_or_a_visit_tells_is_forgotten_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = in_sqlite(&folder).await;
    what_an_id_or_a_visit_tells_is_forgotten(&store, async |words| tables_of_sqlite(&path, words).await).await;
}

#[tokio::test]
async fn what_an_id_or_a_visit_tells_is_forgotten_in_postgres() {
    let (store, url) = in_postgres().await;
    what_an_id_or_a_visit_tells_is_forgotten(&store, async |words| tables_of_postgres(&url, words).await).await;
}

/// More than one transaction removes: others write in between.
#[tokio::test]
async fn what_showed_many_posts_is_removed_in_portions_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = in_sqlite(&folder).await;
    let shown: Vec<String> = (0..501).map(|n| format!("80020{n:03}")).collect();
    let posts = shown.iter().map(|id| {
        let content = Some(Box::new(post_of(&BOB, id, "his own")));
        NewItem { content, ..new_tweet(id, T, Some(T)) }
    });
    store.record(NS, T, &visit(ANN.id), &posts.collect::<Vec<_>>()).await.unwrap();
    assert!(store.block_account("twitter", ANN.id, T).await.unwrap());
    let removed = store.remove_account("twitter", ANN.id, &[]).await.unwrap();
    assert_eq!(removed.0, BTreeMap::from([("tweet_way".to_owned(), 501)]));
    let told: i64 = tables_of_sqlite(&path, &[ANN.id]).await.values().map(|(_, told)| told).sum();
    assert_eq!(told, 0);
    assert_eq!(store.remove_account("twitter", ANN.id, &[]).await.unwrap().0, BTreeMap::new());
}

/// A dump reads the table to its end. Whoever waits for it holds up all who read it: every save.
#[tokio::test]
async fn a_dump_is_not_waited_for_to_its_end() {
    let (store, url) = in_postgres().await;
    let store: &dyn Whole = &store;
    let mut dump = PgConnection::connect(&url).await.unwrap();
    let mut dump = dump.begin().await.unwrap();
    sqlx::query("LOCK TABLE forgotten_person IN ACCESS SHARE MODE").execute(&mut *dump).await.unwrap();
    let given_up = store.block_account("twitter", ANN.id, T).await.unwrap_err();
    assert!(given_up.to_string().contains("dump"), "{given_up}");
    store.save(NS, &[found_post(&BOB, "1")]).await.unwrap();
    dump.rollback().await.unwrap();
    assert!(store.block_account("twitter", ANN.id, T).await.unwrap());
}

/// Rows as before the person came, but those of accounts that its lists named: they are not its own.
fn nothing_is_left(now: &Tables, before: &Tables) {
    for (table, (rows, told)) in now.iter().filter(|(table, _)| !OF_NOBODY.contains(&table.as_str())) {
        let more = match table.as_str() {
            "list_account" => LISTS.len() as i64,         // BOB, on its lists
            "tweet" | "tweet_way" | "tweet_way_row" => 1, // the list of another one
            _ => 0,
        };
        assert_eq!((*rows, *told), (before[table].0 + more, 0), "{table}");
    }
}

async fn in_sqlite(folder: &TempDir) -> (SqliteStore, PathBuf) {
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path, PATIENCE).await.unwrap();
    store.migrate().await.unwrap();
    (store, path)
}

async fn in_postgres() -> (PostgresStore, String) {
    let url = postgres::database().await;
    let key = tempfile::tempdir().unwrap().keep().join("forget-key");
    let store = open_postgres(&url).await.with_key_file(&key);
    store.migrate().await.unwrap();
    (store, url)
}

#[tokio::test]
async fn a_person_is_forgotten_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = in_sqlite(&folder).await;
    is_forgotten(&store, async |words| tables_of_sqlite(&path, words).await).await;
}

/// Not in a table only: a search through the files finds nothing either.
#[tokio::test]
async fn the_bytes_of_a_forgotten_person_are_overwritten_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = in_sqlite(&folder).await;
    let store: &dyn Whole = &store;
    for who in [&ANN, &BOB] {
        let posts = who.posts.map(|id| found_post(who, id));
        store.save(NS, &posts).await.unwrap();
        // Each save replaces what was there: the profile grows and shrinks.
        for (at, handle) in [(1, who.handle.repeat(40)), (2, who.handle.to_owned()), (3, who.handle.repeat(3))] {
            store.save_accounts(PROFILES, &[profile(who, T + at, handle)]).await.unwrap();
        }
    }
    remove(store).await;
    store.erase_removed_bytes().await.unwrap();
    let (mut gone, mut there) = (0, 0);
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let times = |word: &str| bytes.windows(word.len()).filter(|window| *window == word.as_bytes()).count();
        (gone, there) = (gone + times(ANN.handle), there + times(BOB.handle));
    }
    assert!(gone == 0 && there > 0, "{gone} times her, {there} times him");
    assert!(path.exists());
}

#[tokio::test]
async fn a_person_is_forgotten_in_postgres() {
    let (store, url) = in_postgres().await;
    is_forgotten(&store, async |words| tables_of_postgres(&url, words).await).await;
}

#[tokio::test]
async fn expired_posts_leave_nothing_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = in_sqlite(&folder).await;
    expired_posts_leave_nothing(&store, async |words| tables_of_sqlite(&path, words).await).await;
}

#[tokio::test]
async fn expired_posts_leave_nothing_in_postgres() {
    let (store, url) = in_postgres().await;
    expired_posts_leave_nothing(&store, async |words| tables_of_postgres(&url, words).await).await;
}

/// The hash waits for a write under way: what that wrote is found by the removal, and no later write brings it back.
#[tokio::test]
async fn a_write_under_way_is_waited_for() {
    let (store, url) = in_postgres().await;
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut transaction = other.begin().await.unwrap();
    // As a save does that has not committed yet.
    let save = "INSERT INTO tweet (namespace, id, state, author_id, first_seen, lookups, misses) \
         SELECT $1, $2, 'live', $3, 0, 0, 0 WHERE NOT EXISTS (SELECT FROM forgotten_person)";
    sqlx::query(save).bind(NS).bind("1").bind(ANN.id).execute(&mut *transaction).await.unwrap();
    let (kept, ()) = tokio::join!(store.block_account("twitter", ANN.id, T), async {
        let waits =
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'forgotten_person'::regclass)";
        let mut third = PgConnection::connect(&url).await.unwrap();
        while !sqlx::query_scalar::<_, bool>(waits).fetch_one(&mut third).await.unwrap() {
            tokio::task::yield_now().await;
        }
        transaction.commit().await.unwrap();
    });
    assert!(kept.unwrap());
    let found = store.find_items_about("twitter", ANN.id).await.unwrap();
    assert_eq!(found, [ItemSet { namespace: NS.into(), ids: vec!["1".into()] }]);
}
