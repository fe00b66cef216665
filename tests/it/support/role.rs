//! A role that serves HTTP, as a process.

use std::path::Path;
use std::time::Duration;

use reqwest::Client;

use super::process::{Process, Variables, run, run_with_input};
use super::wait::{until, until_true};

const PATIENCE: Duration = Duration::from_secs(30);

/// A running role and where it is; killed when dropped.
pub struct Role {
    pub process: Process,
    pub url: String,
    pub client: Client,
}

/// A client that keeps its connections.
pub fn client() -> Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder().no_proxy().timeout(PATIENCE).build().unwrap()
}

impl Role {
    /// Starts it at a free port of the loopback, which it writes into its log: a file of its own.
    pub async fn start(role: &str, settings: &Variables, log: &Path) -> Self {
        Self::start_with(&[], role, settings, log).await
    }

    /// The same, with more options.
    pub async fn start_with(options: &[&str], role: &str, settings: &Variables, log: &Path) -> Self {
        Self::launch(&[&[role, "--listen", "127.0.0.1:0"], options].concat(), settings, log).await
    }

    /// The same where one of it was before: `host:port`.
    pub async fn start_at(address: &str, role: &str, settings: &Variables, log: &Path) -> Self {
        Self::launch(&[role, "--listen", address], settings, log).await
    }

    async fn launch(arguments: &[&str], settings: &Variables, log: &Path) -> Self {
        let is_missing = |(name, path): &(String, String)| {
            ["QUEUE__EMBEDDED__PATH", "STORE__SQLITE__PATH"].iter().any(|of| name.ends_with(of))
                && !Path::new(path).exists()
        };
        if arguments.contains(&"ops") && settings.iter().any(is_missing) {
            // It makes no files. These commands do, where the services are there.
            let _ = run(&["migrate"], settings);
            let _ = run_with_input(&["enqueue", "-"], settings, b"");
        }
        Self::of(Process::start(arguments, settings, log), log).await
    }

    /// Of a process that is one, once it says where it listens.
    pub async fn of(mut process: Process, log: &Path) -> Self {
        let said = || std::fs::read_to_string(log).unwrap_or_default();
        let port = until("it says where it listens", PATIENCE, async || {
            assert!(process.runs(), "{}", said());
            let said = said();
            let (_, rest) = said.split_once("serves HTTP")?.1.split_once("127.0.0.1:")?;
            rest.find(|c: char| !c.is_ascii_digit()).map(|end| rest[..end].to_owned())
        })
        .await;
        Self { process, url: format!("http://127.0.0.1:{port}"), client: client() }
    }

    /// The same, once it can work.
    pub async fn start_ready(role: &str, settings: &Variables, log: &Path) -> Self {
        let role = Self::start(role, settings, log).await;
        role.until("/ready", 200).await;
        role
    }

    /// Status and body; a status of 0 where nobody answers.
    pub async fn get(&self, path: &str) -> (u16, String) {
        // Of /metrics, as Prometheus asks.
        let request =
            self.client.get(format!("{}{path}", self.url)).header("accept", "application/openmetrics-text, */*;q=0.5");
        match request.send().await {
            Ok(response) => (response.status().as_u16(), response.text().await.unwrap()),
            Err(_) => (0, String::new()),
        }
    }

    /// Waits until that path answers so.
    pub async fn until(&self, path: &str, status: u16) {
        let what = format!("{path} answers {status}");
        until_true(&what, PATIENCE, async || self.get(path).await.0 == status).await;
    }

    /// SIGTERM, and its exit code.
    pub async fn stopped(mut self) -> Option<i32> {
        self.process.signal("TERM");
        self.process.ended(PATIENCE).await.code()
    }
}

/// The value of a metric's line that begins like this, `name{labels}`.
pub fn value(text: &str, metric: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' ')?.parse().ok())
}
