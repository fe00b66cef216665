//! 100,000 posts, one a second on average, each visible up to a second late: who misses how many of them, and
//! what it costs. In simulated time.

use std::collections::HashMap;
use std::time::Duration;

use twitter_updater::base::clock::Millis;
use twitter_updater::pipelines::timelines::pace::Pace;
use twitter_updater::pipelines::timelines::paging::{Gap, GapReason, Position};
use twitter_updater::providers::bluesky::timeline as bluesky;
use twitter_updater::providers::since::IdLayout;
use twitter_updater::providers::timeline::TimelineRequest;

use super::timeline::{DAY, Lots, T, Timeline, page, reading_of, rules};

const POSTS: i64 = 100_000;
const K: Millis = 1_000;
/// From one page to the next.
const CALL: Millis = 80;
/// Pages in one poll, at the most.
const PAGES: u32 = 20;
const PACE: Pace = Pace { shortest: Duration::from_secs(5), longest: Duration::from_secs(900), fill: 0.5 };

/// Whose timeline it is.
#[derive(Clone, Copy)]
struct Network {
    /// How its rows in the table begin.
    name: &'static str,
    layout: IdLayout,
    count: u32,
    says_last: bool,
    window: Option<Millis>,
    behind: Millis,
    refuses: u64,
    kept_for: Millis,
    /// Whether a page whose posts are all deleted looks like the last.
    notes_holes: bool,
}

const TWITTER: Network = Network {
    name: "",
    layout: IdLayout::TWITTER,
    count: 200,
    says_last: false,
    window: None,
    behind: 0,
    refuses: 0,
    kept_for: 0,
    notes_holes: true,
};

/// Recent search, a token in seven refused.
const X: Network = Network {
    name: "X search: ",
    count: 100,
    says_last: true,
    window: Some(7 * DAY),
    behind: 30_000,
    refuses: 7,
    notes_holes: false,
    ..TWITTER
};

/// What was written on the instance, with a token.
const MASTODON: Network = Network { name: "Mastodon: ", layout: IdLayout::MASTODON, count: 40, ..TWITTER };

/// Without one.
const MASTODON_KEPT: Network = Network { name: "Mastodon, kept on the way for 15 s: ", kept_for: 15_000, ..MASTODON };

/// A search. Nothing is kept for long, but no `Date` is believed.
const BLUESKY: Network =
    Network { name: "Bluesky search: ", layout: bluesky::LAYOUT, count: 100, kept_for: 1, ..TWITTER };

/// What the world is like.
#[derive(Clone, Copy, Default)]
struct Scenario {
    name: &'static str,
    /// Once an hour, ten minutes' worth of posts come in twenty seconds.
    bursts: bool,
    /// One post in ten is deleted within five minutes, also when it is the newest.
    deletions: bool,
    /// Our clock less theirs.
    ahead: Millis,
    /// How often the poller is killed.
    kills: u64,
    no_date: bool,
    /// See [`Timeline`].
    repeats: usize,
    /// See [`Timeline`].
    blanks: u64,
    /// Every six hours the poller is away for one, and a good part of what came meanwhile is deleted in one piece.
    holes: bool,
}

const STEADY: Scenario = Scenario {
    name: "steady",
    bursts: false,
    deletions: false,
    ahead: 0,
    kills: 0,
    no_date: false,
    repeats: 0,
    blanks: 0,
    holes: false,
};

const SCENARIOS: [Scenario; 12] = [
    STEADY,
    Scenario { name: "bursts, ten minutes' worth in twenty seconds", bursts: true, ..STEADY },
    Scenario { name: "one post in ten deleted within minutes", deletions: true, ..STEADY },
    Scenario { name: "our clock 5 s ahead", ahead: 5_000, ..STEADY },
    Scenario { name: "our clock 1 h ahead", ahead: 3_600_000, ..STEADY },
    Scenario { name: "our clock 1 h behind", ahead: -3_600_000, ..STEADY },
    Scenario { name: "no `Date` in the answers", no_date: true, ..STEADY },
    Scenario { name: "killed 20 times", kills: 20, ..STEADY },
    Scenario { name: "three posts repeated at each seam", repeats: 3, ..STEADY },
    Scenario { name: "one answer in twenty empty, whatever there is", blanks: 20, ..STEADY },
    Scenario { name: "away for an hour, and 600 posts in a row deleted", holes: true, ..STEADY },
    Scenario {
        name: "bursts, deletions, 1 h ahead, killed 20 times",
        bursts: true,
        deletions: true,
        ahead: 3_600_000,
        kills: 20,
        ..STEADY
    },
];

