//! The files of `--config`: one file, or all of a folder, such as a mounted ConfigMap.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{BadConfig, Settings};

/// Contents of configuration files; later files override earlier ones. They may include a password, so do not display
/// them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Files(Vec<(PathBuf, String)>);

impl Files {
    /// Reads one file, or every `*.toml` of a folder in the order of the names, except hidden ones (a mounted ConfigMap's
    /// `..data`, an editor's own). Without a path the result is empty.
    pub fn read(path: Option<&Path>) -> Result<Self, BadConfig> {
        let Some(path) = path else { return Ok(Self::default()) };
        if !path.is_dir() {
            return Ok(Self(vec![(path.to_owned(), read_config_file(path)?)]));
        }
        let cannot = |error| cannot_be_read(path, &error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path).map_err(cannot)? {
            let name = entry.map_err(cannot)?.file_name();
            let bytes = name.as_encoded_bytes();
            if bytes.ends_with(b".toml") && !bytes.starts_with(b".") {
                names.push(name);
            }
        }
        if names.is_empty() {
            return Err(BadConfig(format!("{} is a folder without any *.toml: put one there", path.display())));
        }
        names.sort();
        let files = names.into_iter().map(|name| path.join(name));
        Ok(Self(files.map(|file| read_config_file(&file).map(|text| (file, text))).collect::<Result<_, _>>()?))
    }

    /// Creates a file of this name and text; it need not exist on disk.
    #[must_use]
    pub fn from_text(file: &Path, text: &str) -> Self {
        Self(vec![(file.to_owned(), text.to_owned())])
    }

    pub fn texts(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.0.iter().map(|(file, text)| (file.as_path(), text.as_str()))
    }
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(file, _)| file)).finish()
    }
}

/// Maximum size of a configuration file in bytes: the limit of a ConfigMap.
const LONGEST_FILE: u64 = 1024 * 1024;

const NOT_REGULAR: &str = "cannot be read: it is a folder, a device or a pipe; name a regular file";

/// Reason why a file is not read: a predicate that follows its name.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnreadableFile {
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("{NOT_REGULAR}")]
    NotRegular,
    #[error("is larger than {} KiB: name the right file", max_bytes / 1024)]
    TooLarge { max_bytes: u64 },
    #[error("cannot be read: it is not UTF-8 text")]
    NotText,
}

impl Settings {
    /// Checks that the existing TLS files are regular: reading a device might never end.
    pub fn check_tls_files(&self) -> Result<(), BadConfig> {
        for (key, file) in self.queue.redis.tls_files() {
            if std::fs::metadata(file).is_ok_and(|about| !about.is_file()) {
                return Err(BadConfig(format!("{key} {} {NOT_REGULAR}", file.display())));
            }
        }
        Ok(())
    }
}

/// Reads a regular file of at most `max_bytes` bytes; follows links. Reading a device or a pipe might never end.
pub(super) fn read_text(file: &Path, max_bytes: u64) -> Result<String, UnreadableFile> {
    if !std::fs::metadata(file)?.is_file() {
        return Err(UnreadableFile::NotRegular);
    }
    let mut bytes = Vec::new();
    // One more byte shows that the file is too large.
    std::fs::File::open(file)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(UnreadableFile::TooLarge { max_bytes });
    }
    String::from_utf8(bytes).map_err(|_| UnreadableFile::NotText)
}

fn read_config_file(file: &Path) -> Result<String, BadConfig> {
    read_text(file, LONGEST_FILE).map_err(|why| BadConfig(format!("{} {why}", file.display())))
}

