//! `check`: the configuration in effect, or one line that says why it cannot be.

use super::*;

#[test]
fn it_prints_what_is_in_effect() {
    let home = Home::new();
    let file = home.file("my.toml", "[updater]\nbuffer_ttl = \"7s\"\nconcurrency = 9\n");
    let settings = home.settings(&[("updater.concurrency", "11"), ("tweet_age", "2h: 5m")]);
    let output = run(&["--config", &file, "check"], &settings);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let shown: toml::Table = text(&output.stdout).parse().unwrap();
    assert_eq!(shown["tweet_age"].as_str(), Some("2h: 5m"));
    assert_eq!(shown["updater"]["buffer_ttl"].as_str(), Some("7s"));
    assert_eq!(shown["updater"]["concurrency"].as_integer(), Some(11));
    assert_eq!(shown["log"]["level"].as_str(), Some("info"));
    // It is itself a configuration file that says the same (but for the tokens, which have no place in one).
    let shown = text(&output.stdout);
    let settings_alone = shown.lines().filter(|line| !line.ends_with(" = \"(not set)\""));
    let again = settings_alone.map(|line| format!("{line}\n")).collect::<String>();
    let again = run(&["--config", &home.file("again.toml", again), "check"], &vec![]);
    assert_eq!(text(&again.stdout), text(&output.stdout), "{}", text(&again.stderr));
    let object = run(&["--config", &file, "check", "--json"], &settings);
    let object: Value = serde_json::from_slice(&object.stdout).unwrap();
    assert_eq!(object["settings"]["updater"]["concurrency"], 11);
    let revision = object["config_revision"].as_str().unwrap();
    assert!(text(&output.stdout).starts_with(&format!("# config_revision: {revision}\n")), "{revision}");
    // Nothing was made.
    assert!(!home.path("home.db").exists());
}

/// The file, settings from the environment, and what the line names.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);

