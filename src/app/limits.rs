//! Limits of the process that it sets for itself.

/// Forbids core dumps: the memory of a process contains passwords and tokens.
///
/// The kernel writes no file for a limit below a page. It starts no program of `kernel.core_pattern` for a limit of 1, and
/// ignores any other limit there, even 0.
#[cfg(target_os = "linux")]
pub fn forbid_core_dumps() {
    use rustix::process::{Resource, Rlimit, setrlimit};

    let limit = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    // Only a hard limit of 0 forbids 1, and then it stays 0.
    if setrlimit(Resource::Core, limit(1)).is_err() {
        let _ = setrlimit(Resource::Core, limit(0));
    }
}

/// Other systems have no such call here.
#[cfg(not(target_os = "linux"))]
pub fn forbid_core_dumps() {}
