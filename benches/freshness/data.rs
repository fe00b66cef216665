//! Cascades: a folder with `cascades.csv.gz` (first column `cascade`) and `events.csv.gz` (`cascade,dt_s,…`), or made
//! up.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use rand::distr::Open01;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use twitter_updater::base::clock::Millis;
use twitter_updater::engine::schedule::adaptive::curve::Curve;
use twitter_updater::engine::schedule::adaptive::train::Cascade;
use twitter_updater::engine::schedule::age::AgeTable;

/// A set of items whose events are known.
#[derive(Debug, Clone)]
pub struct Set {
    pub name: String,
    pub cascades: Vec<Cascade>,
    /// Up to which age the events are known, at most the table's lifetime.
    pub horizon: Millis,
    /// Multiplier and curve of the true rate, where they were made by one.
    pub truth: Option<(Vec<f64>, Curve)>,
}

/// Reads a folder. Items without events are items, too: `cascades.csv.gz` names them.
pub fn read(folder: &Path, table: &AgeTable) -> Set {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut ages: Vec<Vec<f64>> = Vec::new();
    for name in ["cascades.csv.gz", "events.csv.gz"] {
        let path = folder.join(name);
        let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut rows = csv::ReaderBuilder::new().flexible(true).from_reader(MultiGzDecoder::new(file));
        let columns = if name == "events.csv.gz" { &["cascade", "dt_s"][..] } else { &["cascade"] };
        let header = rows.headers().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let begins = header.iter().map(|column| column.trim_start_matches('\u{feff}').trim()).take(columns.len());
        assert!(
            begins.eq(columns.iter().copied()),
            "{}: its columns must begin {columns:?}: {header:?}",
            path.display()
        );
        let mut without_time = 0;
        for row in rows.records() {
            let row = row.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let id = row.get(0).unwrap_or_default();
            let at = places.get(id).copied().unwrap_or_else(|| {
                places.insert(id.to_owned(), ages.len());
                ages.push(Vec::new());
                ages.len() - 1
            });
            if name == "events.csv.gz" {
                match row.get(1).and_then(|age| age.trim().parse::<f64>().ok()).filter(|age| age.is_finite()) {
                    Some(age) => ages[at].push(age),
                    None => without_time += 1,
                }
            }
        }
        if without_time > 0 {
            println!("{}: {without_time} rows without a time are left out", path.display());
        }
    }
    let latest = ages.iter().flatten().copied().fold(0.0, f64::max);
    let name = folder.file_name().map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into());
    let horizon = horizon((latest * 1e3) as Millis, table);
    let cascades = ages.iter().map(|ages| Cascade::new(ages, horizon)).collect();
    Set { name, cascades, horizon, truth: None }
}

/// Collections end at an age; what came later is not known. It is taken for the first end of a bracket (or whole day)
/// that no event lies beyond: a set that ends at 6.99 days was collected for 7.
fn horizon(latest: Millis, table: &AgeTable) -> Millis {
    const DAY: Millis = 86_400_000;
    latest.div_euclid(DAY).saturating_add(1).saturating_mul(DAY).min(table.lifetime())
}

/// Items whose rate is m × g(u), m log-normal with a spread of e on both sides, and events at random by it.
pub fn made_up(count: usize, table: &AgeTable) -> Set {
    let horizon = table.lifetime();
    let age_s: Vec<f64> =
        [0.0, 0.05, 0.3, 1.0, 4.0, 12.0, 24.0, 72.0, 168.0, 720.0].map(|hours| hours * 3_600.0).to_vec();
    let count_at = vec![0.0, 6.0, 30.0, 65.0, 120.0, 160.0, 185.0, 215.0, 230.0, 245.0];
    let curve = Curve { scale_s: 60.0, age_s, count: count_at };
    let mut random = StdRng::seed_from_u64(11);
    let mut cascades = Vec::new();
    let mut multipliers = Vec::new();
    for _ in 0..count {
        // A normal number, by the method of Box and Muller.
        let [one, other]: [f64; 2] = [random.sample(Open01), random.sample(Open01)];
        let multiplier = ((-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()).exp();
        let mut ages = Vec::new();
        // In the time of a process of rate 1, whose clock is the count: the age is found by halving.
        let mut total = 0.0;
        loop {
            total -= random.sample::<f64, _>(Open01).ln() / multiplier;
            let (mut low, mut high) = (0.0, horizon as f64 / 1e3);
            if total >= curve.count(high) {
                break;
            }
            for _ in 0..50 {
                let middle = f64::midpoint(low, high);
                if curve.count(middle) < total { low = middle } else { high = middle }
            }
            ages.push(high);
        }
        cascades.push(Cascade::new(&ages, horizon));
        multipliers.push(multiplier);
    }
    Set { name: "synthetic".into(), cascades, horizon, truth: Some((multipliers, curve)) }
}

impl Set {
    /// Two halves, drawn by a seed.
    pub fn halves(&self, seed: u64) -> (Self, Self) {
        let mut places: Vec<usize> = (0..self.cascades.len()).collect();
        places.shuffle(&mut StdRng::seed_from_u64(seed));
        let (train, test) = places.split_at(places.len() / 2);
        (self.of(train), self.of(test))
    }

    fn of(&self, places: &[usize]) -> Self {
        let cascades = places.iter().map(|at| self.cascades[*at].clone()).collect();
        let truth = self.truth.as_ref().map(|(all, curve)| (places.iter().map(|at| all[*at]).collect(), curve.clone()));
        Self { name: self.name.clone(), cascades, horizon: self.horizon, truth }
    }
}