fn world(network: Network, scenario: Scenario) -> Timeline {
    let mut lots = Lots::new(2026);
    let hour = 3_600_000;
    let made = (0..POSTS).map(|_| {
        let at = lots.below(POSTS as u64 * 1_000) as Millis;
        let into = at % hour;
        T + at - into + if scenario.bursts && into < 600_000 { into / 30 } else { into }
    });
    let made: Vec<Millis> = made.collect();
    let mut timeline = Timeline::new(network.layout, K, made, &mut lots);
    let Network { count, says_last, window, behind, refuses, kept_for, .. } = network;
    timeline.window = window.unwrap_or(timeline.window);
    (timeline.count, timeline.says_last, timeline.behind) = (count, says_last, behind);
    (timeline.refuses, timeline.kept_for) = (refuses, kept_for);
    (timeline.repeats, timeline.blanks) = (scenario.repeats, scenario.blanks);
    if scenario.holes {
        for post in &mut timeline.posts {
            if (HOLE.0..HOLE.1).contains(&((post.visible_at - T) % EVERY)) {
                post.deleted_at = post.visible_at + 1;
            }
        }
    }
    if scenario.deletions {
        for post in &mut timeline.posts {
            if lots.below(10) == 0 {
                post.deleted_at = post.visible_at + 1 + lots.below(300_000) as Millis;
            }
        }
    }
    timeline
}

/// The poller is away so often, from … to after that; what is made from … to is deleted.
const EVERY: Millis = 6 * 3_600_000;
const AWAY: (Millis, Millis) = (3_600_000, 2 * 3_600_000);
const HOLE: (Millis, Millis) = (AWAY.0 + 20 * 60_000, AWAY.0 + 30 * 60_000);

/// What came of a poller.
#[derive(Debug, Default)]
struct Outcome {
    /// What it noted as missing.
    gaps: Vec<Gap>,
    /// How often each post was handed over.
    handed: HashMap<u64, u32>,
    kills: u64,
    longest_wait: Millis,
}

/// What a poll answers: when it ended, and when the next is due.
type Poll<'a> = dyn FnMut(&mut Timeline, Millis, &mut Outcome) -> (Millis, Millis) + 'a;

/// Polls until all that will ever come was there for a while.
fn run(timeline: &mut Timeline, scenario: Scenario, poll: &mut Poll<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut at = T - 10_000;
    let end = timeline.end() + 3 * 900_000;
    while at < end {
        let (ended, next) = poll(timeline, at, &mut outcome);
        outcome.longest_wait = outcome.longest_wait.max(next - at);
        at = ended.max(next);
        let into = (at - T).rem_euclid(EVERY);
        if scenario.holes && (AWAY.0..AWAY.1).contains(&into) {
            at += AWAY.1 - into;
        }
    }
    outcome
}

/// A poller without a position: asks from `since`, which `after` gives for (the newest id, our clock when asking), until an
/// empty page.
fn plain(timeline: &mut Timeline, scenario: Scenario, after: impl Fn(u64, Millis) -> u64) -> Outcome {
    let (mut latest, mut since, mut interval, mut last) = (None, None, PACE.first(), T - 20_000);
    let count = timeline.count;
    let mut poll = |timeline: &mut Timeline, at: Millis, outcome: &mut Outcome| {
        let (mut now, mut below, mut fresh) = (at, None, 0);
        loop {
            let ask = TimelineRequest { since, below, cursor: None, count };
            let (ids, _) = timeline.page(&ask, now + CALL / 2);
            now += CALL;
            let Some(least) = ids.iter().min().copied().filter(|least| below.is_none_or(|below| *least < below)) else {
                break;
            };
            for id in &ids {
                let times = outcome.handed.entry(*id).or_default();
                fresh += u64::from(*times == 0);
                *times += 1;
            }
            latest = latest.max(ids.iter().max().copied());
            below = Some(least);
        }
        since = latest.map(|latest| after(latest, at + scenario.ahead));
        interval = PACE.next(interval, fresh, at - last, count);
        last = at;
        (now, at + interval)
    };
    run(timeline, scenario, &mut poll)
}

/// Ours, with what it keeps on a disk and the points at which it dies.
fn ours(timeline: &mut Timeline, scenario: Scenario) -> Outcome {
    let rules = rules(timeline);
    let mut saved: Option<String> = None;
    let mut lots = Lots::new(20);
    // About 1,500 pages are read; the first two are the least interesting.
    let mut deaths: Vec<u64> = (0..scenario.kills).map(|n| 3 + n * 45 + lots.below(40)).collect();
    deaths.reverse();
    let mut pages = 0;
    let mut poll = |timeline: &mut Timeline, at: Millis, outcome: &mut Outcome| {
        let mut now = at;
        let mut interval = PACE.first();
        for _ in 0..PAGES {
            // Whoever comes next knows what is on the disk, and nothing else.
            let position: Option<Position> = saved.as_deref().map(|text| serde_json::from_str(text).unwrap());
            let read = reading_of(timeline, now, scenario.ahead, !scenario.no_date);
            let (taken, mut next) = page(timeline, &position, &rules, now, &read);
            now += CALL;
            pages += 1;
            let dies = deaths.pop_if(|at| *at <= pages).map(|_| lots.below(3));
            outcome.kills += u64::from(dies.is_some());
            // Its lease runs out, and another comes.
            let again = now + 5_000 + lots.below(60_000) as Millis;
            if dies == Some(0) {
                return (now, again);
            }
            for id in &taken.hand_over {
                *outcome.handed.entry(*id).or_default() += 1;
            }
            outcome.gaps.extend(taken.gaps);
            if dies == Some(1) {
                return (now, again);
            }
            let was = position.as_ref().and_then(|position| position.interval).unwrap_or(PACE.first());
            if let (Some(whole), Some(next)) = (taken.finished_round, &mut next) {
                interval = whole.elapsed.map_or(was, |elapsed| PACE.next(was, whole.fresh, elapsed, rules.count));
                next.interval = Some(interval);
            }
            saved = Some(serde_json::to_string(&next).unwrap());
            if dies == Some(2) {
                return (now, again);
            }
            if taken.finished_round.is_some() {
                return (now, at + interval);
            }
        }
        (now, at + PACE.first())
    };
    run(timeline, scenario, &mut poll)
}

