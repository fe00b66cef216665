//! SIGHUP, which a command gets when its terminal is closed.

use std::process::Command;

use super::*;
use crate::support::process::{Process, command};
use crate::support::wait::until_true;

/// The demo, with its folder in an own temporary one; `wrapped`: started by a shell with these words.
fn demo(home: &Home, wrapped: Option<&str>) -> Process {
    std::fs::create_dir(home.path("tmp")).unwrap();
    let arguments = ["demo", "--tweets", "20", "--ops", "off"];
    let mut start = command(&arguments, &vec![]);
    if let Some(words) = wrapped {
        let direct = std::mem::replace(&mut start, Command::new("sh"));
        start.arg("-c").arg(format!("{words}; exec \"$0\" \"$@\"")).arg(direct.get_program()).args(direct.get_args());
    }
    start.env("TMPDIR", home.path("tmp"));
    Process::start_by(start, &home.path("log"))
}

fn temporary(home: &Home) -> usize {
    std::fs::read_dir(home.path("tmp")).unwrap().count()
}

async fn until_it_works(home: &Home, demo: &mut Process) {
    until_true("the demo's file", Duration::from_secs(20), async || {
        assert!(demo.runs(), "{}", log_text(&home.path("log")));
        let folders = std::fs::read_dir(home.path("tmp")).unwrap();
        folders.into_iter().any(|folder| folder.unwrap().path().join("demo.db-wal").exists())
    })
    .await;
}

#[tokio::test]
async fn it_ends_the_demo_like_ctrl_c_and_its_folder_is_removed() {
    let home = Home::new();
    let mut demo = demo(&home, None);
    until_it_works(&home, &mut demo).await;
    demo.signal("HUP");
    assert_eq!(demo.ended(Duration::from_secs(20)).await.code(), Some(0), "{}", log_text(&home.path("log")));
    assert_eq!(temporary(&home), 0);
}

#[tokio::test]
async fn nohup_keeps_a_command_running() {
    let home = Home::new();
    let mut demo = demo(&home, Some("trap '' HUP"));
    until_it_works(&home, &mut demo).await;
    demo.signal("HUP");
    demo.signal("QUIT");
    until_true("it answers a later signal", Duration::from_secs(20), async || {
        log_text(&home.path("log")).contains("SIGQUIT: ")
    })
    .await;
    assert!(demo.runs() && !log_text(&home.path("log")).contains("SIGHUP"));
    demo.signal("TERM");
    assert_eq!(demo.ended(Duration::from_secs(20)).await.code(), Some(0));
    assert_eq!(temporary(&home), 0);
}
