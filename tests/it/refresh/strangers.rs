//! Objects that nobody asked for, and posts that come under another id: told in the log, seldom.

use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer};
use twitter_updater::model::post::TweetId;
use twitter_updater::simulator::Fault;

use crate::support::log::listen;
use crate::support::rig::{DAY, Rig, Setup};

/// Keeps the lines of the log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl<S: tracing::Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
}

impl Lines {
    fn of(&self, words: &str) -> Vec<String> {
        self.0.lock().unwrap().iter().filter(|line| line.contains(words)).cloned().collect()
    }
}

#[tokio::test]
async fn one_line_names_what_nobody_asked_for_and_the_others_are_counted() {
    let lines = Lines::default();
    let _log = listen(lines.clone());
    let rig = Rig::start(Setup::default()).await;
    rig.inject(Fault::Unasked, 3);
    for _ in 0..3 {
        rig.schedule(&rig.there(5, 3 * DAY)).await;
        rig.round().await;
    }
    assert_eq!(rig.metrics.counters.unsolicited.get(), 3);
    let told = lines.of("unrequested objects");
    assert_eq!(told.len(), 1, "{told:?}");
    let id = told[0].split_once("id=\"").unwrap().1.split('"').next().unwrap();
    assert!(TweetId::parse(id).is_ok(), "{told:?}");
    assert!(told[0].contains("namespace=\"tweet:update\"") && told[0].contains("objects=1 "), "{told:?}");
    assert!(rig.find(id).await.is_none(), "it is not stored");
    assert_eq!(lines.of("under another id"), [""; 0], "all came under their own");
}

#[tokio::test]
async fn one_line_names_a_post_that_came_under_another_id() {
    let lines = Lines::default();
    let _log = listen(lines.clone());
    let rig = Rig::start(Setup::default()).await;
    let ids = rig.there(2, 3 * DAY);
    for (asked, came) in [(&ids[0], &ids[1]), (&ids[1], &ids[0])] {
        let post = format!(
            r#"{{"id":{{"{asked}":{{"id_str":"{came}","full_text":"hi","created_at":"Wed Aug 27 13:08:45 +0000 2008"}}}}}}"#
        );
        rig.inject(
            Fault::Answer {
                status: 200,
                headers: [("content-type".into(), "application/json".into())].into(),
                body: post,
            },
            1,
        );
        rig.schedule(std::slice::from_ref(asked)).await;
        rig.round().await;
    }
    let told = lines.of("under another id");
    assert_eq!(told.len(), 1, "{told:?}");
    let (asked, came) = (format!("id=\"{}\"", ids[0]), format!("came=\"{}\"", ids[1]));
    assert!(told[0].contains(&asked) && told[0].contains(&came) && told[0].contains("posts=1 "), "{told:?}");
}
