//! Twelve rooms, whose imports go downwards only; and no two files that import each other in a circle.

mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The rooms, the highest first, and what each may import. Anything else is an error, also a room that is not named here.
const ROOMS: &[(&str, &[&str])] = &[
    ("main", &["app"]),
    (
        "app",
        &[
            "ops",
            "pipelines",
            "simulator",
            "config",
            "ingest",
            "store",
            "providers",
            "engine",
            "quota",
            "model",
            "base",
        ],
    ),
    ("ops", &["pipelines", "ingest", "store", "providers", "engine", "quota", "model", "base"]),
    ("pipelines", &["config", "ingest", "store", "providers", "engine", "quota", "model", "base"]),
    ("config", &["simulator", "providers", "engine", "quota", "model", "base"]),
    ("simulator", &["model", "base"]),
    ("ingest", &["store", "providers", "engine", "model", "base"]),
    ("store", &["model", "base"]),
    ("providers", &["engine", "quota", "model", "base"]),
    ("engine", &["quota", "model", "base"]),
    ("quota", &["base"]),
    ("model", &["base"]),
    ("base", &[]),
    ("lib", &[]),
];

/// A module's path below the crate: `engine::queue` is `["engine", "queue"]`.
type Module = Vec<String>;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}

/// Each file by its module, without comments and tests.
fn modules() -> BTreeMap<Module, String> {
    let mut files = Vec::new();
    rust_files(&source(), &mut files);
    assert!(files.len() > 100, "the sources were found");
    let module = |file: &PathBuf| {
        let name = file.strip_prefix(source()).unwrap().with_extension("");
        let mut module: Module = name.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        if module.last().is_some_and(|last| last == "mod") {
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
        &"crate" => from.clear(),
        &"self" | &"super" => {}
        _ => return None,
    }
    for part in parts {
        match part {
            "crate" | "self" => {}
            "super" => drop(from.pop()),
            name => from.push(name.to_owned()),
        }
    }
    Some(from)
}

/// What a module takes from others, and what it hands on under another path.
#[derive(Default)]
struct Imports {
    taken: Vec<Module>,
    handed_on: BTreeMap<String, Module>,
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
            imports.taken.extend(paths.filter_map(|path| absolute(path, module)));
            continue;
        }
        let mut tree = rest.to_owned();
        while !tree.contains(';') {
            tree += lines.next().expect("a use ends with a semicolon");
        }
        for path in leaves(tree.trim_end_matches(';')).iter().filter_map(|leaf| absolute(leaf, module)) {
            match path.last().filter(|_| !visible.is_empty()) {
                // Names of its own children are handed on, and of no use to this file itself.
                Some(name) if path.starts_with(module) => drop(imports.handed_on.insert(name.clone(), path)),
                Some(name) => {
                    imports.handed_on.insert(name.clone(), path.clone());
                    imports.taken.push(path);
                }
                None => imports.taken.push(path),
            }
        }
    }
    imports
}

/// The module in whose file a path's name is defined, beyond what facades hand on.
fn file_of(path: &Module, all: &BTreeMap<Module, Imports>, steps: usize) -> Option<Module> {
    let known = (1..=path.len()).rev().find(|length| all.contains_key(&path[..*length]))?;
    let module = path[..known].to_vec();
    match path.get(known).and_then(|name| all[&module].handed_on.get(name)).filter(|_| steps > 0) {
        Some(to) => file_of(&to.iter().chain(&path[known + 1..]).cloned().collect(), all, steps - 1),
        None => Some(module),
    }
}

/// The files that each file imports.
fn arrows() -> BTreeMap<Module, BTreeSet<Module>> {
    let all: BTreeMap<Module, Imports> =
        modules().into_iter().map(|(module, code)| (module.clone(), imports(&module, &code))).collect();
    let of = |(module, imports): (&Module, &Imports)| {
        let files = imports.taken.iter().filter_map(|path| file_of(path, &all, 8));
        (module.clone(), files.filter(|file| file != module).collect())
    };
    all.iter().map(of).collect()
}

#[test]
fn imports_go_one_way() {
    assert!(ROOMS.len() <= 15);
    let may: BTreeMap<_, _> = ROOMS.iter().copied().collect();
    let order = |room: &str| ROOMS.iter().position(|(name, _)| *name == room);
    let mut mistakes = Vec::new();
    for (room, below) in ROOMS {
        for import in below.iter().filter(|import| order(import) <= order(room)) {
            mistakes.push(format!("{import} is not below {room}"));
        }
    }
    for (module, files) in arrows() {
        let Some(allowed) = module.first().and_then(|room| may.get(room.as_str())) else {
            mistakes.push(format!("{} is in no room", module.join("::")));
            continue;
        };
        let rooms = files.iter().filter_map(|file| file.first()).filter(|room| **room != module[0]);
        mistakes.extend(
            rooms
                .filter(|room| !allowed.contains(&room.as_str()))
                .map(|room| format!("{} imports {room}", module.join("::"))),
        );
    }
    assert!(mistakes.is_empty(), "{mistakes:#?}");
}

#[test]
fn no_files_form_a_circle() {
    let mut arrows = arrows();
    assert!(arrows.values().map(BTreeSet::len).sum::<usize>() > 500, "the imports were found");
    // What imports nothing that is left is in no circle; nor is what only such files import.
    loop {
        let done: BTreeSet<Module> =
            arrows.iter().filter(|(_, to)| to.is_empty()).map(|(module, _)| module.clone()).collect();
        if done.is_empty() {
            break;
        }
        arrows.retain(|module, to| {
            to.retain(|file| !done.contains(file));
            !done.contains(module)
        });
    }
    // Of what is left, what nobody imports is in no circle either.
    loop {
        let imported: BTreeSet<Module> = arrows.values().flatten().cloned().collect();
        let before = arrows.len();
        arrows.retain(|module, _| imported.contains(module));
        if arrows.len() == before {
            break;
        }
    }
    let show = |(module, to): (&Module, &BTreeSet<Module>)| {
        let to: Vec<String> = to.iter().map(|file| file.join("::")).collect();
        format!("{} imports {}", module.join("::"), to.join(", "))
    };
    assert!(arrows.is_empty(), "{:#?}", arrows.iter().map(show).collect::<Vec<_>>());
}