#[test]
fn what_cannot_be_is_one_line_that_names_the_place() {
    let home = Home::new();
    let folder = home.folder.path().to_str().unwrap();
    let empty = home.file("empty", "\n");
    let two_words = home.file("two-words", "canary\ncanary\n");
    let large = home.file("large", "canary".repeat(20_000));
    let cases: &[Case<'_>] = &[
        ("[updater]\nbufer_ttl = \"5s\"\n", &[], &["my.toml", "bufer_ttl", "updater"]),
        ("colour = 1\n", &[], &["my.toml", "colour"]),
        ("", &[("updater.lees", "5s")], &["environment", "lees", "updater"]),
        ("", &[("store.postgre.url", "x")], &["environment", "postgre"]),
        ("[updater]\nbuffer_ttl = \"soon\"\n", &[], &["my.toml", "updater.buffer_ttl"]),
        ("", &[("lookup.timeout", "10")], &["environment", "lookup.timeout"]),
        ("", &[("updater.concurrency", "many")], &["environment", "updater.concurrency"]),
        ("", &[("updater.lease", "30s")], &["updater.lease (30s)", "lookup.timeout"]),
        ("", &[("updater.lookahead", "2")], &["updater.lookahead"]),
        ("", &[("updater.buffer_ttl", "1ms")], &["updater.buffer_ttl"]),
        ("", &[("tweet_age", "1h: 1m, 30m: 1m")], &["tweet_age", "30m"]),
        ("", &[("x.fields", "lang,colour")], &["x.fields", "colour", "author_id"]),
        ("", &[("queue.backend", "rabbit")], &["queue.backend", "rabbit"]),
        (
            "[twitter]\nbearer_token = \"canary\"\n",
            &[],
            &["twitter.bearer_token", "TWITTER_UPDATER__TWITTER__BEARER_TOKEN"],
        ),
        ("[ops]\ntoken = \"canary\"\n", &[], &["ops.token", "TWITTER_UPDATER__OPS__TOKEN"]),
        ("", &[("ops.token_file", "/nowhere/token")], &["ops.token_file", "/nowhere/token"]),
        ("[updater\n", &[], &["my.toml", "line 1", "TOML"]),
        ("[queue.redis]\nurl = \"redis://:canary@h\n", &[], &["my.toml", "line 2"]),
        ("[queue]\nredis = \"redis://:canary@h\"\n", &[], &["my.toml", "queue.redis"]),
        ("", &[("queue.redis", "redis://:canary@h")], &["environment", "queue.redis"]),
        ("", &[("queue.redis.url", ":canary@h")], &["queue.redis.url"]),
        ("", &[("store.postgres.url", "me:canary@h/db")], &["store.postgres.url"]),
        ("", &[("twitter.bearer_token_file", "/nowhere/token")], &["twitter.bearer_token_file", "/nowhere/token"]),
        ("", &[("twitter.bearer_token_file", folder)], &["twitter.bearer_token_file", folder]),
        ("", &[("twitter.bearer_token_file", &empty)], &["twitter.bearer_token_file", "empty"]),
        ("", &[("twitter.bearer_token_file", &two_words)], &["twitter.bearer_token_file"]),
        (
            "",
            &[("twitter.bearer_token_file", &empty), ("twitter.bearer_token", "canary")],
            &["both", "bearer_token_file"],
        ),
        ("", &[("twitter.bearer_token", "Bearer canary")], &["twitter.bearer_token has white space", "Bearer"]),
        ("", &[("log.level", "loud")], &["log.level", "loud"]),
        ("", &[("log.level", "info,lease_lanes::worker=loud")], &["log.level"]),
        ("", &[("log.format", "xml")], &["log.format", "xml"]),
        ("", &[("twitter.api", "localhost:1234")], &["twitter.api"]),
        ("", &[("twitter.api", "https://me:canary@127.0.0.1")], &["twitter.api"]),
        // Of what is not used now, too: all of it is printed.
        ("", &[("x.api", "https://me:canary@h")], &["x.api"]),
        ("", &[("bluesky.api", "https://canary@h")], &["bluesky.api"]),
        ("[mastodon.instances.a]\napi = \"https://me:canary@h\"\n", &[], &["mastodon.instances.a.api"]),
        ("", &[("media.s3.endpoint", "https://me:canary@h")], &["media.s3.endpoint"]),
        (
            "",
            &[("media.collect", "true"), ("media.store", "s3://media"), ("media.s3.endpoint", "https://me:canary@h")],
            &["media.s3.endpoint"],
        ),
        (
            "",
            &[("twitter.api", "https://api.twitter.com")],
            &["api.twitter.com", "TWITTER_UPDATER__TWITTER__BEARER_TOKEN"],
        ),
        ("", &[("twitter.api", "https://API.X.com")], &["credential"]),
        ("", &[("twitter.bearer_token", "")], &["environment", "TWITTER_UPDATER__TWITTER__BEARER_TOKEN", "empty"]),
        ("", &[("starter.bearer_token", " ")], &["TWITTER_UPDATER__STARTER__BEARER_TOKEN", "empty"]),
        ("", &[("ops.token", "")], &["TWITTER_UPDATER__OPS__TOKEN", "empty"]),
        ("[updater]\nconcurrency = 1.5\n", &[], &["my.toml", "updater.concurrency (1.5) must be a whole number"]),
        ("", &[("updater.lease", "500000000years")], &["updater.lease (500000000years) must be 1ms to 1day"]),
        ("", &[("updater_lease", "70s")], &["UPDATER_LEASE is not read: write TWITTER_UPDATER__UPDATER__LEASE"]),
        ("", &[("twitter.bearer_token_file", "/dev/zero")], &["twitter.bearer_token_file /dev/zero", "regular"]),
        ("", &[("ops.token_file", &large)], &["ops.token_file", "larger than 64 KiB"]),
        ("", &[("ops.token", "canary-of-15-ch")], &["ops.token has 15 characters", "at least 16"]),
        ("", &[("starter.bearer_token", "canary")], &["starter.bearer_token has 6 characters", "at least 16"]),
        ("", &[("http.metrics_listen", "localhost")], &["http.metrics_listen", "0.0.0.0:9090"]),
        (
            "",
            &[("http.listen", "127.0.0.1:9"), ("http.metrics_listen", "127.0.0.1:9")],
            &["http.metrics_listen is the address of http.listen"],
        ),
    ];
    for (file, environment, names) in cases {
        let file = home.file("my.toml", file);
        let output = run(&["--config", &file, "check"], &home.settings(environment));
        for name in *names {
            says_one_line(&output, 64, name);
        }
        assert!(output.stdout.is_empty(), "{names:?}");
        assert!(!text(&output.stderr).contains("canary"), "{}", text(&output.stderr));
    }
    // Every other command says the same before it does anything.
    for command in [
        &["enqueue"][..],
        &["updater"],
        &["status"],
        &["credentials"],
        &["migrate"],
        &["simulator"],
        &["demo"],
        &["plan", "--tweets-per-day", "1000"],
    ] {
        says_one_line(&run(command, &home.settings(&[("updater.lees", "5s")])), 64, "lees");
    }
    assert!(!home.path("home.db").exists());
}

