//! Limits of the process: open files and core dumps.

use anyhow::{Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use collect::config::Settings;

/// Open files of any process: its log, its event loops, files of system libraries.
const BASE_OPEN_FILES: u64 = 48;

/// Forbids core dumps: the memory of a process contains passwords and tokens.
///
/// The kernel writes no file for a limit below a page. It starts no program of `kernel.core_pattern` for a limit of 1, and
/// ignores any other limit there, even 0.
#[cfg(target_os = "linux")]
pub fn forbid_core_dumps() {
    let limit = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    // This fails only if the hard limit is 0, and then it stays 0.
    if setrlimit(Resource::Core, limit(1)).is_err() {
        let _ = setrlimit(Resource::Core, limit(0));
    }
}

#[cfg(not(target_os = "linux"))]
pub fn forbid_core_dumps() {}

/// Raises the soft limit of open files to the hard one. The default of 1,024 is for programs that call `select`. If the
/// system refuses, [`check_open_files_limit`] reports a limit that is too low.
pub fn raise_open_files_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Checks that enough files may be open for these settings, or for any command.
pub fn check_open_files_limit(settings: Option<&Settings>) -> Result<()> {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    // `None` if it is unlimited, or unknown on this system.
    parse_open_files_limit(&limits).map_or(Ok(()), |limit| check_limit(limit, needed_open_files(settings)))
}

/// Returns the number of open files that the settings need: a connection per request in flight, those of store and queue.
fn needed_open_files(settings: Option<&Settings>) -> u64 {
    let Some(settings) = settings else { return BASE_OPEN_FILES };
    let connections = settings.queue.redis.connections as u64 + u64::from(settings.store.postgres.connections);
    let providers = settings.providers().map_or(1, |all| all.len() as u64);
    let in_flight = providers.saturating_mul(settings.updater.concurrency as u64);
    BASE_OPEN_FILES.saturating_add(connections).saturating_add(in_flight)
}

/// Reads the soft limit of open files from the text of /proc/self/limits.
fn parse_open_files_limit(limits: &str) -> Option<u64> {
    let row = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    row.split_whitespace().next()?.parse().ok()
}

fn check_limit(limit: u64, needed_open_files: u64) -> Result<()> {
    if limit >= needed_open_files {
        return Ok(());
    }
    bail!(
        "this process may have {limit} files open (ulimit -n) and needs {needed_open_files}: raise the limit, with `ulimit -n 1024` in \
         a shell, LimitNOFILE=1024 in a systemd unit, or --ulimit nofile=1024 of a container"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_read_and_named_with_what_is_needed() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            12                   4096                 files\n";
        assert_eq!(parse_open_files_limit(limits), Some(12));
        assert_eq!(
            parse_open_files_limit("Max open files            unlimited            unlimited            files\n"),
            None
        );
        let settings = Settings::load_with(&[], None, &[("TWITTER_UPDATER__UPDATER__CONCURRENCY", "100")]).unwrap();
        let needs = needed_open_files(Some(&settings));
        assert_eq!(needs, BASE_OPEN_FILES + 8 + 8 + 100);
        assert!(check_limit(needs, needs).is_ok());
        let error = check_limit(12, needs).unwrap_err().to_string();
        assert!(error.contains("may have 12 files open (ulimit -n) and needs 164: raise the limit"), "{error}");
    }
}
