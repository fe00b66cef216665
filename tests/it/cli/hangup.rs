//! SIGHUP, which a command gets when its terminal is closed.

use std::process::Command;

use super::*;
use crate::support::process::{Process, command, with_hangups};
use crate::support::wait::until_true;

/// The demo, with its folder in an own temporary one; `wrapped`: started by a shell with these words.
fn demo(home: &Home, wrapped: Option<&str>) -> Process {
    std::fs::create_dir(home.path("tmp")).unwrap();
    let arguments = ["demo", "--tweets", "20", "--ops", "off"];
    let direct = command(&arguments, &vec![]);
    let mut start = match wrapped {
        Some(words) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{words}; exec \"$0\" \"$@\"")]).arg(direct.get_program());
            shell.args(direct.get_args());
            shell
        }
        None => with_hangups(&direct),
    };
    start.env("TMPDIR", home.path("tmp"));
    Process::start_by(start, &home.path("log"))
}

fn temporary(home: &Home) -> usize {
    std::fs::read_dir(home.path("tmp")).unwrap().count()
}

async fn until_it_works(home: &Home, demo: &mut Process) {
    until_true("all are scheduled", Duration::from_secs(20), async || {
        assert!(demo.runs(), "{}", log_text(&home.path("log")));
        let mut folders = std::fs::read_dir(home.path("tmp")).unwrap();
        folders.any(|folder| {
            let file = folder.unwrap().path().join("demo.db");
            let settings =
                variables(&[("queue.embedded.path", file.to_str().unwrap()), ("twitter.api", "http://127.0.0.1:9")]);
            file.exists() && status(&settings)["counters"]["scheduled"] == 20
        })
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
