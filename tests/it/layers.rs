//! Crates and their layers import downwards only, and no files of a crate import each other in a cycle.

mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::support::files;

/// The crates, the highest first.
const CRATES: &[&str] =
    &["twitter-updater", "collect", "locate", "store", "simulator", "networks", "research", "engine"];

type Layers = &'static [(&'static str, &'static [&'static str])];

/// The layers of a crate, and which of its layers each may import. A module that is in no layer may import every layer.
const LAYERS: &[(&str, Layers)] = &[
    (
        "twitter-updater",
        &[
            ("main", &["app"]),
            ("app", &["data", "ops", "table"]),
            ("ops", &["data", "table"]),
            ("data", &["table"]),
            ("table", &[]),
        ],
    ),
    ("collect", &[("pipelines", &["config", "ingest"]), ("config", &[]), ("ingest", &[])]),
    ("networks", &[("providers", &["model"]), ("model", &[])]),
    ("engine", &[("quota", &["base"]), ("base", &[])]),
];

/// A module's path below the crate: `queue::jobs` is `["queue", "jobs"]`.
type Module = Vec<String>;

fn folder_of(crate_name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if crate_name == CRATES[0] { root.to_owned() } else { root.join("crates").join(crate_name) }
}

/// Each file of a crate by its module, without comments and tests.
fn modules(crate_name: &str) -> BTreeMap<Module, String> {
    let source = folder_of(crate_name).join("src");
    let files = files::ending_in(&["rs"], &source);
    let module = |file: &PathBuf| {
        let name = file.strip_prefix(&source).unwrap().with_extension("");
        let mut module: Module = name.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        if module.last().is_some_and(|last| last == "mod") || module == ["lib"] {
            module.pop();
        }
        (module, code(&std::fs::read_to_string(file).unwrap()))
    };
    files.iter().map(module).collect()
}

/// A text without comments and without its `#[cfg(test)]` module.
fn code(text: &str) -> String {
    let mut lines = text.lines();
    let mut kept = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(test)]") {
            let next = lines.next().unwrap_or_default();
            if next.contains("mod ") && next.ends_with('{') {
                lines.by_ref().find(|line| *line == "}");
            } else {
                kept.push(next);
            }
        } else if !line.trim_start().starts_with("//") {
            kept.push(line);
        }
    }
    kept.join("\n")
}

/// The paths of a `use`, one per name: `a::{b, c::d}` has two.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or(tree).trim().to_owned()];
    };
    let mut depth = 0;
    let part_ends = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let names = inside.split(part_ends).map(str::trim).filter(|part| !part.is_empty());
    names.flat_map(leaves).map(|leaf| format!("{before}{leaf}").trim_end_matches("::self").to_owned()).collect()
}

/// A path as it stands in a module, from the crate's root.
fn absolute(path: &str, module: &Module) -> Option<Module> {
    let mut parts = path.split("::").map(str::trim).peekable();
    let mut from = module.clone();
    match parts.peek()? {
        &("crate" | "twitter_updater") => from.clear(),
        &"self" | &"super" => {}
        _ => return None,
    }
    for part in parts {
        match part {
            "crate" | "twitter_updater" | "self" => {}
            "super" => drop(from.pop()),
            name => from.push(name.to_owned()),
        }
    }
    Some(from)
}

/// What a module takes from others, and what it hands on under another path.
#[derive(Default)]
struct Imports {
    imported: Vec<Module>,
    reexports: BTreeMap<String, Module>,
}

fn imports(module: &Module, code: &str) -> Imports {
    let mut imports = Imports::default();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let (visible, rest) = line.trim_start().split_once("use ").unwrap_or(("-", ""));
        let is_use = visible.is_empty() || visible.starts_with("pub") && visible.ends_with(' ');
        if !is_use {
            let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            let paths = line.split(|c| !is_path(c)).filter(|path| path.contains("::"));
            imports.imported.extend(paths.filter_map(|path| absolute(path, module)));
            continue;
        }
        let mut tree = rest.to_owned();
        while !tree.contains(';') {
            tree += lines.next().expect("a use ends with a semicolon");
        }
        for path in leaves(tree.trim_end_matches(';')).iter().filter_map(|leaf| absolute(leaf, module)) {
            match path.last().filter(|_| !visible.is_empty()) {
                // Names of its own children are handed on, and of no use to this file itself.
                Some(name) if path.starts_with(module) => drop(imports.reexports.insert(name.clone(), path)),
                Some(name) => {
                    imports.reexports.insert(name.clone(), path.clone());
                    imports.imported.push(path);
                }
                None => imports.imported.push(path),
            }
        }
    }
    imports
}

