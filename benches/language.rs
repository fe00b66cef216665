//! The language of posts: accuracy and speed of the detector and of the variants, beside the bare detector in the same run.
//!
//! `cargo bench -- language --data ../shared/datasets` reads `dsl_tl_pt/PT_dev.tsv` there; posts come from the recordings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use twitter_updater::base::clock::Stopwatch;
use twitter_updater::locate::language::evaluate::{EvaluationSettings, evaluate};
use twitter_updater::locate::language::labelled::{LabelledText, read};
use twitter_updater::locate::language::{Variants, clean_text, detect};
use twitter_updater::locate::place::Gazetteer;
use whichlang::detect_language;

use crate::Size;
use crate::report::{Report, Table, machine};
use crate::support::http::recordings;

const ABOUT: &str = "\
Posts: those of the recordings that the network itself labelled with a language (the label of each is its `lang`), and
sentences of the data's PT_dev.tsv up to 60 characters, which is a post's length; where there are neither, a few made-up ones.
Floor: whichlang on the same texts, cut before. One thread.";

/// A post's length after cutting, characters: 58 in chapter 3.4.5 of paper 004.
const LENGTH: usize = 60;
/// A language with fewer posts has no row.
const FEWEST: usize = 15;

pub async fn run(size: Size, folders: Vec<PathBuf>) -> Report {
    // Seconds of a processor: not on a thread that others wait for.
    tokio::task::spawn_blocking(move || measure(size, &folders)).await.unwrap()
}

fn measure(size: Size, folders: &[PathBuf]) -> Report {
    let sentences: Vec<LabelledText> = folders.iter().flat_map(|folder| sentences(folder)).collect();
    let mut posts: Vec<(String, String)> = recordings().map(|folder| recorded(&folder)).unwrap_or_default();
    posts.extend(sentences.iter().map(|sentence| ("pt".to_owned(), shortened(&sentence.text))));
    if posts.is_empty() {
        posts = made_up();
    }
    let mut tables = vec![accuracy(&posts)];
    if !sentences.is_empty() {
        tables.push(variants(&sentences));
    }
    tables.push(speed(&posts, size.pick(200_000, 2_000)));
    let about = ABOUT.lines().map(str::to_owned).chain([machine()]).collect();
    Report { about, tables }
}

fn sentences(folder: &Path) -> Vec<LabelledText> {
    let file = folder.join("dsl_tl_pt/PT_dev.tsv");
    let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    read(&bytes, |line, why| panic!("{} line {line} {why}", file.display()))
}

fn shortened(text: &str) -> String {
    let mut short = String::new();
    for word in text.split_whitespace() {
        if short.len() + word.len() >= LENGTH {
            break;
        }
        short = short + word + " ";
    }
    short
}

fn made_up() -> Vec<(String, String)> {
    [
        ("pt", "bom dia a todos, se calhar hoje chove outra vez @ana"),
        ("en", "good morning everybody, it looks like rain again https://t.co/abc"),
        ("es", "buenos días a todos, parece que hoy vuelve a llover #lluvia"),
    ]
    .map(|(language, text)| (language.to_owned(), text.to_owned()))
    .to_vec()
}

/// Each different post with the network's own language, in two letters.
fn recorded(folder: &Path) -> Vec<(String, String)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(value) = serde_json::from_slice(&std::fs::read(&path).unwrap()) {
                walk(&value, &mut found);
            }
        }
    }
    found.into_iter().map(|(text, language)| (language, text)).collect()
}

fn walk(value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|value| walk(value, found)),
        Value::Object(fields) => {
            let of = |name: &str| fields.get(name).and_then(Value::as_str);
            let text = of("full_text").or_else(|| of("text"));
            if let (Some(text), Some(language)) = (text, of("lang").filter(|lang| lang.len() == 2 && *lang != "in")) {
                found.insert(text.to_owned(), language.to_owned());
            }
            fields.values().for_each(|value| walk(value, found));
        }
        // An answer may stand inside a recording as text.
        Value::String(text) if text.starts_with(['{', '[']) => {
            if let Ok(value) = serde_json::from_str(text) {
                walk(&value, found);
            }
        }
        _ => {}
    }
}

