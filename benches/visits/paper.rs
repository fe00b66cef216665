//! The tables of the paper on visiting (002, section 6) and of the thesis on a national archive (004, section 5.2.3), each
//! beside what comes of the same rule here. Their data are not public: people are made up by their descriptions.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use research::organ_pipe::organ_pipe_order;
use research::partition::{loads, partition_alternating, partition_longest_first};
use serde_json::json;
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::schedule::visits::classes;
use twitter_updater::engine::schedule::visits::hash;
use twitter_updater::engine::schedule::visits::rhythm::{DAY, HOUR, Rhythm};

use super::data::{self, Person};
use crate::Size;
use crate::report::Table;

/// Messages that one visit shows at most.
const PAGE: u64 = 100;

fn rates(count: usize, random: &mut StdRng) -> Vec<f64> {
    (0..count).map(|_| data::rate(random)).collect()
}

/// Each user is visited once in the period, and shows the last 100 messages: which order of the users collects most?
pub fn order(size: Size) -> Table {
    let columns = ["users", "days", "in turn", "organ pipe", "gain %", "paper %", "best order, gain %"];
    let mut table = Table::new("Order of single visits (002, section 6.1)", &columns);
    for (users, days, paper) in [(10_000, 61.0, 12.14), (88_799, 1_461.0, 3.10)] {
        let mut random = StdRng::seed_from_u64(3);
        let rates = rates(size.pick(users, 500), &mut random);
        let collect = |order: &[usize]| -> f64 {
            let mut random = StdRng::seed_from_u64(4);
            let of = |(slot, user): (usize, &usize)| {
                let span = days * (slot as f64 + 0.5) / order.len() as f64;
                data::poisson(rates[*user] * span, &mut random).min(PAGE) as f64
            };
            order.iter().enumerate().map(of).sum()
        };
        let mut turn: Vec<usize> = (0..rates.len()).collect();
        turn.shuffle(&mut random);
        let [turn, pipe, best] =
            [turn, organ_pipe_order(&rates), best_order(&rates, days)].map(|order| collect(&order));
        let gain = |of: f64| (of / turn - 1.0) * 100.0;
        table.row(vec![
            json!(rates.len()),
            json!(days),
            json!(turn),
            json!(pipe),
            json!(gain(pipe)),
            json!(paper),
            json!(gain(best)),
        ]);
    }
    table
}

/// From the last slot back to the first: the busiest user who has not filled a page by then. Who fills it can as well go
/// earlier; if all do, the quietest of them.
fn best_order(rates: &[f64], days: f64) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..rates.len()).collect();
    sorted.sort_by(|one, other| rates[*one].total_cmp(&rates[*other]));
    let mut left: std::collections::BTreeSet<usize> = (0..rates.len()).collect();
    let mut order = Vec::new();
    for slot in (0..rates.len()).rev() {
        let span = days * (slot as f64 + 0.5) / rates.len() as f64;
        let fills = sorted.partition_point(|user| rates[*user] * span <= PAGE as f64);
        let place = left.range(..fills).next_back().or(left.first()).copied().unwrap_or(0);
        left.remove(&place);
        order.push(sorted[place]);
    }
    order.reverse();
    order
}

/// Visits and messages of one user by the paper's algorithm 2: its bins know each day when it is over.
fn by_hours(person: &Person, rules: &hash::Rules) -> (u64, u64) {
    let observed = &person.observed;
    let mut rhythm = Rhythm::new(observed.from);
    let (mut visits, mut found, mut seen, mut expected) = (0, 0, observed.from, 0.0);
    let mut hour = observed.from;
    while hour < observed.until {
        if hour.rem_euclid(DAY) == 0 {
            rhythm.record_visit(observed.events_between(hour - DAY, hour), hour, &classes::Rules::default());
        }
        expected += hash::expected_in_hour(rules, &rhythm, hour);
        hour += HOUR;
        if expected >= rules.events || hour - seen >= rules.span {
            visits += 1;
            found += (observed.events_between(seen, hour).len() as u64).min(PAGE);
            (seen, expected) = (hour, 0.0);
        }
    }
    (visits, found)
}

/// Messages that so many visits of each user find, spread evenly.
fn in_turn(people: &[Person], visits: f64) -> f64 {
    let mut found = 0.0;
    for person in people {
        let observed = &person.observed;
        let span = (observed.until - observed.from) as f64 / visits;
        let whole = visits as u64;
        let moment = |at: u64| observed.from + (span * at as f64) as Millis;
        let of = |at: u64| (observed.events_between(moment(at), moment(at + 1)).len() as u64).min(PAGE) as f64;
        found += (0..whole).map(of).sum::<f64>() + (visits - whole as f64) * of(whole);
    }
    found
}

