//! The binary itself, as its users run it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::wait::until;

/// Settings as environment variables: `("updater.lease", "3s")`.
pub type Variables = Vec<(String, String)>;

pub fn variables(settings: &[(&str, &str)]) -> Variables {
    settings
        .iter()
        .map(|(key, value)| {
            (format!("TWITTER_UPDATER__{}", key.to_uppercase().replace('.', "__")), (*value).to_owned())
        })
        .collect()
}

/// The parked credentials of all namespaces, as `status --json` has them.
pub fn parked(settings: &Variables) -> Vec<Value> {
    let output = run(&["status", "--json"], settings);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let namespaces = status["namespaces"].as_array().cloned().unwrap_or_else(|| vec![status]);
    namespaces.iter().flat_map(|one| one["parked"].as_array().unwrap_or_else(|| panic!("{one}"))).cloned().collect()
}

/// The binary with these arguments and settings, and nothing of this process's environment that
/// would set it up.
pub fn command(arguments: &[&str], variables: &Variables) -> Command {
    // Tests run beside each other in this process, and share its descriptors.
    twitter_updater::app::raise_open_files_limit();
    let mut command = command_of(Path::new(env!("CARGO_BIN_EXE_twitter-updater")), variables);
    command.args(arguments);
    command
}

/// The same command with the default action of SIGHUP, also where `nohup` started the tests.
pub fn with_hangups(command: &Command) -> Command {
    let mut by = Command::new("env");
    by.arg("--default-signal=HUP");
    wrap(by, command)
}

/// The same command, started by another one.
pub fn wrap(by: Command, command: &Command) -> Command {
    let mut wrapped = by;
    wrapped.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}

/// Another program with these settings, in the same way.
pub fn command_of(program: &Path, variables: &Variables) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TWITTER_UPDATER")) {
        command.env_remove(name);
    }
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command
}

/// Runs it to its end.
pub fn run(arguments: &[&str], variables: &Variables) -> Output {
    command(arguments, variables).output().unwrap()
}

/// Runs it with this text on standard input.
pub fn run_with_input(arguments: &[&str], variables: &Variables, input: &[u8]) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), input).unwrap();
    let stdin = std::fs::File::open(file.path()).unwrap();
    command(arguments, variables).stdin(stdin).output().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A running one, killed when dropped. Its log goes to a file.
pub struct Process {
    child: Child,
}

impl Process {
    pub fn start(arguments: &[&str], variables: &Variables, log: &Path) -> Self {
        Self::start_by(command(arguments, variables), log)
    }

    /// The same of another command.
    pub fn start_by(mut command: Command, log: &Path) -> Self {
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        Self { child: command.stdout(Stdio::null()).stderr(log).spawn().unwrap() }
    }

    /// Starts one that says on standard output where it is to be found: it, and that line.
    pub fn start_announced(arguments: &[&str], variables: &Variables, log: &Path) -> (Self, String) {
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut child = command(arguments, variables).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        (Self { child }, said)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// One that was started in another way.
    pub fn of(child: Child) -> Self {
        Self { child }
    }

    /// Sends a signal: `TERM`, `INT`.
    pub fn signal(&self, name: &str) {
        let pid = self.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Its exit status, once it has ended by itself or by a signal; fails if it runs longer than this.
    pub async fn ended(&mut self, within: Duration) -> ExitStatus {
        until("the process's end", within, async || self.child.try_wait().unwrap()).await
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Whether SIGSTOP has stopped it.
    pub fn is_stopped(&self) -> bool {
        // "pid (name) state …", and the name may hold anything.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        stat.rsplit(')').next().is_some_and(|fields| fields.trim_start().starts_with('T'))
    }

    /// kill -9.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// kill -TERM, and its exit status.
    pub fn terminate(mut self) -> ExitStatus {
        let pid = self.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
