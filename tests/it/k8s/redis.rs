//! The Redis that the manifests bring: its configuration and its users, in a real server.

mod restarts;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::{Kustomization, list, path, read, text};
use crate::support::redis::{TestRedis, connect};

/// The settings of redis.conf as arguments, but for where the server is.
fn configuration() -> Vec<String> {
    let conf = read(&path("k8s/components/redis/redis.conf"));
    let lines = conf.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pairs =
        lines.map(|line| line.split_once(' ').unwrap()).filter(|(key, _)| !["bind", "dir", "aclfile"].contains(key));
    pairs.flat_map(|(key, value)| [format!("--{key}"), value.trim_matches('"').to_owned()]).collect()
}

/// Commands of a client that shows no password, or a wrong one; each is refused.
fn nobody_gets_in_without_a_password(deployed: &Deployed) {
    let mut connection = UnixStream::connect(deployed.socket()).unwrap();
    let mut answers = BufReader::new(connection.try_clone().unwrap());
    let mut answer = |line: &str| {
        connection.write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        answer
    };
    // By AUTH too: the user without a password is off, whatever is given as one.
    let wrong = ["AUTH wrong", "AUTH default wrong", "AUTH default \"\"", "AUTH app wrong", "AUTH nobody wrong"];
    for line in wrong {
        let answer = answer(line);
        assert!(answer.starts_with("-WRONGPASS"), "{line}: {answer}");
    }
    for line in [
        "PING",
        "INFO",
        "HELLO 3",
        "MULTI",
        "EXEC",
        "FLUSHALL",
        "SHUTDOWN NOSAVE",
        "CONFIG GET *",
        "ACL LIST",
        "ZCARD {tweet:update}:leased",
        "ZADD {tweet:update}:incoming 0 20",
        "EVAL return(1) 0",
        "FCALL_RO twitter_updater_status 1 {tweet:update}",
    ] {
        let answer = answer(line);
        assert!(answer.starts_with("-") && answer.contains("NOAUTH"), "{line}: {answer}");
    }
}

/// A server with exactly that configuration and those users, where the init container has put the passwords.
struct Deployed {
    server: TestRedis,
    passwords: BTreeMap<String, String>,
    /// The file of the users as the init container makes it, and where it is.
    prepared: String,
    users: PathBuf,
    _folder: TempDir,
}

impl Deployed {
    /// Starts one; `users` changes the file of the users first, `further` are settings more.
    fn start(users: impl Fn(&str) -> String, further: &[&str]) -> Self {
        let mut dev = Kustomization::of("overlays/dev");
        let passwords = dev.secrets.remove("redis-passwords").unwrap();
        // What the init container does, with other folders.
        let (_, pod) = dev.pods().find(|(name, _)| *name == "redis").unwrap();
        let init = list(pod, "/spec/initContainers").next().unwrap();
        let command: Vec<&str> = list(init, "/command").map(|word| word.as_str().unwrap()).collect();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users.acl");
        let script = command[2]
            .replace("/etc/redis/", &format!("{}/", path("k8s/components/redis").display()))
            .replace("/run/redis/users.acl", file.to_str().unwrap());
        let mut sh = Command::new(command[0]);
        sh.arg(command[1]).arg(script);
        for variable in list(init, "/env") {
            sh.env(text(variable, "/name"), &passwords[text(variable, "/valueFrom/secretKeyRef/key")]);
        }
        assert!(sh.status().unwrap().success());
        let prepared = read(&file);
        for left in ["PASSWORD", "SHA256"] {
            assert!(!prepared.contains(left), "{prepared}");
        }
        std::fs::write(&file, users(&prepared)).unwrap();
        let mut settings = configuration();
        settings.extend(["--aclfile".to_owned(), file.to_str().unwrap().to_owned()]);
        let settings: Vec<&str> = settings.iter().map(String::as_str).chain(further.iter().copied()).collect();
        Self { server: TestRedis::start(&settings), passwords, prepared, users: file, _folder: folder }
    }

    /// Changes the file of the users, for the next start.
    fn set_users(&self, users: impl Fn(&str) -> String) {
        std::fs::write(&self.users, users(&self.prepared)).unwrap();
    }

    fn url(&self, user: &str) -> String {
        format!("{}?user={user}&pass={}", self.server.url, self.passwords[user])
    }

    fn socket(&self) -> &str {
        self.server.url.strip_prefix("redis+unix://").unwrap()
    }
}

#[tokio::test]
async fn its_users_get_in_by_their_passwords_and_no_further_than_they_may() {
    let deployed = Deployed::start(str::to_owned, &[]);
    let Deployed { server, passwords, .. } = &deployed;
    let login =
        async |user: &str, password: &str| connect(&format!("{}?user={user}&pass={password}", server.url)).await;
    assert!(login("app", "wrong").await.is_err());
    let mut app = login("app", &passwords["app"]).await.unwrap();
    let added: i64 =
        redis::cmd("ZADD").arg("{tweet:update}:incoming").arg(0).arg("20").query_async(&mut app).await.unwrap();
    assert_eq!(added, 1);
    let about: String = redis::cmd("INFO").query_async(&mut app).await.unwrap();
    for wanted in ["aof_enabled:1", "maxmemory_policy:noeviction", "maxmemory:671088640"] {
        assert!(about.contains(wanted), "{wanted} is not in {about}");
    }
    let mut watcher = login("watcher", &passwords["watcher"]).await.unwrap();
    let waiting: i64 = redis::cmd("ZCARD").arg("{tweet:update}:incoming").query_async(&mut watcher).await.unwrap();
    assert_eq!(waiting, 1);
    for refused in [["ZREM", "{tweet:update}:incoming", "20"], ["SET", "{tweet:update}:paused", "no"]] {
        let mut command = redis::cmd(refused[0]);
        let answer: redis::RedisResult<()> = command.arg(&refused[1..]).query_async(&mut watcher).await;
        assert_eq!(answer.unwrap_err().code(), Some("NOPERM"), "{refused:?}");
    }

    nobody_gets_in_without_a_password(&deployed);

    // redis-cli in its container: the readiness probe as it stands, and the watcher by the variable.
    let dev = Kustomization::of("overlays/dev");
    let (_, pod) = dev.pods().find(|(name, _)| *name == "redis").unwrap();
    let server_container = list(pod, "/spec/containers").next().unwrap();
    let variable = list(server_container, "/env").find(|variable| variable["name"] == "REDISCLI_AUTH").unwrap();
    let password = &passwords[text(variable, "/valueFrom/secretKeyRef/key")];
    let probe = list(server_container, "/readinessProbe/exec/command").nth(2).unwrap().as_str().unwrap();
    let socket = deployed.socket();
    let succeeds = |line: &str, socket: &str| {
        let line = line.replace("redis-cli", &format!("redis-cli -s {socket}"));
        Command::new("sh").args(["-c", &line]).env("REDISCLI_AUTH", password).status().unwrap().success()
    };
    assert!(succeeds(probe, socket));
    assert!(!succeeds(probe, "/nowhere"));
    assert!(succeeds("redis-cli --user watcher zcard '{tweet:update}:incoming' | grep -qx 1", socket));
}

#[test]
fn its_encoding_and_its_fsync_are_those_that_were_measured() {
    let configuration = configuration();
    for wanted in [["--zset-max-listpack-entries", "0"], ["--appendfsync", "everysec"], ["--appendonly", "yes"]] {
        assert!(configuration.windows(2).any(|pair| pair == wanted), "{wanted:?}");
    }
}
