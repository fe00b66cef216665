//! People: a folder with `tweets.csv.gz` (columns `net,ts,node`: network, s since the epoch, person), or made up.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use flate2::read::GzDecoder;
use rand::distr::Open01;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use research::training::ObservedItem;
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::schedule::visits::rhythm::{DAY, HOUR};

/// Somebody whose posts are known from `from` to `until`; what comes before `split` may be learnt from.
#[derive(Debug, Clone)]
pub struct Person {
    pub observed: ObservedItem,
    pub split: Millis,
    /// The true rate, events per second of mean activity, and the activity by the hour, where they were made by them.
    pub truth: Option<(f64, [f64; 24])>,
}

/// Some people.
#[derive(Debug, Clone)]
pub struct Set {
    pub name: String,
    pub people: Vec<Person>,
    /// Left out: networks that are too short, people whose timeline was cut.
    pub left_out: [usize; 2],
}

/// Shorter networks are left out, days.
const SHORTEST: f64 = 26.9;
/// A timeline reaches back 3,200 posts; in a month's window a cut one has so many, at least.
const MANY: usize = 1_000;
/// It begins later than this after the network, and later than so many times its own longest silence.
const LATE: Millis = 2 * DAY;
const SILENCES: f64 = 1.5;

fn is_cut(posts: &[Millis], from: Millis) -> bool {
    let silence = posts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    posts.len() >= MANY && posts[0] - from > LATE.max((silence as f64 * SILENCES) as Millis)
}

/// Reads a folder. Networks are shifted by whole weeks, so that their middles lie in the same week: hours and days of the
/// week stay.
pub fn read(folder: &Path) -> Set {
    let path = folder.join("tweets.csv.gz");
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut networks: BTreeMap<String, BTreeMap<String, Vec<Millis>>> = BTreeMap::new();
    let mut rows = csv::ReaderBuilder::new().flexible(true).from_reader(GzDecoder::new(file));
    for row in rows.records() {
        let row = row.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let of = |at: usize| row.get(at).unwrap_or_default().to_owned();
        if let Ok(at) = of(1).trim().parse::<f64>() {
            networks.entry(of(0)).or_default().entry(of(2)).or_default().push((at * 1e3) as Millis);
        }
    }
    let name = folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into());
    let mut set = Set { name, people: Vec::new(), left_out: [0; 2] };
    for people in networks.into_values() {
        let all = || people.values().flatten().copied();
        let (Some(from), Some(until)) = (all().min(), all().max()) else { continue };
        if ((until - from) as f64) < SHORTEST * DAY as f64 {
            set.left_out[0] += 1;
            continue;
        }
        let middle = Millis::midpoint(from, until);
        let shift = (middle.div_euclid(7 * DAY) - 10) * 7 * DAY;
        for mut events in people.into_values() {
            events.sort_unstable();
            if is_cut(&events, from) {
                set.left_out[1] += 1;
                continue;
            }
            events.iter_mut().for_each(|event| *event -= shift);
            let observed = ObservedItem { events, from: from - shift, until: until - shift };
            set.people.push(Person { observed, split: middle - shift, truth: None });
        }
    }
    set
}

/// Events a day of made-up people: of the paper's 10,000 users "about 1/2 post less than one message per day, and 1/5 more
/// than 10". With these three parts the mean is that of its table 3, 4.99 a day.
pub fn rate(random: &mut StdRng) -> f64 {
    let mut share = || random.sample::<f64, _>(Open01);
    match share() {
        part if part < 0.5 => share(),
        part if part < 0.8 => 10f64.powf(share()),
        _ => 10.0 - 3.0 * share().ln() - 7.0 * share().ln(),
    }
}

/// Activity by the hour: a person sleeps some hours, and has a peak in the afternoon and one in the evening.
fn hours(random: &mut StdRng) -> [f64; 24] {
    let shift: f64 = random.random_range(0.0..24.0);
    let bump = |hour: f64, at: f64, width: f64| {
        let apart = (hour - at - shift).rem_euclid(24.0);
        (-(apart.min(24.0 - apart) / width).powi(2)).exp()
    };
    let raw: [f64; 24] = std::array::from_fn(|hour| {
        let hour = hour as f64 + 0.5;
        0.05 + bump(hour, 14.0, 3.0) + 1.3 * bump(hour, 21.0, 2.5)
    });
    let mean = raw.iter().sum::<f64>() / 24.0;
    raw.map(|hour| hour / mean)
}

/// People who are known for `days`, the first half to learn from. Each has a rate and hours that do not change.
pub fn made_up(count: usize, days: Millis, seed: u64) -> Set {
    let mut random = StdRng::seed_from_u64(seed);
    // A Monday.
    let from = 4 * DAY;
    let until = from + days * DAY;
    let person = |random: &mut StdRng| {
        let (per_s, hours) = (rate(random) / 86_400.0, hours(random));
        let mut events = Vec::new();
        let mut hour = from;
        while hour < until {
            let mean = per_s * 3_600.0 * hours[(hour / HOUR).rem_euclid(24) as usize];
            for _ in 0..poisson(mean, random) {
                events.push(hour + random.random_range(0..HOUR));
            }
            hour += HOUR;
        }
        events.sort_unstable();
        let observed = ObservedItem { events, from, until };
        Person { observed, split: from + (until - from) / 2, truth: Some((per_s, hours)) }
    };
    let people = (0..count).map(|_| person(&mut random)).collect();
    Set { name: "made up".into(), people, left_out: [0; 2] }
}

/// A number of events, of that mean.
pub fn poisson(mean: f64, random: &mut StdRng) -> u64 {
    if mean > 30.0 {
        let [one, other]: [f64; 2] = [random.sample(Open01), random.sample(Open01)];
        let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
        return (mean + mean.sqrt() * normal).round().max(0.0) as u64;
    }
    let (mut count, mut product) = (0, random.random::<f64>());
    let limit = (-mean).exp();
    while product > limit {
        count += 1;
        product *= random.random::<f64>();
    }
    count
}