pub fn hash_tables(size: Size) -> Table {
    let columns = [
        "weight",
        "visits/user",
        "messages/visit",
        "in turn, messages/visit",
        "hash to in turn %",
        "paper: visits/user",
        "paper: messages/visit",
        "paper: hash to in turn %",
    ];
    let mut table = Table::new("Hash model: y = 100, span 30 d, 61 days (002, section 6.2)", &columns);
    let people = data::made_up(size.pick(4_000, 60), 61, 8).people;
    let paper = [
        (0.9, 5.04, 28.79),
        (0.8, 4.46, 31.79),
        (0.7, 3.94, 34.70),
        (0.6, 3.54, 37.35),
        (0.5, 3.22, 38.98),
        (0.4, 2.98, 39.42),
    ];
    // Its table 2, per user: visits, and messages of a visit.
    let turns = [(2.0, 20.55), (3.0, 21.75), (4.0, 20.45), (5.0, 18.80)];
    let of_paper = |visits: f64| {
        let at = turns.partition_point(|turn| turn.0 < visits).clamp(1, 3);
        let ((low, a), (high, b)) = (turns[at - 1], turns[at]);
        a + (b - a) * (visits - low) / (high - low)
    };
    for (weight, paper_visits, paper_found) in paper {
        let rules = hash::Rules { events: 100.0, weight, span: 30 * DAY, ..hash::Rules::default() };
        let all: Vec<(u64, u64)> = people.iter().map(|person| by_hours(person, &rules)).collect();
        let visits = all.iter().map(|one| one.0).sum::<u64>() as f64;
        let found = all.iter().map(|one| one.1).sum::<u64>() as f64;
        let each = visits / people.len() as f64;
        let turn = in_turn(&people, each) / visits;
        table.row(vec![
            json!(weight),
            json!(each),
            json!(found / visits),
            json!(turn),
            json!((found / visits / turn - 1.0) * 100.0),
            json!(paper_visits),
            json!(paper_found),
            json!((paper_found / of_paper(paper_visits) - 1.0) * 100.0),
        ]);
    }
    table
}

fn spread(loads: &[f64]) -> f64 {
    loads.iter().copied().fold(0.0, f64::max) - loads.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Differences of the partitions' work, as shares of what a random partition has.
pub fn partitions(size: Size) -> Table {
    let columns = [
        "users",
        "parts",
        "random",
        "by turns",
        "by turns, % of random",
        "paper, % of random",
        "LPT",
        "LPT, % of random",
    ];
    let mut table = Table::new("Differences of partitions, messages a day (002, tables 3 and 4)", &columns);
    // The smallest and the greatest of the paper's shares.
    let cases = [
        (10_000, 1, "7.27"),
        (30_000, 1, "0.64"),
        (50_000, 1, "11.46"),
        (70_000, 1, "6.07"),
        (10_000, 2, "-"),
        (10_000, 3, "-"),
        (10_000, 4, "13.28"),
        (20_000, 4, "8.93"),
        (40_000, 4, "5.68"),
        (80_000, 4, "9.78"),
    ];
    for (users, halvings, paper) in cases {
        let (users, parts) = (size.pick(users, 400), 1usize << halvings);
        let mut random = StdRng::seed_from_u64(21 + users as u64);
        let rates = rates(users, &mut random);
        // A random partition differs from draw to draw: the mean of twenty.
        let draws: Vec<f64> = (0..20)
            .map(|_| {
                let of: Vec<usize> = (0..users).map(|_| random.random_range(0..parts)).collect();
                spread(&loads(&rates, &of, parts))
            })
            .collect();
        let by_lot = draws.iter().sum::<f64>() / draws.len() as f64;
        let turns = spread(&loads(&rates, &partition_alternating(&rates, halvings), parts));
        let longest = spread(&loads(&rates, &partition_longest_first(&rates, parts), parts));
        table.row(vec![
            json!(users),
            json!(parts),
            json!(by_lot),
            json!(turns),
            json!(turns / by_lot * 100.0),
            json!(paper),
            json!(longest),
            json!(longest / by_lot * 100.0),
        ]);
    }
    table
}

/// Messages of machines that each make 2,000 visits in a year: central, each visit by the machine with the shortest list;
/// distributed, each machine its own 2,000 users.
pub fn machines(size: Size) -> Table {
    let columns = [
        "machines",
        "central",
        "speed-up",
        "paper",
        "difference %",
        "paper %",
        "distributed",
        "speed-up ",
        "paper ",
        "difference % ",
        "paper % ",
    ];
    let mut table =
        Table::new("Machines that share the work (002, tables 5 and 6; difference: of a machine's mean)", &columns);
    let paper = [
        (1, 22_474.0, 0.0, 20_916.0, 0.0),
        (2, 42_495.0, 627.0, 43_886.0, 1_404.0),
        (4, 83_271.0, 4_079.0, 87_679.0, 3_575.0),
        (8, 172_473.0, 3_530.0, 177_534.0, 4_271.0),
        (16, 344_540.0, 5_008.0, 348_800.0, 5_269.0),
    ];
    let users = size.pick(2_000, 100);
    let mut random = StdRng::seed_from_u64(5);
    let mut first = [0.0; 2];
    for (machines, central, central_off, distributed, distributed_off) in paper {
        let mut found = [vec![0.0; machines], vec![0.0; machines]];
        for turn in 0..users * machines {
            let rate = data::rate(&mut random);
            let span = 365.0 * random.random::<f64>();
            let messages = data::poisson(rate * span, &mut random).min(PAGE) as f64;
            // The shortest list: of equally fast machines the one whose turn it is. Own users: as they were given out.
            found[0][turn % machines] += messages;
            found[1][turn / users] += messages;
        }
        let [one, other] = found.map(|found| (found.iter().sum::<f64>(), spread(&found)));
        if machines == 1 {
            first = [one.0, other.0];
        }
        let count = machines as f64;
        let share = |off: f64, sum: f64| off / (sum / count) * 100.0;
        let row = [
            one.0,
            one.0 / first[0],
            central / 22_474.0,
            share(one.1, one.0),
            share(central_off, central),
            other.0,
            other.0 / first[1],
            distributed / 20_916.0,
            share(other.1, other.0),
            share(distributed_off, distributed),
        ];
        table.row([vec![json!(machines)], row.map(|value| json!(value)).to_vec()].concat());
    }
    table
}
