//! A redis-server whose clock a test can set: what it asks the time by is replaced in its process, and nobody else's is.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// Adds what the file `CLOCK_OFFSET` names holds, a number of seconds, to the time of day.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long *offset;

__attribute__((constructor)) static void map(void) {
  int file = open(getenv("CLOCK_OFFSET"), O_RDONLY);
  void *at = mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
  if (file < 0 || at == MAP_FAILED) abort();
  offset = at;
}

int clock_gettime(clockid_t which, struct timespec *at) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(which, at);
  if (!failed && offset && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) at->tv_sec += *offset;
  return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
"#;

/// The clock.
pub struct SteppingClock {
    folder: TempDir,
}

impl SteppingClock {
    /// One that shows the time. Made with the C compiler, which Rust needs too.
    pub fn new() -> Self {
        let clock = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::write(clock.path("shim.c"), SHIM).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(clock.path("shim.so")).arg(clock.path("shim.c")).arg("-ldl");
        assert!(cc.status().unwrap().success(), "{cc:?}");
        clock.step(0);
        let server = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        let (shim, offset) = (clock.path("shim.so"), clock.path("offset"));
        let script = format!(
            "#!/bin/sh\nCLOCK_OFFSET={} LD_PRELOAD={} exec {server} \"$@\"\n",
            offset.display(),
            shim.display()
        );
        std::fs::write(clock.path("server"), script).unwrap();
        std::fs::set_permissions(clock.path("server"), std::fs::Permissions::from_mode(0o755)).unwrap();
        clock
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The redis-server that goes by it: for [`super::redis::TestRedis::start_by`].
    pub fn program(&self) -> String {
        self.path("server").display().to_string()
    }

    /// It is ahead of the time by so many seconds from now on; behind, where they are less than 0.
    pub fn step(&self, seconds: i64) {
        use std::io::Write;
        // Written over in place: the server has this file in its memory.
        let file = std::fs::File::options().write(true).create(true).truncate(false).open(self.path("offset"));
        file.unwrap().write_all(&seconds.to_ne_bytes()).unwrap();
    }
}
