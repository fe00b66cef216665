//! Commands that are ended on their way: `enqueue` and `migrate`.

use std::io::Write;
use std::process::{Command, Stdio};

use sqlx::{Connection, PgConnection};

use super::*;
use crate::support::postgres;
use crate::support::process::{Process, command};
use crate::support::wait::until_true;

#[tokio::test]
async fn an_enqueue_that_is_stopped_says_up_to_where_all_is_done() {
    for (is_pipe, signal) in [(true, "TERM"), (false, "INT")] {
        let home = Home::new();
        let settings = home.settings(&[]);
        let fifo = home.path("ids.txt");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let (argument, name) = match is_pipe {
            true => ("-", "standard input"),
            false => (fifo.to_str().unwrap(), fifo.to_str().unwrap()),
        };
        let log = std::fs::File::create(home.path("log")).unwrap();
        let mut command = command(&["enqueue", argument], &settings);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut enqueue = Process::of(child);
        let mut source: Box<dyn Write> = match is_pipe {
            true => Box::new(stdin),
            // Opened for reading, too: that waits for nobody.
            false => Box::new(std::fs::File::options().read(true).write(true).open(&fifo).unwrap()),
        };
        writeln!(source, "{}\nx", young(3).join("\n")).unwrap();
        until_true("all of them are scheduled", Duration::from_secs(20), async || {
            home.path("home.db").exists() && home.status()["delayed"] == 3
        })
        .await;
        enqueue.signal(signal);
        let status = enqueue.ended(Duration::from_secs(10)).await;
        let said = log_text(&home.path("log"));
        assert_eq!(status.code(), Some(1), "{said}");
        let says = format!(
            "{name} was stopped and is done up to line 4: 3 scheduled, 0 in the queue already, 1 refused; for the rest"
        );
        assert!(said.lines().last().unwrap().contains(&says), "{says:?} is not in: {said}");
        drop(source);
    }
}

#[tokio::test]
async fn a_migration_that_waits_for_anothers_lock_stops_at_once() {
    let home = Home::new();
    let database = postgres::database().await;
    let settings = home.settings(&[("store.backend", "postgres"), ("store.postgres.url", &database)]);
    assert!(run(&["migrate"], &settings).status.success());
    let mut other = PgConnection::connect(&database).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE store_migrations IN ACCESS EXCLUSIVE MODE").execute(&mut other).await.unwrap();
    let mut watching = PgConnection::connect(&database).await.unwrap();
    let mut waiting = async |count: i64| {
        until_true("it waits for a lock", Duration::from_secs(20), async || {
            let waiting =
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
            sqlx::query_scalar::<_, i64>(waiting).fetch_one(&mut watching).await.unwrap() == count
        })
        .await;
    };
    // The first waits for the table, and has the lock for which the second waits.
    let (log, first_log) = (home.path("log"), home.path("first.log"));
    let mut first = Process::start(&["migrate"], &settings, &first_log);
    waiting(1).await;
    let mut second = Process::start(&["migrate"], &settings, &log);
    waiting(2).await;
    for (migrate, log, signal) in [(&mut second, &log, "TERM"), (&mut first, &first_log, "INT")] {
        migrate.signal(signal);
        let status = migrate.ended(Duration::from_secs(5)).await;
        assert_eq!(status.code(), Some(1), "{}", log_text(log));
        assert!(log_text(log).contains("migrate was stopped: run it again"), "{}", log_text(log));
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    assert!(run(&["migrate"], &settings).status.success(), "the locks went with the connections");
}
