//! Files of the project.

use std::path::{Path, PathBuf};

/// The folders with sources of the product: that of the program, then one of each crate.
pub fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let mut folders: Vec<PathBuf> = entries.collect();
    folders.sort();
    folders.insert(0, root.join("src"));
    folders
}

/// The files of the product's sources whose names end so.
pub fn source_files(ends: &[&str]) -> Vec<PathBuf> {
    sources().iter().flat_map(|folder| ending_in(ends, folder)).collect()
}

/// The files in a folder and in those below it, sorted.
pub fn below(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        paths.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

/// Those of them whose names end so: `["rs"]`.
pub fn ending_in(ends: &[&str], folder: &Path) -> Vec<PathBuf> {
    let is_wanted = |file: &PathBuf| file.extension().is_some_and(|end| ends.iter().any(|known| end == *known));
    below(folder).into_iter().filter(is_wanted).collect()
}
