//! Status of the queue and its quota for people with redis-cli: a library of Redis Functions, all read-only.
//!
//! ```text
//! redis-cli FCALL_RO twitter_updater_status 1 '{thing:update}'
//! ```
//!
//! The library is in the server, so a user with read access needs only redis-cli; `docs/operations.md` has the commands.
//! Processes that open the Redis queue load it. Updaters check it once a minute, since a replaced server may have lost it.
//! Nothing depends on it: if it cannot be loaded, the process logs one line.
//!
//! During a rolling update processes of two versions run. An older process leaves a newer library as it is, so the two do not
//! replace each other's library for ever. A rollback leaves the newer one, too; it only reads.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use redis::{FromRedisValue, Value};
use tokio_util::sync::CancellationToken;

use crate::base::backend::BackendError;
use crate::base::backend::redis::RedisPool;
use crate::base::task;
use crate::model::pipeline_id::{LEDGER, NAMESPACE};

/// Name of the library, and prefix of its functions' names.
pub const NAME: &str = "twitter_updater";
/// Must rise with each change of the library.
pub const VERSION: u32 = 6;

/// Start of the line of the library that holds its version.
const VERSION_LINE: &str = "-- version ";

static CODE: LazyLock<String> = LazyLock::new(|| {
    let files = [
        include_str!("redis_functions/lua/words.lua"),
        include_str!("redis_functions/lua/rates.lua"),
        include_str!("redis_functions/lua/workers.lua"),
        include_str!("redis_functions/lua/credentials.lua"),
        include_str!("redis_functions/lua/status.lua"),
        include_str!("redis_functions/lua/ids.lua"),
        include_str!("redis_functions/lua/due.lua"),
        include_str!("redis_functions/lua/dead.lua"),
    ];
    // The hash tags of the namespace used in examples, and of the ledger that the status shows.
    let tags = format!("local NAMESPACE, LEDGER = '{{{NAMESPACE}}}', '{{{LEDGER}}}'");
    format!("#!lua name={NAME}\n{VERSION_LINE}{VERSION}\n{tags}\n{}", files.join("\n"))
});

#[must_use]
pub fn code() -> &'static str {
    &CODE
}

#[derive(Debug, PartialEq, Eq)]
enum Load {
    Nothing,
    New,
    Replace,
}

impl Load {
    fn over(there: Option<&str>) -> Self {
        match there {
            None => Self::New,
            Some(there) if there == code() || version_of(there) > VERSION => Self::Nothing,
            // Older, or our version with another text: a library of another author.
            Some(_) => Self::Replace,
        }
    }
}

fn version_of(code: &str) -> u32 {
    let number = code.lines().find_map(|line| line.strip_prefix(VERSION_LINE));
    number.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Loads the library into each server that holds keys and has none, or an older one. Fails if a server is down, or if the user
/// lacks the right to `FUNCTION LIST` and `FUNCTION LOAD`.
pub async fn load(redis: &RedisPool) -> Result<(), BackendError> {
    let mut list = redis::cmd("FUNCTION");
    list.arg("LIST").arg("LIBRARYNAME").arg(NAME).arg("WITHCODE");
    let libraries: Vec<(_, Vec<HashMap<String, Value>>)> = redis.ask_each(&list).await?;
    for (server, mut known) in libraries {
        let known = known.pop().and_then(|mut library| library.remove("library_code"));
        let known = known.and_then(|code| String::from_redis_value(code).ok());
        let mut load = redis::cmd("FUNCTION");
        load.arg("LOAD");
        match Load::over(known.as_deref()) {
            Load::Nothing => continue,
            Load::New => {}
            Load::Replace => {
                load.arg("REPLACE");
            }
        }
        match redis.tell(&server, load.arg(code())).await {
            // Another process loaded it first.
            Err(BackendError::Refused(why)) if known.is_none() && why.contains("already exists") => {}
            done => done?,
        }
    }
    Ok(())
}

/// Checks the library once per `every` until `stop`. Logs a failure once, and again only after a success.
pub async fn keep(redis: &RedisPool, every: Duration, stop: CancellationToken) {
    let mut is_there = true;
    let keeping = async {
        loop {
            task::waits("waits", Some(every));
            tokio::time::sleep(every).await;
            task::step("looks for the functions");
            is_there = loaded(redis, is_there).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = keeping => {}
    }
}

/// Loads the library; logs the failure if `tell`. Returns true if the library is there.
pub async fn loaded(redis: &RedisPool, tell: bool) -> bool {
    match load(redis).await {
        Ok(()) => true,
        Err(error) => {
            if tell {
                tracing::warn!(error = %error, "the functions for redis-cli are not loaded");
            }
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_library_stays_and_an_older_one_goes() {
        let of =
            |version: u32| code().replace(&format!("{VERSION_LINE}{VERSION}\n"), &format!("{VERSION_LINE}{version}\n"));
        assert_eq!(version_of(&of(7)), 7);
        assert_eq!(Load::over(None), Load::New);
        assert_eq!(Load::over(Some(code())), Load::Nothing);
        assert_eq!(Load::over(Some(&of(VERSION + 1))), Load::Nothing);
        assert_eq!(Load::over(Some(&of(VERSION - 1))), Load::Replace);
        assert_eq!(Load::over(Some(&format!("{} ", code()))), Load::Replace);
        assert_eq!(Load::over(Some("#!lua name=twitter_updater\n")), Load::Replace);
    }

    #[test]
    fn its_number_rises_with_its_text() {
        let text = redis::Script::new(code()).get_hash().to_owned();
        assert_eq!(text, TEXT, "the library was changed: raise picture::VERSION, and put its hash here");
    }

    /// SHA-1 of the library of that version.
    const TEXT: &str = "a5523073a3db14daa10c6f501d0b7699f78035d7";
}
