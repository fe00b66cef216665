//! The graph of all lists of a network: accounts once, then pairs with their times.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use twitter_updater::store::{GraphFilter, GraphPart, Node, Scope};

use super::*;

/// A graph: its accounts, sorted, and its pairs with the list that shows them and the number of their times, sorted.
async fn drawn(store: &dyn EdgeStore, at: Option<Millis>, scope: Scope) -> (String, String) {
    let mut nodes = BTreeMap::new();
    let mut pairs = BTreeMap::<String, usize>::new();
    let mut visit = |part: GraphPart| {
        match part {
            GraphPart::Node(node) => {
                assert!(pairs.is_empty(), "accounts come first: {node:?}");
                assert!(nodes.insert(node.id.clone(), node).is_none(), "once each");
            }
            GraphPart::Interval(of) => {
                assert!(nodes.contains_key(&of.follower) && nodes.contains_key(&of.followed), "{of:?}");
                let sure = if of.surely { "" } else { "?" };
                *pairs.entry(format!("{}>{}{sure} {}", of.follower, of.followed, of.list)).or_default() += 1;
            }
        }
        ControlFlow::Continue(())
    };
    store.graph(&wanted(at, scope), &mut visit).await.unwrap();
    let nodes: Vec<String> = nodes.into_keys().collect();
    let pairs: Vec<String> = pairs.into_iter().map(|(pair, times)| format!("{pair} {times}")).collect();
    (nodes.join(" "), pairs.join(", "))
}

fn wanted(at: Option<Millis>, scope: Scope) -> GraphFilter {
    let lists = [NS, FRIENDS].map(str::to_owned).to_vec();
    GraphFilter { lists, profiles: "profiles:twitter".to_owned(), at: at.map(|at| T + at), scope }
}

fn ids(letters: &str) -> Vec<String> {
    letters.chars().map(|id| id.to_string()).collect()
}

pub(super) async fn a_graph_has_each_account_and_each_pair_once(store: &dyn EdgeStore) {
    // a and b follow 9; a left and came back. 8 has another list. a's own list shows 9, too, and c.
    for (owner, at, list) in [("9", 10, "ab"), ("9", 110, "b"), ("9", 210, "b"), ("9", 310, "ab"), ("8", 10, "x")] {
        crawl(store, owner, at, list).await;
    }
    record(store, FRIENDS, &["a"]).await;
    let new = NewCrawl { kind: CrawlKind::Complete, at: T + 395, stated_total: None };
    let friends = store.begin_crawl(FRIENDS, "a", &new).await.unwrap().unwrap();
    store.save_edges(FRIENDS, "a", &page_of(&friends, 400, members("9c"), END)).await.unwrap().unwrap();

    let all = drawn(store, None, Scope::All).await;
    assert_eq!(all.0, "8 9 a b c x");
    // The times of a are those of 9's list.
    let pairs: Vec<String> = all.1.replace('?', "").split(", ").map(str::to_owned).collect();
    let mut pairs = pairs;
    pairs.sort();
    assert_eq!(pairs.join(", "), "a>9 followers 2, a>c friends 1, b>9 followers 1, x>8 followers 1");
    // While 9's list did not show a, a's own says that perhaps it followed.
    let cut = drawn(store, Some(150), Scope::All).await;
    assert_eq!(cut.1, "a>9? friends 1, a>c? friends 1, b>9 followers 1, x>8? followers 1");
    assert_eq!(drawn(store, Some(306), Scope::Among(ids("9ab"))).await.1, "a>9? followers 1, b>9? followers 1");

    let some = |pairs: &str| pairs.replace('?', "");
    let among = drawn(store, None, Scope::Among(ids("9aq"))).await;
    assert_eq!((among.0.as_str(), some(&among.1).as_str()), ("9 a q", "a>9 followers 2"));
    assert_eq!(drawn(store, None, Scope::Among(ids("b"))).await, ("b".to_owned(), String::new()));
    // Around c: a, which follows it, and nobody else. Around b: 9; and around 9 both, with what is among them.
    let around = async |letters| {
        let (nodes, pairs) = drawn(store, None, Scope::Around(ids(letters))).await;
        (nodes, some(&pairs))
    };
    assert_eq!(around("c").await, ("a c".to_owned(), "a>c friends 1".to_owned()));
    assert_eq!(around("b").await, ("9 b".to_owned(), "b>9 followers 1".to_owned()));
    assert_eq!(around("9").await, ("9 a b".to_owned(), "a>9 followers 2, b>9 followers 1".to_owned()));
    // Of one list alone.
    let one = GraphFilter { lists: vec![FRIENDS.to_owned()], ..wanted(None, Scope::All) };
    let mut pairs = Vec::new();
    let mut visit = |part: GraphPart| {
        if let GraphPart::Interval(of) = part {
            pairs.push(format!("{}>{} {}", of.follower, of.followed, of.list));
        }
        ControlFlow::Continue(())
    };
    store.graph(&one, &mut visit).await.unwrap();
    pairs.sort();
    assert_eq!(pairs, ["a>9 friends", "a>c friends"]);
}

