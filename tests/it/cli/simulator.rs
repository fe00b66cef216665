//! `simulator`: says where it is, serves, and stops.

use secrecy::SecretString;
use twitter_updater::providers::lookup::{Lookup, LookupError, Outcome};
use twitter_updater::quota::{Credential, CredentialKind, UserKeys};

use super::*;
use crate::support::http::{anonymous, bearer, twitter};
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

#[tokio::test]
async fn it_lets_in_the_credentials_of_the_settings_and_no_others() {
    let home = Home::new();
    let keys = [("consumer_key", "ck"), ("consumer_secret", "cs"), ("token", "t"), ("token_secret", "ts")];
    let keys = keys.map(|(part, value)| (format!("twitter.credentials.main.{part}"), value));
    let keys = keys.iter().map(|(name, value)| (name.as_str(), *value));
    let on = ("simulator.check_credentials", "true");
    let kind = ("twitter.credentials.main.kind", "user");
    let more: Vec<_> = keys.chain([on, kind, ("x.bearer_token", "fine"), ("simulator.missing_share", "0")]).collect();
    let log = home.path("log");
    let (simulator, said) =
        Process::start_announced(&["simulator", "--listen", "127.0.0.1:0"], &home.settings(&more), &log);
    let address = said.strip_prefix("simulated API at ").unwrap_or_else(|| panic!("{said:?}")).trim_end();
    let ids = young(3);
    let ask = async |who: Credential| twitter(address).look_up(&ids, &who).await.map(|answer| answer.outcomes.len());
    let user = |token_secret: &str| {
        let [consumer_key, consumer_secret, token] = ["ck", "cs", "t"].map(SecretString::from);
        let keys = UserKeys { consumer_key, consumer_secret, token, token_secret: token_secret.into() };
        Credential { name: "main".into(), kind: CredentialKind::User(keys) }
    };
    assert_eq!(ask(user("ts")).await.unwrap(), 3);
    assert_eq!(ask(bearer("fine")).await.unwrap(), 3);
    for (wrong, code) in [(user("other"), "code 32"), (bearer("other"), "code 89"), (anonymous(), "code 215")] {
        let error = ask(wrong).await.unwrap_err();
        assert!(matches!(&error, LookupError::Credential(why) if why.contains(code)), "{error:?}");
    }
    assert_eq!(simulator.terminate().code(), Some(0));
    // With none to know anybody by, it does not start.
    let refused = run(&["simulator", "--listen", "127.0.0.1:0"], &home.settings(&[on]));
    says_one_line(&refused, 1, "simulator.check_credentials is on, and the settings have no credential");
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
