//! Which configuration a command goes by, and what it needs of the machine.

use super::*;
use crate::support::process::{Process, command};
use crate::support::wait::until_true;

#[test]
fn the_environment_names_the_configuration_and_the_command_line_goes_over_it() {
    let home = Home::new();
    let (one, two) =
        (home.file("one.toml", "tweet_age = \"1h: 1m\"\n"), home.file("two.toml", "tweet_age = \"2h: 2m\"\n"));
    let named =
        |path: &str| [home.settings(&[]), vec![("TWITTER_UPDATER_CONFIG".to_owned(), path.to_owned())]].concat();
    let age = |arguments: &[&str], settings: &Variables| {
        let output = run(arguments, settings);
        let shown: toml::Table = text(&output.stdout).parse().unwrap();
        shown.get("tweet_age").unwrap_or_else(|| panic!("{}", text(&output.stderr))).as_str().unwrap().to_owned()
    };
    assert_eq!(age(&["check"], &named(&one)), "1h: 1m");
    assert_eq!(age(&["--config", &two, "check"], &named(&one)), "2h: 2m");
    // Of a folder every file counts, the last one most.
    assert_eq!(age(&["check"], &named(home.folder.path().to_str().unwrap())), "2h: 2m");
    says_one_line(&run(&["check"], &named("/nowhere.toml")), 64, "/nowhere.toml cannot be read");
    says_one_line(&run(&["check"], &named("/dev/zero")), 64, "/dev/zero cannot be read: it is a folder, a device");
    says_one_line(&run(&["check"], &named("")), 64, "TWITTER_UPDATER_CONFIG is empty");
    let link = home.path("link.toml");
    std::os::unix::fs::symlink(&one, &link).unwrap();
    assert_eq!(age(&["check"], &named(link.to_str().unwrap())), "1h: 1m");
}

/// `docker --env-file` keeps the quotes that a shell takes off.
#[test]
fn a_secret_in_quotes_is_refused_without_being_shown() {
    let home = Home::new();
    let file = home.file("token", "\"canary\"\n");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
    for (setting, value) in [
        ("twitter.bearer_token", "\"canary\""),
        ("x.bearer_token", "'canary'"),
        ("ops.token", "\"canary-canary-canary\""),
        ("mastodon.instances.s.bearer_token", "\"canary"),
        ("twitter.bearer_token_file", &file),
    ] {
        let settings = [
            (setting, value),
            ("mastodon.instances.s.api", "https://s.example"),
            ("providers", "twitter, x, mastodon"),
        ];
        let output = run(&["check"], &home.settings(&settings));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{setting}: {said}");
        assert!(said.contains(&format!("{setting} is in quotes, which would be sent with it")), "{setting}: {said}");
        assert!(!said.contains("canary") && !text(&output.stdout).contains("canary"), "{setting}: {said}");
    }
}

#[test]
fn who_only_looks_makes_no_file() {
    let home = Home::new();
    for arguments in
        [&["status"][..], &["status", "--json"], &["credentials"], &["dead", "list"], &["dead", "show", "20"]]
    {
        let output = home.run(arguments);
        says_one_line(
            &output,
            69,
            &format!("there is no file {} (queue.embedded.path)", home.path("home.db").display()),
        );
        says_one_line(&output, 69, "name your configuration with --config or TWITTER_UPDATER_CONFIG");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    for arguments in [&["plan", "--tweets-per-day", "1000"][..], &["check"]] {
        assert!(home.run(arguments).status.success(), "{arguments:?}");
    }
    assert_eq!(std::fs::read_dir(home.folder.path()).unwrap().count(), 0);
    // The store may be another file, which is not made either.
    let ids = home.file("ids.txt", young(1).join("\n"));
    assert!(home.run(&["enqueue", &ids]).status.success());
    let store = home.path("store.db");
    let elsewhere = home.settings(&[("store.sqlite.path", store.to_str().unwrap()), ("log.level", "error")]);
    says_one_line(&run(&["dead", "list"], &elsewhere), 69, "(store.sqlite.path)");
    assert!(run(&["status"], &elsewhere).status.success());
    assert!(!store.exists());
}

#[test]
fn too_few_open_files_are_called_that() {
    let home = Home::new();
    for (limit, arguments) in [(12, &["check"][..]), (12, &["updater"]), (60, &["status"])] {
        let whole = command(arguments, &home.settings(&[]));
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]).arg(whole.get_program());
        limited.args(whole.get_args()).envs(home.settings(&[]));
        let output = limited.output().unwrap();
        says_one_line(&output, 1, &format!("may have {limit} files open (ulimit -n) and needs "));
        assert!(text(&output.stderr).contains("LimitNOFILE"), "{}", text(&output.stderr));
    }
}

/// The default soft limit of a shell is 1,024, and its hard limit is far higher.
#[tokio::test]
async fn a_role_raises_its_soft_limit_of_open_files_to_the_hard_one() {
    let home = Home::new();
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let row = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let hard = row.split_whitespace().nth(1).unwrap().to_owned();
    for role in ["updater", "ops", "starter", "poll", "demo"] {
        let whole = command(&[role], &home.settings(&[("http.listen", "127.0.0.1:0")]));
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", "ulimit -Sn 60; exec \"$0\" \"$@\""]).arg(whole.get_program()).args(whole.get_args());
        limited.envs(home.settings(&[("http.listen", "127.0.0.1:0")])).current_dir(home.folder.path());
        let process = Process::start_by(limited, &home.path("log"));
        until_true("both limits are the hard one", Duration::from_secs(20), async || {
            let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.id())).unwrap();
            let row = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
            row.split_whitespace().take(2).all(|limit| limit == hard)
        })
        .await;
    }
}

/// Variables that a cluster sets for its services begin as ours do.
#[test]
fn the_variables_of_a_clusters_services_are_not_settings() {
    let home = Home::new();
    let links = ["OPS_SERVICE_HOST", "OPS_SERVICE_PORT", "OPS_PORT", "OPS_PORT_8082_TCP", "STARTER_PORT_8080_TCP_ADDR"];
    let links = links.map(|link| (format!("TWITTER_UPDATER_{link}"), "tcp://10.0.0.1:80".to_owned()));
    let output = run(&["check"], &[home.settings(&[]), links.to_vec()].concat());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    for wrong in ["TWITTER_UPDATER_OPS_TOKEN", "TWITTER_UPDATER_UPDATER__LEASE", "TWITTER_UPDATER_OPS__TOKEN"] {
        let settings = [home.settings(&[]), vec![(wrong.to_owned(), "canary".to_owned())]].concat();
        let output = run(&["check"], &settings);
        says_one_line(&output, 64, &format!("{wrong} is not read: write TWITTER_UPDATER__"));
        assert!(!text(&output.stderr).contains("canary"), "{}", text(&output.stderr));
    }
}