/// Posts that stayed, and were neither handed over nor noted as missing.
fn lost(timeline: &Timeline, outcome: &Outcome) -> usize {
    let is_noted = |id: u64| outcome.gaps.iter().any(|gap| (gap.from..=gap.to).contains(&id));
    let stays = timeline.posts.iter().filter(|post| post.deleted_at == Millis::MAX);
    stays.filter(|post| !outcome.handed.contains_key(&post.id) && !is_noted(post.id)).count()
}

fn compare(network: Network, scenarios: &[Scenario]) {
    let count = network.count;
    println!("{POSTS} posts, 1 a second on average, visible up to {K} ms late; pages of {count}");
    println!(
        "{:<70} {:<17} {:>6} {:>8} {:>8} {:>9} {:>6}",
        "", "poller", "calls", "fetched", "over", "repeated", "lost"
    );
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/polling.md")).unwrap();
    let mut missing = Vec::new();
    for scenario in scenarios.iter().copied() {
        let name = format!("{}{}", network.name, scenario.name);
        let naive = |latest, _| latest;
        let paper = |latest, sent_at| network.layout.since(latest, Some(sent_at), K);
        let mut rows = Vec::new();
        for poller in ["since_id = newest", "the paper's", "ours"] {
            let mut timeline = world(network, scenario);
            let outcome = match poller {
                "since_id = newest" => plain(&mut timeline, scenario, naive),
                "the paper's" => plain(&mut timeline, scenario, paper),
                _ => ours(&mut timeline, scenario),
            };
            // The clairvoyant fetches each post once.
            let least = outcome.handed.len() as f64;
            let over = (timeline.fetched as f64 / least - 1.0) * 100.0;
            let repeated = outcome.handed.values().map(|times| u64::from(times - 1)).sum::<u64>();
            let lost = lost(&timeline, &outcome);
            println!(
                "{name:<70} {poller:<17} {:>6} {:>8} {over:>7.2}% {repeated:>9} {lost:>6}",
                timeline.calls, timeline.fetched
            );
            rows.push((over, lost));
            if poller == "ours" {
                assert_eq!(outcome.kills, scenario.kills);
                assert!(outcome.longest_wait <= 900_000);
                // A gap is noted where an answer gives reason to, and nowhere else.
                let has_reason = scenario.holes && network.notes_holes || scenario.blanks > 0;
                assert!(outcome.gaps.is_empty() || has_reason, "{name}: {:?}", outcome.gaps);
                assert!(outcome.gaps.iter().all(|gap| gap.reason == GapReason::Hidden), "{name}");
            }
        }
        let [(_, naive), (_, paper), (over, ours)] = rows[..] else { unreachable!() };
        let row = format!("| {name} | {naive} | {paper} | {ours} | {over:.1} % |");
        assert_eq!(ours, 0, "{name}");
        assert!(naive > 0, "{name}: a world in which nobody misses anything shows nothing");
        // The paper's hole is a clock that is ahead of the moment an answer shows.
        let is_ahead = scenario.ahead > K || network.behind > 0;
        // Both believe an empty page.
        let is_misled = scenario.blanks > 0 || scenario.holes;
        assert_eq!(paper > 0, is_ahead || is_misled, "{name}");
        // Where no Date is believed, what is younger than k comes twice.
        if scenario.name == STEADY.name && network.kept_for == 0 {
            assert!(over <= 5.0, "{name}: {over}");
        }
        if !document.contains(&row) {
            missing.push(row);
        }
    }
    assert!(missing.is_empty(), "docs/polling.md has not:\n{}", missing.join("\n"));
}

#[test]
fn ours_misses_none_where_the_newest_id_misses_some() {
    compare(TWITTER, &SCENARIOS);
}

/// The last of all is the worst, so it stands for those between.
fn few() -> [Scenario; 6] {
    let [.., killed, repeated, blank, holes, worst] = SCENARIOS;
    [STEADY, killed, repeated, blank, holes, worst]
}

#[test]
fn nor_in_a_search_that_is_behind_and_refuses_tokens() {
    compare(X, &few());
}

#[test]
fn nor_in_pages_of_forty() {
    compare(MASTODON, &few());
}

#[test]
fn nor_where_answers_come_out_of_a_cache() {
    compare(MASTODON_KEPT, &few());
}

#[test]
fn nor_by_places_where_no_date_is_believed() {
    compare(BLUESKY, &few());
}