#[test]
fn a_configuration_that_cannot_be_read() {
    let home = Home::new();
    let binary = home.file("binary.toml", b"\xff\xfe\0");
    let missing = home.path("missing.toml");
    let folder = home.folder.path().to_str().unwrap();
    for (path, file) in [(&*binary, &*binary), (folder, &binary), (missing.to_str().unwrap(), "missing.toml")] {
        says_one_line(&run(&["--config", path, "check"], &home.settings(&[])), 64, &format!("{file} cannot be read"));
    }
    std::fs::remove_file(&binary).unwrap();
    says_one_line(&run(&["--config", folder, "check"], &home.settings(&[])), 64, "without any *.toml");
}

#[test]
fn a_folder_of_files_is_a_configuration() {
    let home = Home::new();
    home.file("a.toml", "[updater]\nbuffer_ttl = \"7s\"\nconcurrency = 9\n");
    home.file("b.toml", "[updater]\nbuffer_ttl = \"8s\"\n");
    let folder = home.folder.path().to_str().unwrap();
    let check = |more: &[(&str, &str)]| text(&run(&["--config", folder, "check"], &home.settings(more)).stdout);
    let shown: toml::Table = check(&[]).parse().unwrap();
    assert_eq!(shown["updater"]["buffer_ttl"].as_str(), Some("8s"));
    assert_eq!(shown["updater"]["concurrency"].as_integer(), Some(9));
    // The revision says whether two run the same.
    let revision = |more| check(more).lines().next().unwrap().to_owned();
    assert!(revision(&[]).starts_with("# config_revision: "), "{}", revision(&[]));
    assert_eq!(revision(&[]), revision(&[("updater.name", "another")]));
    assert_ne!(revision(&[]), revision(&[("updater.lookahead", "0")]));
    home.file("b.toml", "[updater]\nbuffer_ttl = \"soon\"\n");
    says_one_line(&run(&["--config", folder, "check"], &home.settings(&[])), 64, "b.toml: ");
}

#[test]
fn only_twitter_itself_needs_a_credential() {
    let home = Home::new();
    for api in ["http://localhost:8081", "https://box.com", "https://twitter.com.example.org", "http://10.0.0.1/x.com"]
    {
        let output = run(&["check"], &home.settings(&[("twitter.api", api)]));
        assert_eq!(output.status.code(), Some(0), "{api}: {}", text(&output.stderr));
    }
    let token = [("twitter.api", "https://api.twitter.com"), ("twitter.bearer_token", "canary")];
    let output = run(&["check"], &home.settings(&token));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn levels_and_filters_are_good() {
    let home = Home::new();
    for level in ["error", "WARN", "info,lease_lanes::worker=debug", "off", "warn, sqlx=off"] {
        let output = run(&["check"], &home.settings(&[("log.level", level)]));
        assert_eq!(output.status.code(), Some(0), "{level}: {}", text(&output.stderr));
    }
}

/// What it says on standard error, line by line.
fn lines(output: &Output) -> Vec<String> {
    text(&output.stderr).lines().map(str::to_owned).collect()
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let home = Home::new();
    let file = "colour = 1\n[updater]\nconcurrency = 1.5\nlease = \"30s\"\n\
                [twitter.credentials.main]\nkind = \"user\"\nconsumer_key_file = \"/nowhere/key\"\n\
                [x.credentials.other]\nkind = \"app\"\n";
    let file = home.file("my.toml", file);
    let settings = home.settings(&[
        ("providers", "twitter, x"),
        ("updater.lees", "5s"),
        ("poll.longest", "1s"),
        ("ops.token_file", "/nowhere/token"),
        ("log.level", "loud"),
        ("twitter.credentials.main.token", "canary"),
    ]);
    let wrong = [
        "unknown field `colour`",
        "unknown field `lees`",
        "updater.concurrency (1.5) must be a whole number",
        "updater.lease (30s) must be longer",
        "poll.longest (1s) must be at least",
        "log.level (\"loud\")",
    ];
    let missing = [
        "twitter.credentials.main.consumer_key_file /nowhere/key cannot be read",
        "twitter.credentials.main.consumer_secret is missing",
        "twitter.credentials.main.token_secret is missing",
        "x.credentials.other.consumer_key is missing",
        "x.credentials.other.consumer_secret is missing",
        "ops.token_file /nowhere/token cannot be read",
    ];
    // Without the secrets the rest is said all the same.
    for (arguments, expected) in
        [(&["check"][..], [&wrong[..], &missing].concat()), (&["check", "--offline"], wrong.to_vec())]
    {
        let output = run(&[&["--config", &file], arguments].concat(), &settings);
        let said = lines(&output);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(64), String::new()), "{said:#?}");
        for says in &expected {
            let times = said.iter().filter(|line| line.contains(says)).count();
            assert_eq!(times, 1, "{arguments:?}, {says}: {said:#?}");
        }
        assert_eq!(said.len(), expected.len(), "{said:#?}");
        assert!(said.iter().all(|line| line.starts_with("twitter-updater: configuration: ")), "{said:#?}");
        assert!(!said.concat().contains("canary"), "{said:#?}");
    }
    // Every other command says what is wrong with the settings, too.
    let said = lines(&run(&["--config", &file, "status"], &settings));
    assert_eq!(said.len(), wrong.len() - 1, "all but the log's level, which is looked at by then: {said:#?}");
}