pub(super) async fn a_graph_knows_profiles_and_ends_when_it_is_told(store: &dyn EdgeStore) {
    crawl(store, "9", 10, "ab").await;
    record(store, "profiles:twitter", &["a", "b"]).await;
    let mut known = profile("a", 5, None);
    let account = Account {
        id: "a".to_owned(),
        handle: Some("ann".to_owned()),
        display_name: Some("Ann \u{1}🦆".to_owned()),
        state: AccountState::Protected,
        ..Account::default()
    };
    known.finding =
        Finding::Found(Account { counts: AccountCounts { followers: Some(7), ..Default::default() }, ..account });
    store.save_accounts("profiles:twitter", &[known]).await.unwrap();
    let visited = Observation {
        id: "9".to_owned(),
        answered_at: T + 10,
        finding: Finding::Found(Tweet { id: "9".to_owned(), raw: "{}".to_owned(), ..Tweet::default() }),
        state: ItemState::Live,
        next_due: Some(T + 99),
        follow: None,
        forget: false,
        recent: None,
    };
    // The lists of h, which nobody may read, and of e, which is empty.
    for (owner, end) in [("h", Next::End(End::Hidden)), ("e", END)] {
        begin(store, owner, 5, CrawlKind::Complete).await;
        page(store, owner, 10, "", end).await;
        store.save(NS, &[Observation { id: owner.to_owned(), ..visited.clone() }]).await.unwrap();
    }
    store.save(NS, &[visited]).await.unwrap();
    let mut nodes = Vec::new();
    let mut visit = |part: GraphPart| match part {
        GraphPart::Node(node) => {
            nodes.push(node);
            ControlFlow::Continue(())
        }
        GraphPart::Interval(_) => ControlFlow::Break(()),
    };
    store.graph(&wanted(None, Scope::Among(ids("9aeh"))), &mut visit).await.unwrap();
    nodes.sort_by(|one: &Node, other| one.id.cmp(&other.id));
    let given = Node { is_given: true, ..Node::default() };
    let ann = Node {
        id: "a".to_owned(),
        handle: Some("ann".to_owned()),
        display_name: Some("Ann \u{1}🦆".to_owned()),
        state: Some("protected".to_owned()),
        followers: Some(7),
        ..given.clone()
    };
    let read = |id: &str, is_read| Node { id: id.to_owned(), is_read, ..given.clone() };
    assert_eq!(nodes, [read("9", true), ann, read("e", true), read("h", false)]);
    let mut parts = 0;
    let mut visit = |_: GraphPart| {
        parts += 1;
        ControlFlow::Break(())
    };
    store.graph(&wanted(None, Scope::All), &mut visit).await.unwrap();
    assert_eq!(parts, 1);
}
