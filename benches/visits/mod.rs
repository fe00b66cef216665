//! Delay of posts from their making to a visit, by visiting policy: real and made-up people in simulated time.

mod data;
mod replay;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use twitter_updater::engine::schedule::adaptive::Spend;
use twitter_updater::engine::schedule::visits::coefficients::{Coefficients, INPUTS};
use twitter_updater::engine::schedule::visits::rhythm::DAY;
use twitter_updater::engine::schedule::visits::train::{Observed, Training};
use twitter_updater::engine::schedule::visits::{Options, Policy, Visits};

use self::data::Set;
use self::replay::Outcome;
use crate::Size;
use crate::report::{Report, Table};

#[derive(Debug, Clone, Default)]
pub struct Given { pub folders: Vec<PathBuf>, pub train: bool, pub search: bool, pub only: Vec<String> }

fn options(policy: Policy, per_day: f64) -> Options {
    Options { policy, every: (DAY as f64 / per_day) as i64, ..Options::default() }
}

pub fn learnt(set: &Set) -> Vec<Observed> {
    set.people.iter().map(|p| Observed { events: p.observed.between(p.observed.from, p.split).to_vec(), from: p.observed.from, until: p.split }).collect()
}

pub fn measure(_size: Size, given: &Given) -> Report {
    let mut t = Table::new("real", &["policy", "per day", "mean h", "p95", "calls", "used", "ratio", "price"]);
    for f in &given.folders {
        let set = data::read(f);
        eprintln!("{} people, left out {:?}", set.people.len(), set.left_out);
        let c = Arc::new(Training { source: set.name.clone(), command: String::new() }.train(&learnt(&set)).unwrap());
        eprintln!("{}", c.text());
        for k in [1.0, 4.0] {
            let rr = replay::alone(&set, &Visits::new(options(Policy::RoundRobin, k), c.clone()), None);
            for p in [Policy::RoundRobin, Policy::Poisson, Policy::Classes, Policy::Hash, Policy::Adaptive] {
                let v = Visits::new(options(p, k), c.clone());
                let (price, o) = replay::at_calls(&set, &v, k, None);
                t.row(vec![json!(format!("{p:?}")), json!(k), json!(o.mean_h), json!(o.p95_h), json!(o.calls), json!(1.0), json!(o.mean_h / rr.mean_h), json!(price)]);
            }
            let fr = replay::at_quota(&set, &Visits::new(options(Policy::RoundRobin, k), c.clone()), k);
            for p in [Policy::RoundRobin, Policy::Adaptive] {
              for spend in [Spend::Demand, Spend::Quota] {
                let v = Visits::new(Options { spend, ..options(p, k) }, c.clone());
                let o = replay::at_quota(&set, &v, k);
                t.row(vec![json!(format!("flat {p:?} {spend:?}")), json!(k), json!(o.mean_h), json!(o.p95_h), json!(o.calls), json!(o.used), json!(o.mean_h / fr.mean_h), json!(0)]);
            }}
        }
    }
    Report { about: vec![], tables: vec![t] }
}
