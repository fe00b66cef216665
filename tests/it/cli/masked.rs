//! Addresses that are shown: neither user nor password nor what may be one of both.

use super::*;
use crate::support::postgres;
use crate::support::redis::TestRedis;

const REDIS: &str = "queue.redis.url";
const POSTGRES: &str = "store.postgres.url";

/// Each form of an address, with the secret in each place.
const FORMS: [(&str, &str); 31] = [
    (REDIS, "redis://canary-u:canary-p@127.0.0.1:9/0"),
    (REDIS, "rediss://canary-u:canary-p@127.0.0.1:9/0"),
    (REDIS, "redis://canary-u@127.0.0.1:9"),
    (REDIS, "redis://:canary-p@127.0.0.1:9"),
    (REDIS, "redis://c%61nary:c%61nary@127.0.0.1:9"),
    (REDIS, "redis://a@canary-u:b@canary-p@127.0.0.1:9"),
    (REDIS, "redis://canary-u%3Acanary-p%40127.0.0.1:9"),
    (REDIS, "redis://canary-u:canary/p@127.0.0.1:9"),
    (REDIS, "redis://127.0.0.1:9/0#canary"),
    (REDIS, "redis://127.0.0.1:9/0?canary"),
    (REDIS, "redis+unix:///nowhere.sock?user=canary-u&pass=canary-p"),
    (REDIS, "redis+unix:///nowhere.sock?username=canary-u&password=canary-p"),
    (REDIS, "redis+sentinel://canary-u:canary-p@127.0.0.1:9,127.0.0.1:19/name/3"),
    (REDIS, "redis+sentinel://127.0.0.1:9/name?sentinel_user=canary-u&sentinel_password=canary-p"),
    (REDIS, "redis+cluster://canary-u:can,canary-p@127.0.0.1:9,127.0.0.1:19"),
    (REDIS, "redis+cluster://127.0.0.1:9,canary-u:canary-p"),
    (REDIS, "redis+cluster://127.0.0.1:9,canary-u@canary-p:9"),
    (POSTGRES, "postgres://canary-u:canary-p@127.0.0.1:9/db"),
    (POSTGRES, "postgres://canary-u@127.0.0.1:9/db?sslmode=disable"),
    (POSTGRES, "postgres://c%61nary:c%61nary@127.0.0.1:9/db"),
    (POSTGRES, "postgres://127.0.0.1:9/db?user=canary-u&password=canary-p"),
    (POSTGRES, "postgres:///db?host=/nowhere&user=canary-u&pasword=canary-p"),
    (POSTGRES, "postgres:///db?host=/nowhere&options=-c%20canary&sslpassword=canary-p"),
    (POSTGRES, "postgres://canary-u:canary-p@%2Fnowhere/db"),
    (POSTGRES, "canary-u:canary-p@127.0.0.1:9/db"),
    ("twitter.api", "https://canary-u:canary-p@127.0.0.1:9"),
    ("twitter.api", "https://127.0.0.1:9/?access_token=canary"),
    ("twitter.api", "https://127.0.0.1:9/#canary"),
    ("x.api", "canary-token"),
    ("bluesky.api", "https://canary@127.0.0.1:9"),
    ("media.s3.endpoint", "https://canary-u:canary-p@127.0.0.1:9"),
];

#[test]
fn no_command_shows_a_user_or_a_password() {
    let home = Home::new();
    let file = home.path("q.db");
    for (setting, address) in FORMS {
        let backend = match setting {
            REDIS => [("queue.backend", "redis"), ("store.sqlite.path", file.to_str().unwrap())],
            POSTGRES => [("store.backend", "postgres"), ("queue.embedded.path", file.to_str().unwrap())],
            _ => [("media.collect", "true"), ("media.store", "s3://media")],
        };
        let settings =
            home.settings(&[&backend[..], &[(setting, address), ("queue.redis.connect_timeout", "1s")]].concat());
        for arguments in
            [&["check"][..], &["check", "--json"], &["status"], &["migrate"], &["pause", "why"], &["updater"]]
        {
            if arguments == ["updater"] && backend[0].0 == "media.collect" {
                continue; // it would run
            }
            let output = run(arguments, &settings);
            let said = text(&output.stdout) + &text(&output.stderr);
            let has = said.to_lowercase().contains("canary") || said.contains("c%61");
            assert!(!said.is_empty() && !has, "{arguments:?} with {setting} = {address}: {said}");
            let masks = ["***", "(not an address)"];
            let is_masked = masks.iter().any(|mask| said.contains(mask));
            assert!(arguments[0] != "check" || !output.status.success() || is_masked, "{address}: {said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_server_tells_the_user_that_it_refuses() {
    let home = Home::new();
    let redis = TestRedis::start(&[
        "--user", "canary-u", "on", "nopass", "~*", "&*", "-@all", "+hello", "+auth", "+client", "+ping",
    ]);
    let postgres = postgres::database().await;
    let (before, host) = postgres.split_once("user=").unwrap();
    let nobody = format!("{before}user=canary-u{}", host.find('&').map_or("", |end| &host[end..]));
    let redis = [("queue.backend", "redis"), (REDIS, &*format!("{}?user=canary-u&pass=x", redis.url))];
    let postgres = [("store.backend", "postgres"), (POSTGRES, &*nobody)];
    for (settings, says) in [(redis, "has no permissions"), (postgres, "PostgreSQL rejects the user")] {
        for arguments in [&["status"][..], &["migrate"]] {
            let output = run(arguments, &home.settings(&settings));
            let said = text(&output.stdout) + &text(&output.stderr);
            assert!(!said.contains("canary"), "{arguments:?}: {said}");
            assert!(arguments == ["migrate"] || said.contains(says), "{arguments:?}: {said}");
        }
    }
}
