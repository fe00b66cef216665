//! What the product costs and how fast it is, each figure beside its floor or its ideal of the same run.
//!
//! `make bench` runs all of them and records them in `docs/benchmarks/`; `cargo bench -- NAME …` runs some.
//! Figures move from run to run with the machine, so only ratios within one run count.
//! `cargo test --benches` runs each of them small, so that none of them rots.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::disallowed_methods)]

mod accounts;
mod adaptive;
mod community;
mod edges;
mod enqueue;
mod export;
mod fill;
mod freshness;
mod hydrate;
mod language;
mod memory;
mod pipeline;
mod queue_cycle;
mod report;
mod servers;
/// Private servers, and the binary as a process: what the tests use.
#[allow(dead_code, unused_imports, reason = "the tests use more of it")]
#[path = "../tests/it/support/mod.rs"]
mod support;
mod visits;

use std::path::PathBuf;

use report::Report;

/// How much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// What is recorded.
    Full,
    /// Whether it works.
    Smoke,
}

impl Size {
    /// One of two values.
    pub fn pick<T>(self, full: T, smoke: T) -> T {
        match self {
            Self::Full => full,
            Self::Smoke => smoke,
        }
    }
}

/// By name.
async fn run(name: &str, size: Size, cascades: &freshness::Given, timelines: &visits::Given) -> Option<Report> {
    Some(match name {
        "queue_cycle" => queue_cycle::run(size).await,
        "elsewhere" => queue_cycle::elsewhere(size).await,
        "enqueue" => enqueue::run(size).await,
        "pipeline" => pipeline::run(size).await,
        "hydrate" => hydrate::run(size).await,
        "export" => export::run(size).await,
        "fill" => fill::run(size).await,
        "freshness" => freshness::run(size, cascades.clone()).await,
        "memory" => memory::run(size).await,
        "edges" => edges::run(size).await,
        "visits" => visits::run(size, timelines.clone()).await,
        "accounts" => accounts::run(size, timelines.clone()).await,
        "community" => community::run(size).await,
        "language" => language::run(size, cascades.folders.clone()).await,
        _ => return None,
    })
}

const ALL: [&str; 14] = [
    "queue_cycle",
    "elsewhere",
    "enqueue",
    "pipeline",
    "hydrate",
    "export",
    "fill",
    "freshness",
    "memory",
    "edges",
    "visits",
    "accounts",
    "language",
    "community",
];

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> std::process::ExitCode {
    // cargo bench says --bench, cargo test does not.
    let (mut options, mut names, mut cascades) = (Vec::new(), Vec::new(), freshness::Given::default());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--data" {
            cascades.folders.extend(arguments.next().map(PathBuf::from));
        } else if argument.starts_with("--") {
            options.push(argument);
        } else {
            names.push(argument);
        }
    }
    let size = if options.iter().any(|option| option == "--bench") { Size::Full } else { Size::Smoke };
    cascades.picture = options.iter().any(|option| option == "--picture");
    cascades.train = options.iter().any(|option| option == "--train");
    let timelines = visits::Given { folders: cascades.folders.clone(), train: cascades.train };
    let record = options.iter().any(|option| option == "--record");
    if names.is_empty() {
        names = ALL.map(str::to_owned).to_vec();
    }
    for name in names {
        let Some(report) = run(&name, size, &cascades, &timelines).await else {
            println!("there is no bench {name:?}: {}", ALL.join(", "));
            return std::process::ExitCode::from(64);
        };
        println!("{}", report.text());
        if record {
            report.record(&name);
        }
    }
    std::process::ExitCode::SUCCESS
}
