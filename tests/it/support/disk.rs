//! A disk of a few megabytes that can be filled up.
//!
//! It is a tmpfs in a mount namespace of its own, which a small shell process, the *holder*, keeps until
//! its standard input closes: that is ours, so the disk ends with the test process, however that ends.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

/// One such disk.
pub struct TinyDisk {
    holder: Child,
    alive: Option<ChildStdin>,
    inside: PathBuf,
    _folder: tempfile::TempDir,
}

impl TinyDisk {
    /// A disk of so many MiB, owned by whom `owner` runs its arguments as (`env`: by us). `None`, with a
    /// line that says so, where the system lets nobody mount in a namespace of one's own.
    pub fn new(mut owner: Command, mib: u32) -> Option<Self> {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir().unwrap();
        let mut holder = owner
            .args(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"])
            .arg(r#"mount -t tmpfs -o size="$1"m tmpfs "$0" && mkdir "$0/disk" && echo mounted && cat"#)
            .arg(folder.path())
            .arg(mib.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let alive = holder.stdin.take();
        let mut said = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
        if said.trim_end() != "mounted" {
            println!("skipped: no disk of our own to fill up here (user namespaces are off)");
            drop(alive);
            holder.wait().unwrap();
            return None;
        }
        let inside = folder.path().join("disk");
        Some(Self { holder, alive, inside, _folder: folder })
    }

    /// Where its folder is for everybody.
    pub fn path(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.inside.strip_prefix("/").unwrap())
    }

    /// Where its folder is for those who were started by [`TinyDisk::command`].
    pub fn inside(&self) -> &Path {
        &self.inside
    }

    /// A command that runs its arguments where the disk is mounted, as its owner. An ordinary user may not change groups
    /// there and keeps its credentials, which the namespace maps to root.
    pub fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--user", "--mount", "--target", &self.holder.id().to_string()]);
        if !rustix::process::geteuid().is_root() {
            command.arg("--preserve-credentials");
        }
        command
    }

    /// Fills it to the last byte.
    pub fn fill(&self) {
        let output = self.on_it(r#"cat /dev/zero > "$0/filler""#);
        assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"), "{output:?}");
    }

    /// Makes room again.
    pub fn clear(&self) {
        let output = self.on_it(r#"rm "$0/filler""#);
        assert!(output.status.success(), "{output:?}");
    }

    fn on_it(&self, script: &str) -> Output {
        self.command().args(["sh", "-c", script]).arg(&self.inside).output().unwrap()
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        drop(self.alive.take());
        let _ = self.holder.wait();
    }
}
