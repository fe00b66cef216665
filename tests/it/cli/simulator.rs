//! `simulator`: says where it is, serves, and stops.

use twitter_updater::lookup::{Lookup, Outcome};

use super::*;
use crate::support::http::{anonymous, twitter};
use crate::support::process::Process;

#[tokio::test]
async fn its_first_line_is_the_address() {
    let home = Home::new();
    let settings = home.settings(&[("simulator.missing_share", "0"), ("simulator.withheld_share", "0")]);
    for signal in ["TERM", "INT"] {
        let log = home.path("log");
        let (mut simulator, said) =
            Process::start_announced(&["simulator", "--listen", "127.0.0.1:0"], &settings, &log);
        let address = said.strip_prefix("simulated API at ").unwrap_or_else(|| panic!("{said:?}")).trim_end();
        let ids = young(3);
        let answer = twitter(address).look_up(&ids, &anonymous()).await.unwrap();
        assert_eq!(answer.outcomes.len(), 3);
        assert!(answer.outcomes.iter().all(|outcome| matches!(outcome, Outcome::Found(_))), "{:?}", answer.outcomes);
        simulator.signal(signal);
        assert_eq!(simulator.ended(Duration::from_secs(10)).await.code(), Some(0));
    }
}

#[test]
fn what_it_cannot_serve_is_one_line() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    says_one_line(&home.run(&["simulator", "--listen", &taken]), 1, &taken);
    let folder = home.folder.path().to_str().unwrap();
    says_one_line(&home.run(&["simulator", "--listen", "127.0.0.1:0", "--replay", folder]), 1, folder);
}