fn accuracy(posts: &[(String, String)]) -> Table {
    let mut by_language: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for (language, text) in posts {
        let counts = by_language.entry(language).or_default();
        let found = detect(text);
        counts[0] += 1;
        counts[1] += usize::from(found.is_some());
        counts[2] += usize::from(found.is_some_and(|found| found.language == language));
        counts[3] += usize::from(found.is_some_and(|found| found.language == language && found.confidence >= 0.9));
    }
    let mut table =
        Table::new("Detector", &["language", "posts", "answered", "right of answered", "right and confidence >= 0.9"]);
    for (language, [all, answered, right, sure]) in by_language {
        if all >= FEWEST || posts.len() < FEWEST {
            let share = |part: usize, of: usize| json!(if of == 0 { 0.0 } else { part as f64 / of as f64 });
            table.row(vec![
                json!(language),
                json!(all),
                share(answered, all),
                share(right, answered),
                share(sure, all),
            ]);
        }
    }
    table
}

fn variants(sentences: &[LabelledText]) -> Table {
    let columns = ["sentences", "label", "precision", "from", "to", "recall", "from", "to", "open"];
    let mut table = Table::new("Variants: 1,000 groups of each label, intervals of 95 %", &columns);
    for group in [30, 5, 1] {
        let figures = evaluate(Variants::shipped(), sentences, EvaluationSettings { group, resamples: 1_000, seed: 1 });
        for of in figures {
            let [from, to] =
                of.precision_interval.map_or([Value::Null, Value::Null], |[from, to]| [json!(from), json!(to)]);
            let [low, high] =
                of.recall_interval.map_or([Value::Null, Value::Null], |[low, high]| [json!(low), json!(high)]);
            let open = of.called[2] as f64 / of.called.iter().sum::<usize>() as f64;
            let label = json!(of.label);
            table.row(vec![
                json!(group),
                label,
                json!(of.precision),
                from,
                to,
                json!(of.recall),
                low,
                high,
                json!(open),
            ]);
        }
    }
    table
}

fn speed(posts: &[(String, String)], least: usize) -> Table {
    let texts: Vec<&str> = posts.iter().map(|(_, text)| text.as_str()).collect();
    let cut_texts: Vec<String> = texts.iter().map(|text| clean_text(text)).collect();
    let mut table = Table::new("Speed", &["step", "posts/s", "of the floor"]);
    let rounds = least.div_ceil(texts.len());
    let per_second = |step: &dyn Fn(usize) -> usize| {
        let watch = Stopwatch::start();
        let mut sum = 0;
        for _ in 0..rounds {
            sum += (0..texts.len()).map(step).sum::<usize>();
        }
        std::hint::black_box(sum);
        (rounds * texts.len()) as f64 / watch.elapsed().as_secs_f64()
    };
    let model = Variants::shipped();
    let gazetteer = Gazetteer::shipped();
    let floor = per_second(&|at| detect_language(&cut_texts[at]) as usize);
    let weights: Vec<_> = texts.iter().map(|text| model.weigh(text)).collect();
    let steps: [(&str, &dyn Fn(usize) -> usize); 5] = [
        ("detect", &|at| usize::from(detect(texts[at]).is_some())),
        ("weigh", &|at| model.weigh(texts[at]).grams as usize),
        ("detect and weigh", &|at| usize::from(detect(texts[at]).is_some()) + model.weigh(texts[at]).grams as usize),
        ("judge 30", &|at| model.judge((at..at + 30).map(|at| weights[at % weights.len()])).posts),
        ("place, of the post's text", &|at| gazetteer.find_countries(texts[at]).countries.len()),
    ];
    table.row(vec![json!("floor: whichlang"), json!(floor), json!(1.0)]);
    for (name, step) in steps {
        let reached = per_second(step);
        table.row(vec![json!(name), json!(reached), json!(reached / floor)]);
    }
    table
}