/// The module in whose file a path's name is defined, beyond what facades hand on.
fn file_of(path: &Module, all: &BTreeMap<Module, Imports>, steps: usize) -> Option<Module> {
    let known = (1..=path.len()).rev().find(|length| all.contains_key(&path[..*length]))?;
    let module = path[..known].to_vec();
    match path.get(known).and_then(|name| all[&module].reexports.get(name)).filter(|_| steps > 0) {
        Some(to) => file_of(&to.iter().chain(&path[known + 1..]).cloned().collect(), all, steps - 1),
        None => Some(module),
    }
}

/// The files that each file of a crate imports from it.
fn imports_by_file(crate_name: &str) -> BTreeMap<Module, BTreeSet<Module>> {
    let all: BTreeMap<Module, Imports> =
        modules(crate_name).into_iter().map(|(module, code)| (module.clone(), imports(&module, &code))).collect();
    let of = |(module, imports): (&Module, &Imports)| {
        let files = imports.imported.iter().filter_map(|path| file_of(path, &all, 8));
        (module.clone(), files.filter(|file| file != module).collect())
    };
    all.iter().map(of).collect()
}

#[test]
fn crates_depend_only_on_lower_ones() {
    let (mut edges, mut wrong) = (0, Vec::new());
    for (at, name) in CRATES.iter().enumerate() {
        let manifest = std::fs::read_to_string(folder_of(name).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&manifest).unwrap();
        for needed in manifest["dependencies"].as_table().unwrap().keys() {
            let Some(needed_at) = CRATES.iter().position(|other| other == needed) else { continue };
            edges += 1;
            if needed_at <= at {
                wrong.push(format!("{name} depends on {needed}"));
            }
        }
    }
    assert!(wrong.is_empty() && edges > 10, "{edges} edges; {wrong:#?}");
    assert_eq!(files::sources().len(), CRATES.len(), "each crate is in this list");
}

#[test]
fn imports_go_one_way() {
    let mut mistakes = Vec::new();
    for (name, layers) in LAYERS {
        let may: BTreeMap<_, _> = layers.iter().copied().collect();
        let (imports_by_file, mut seen) = (imports_by_file(name), BTreeSet::new());
        for (module, files) in &imports_by_file {
            let Some(layer) = module.first() else { continue };
            let Some(allowed) = may.get(layer.as_str()) else { continue };
            seen.insert(layer);
            let other = files.iter().filter_map(|file| file.first()).filter(|other| *other != layer);
            let forbidden = other.filter(|other| !allowed.contains(&other.as_str()));
            mistakes.extend(forbidden.map(|other| format!("{name}: {} imports {other}", module.join("::"))));
        }
        assert_eq!(seen.len(), layers.len(), "{name}: {seen:?}");
    }
    assert!(mistakes.is_empty(), "{mistakes:#?}");
}

#[test]
fn no_files_form_a_circle() {
    let mut imports_by_file: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for name in CRATES {
        let of_crate = |module: Module| [vec![(*name).to_owned()], module].concat();
        for (module, to) in self::imports_by_file(name) {
            imports_by_file.insert(of_crate(module), to.into_iter().map(of_crate).collect());
        }
    }
    assert!(imports_by_file.values().map(BTreeSet::len).sum::<usize>() > 500, "the imports were found");
    // What imports nothing that is left is in no circle; nor is what only such files import.
    loop {
        let done: BTreeSet<Module> =
            imports_by_file.iter().filter(|(_, to)| to.is_empty()).map(|(module, _)| module.clone()).collect();
        if done.is_empty() {
            break;
        }
        imports_by_file.retain(|module, to| {
            to.retain(|file| !done.contains(file));
            !done.contains(module)
        });
    }
    // Of what is left, what nobody imports is in no circle either.
    loop {
        let imported: BTreeSet<Module> = imports_by_file.values().flatten().cloned().collect();
        let before = imports_by_file.len();
        imports_by_file.retain(|module, _| imported.contains(module));
        if imports_by_file.len() == before {
            break;
        }
    }
    let show = |(module, to): (&Module, &BTreeSet<Module>)| {
        let to: Vec<String> = to.iter().map(|file| file.join("::")).collect();
        format!("{} imports {}", module.join("::"), to.join(", "))
    };
    assert!(imports_by_file.is_empty(), "{:#?}", imports_by_file.iter().map(show).collect::<Vec<_>>());
}
