//! The Redis that the manifests bring: its configuration and its users, in a real server.

use std::process::Command;

use super::{Kustomization, list, path, read, text};
use crate::support::redis::TestRedis;

/// The settings of redis.conf as arguments, but for where the server is.
fn configuration() -> Vec<String> {
    let conf = read(&path("k8s/components/redis/redis.conf"));
    let lines = conf.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pairs =
        lines.map(|line| line.split_once(' ').unwrap()).filter(|(key, _)| !["bind", "dir", "aclfile"].contains(key));
    pairs.flat_map(|(key, value)| [format!("--{key}"), value.trim_matches('"').to_owned()]).collect()
}

#[tokio::test]
async fn its_users_get_in_by_their_passwords_and_no_further_than_they_may() {
    let dev = Kustomization::of("overlays/dev");
    let passwords = &dev.secrets["redis-passwords"];
    // What the init container does, with other folders.
    let (_, pod) = dev.pods().find(|(name, _)| *name == "redis").unwrap();
    let init = list(pod, "/spec/initContainers").next().unwrap();
    let command: Vec<&str> = list(init, "/command").map(|word| word.as_str().unwrap()).collect();
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.acl");
    let script = command[2]
        .replace("/etc/redis/", &format!("{}/", path("k8s/components/redis").display()))
        .replace("/run/redis/users.acl", users.to_str().unwrap());
    let mut sh = Command::new(command[0]);
    sh.arg(command[1]).arg(script);
    for variable in list(init, "/env") {
        sh.env(text(variable, "/name"), &passwords[text(variable, "/valueFrom/secretKeyRef/key")]);
    }
    assert!(sh.status().unwrap().success());
    for left in ["PASSWORD", "SHA256"] {
        assert!(!read(&users).contains(left), "{}", read(&users));
    }

    let mut settings = configuration();
    settings.extend(["--aclfile".to_owned(), users.to_str().unwrap().to_owned()]);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = TestRedis::start(&settings);
    let login = async |user: &str, password: &str| {
        let client = redis::Client::open(format!("{}?user={user}&pass={password}", server.url)).unwrap();
        client.get_multiplexed_async_connection().await
    };
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

    // redis-cli in its container: the readiness probe as it stands, and the watcher by the variable.
    let server_container = list(pod, "/spec/containers").next().unwrap();
    let variable = list(server_container, "/env").find(|variable| variable["name"] == "REDISCLI_AUTH").unwrap();
    let password = &passwords[text(variable, "/valueFrom/secretKeyRef/key")];
    let probe = list(server_container, "/readinessProbe/exec/command").nth(2).unwrap().as_str().unwrap();
    let socket = server.url.strip_prefix("redis+unix://").unwrap();
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