fn cannot_be_read(path: &Path, error: &std::io::Error) -> BadConfig {
    BadConfig(format!("{} cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn later_names_go_over_earlier_ones_and_the_environment_over_all() {
        let folder = folder(&[
            ("20-more.toml", "[updater]\nbuffer_ttl = \"8s\"\n"),
            ("10-base.toml", "tweet_age = \"1h: 1m\"\n[updater]\nbuffer_ttl = \"7s\"\nconcurrency = 9\n"),
            (".hidden.toml", "colour = 1\n"),
            ("..2026_11_20.toml", "colour = 1\n"),
            ("20-more.toml~", "colour = 1\n"),
            ("readme.md", "colour\n"),
        ]);
        let settings = Settings::load_with(&[], Some(folder.path()), &[]).unwrap();
        assert_eq!(settings.updater.buffer_ttl, Duration::from_secs(8));
        assert_eq!((settings.updater.concurrency, settings.tweet_age.to_string()), (9, "1h: 1m".to_owned()));
        let over = [("TWITTER_UPDATER__UPDATER__BUFFER_TTL", "9s")];
        let settings = Settings::load_with(&[], Some(folder.path()), &over).unwrap();
        assert_eq!(settings.updater.buffer_ttl, Duration::from_secs(9));
    }

    #[test]
    fn an_error_names_the_file_within() {
        for (second, says) in [
            ("[updater]\nlees = \"5s\"\n", "b.toml: "),
            ("[updater\n", "b.toml is not TOML, line 1"),
            ("[updater]\nconcurrency = \"canary\"\n", "b.toml: "),
        ] {
            let folder = folder(&[("a.toml", "[updater]\nlease = \"70s\"\n"), ("b.toml", second), ("c.toml", "")]);
            let error = Settings::load_with(&[], Some(folder.path()), &[]).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("canary"), "{error}");
        }
        let folder = folder(&[("a.toml", "[updater]\nlease = \"70s\"\n")]);
        let wrong = [("TWITTER_UPDATER__UPDATER__LEES", "5s")];
        let error = Settings::load_with(&[], Some(folder.path()), &wrong).unwrap_err().to_string();
        assert!(error.contains("environment: "), "{error}");
    }

    #[test]
    fn nothing_to_read_is_an_error() {
        let folder = folder(&[("readme.md", "")]);
        assert!(Files::read(Some(folder.path())).unwrap_err().to_string().contains("without any *.toml"));
        std::os::unix::fs::symlink("..data/gone.toml", folder.path().join("a.toml")).unwrap();
        let error = Files::read(Some(folder.path())).unwrap_err().to_string();
        assert!(error.contains("a.toml cannot be read"), "{error}");
        assert!(Files::read(Some(Path::new("/nowhere/a.toml"))).is_err());
        let error = Files::read(Some(Path::new("/dev/zero"))).unwrap_err().to_string();
        assert!(error.contains("/dev/zero cannot be read") && error.contains("a regular file"), "{error}");
        assert_eq!(Files::read(None).unwrap(), Files::default());
    }

    #[test]
    fn a_file_is_regular_and_no_larger_than_it_may_be() {
        let folder = folder(&[("four", "1234"), ("five", "12345"), ("letters", "ääää")]);
        let read = |name: &str| read_text(&folder.path().join(name), 4).map_err(|error| error.to_string());
        assert_eq!(read("four").unwrap(), "1234");
        std::os::unix::fs::symlink(folder.path().join("four"), folder.path().join("link")).unwrap();
        assert_eq!(read("link").unwrap(), "1234");
        for large in ["five", "letters"] {
            assert!(read(large).unwrap_err().contains("is larger than"), "{large}");
        }
        for other in ["", "/dev/zero", "/dev/null"] {
            assert!(read(other).unwrap_err().contains("a regular file"), "{other}");
        }
        assert!(read("none").unwrap_err().contains("cannot be read: No such file"));
        let variables = [
            ("TWITTER_UPDATER__QUEUE__REDIS__URL", "rediss://h"),
            ("TWITTER_UPDATER__QUEUE__REDIS__KEY_FILE", "/dev/zero"),
        ];
        let error = Settings::load_with(&[], None, &variables).unwrap().check_tls_files().unwrap_err();
        assert!(error.to_string().contains("queue.redis.key_file /dev/zero cannot be read"), "{error}");
    }
}
