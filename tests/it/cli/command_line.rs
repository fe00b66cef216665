//! Help, versions, mistyped commands, and readers that go away.

use std::process::Stdio;

use clap::CommandFactory;
use twitter_updater::app::cli::Cli;

use super::*;
use crate::support::process::{Process, command};
use crate::support::wait::until_true;

#[test]
fn help_and_version_are_no_failure() {
    let nothing = vec![];
    let version = run(&["--version"], &nothing);
    assert_eq!((version.status.code(), text(&version.stderr)), (Some(0), String::new()));
    assert_eq!(text(&version.stdout), format!("twitter-updater {}\n", env!("CARGO_PKG_VERSION")));

    let help = run(&["--help"], &nothing);
    assert_eq!((help.status.code(), text(&help.stderr)), (Some(0), String::new()));
    let whole = Cli::command();
    for command in whole.get_subcommands().map(clap::Command::get_name) {
        assert!(text(&help.stdout).contains(&format!("\n  {command} ")), "{command}: {}", text(&help.stdout));
        let own = run(&[command, "--help"], &nothing);
        assert_eq!(own.status.code(), Some(0), "{command}");
        assert!(text(&own.stdout).contains(&format!("twitter-updater {command}")), "{}", text(&own.stdout));
    }
}

/// Each example is a command line that there is.
#[test]
fn every_subcommand_shows_how_it_is_used() {
    let whole = Cli::command();
    let nested = |command: &clap::Command| command.get_subcommands().cloned().collect::<Vec<_>>();
    for command in whole.get_subcommands() {
        for command in [vec![command.clone()], nested(command)].concat() {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = after.lines().filter_map(|line| Some(line.split_once("twitter-updater ")?.1));
            let examples: Vec<&str> = examples.map(|line| line.split(['|', '>', ')']).next().unwrap()).collect();
            assert!(!examples.is_empty(), "{} has no example", command.get_name());
            for example in examples {
                let words = ["twitter-updater"].into_iter().chain(example.split_whitespace());
                let parsed = Cli::command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }
}

#[test]
fn each_shell_is_told_of_every_subcommand() {
    // Whatever the settings are.
    let broken = variables(&[("queue.backend", "kafka")]);
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = run(&["completions", shell], &broken);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{shell}");
        for command in Cli::command().get_subcommands() {
            assert!(text(&output.stdout).contains(command.get_name()), "{shell}: {}", command.get_name());
        }
    }
    assert_eq!(run(&["completions", "csh"], &broken).status.code(), Some(64));
}

#[test]
fn a_command_line_that_cannot_be_is_told_on_standard_error() {
    for (arguments, names) in [
        (&["updatr"][..], "updatr"),
        (&[][..], "Usage"),
        (&["enqueue", "--nostore"], "--nostore"),
        (&["enqueue", "a", "b"], "'b'"),
        (&["demo", "--for", "soon"], "--for"),
        (&["demo", "--for", "20"], "--for"),
        (&["demo", "--tweets", "0"], "--tweets"),
        (&["simulator", "--listen", "here"], "--listen"),
        (&["ops", "--listen", "localhost:8082"], "write an IP address and a port, like 127.0.0.1:8082"),
        (&["plan", "--tweets-per-day", "100k"], "write a number, like 100000"),
        (&["simulator", "--accounts-gone", "0.6"], "from 0 to 0.5"),
        (&["simulator", "--accounts", "2000000"], "--accounts"),
        (&["rebuild", "--every", "10"], "--every"),
        (&["rebuild", "--every", "0s"], "at least 1s"),
        (&["rebuild", "--rate", "0"], "--rate"),
        (&["dead"], "Usage"),
        (&["dead", "retry"], "<ID|--all|--reason <WORDS>>"),
        (&["prune"], "<--older-than <SPAN>|--deleted>"),
        (&["simulator", "--posts-per-second", "0"], "from 0.001 to 500"),
        (&["dead", "drop", "--all", "1"], "--all"),
        (&["--config"], "--config"),
    ] {
        let output = run(arguments, &vec![]);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(output.stdout.is_empty() && text(&output.stderr).contains(names), "{}", text(&output.stderr));
    }
}

/// A pipe whose reader is gone, as after `| head -1`.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let home = Home::new();
    let ids = home.file("ids.txt", young(5).join("\n"));
    let bad = home.file("bad.txt", "x\n".repeat(100));
    let settings = home.settings(&[]);
    for (arguments, code) in [
        (&["--help"][..], 0),
        (&["check"], 0),
        (&["enqueue", &ids], 0),
        (&["enqueue", &bad], 65),
        (&["status"], 0),
        (&["status", "--json"], 0),
        (&["demo", "--for", "100ms", "--tweets", "10", "--ops", "127.0.0.1:0"], 0),
        (&["demo", "--for", "100ms", "--tweets", "10", "--ops", "127.0.0.1:0", "--json"], 0),
        (&["updatr"], 64),
    ] {
        let output = command(arguments, &settings).stdout(closed()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("panicked"), "{arguments:?}: {}", text(&output.stderr));
        // `2>&1 | head -1`
        let status = command(arguments, &settings).stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
    let status = command(&["status"], &home.settings(&[("updater.lees", "5s")])).stderr(closed()).status().unwrap();
    assert_eq!(status.code(), Some(64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_updater_whose_log_nobody_reads_any_more_works_on() {
    use twitter_updater::simulator::{self, SimulatorOptions};

    let home = Home::new();
    let api = simulator::start(([127, 0, 0, 1], 0).into(), SimulatorOptions::default()).await.unwrap();
    let short = [("twitter.api", &*api.base_url()), ("tweet_age", "1h: 100ms"), ("updater.buffer_ttl", "50ms")];
    let settings = home.settings(&[&short[..], &[("log.level", "debug")]].concat());
    let ids = home.file("ids.txt", young(5).join("\n"));
    assert!(run(&["enqueue", &ids], &settings).status.success());
    let mut updater = Process::of(command(&["updater"], &settings).stdout(closed()).stderr(closed()).spawn().unwrap());
    until_true("it looks up", Duration::from_secs(20), async || api.counters().requests >= 3 || !updater.runs()).await;
    assert!(updater.runs(), "it ended with its log");
    updater.signal("TERM");
    assert_eq!(updater.ended(Duration::from_secs(10)).await.code(), Some(0));
}

/// In a pipe nothing is coloured: not the help, not an error, not the log, not a table.
#[test]
fn there_are_colours_on_a_terminal_alone() {
    let home = Home::new();
    let bad = home.file("bad.txt", "x\n20\n");
    let mut settings = home.settings(&[("log.level", "debug")]);
    // What makes some programs show them all the same.
    settings.push(("CLICOLOR".to_owned(), "1".to_owned()));
    for arguments in [
        &["--help"][..],
        &["dead", "--help"],
        &["updatr"],
        &["enqueue", &bad],
        &["status"],
        &["check"],
        &["plan", "--tweets-per-day", "1000"],
        &["dead", "list"],
        &["rebuild"],
        &["demo", "--for", "100ms", "--tweets", "10", "--ops", "off"],
    ] {
        let output = run(arguments, &settings);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!said.is_empty() && !said.contains('\x1b'), "{arguments:?}: {said:?}");
    }
}

/// What people most likely did not mean is an exit code and one line, also where accounts are concerned.
#[test]
fn an_empty_file_of_accounts_and_a_wrong_word_are_no_success() {
    let home = Home::new();
    let settings = home.settings(&[
        ("accounts.collect", "true"),
        ("visits.collect", "true"),
        ("relations.collect", "followers, friends"),
        ("communities.c.timelines", "false"),
    ]);
    let empty = home.file("empty.txt", "\n\n");
    for arguments in
        [&["enqueue", "--accounts", &empty][..], &["accounts", "follow", &empty], &["community", "seed", "c", &empty]]
    {
        says_one_line(&run(arguments, &settings), 65, "empty.txt is empty: write one account per line");
    }
    // The file of our own export names its column.
    let exported = home.file("exported.csv", "id\n12\n");
    for arguments in [&["enqueue", "--accounts", &exported][..], &["community", "seed", "c", &exported]] {
        let output = run(arguments, &settings);
        let said = (output.status.code(), text(&output.stderr));
        assert_eq!(said, (Some(0), "line 1: skipped: it names the columns\n".to_owned()), "{arguments:?}");
    }
    // Ours, too: an x is before the ids, and a description goes on over lines.
    let accounts = "id,state,description\nx12,live,\"a\n{\n13\n\"\nx14,live,\"b\"\n";
    let output = run(&["enqueue", "--json", "--accounts", &home.file("accounts.csv", accounts)], &settings);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &said["ids"]), (Some(0), &2.into()), "{said} {}", text(&output.stderr));
    // As pandas and R keep them where a cell is empty.
    let rounded: Vec<String> = (0..20).map(|n| (1_460_323_737_035_677_696_u64 + 256 * 33 * n).to_string()).collect();
    for (ids, is_warned) in [(&rounded[..], true), (&rounded[..19], false)] {
        let output = run(&["enqueue", "--accounts", &home.file("rounded.txt", ids.join("\n"))], &settings);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(said.contains("warning: all 20 long ids are numbers that float64 holds"), is_warned, "{said}");
    }
    let future = home.file("future.txt", "9145936974064177152\n");
    let output = run(&["enqueue", "--accounts", &future], &settings);
    assert!(output.status.code() == Some(65) && text(&output.stderr).contains("a date in the future"), "{output:?}");
    says_one_line(&run(&["export", "foo"], &settings), 64, "there is no table \"foo\"");
    for arguments in [["status", "--pipeline", "tweet:update"], ["pause", "--wait", "5s"]] {
        let refused = run(&arguments, &settings);
        let says = format!("unexpected argument '{}' found", arguments[1]);
        assert!(refused.status.code() == Some(64) && text(&refused.stderr).contains(&says), "{refused:?}");
    }
    says_one_line(&run(&["export", "posts", "--format", "lines"], &settings), 64, "--format lines is for ids and raw");
    for word in ["open", "yes"] {
        let says = format!("{word:?} is not a decision: write member, outside or candidate");
        says_one_line(&run(&["community", "decide", "c", "1", word, "--why", "so"], &settings), 64, &says);
    }
    for arguments in [&["community", "decide", "c", "@nobody", "member"][..], &["community", "why", "c", "@nobody"]] {
        says_one_line(&run(arguments, &settings), 65, "@nobody: no stored profile has the handle");
    }
    assert_eq!(text(&run(&["community", "near", "c"], &settings).stdout), "no undecided accounts yet\n");
    let why = text(&run(&["community", "why", "c", "12"], &settings).stdout);
    assert!(why.starts_with("12 has been a member of c since ") && why.contains(": it is a seed ("), "{why}");
    let divided = run(&["accounts", "divide"], &settings);
    assert!(divided.status.success() && text(&divided.stdout).contains("           0            0.0\n"), "{divided:?}");
    let edges = run(&["export", "edges"], &settings);
    assert!(edges.status.success() && text(&edges.stderr).contains("there are more: --pipeline friends:twitter"));
    let of = |pipeline| text(&run(&["credentials", "--pipeline", pipeline], &settings).stdout);
    assert!(of("tweet:update").contains("statuses/lookup") && of("friends:twitter").contains("friends/ids"));
}

/// Wherever people get a table, a script gets one object.
#[test]
fn each_table_is_an_object_for_a_script() {
    let home = Home::new();
    let some = young(3);
    let (ids, id) = (home.file("ids.txt", some.join("\n")), &*some[0]);
    for arguments in [
        &["enqueue", &*ids][..],
        &["status"],
        &["check"],
        &["credentials"],
        &["plan", "--tweets-per-day", "1000"],
        &["rebuild"],
        &["dead", "list"],
        &["dead", "show", id],
        &["dead", "retry", "--all"],
        &["dead", "drop", "--all"],
        &["demo", "--for", "100ms", "--tweets", "10", "--ops", "off"],
    ] {
        let output = home.run(&[arguments, &["--json"]].concat());
        let said = text(&output.stdout);
        assert!(said.lines().count() == 1, "{arguments:?}: {said}{}", text(&output.stderr));
        assert!(serde_json::from_str::<Value>(&said).unwrap().is_object(), "{arguments:?}: {said}");
    }
    // Each subcommand that prints more than a line has it.
    let whole = Cli::command();
    let leaves = whole.get_subcommands().flat_map(|command| match command.has_subcommands() {
        true => command.get_subcommands().collect::<Vec<_>>(),
        false => vec![command],
    });
    let without: Vec<&str> = leaves
        .filter(|command| command.get_arguments().all(|argument| argument.get_id() != "json"))
        .map(clap::Command::get_name)
        .collect();
    assert_eq!(
        without,
        [
            "members",
            "updater",
            "starter",
            "poll",
            "ops",
            "health",
            "pause",
            "resume",
            "migrate",
            "simulator",
            "completions"
        ]
    );
}
