//! Pseudonyms of forgotten people: HMAC-SHA-256 of the network and the id of the account.
//!
//! The key is in a file outside the database and its backups, so a copy of the database names no person. The database has the
//! key's fingerprint. A process that needs the key stops with an error if the file is missing or holds another key: it could not
//! recognize forgotten people. A process reads the file once, when a person is forgotten.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::rows::clean;
use super::{Result, StoreError};

const LENGTH: usize = 32;

/// Message for the fingerprint. No network has this name.
const FINGERPRINT: &str = "twitter-updater: fingerprint of the key of forgotten people";

const BY_OTHERS: u32 = 0o007;

#[derive(Debug)]
pub(super) struct PseudonymKey(hmac::Key);

impl PseudonymKey {
    fn new(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    pub fn pseudonym(&self, network: &str, account: &str) -> String {
        self.hash(&format!("{network} {}", clean(account)))
    }

    pub fn fingerprint(&self) -> String {
        self.hash(FINGERPRINT)
    }

    fn hash(&self, message: &str) -> String {
        hex(hmac::sign(&self.0, message.as_bytes()).as_ref())
    }
}

#[derive(Debug)]
pub(super) struct KeyFile {
    path: PathBuf,
    key: OnceLock<PseudonymKey>,
}

impl KeyFile {
    pub fn new(path: PathBuf) -> Self {
        Self { path, key: OnceLock::new() }
    }

    pub fn loaded_key(&self) -> Option<&PseudonymKey> {
        self.key.get()
    }

    /// Returns the key with this fingerprint.
    ///
    /// # Errors
    /// The file is missing, unreadable, readable by others, or holds another key.
    pub fn load(&self, fingerprint: &str) -> Result<&PseudonymKey> {
        if let Some(key) = self.key.get() {
            return if key.fingerprint() == fingerprint { Ok(key) } else { Err(self.other_key_error()) };
        }
        let Some(bytes) = self.read()? else {
            return Err(self.key_file_error("is missing, and the database has pseudonyms made with it"));
        };
        let key = PseudonymKey::new(&bytes);
        if key.fingerprint() != fingerprint {
            return Err(self.other_key_error());
        }
        Ok(self.key.get_or_init(|| key))
    }

    /// Returns the fingerprint of the key in the file; creates a missing file.
    pub fn fingerprint(&self) -> Result<String> {
        let bytes = match self.read()? {
            Some(bytes) => bytes,
            None => {
                let mut fresh = [0; LENGTH];
                let drawn = SystemRandom::new().fill(&mut fresh);
                drawn.map_err(|_| StoreError::Refused("the system provides no random numbers".to_owned()))?;
                self.create_file(&fresh)?
            }
        };
        Ok(PseudonymKey::new(&bytes).fingerprint())
    }

    fn read(&self) -> Result<Option<Vec<u8>>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.key_file_error(&format!("cannot be read ({error})"))),
        };
        let about = file.metadata().map_err(|error| self.key_file_error(&format!("cannot be read ({error})")))?;
        if about.mode() & BY_OTHERS != 0 {
            let shown = self.path.display();
            return Err(StoreError::Schema(format!(
                "{shown} (forget.key_file) may be used by every user of this machine: run `chmod 600 {shown}`"
            )));
        }
        let text = std::io::read_to_string(std::io::Read::take(file, 1_000));
        let text = text.map_err(|error| self.key_file_error(&format!("cannot be read ({error})")))?;
        let bytes = unhex(text.trim()).filter(|bytes| bytes.len() == LENGTH);
        bytes.map(Some).ok_or_else(|| self.key_file_error("is not a key of 64 hexadecimal digits"))
    }

    /// Creates the file; returns its content, which may come from another process. No process ever sees a partial key.
    fn create_file(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let cannot = |error: std::io::Error| {
            StoreError::Schema(format!(
                "the key of forgotten people cannot be written to {} (forget.key_file): {error}. Set forget.key_file to a file \
                 that this process may write, or make the file with `openssl rand -hex 32`",
                self.path.display()
            ))
        };
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", std::process::id()));
        let draft = folder.join(name);
        let write = || -> std::io::Result<()> {
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(format!("{}\n", hex(bytes)).as_bytes())?;
            file.sync_all()?;
            match std::fs::hard_link(&draft, &self.path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            File::open(folder)?.sync_all()
        };
        let made = write();
        let _ = std::fs::remove_file(&draft); // it holds a key, and may not be there
        made.map_err(cannot)?;
        self.read()?.ok_or_else(|| self.key_file_error("was removed at once"))
    }

    fn other_key_error(&self) -> StoreError {
        self.key_file_error("holds another key than the database's pseudonyms were made with")
    }

    fn key_file_error(&self, what: &str) -> StoreError {
        StoreError::Schema(format!(
            "{} (forget.key_file) {what}. Without its key, forgotten people cannot be recognized: put the file back from its own \
             backup, or set forget.key_file to its place",
            self.path.display()
        ))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2 && !pair.starts_with('+'))?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect()
}
