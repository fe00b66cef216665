//! Status of the queue and its quota for people with redis-cli: a library of Redis Functions, all read-only.
//!
//! ```text
//! redis-cli FCALL_RO twitter_updater_status 1 '{thing:update}'
//! ```
//!
//! The commands are in `docs/operations.md`. Processes that open the Redis queue load the library. Updaters check it once a
//! minute, since a replaced server may have lost it. Nothing else depends on it: failed loads are one log line until one succeeds.
//!
//! An older process leaves a newer library in place, so two versions do not replace each other's library during an update.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{FromRedisValue, Value};
use tokio_util::sync::CancellationToken;

use crate::base::backend::BackendError;
use crate::base::backend::redis::RedisPool;
use crate::base::task;

pub const NAME: &str = "twitter_updater";
/// Must rise with each change of the library.
pub const VERSION: u32 = 6;

/// Start of the line of the library that holds its version.
const VERSION_LINE: &str = "-- version ";

const FILES: [&str; 8] = [
    include_str!("redis_functions/lua/words.lua"),
    include_str!("redis_functions/lua/rates.lua"),
    include_str!("redis_functions/lua/workers.lua"),
    include_str!("redis_functions/lua/credentials.lua"),
    include_str!("redis_functions/lua/status.lua"),
    include_str!("redis_functions/lua/ids.lua"),
    include_str!("redis_functions/lua/due.lua"),
    include_str!("redis_functions/lua/dead.lua"),
];

#[derive(Debug)]
pub struct FunctionLibrary {
    code: String,
    /// True after a failed load. Loads that fail after it are not logged.
    is_failing: AtomicBool,
}

#[derive(Debug, PartialEq, Eq)]
enum LoadAction {
    Nothing,
    New,
    Replace,
}

impl LoadAction {
    fn new(installed: Option<&str>, code: &str) -> Self {
        match installed {
            None => Self::New,
            Some(installed) if installed == code || parse_version(installed) > VERSION => Self::Nothing,
            // Older, or our version number with a changed text.
            Some(_) => Self::Replace,
        }
    }
}

fn parse_version(code: &str) -> u32 {
    let number = code.lines().find_map(|line| line.strip_prefix(VERSION_LINE));
    number.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

impl FunctionLibrary {
    /// `namespace`: the queue in the examples of the library. `ledger`: the ledger that the status shows.
    #[must_use]
    pub fn new(namespace: &str, ledger: &str) -> Self {
        let tags = format!("local NAMESPACE, LEDGER = '{{{namespace}}}', '{{{ledger}}}'");
        Self {
            code: format!("#!lua name={NAME}\n{VERSION_LINE}{VERSION}\n{tags}\n{}", FILES.join("\n")),
            is_failing: AtomicBool::new(false),
        }
    }

    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Loads the library into each server with keys that has none, or an older one. The user needs `FUNCTION LIST` and `FUNCTION LOAD`.
    pub async fn load(&self, redis: &RedisPool) -> Result<(), BackendError> {
        let mut list = redis::cmd("FUNCTION");
        list.arg("LIST").arg("LIBRARYNAME").arg(NAME).arg("WITHCODE");
        let libraries: Vec<(_, Vec<HashMap<String, Value>>)> = redis.query_each_server(&list).await?;
        for (server, mut known) in libraries {
            let known = known.pop().and_then(|mut library| library.remove("library_code"));
            let known = known.and_then(|code| String::from_redis_value(code).ok());
            let mut load = redis::cmd("FUNCTION");
            load.arg("LOAD");
            match LoadAction::new(known.as_deref(), &self.code) {
                LoadAction::Nothing => continue,
                LoadAction::New => {}
                LoadAction::Replace => {
                    load.arg("REPLACE");
                }
            }
            match redis.run_on_server(&server, load.arg(&self.code)).await {
                // Another process loaded it first.
                Err(BackendError::Refused(why)) if known.is_none() && why.contains("already exists") => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Checks the library once per `every` until `stop`.
    pub async fn keep_loaded(&self, redis: &RedisPool, every: Duration, stop: CancellationToken) {
        let keeping = async {
            loop {
                task::waits("waits", Some(every));
                tokio::time::sleep(every).await;
                task::step("looks for the functions");
                self.load_or_log(redis).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = keeping => {}
        }
    }

    /// Loads the library. Logs a failure once, and again only after a success.
    pub async fn load_or_log(&self, redis: &RedisPool) {
        let loaded = self.load(redis).await;
        let was_failing = self.is_failing.swap(loaded.is_err(), Ordering::Relaxed);
        if let Err(error) = loaded
            && !was_failing
        {
            tracing::warn!(error = %error, "the functions for redis-cli are not loaded");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library() -> FunctionLibrary {
        FunctionLibrary::new("thing:update", "api")
    }

    #[test]
    fn a_newer_library_stays_and_an_older_one_goes() {
        let library = library();
        let of = |version: u32| {
            library.code().replace(&format!("{VERSION_LINE}{VERSION}\n"), &format!("{VERSION_LINE}{version}\n"))
        };
        assert_eq!(parse_version(&of(7)), 7);
        assert_eq!(LoadAction::new(None, library.code()), LoadAction::New);
        assert_eq!(LoadAction::new(Some(library.code()), library.code()), LoadAction::Nothing);
        assert_eq!(LoadAction::new(Some(&of(VERSION + 1)), library.code()), LoadAction::Nothing);
        assert_eq!(LoadAction::new(Some(&of(VERSION - 1)), library.code()), LoadAction::Replace);
        assert_eq!(LoadAction::new(Some(&format!("{} ", library.code())), library.code()), LoadAction::Replace);
        assert_eq!(LoadAction::new(Some("#!lua name=twitter_updater\n"), library.code()), LoadAction::Replace);
    }

    #[test]
    fn a_changed_library_needs_a_new_version() {
        let text = redis::Script::new(library().code()).get_hash().to_owned();
        assert_eq!(text, LIBRARY_SHA1, "the library was changed: raise VERSION, and put its hash here");
    }

    /// SHA-1 of the library of that version.
    const LIBRARY_SHA1: &str = "4c757b5f746acbbf6d59a94081f462e5e1230428";
}