/// What only a pipeline's own rules tell is wrong for `check` as it is for the updater; a missing secret is said all the same.
#[test]
fn what_a_pipeline_refuses_is_said_once() {
    let home = Home::new();
    for wrong in [
        &[("relations.collect", "follower")][..],
        &[("accounts.collect", "true"), ("accounts.from_posts", "authors")],
        &[("visits.collect", "true"), ("visits.parts", "2"), ("visits.here", "2")],
        &[("visits.collect", "true"), ("visits.shortest", "10d"), ("visits.longest", "1d")],
    ] {
        let settings = home.settings(&[&[("twitter.api", "https://api.twitter.com")], wrong].concat());
        let (section, _) = wrong[0].0.split_once('.').unwrap();
        for (arguments, expected) in [(&["check"][..], 2), (&["check", "--offline"], 1)] {
            let output = run(arguments, &settings);
            let said = lines(&output);
            assert_eq!((output.status.code(), said.len()), (Some(64), expected), "{wrong:?}: {said:#?}");
            let times = said.iter().filter(|line| line.contains(&format!("{section}."))).count();
            assert_eq!(times, 1, "{wrong:?}: {said:#?}");
        }
    }
}

#[test]
fn offline_it_needs_no_secrets() {
    let home = Home::new();
    let file = "[twitter]\nbearer_token_file = \"/run/secrets/nowhere\"\n[x.credentials.main]\nkind = \"user\"\n\
                [queue]\nbackend = \"redis\"\n[queue.redis]\nurl = \"rediss://nowhere\"\nca_file = \"/nowhere.pem\"\n";
    let file = home.file("my.toml", file);
    let settings = variables(&[("providers", "twitter,x")]);
    let output = run(&["--config", &file, "check"], &settings);
    assert_eq!((output.status.code(), lines(&output).len()), (Some(64), 6), "{}", text(&output.stderr));
    let output = run(&["--config", &file, "check", "--offline"], &settings);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(text(&output.stdout).contains("ca_file = \"/nowhere.pem\""), "{}", text(&output.stdout));
}

#[test]
fn a_secret_that_everybody_may_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let token = home.file("token", "canary\n");
    let settings = home.settings(&[("twitter.bearer_token_file", &token)]);
    for (mode, warned) in [(0o440, false), (0o444, true), (0o604, true), (0o600, false)] {
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(mode)).unwrap();
        let output = run(&["check"], &settings);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_eq!(said.lines().count(), usize::from(warned), "{mode:o}: {said}");
        let names = said.contains("WARN") && said.contains("twitter.bearer_token_file") && said.contains(&token);
        assert!(names == warned && !said.contains("canary"), "{mode:o}: {said}");
    }
}

#[test]
fn a_token_under_two_names_is_refused() {
    let home = Home::new();
    let output = run(
        &["check"],
        &home.settings(&[
            ("twitter.bearer_token", "canary"),
            ("twitter.credentials.second.kind", "app"),
            ("twitter.credentials.second.bearer_token", "canary"),
        ]),
    );
    says_one_line(&output, 64, "the credentials \"bearer\" and \"second\" have the same bearer_token");
    assert!(!text(&output.stderr).contains("canary"));
}
