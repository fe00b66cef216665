//! What holds for whatever comes in from outside. The fuzz targets look for what breaks it, and
//! `tests/it/fuzz.rs` holds it for a few seconds in every test run.

use std::path::Path;

use twitter_updater::config::Settings;
use twitter_updater::ingest::{AccountReader, PostReader};
use twitter_updater::model::account::Account;
use twitter_updater::model::post::TweetId;
use twitter_updater::model::provider::Provider;
use twitter_updater::providers::lookup::UnsolicitedObjects;
use twitter_updater::providers::lookup::{LookupError, Outcome};
use twitter_updater::providers::named::AccountRef;
use twitter_updater::providers::registry::{accounts as accounts_of, read_account_ref};
use twitter_updater::providers::twitter_v1::parse_ingested;
use twitter_updater::providers::{bluesky, mastodon, twitter_v1, x_v2};

/// A word that no message repeats where it stands for a secret or a tweet's text.
pub const CANARY: &str = "canary";

/// One line that can be logged.
fn is_a_message(text: &str) {
    assert!(!text.is_empty());
    assert!(!text.contains(char::is_control), "more than a line: {text:?}");
}

/// A short one about a tweet. A date that is none is told, cut to the length of one, and nothing else of it.
fn is_about_a_tweet(text: &str) {
    is_a_message(text);
    assert!(text.len() < 400, "{text:?}");
    let date = text.strip_prefix("created_at \"").and_then(|rest| rest.strip_suffix("\" is not a date"));
    match date {
        Some(date) => assert!(date.chars().count() <= 40, "{text:?}"),
        None => assert!(!text.contains(CANARY), "it repeats what came: {text:?}"),
    }
}

/// Where a configuration's secrets stand.
const SECRET_PLACES: [&str; 3] = ["://me:canary@localhost", "?password=canary\"", "\ntoken = \"canary\""];

/// A body said to be the answer of Twitter's v1.1 to a lookup of these ids.
pub fn lookup_answer(body: &[u8], ids: &[String]) {
    answers(twitter_v1::read_answer(body, ids), ids);
    accounts(twitter_v1::account::read(body, ids), ids);
}

/// A body said to be the answer of each other provider.
pub fn other_lookup_answer(body: &[u8], ids: &[String]) {
    answers(x_v2::read_answer(body, ids), ids);
    accounts(x_v2::account::read(body, ids), ids);
    answers(mastodon::read_answer(body, ids, mastodon::Calls::Batch), ids);
    accounts(mastodon::account::read(body, ids, mastodon::Calls::Batch), ids);
    // One call, one status or account.
    for id in ids {
        let id = std::slice::from_ref(id);
        answers(mastodon::read_answer(body, id, mastodon::Calls::Single), id);
        accounts(mastodon::account::read(body, id, mastodon::Calls::Single), id);
    }
    answers(bluesky::read_answer(body, ids), ids);
    accounts(bluesky::account::read(body, ids), ids);
}

fn accounts(read: Result<(Vec<Outcome<Account>>, UnsolicitedObjects), LookupError>, ids: &[String]) {
    match read {
        Ok((outcomes, _)) => {
            assert_eq!(outcomes.len(), ids.len());
            for (id, outcome) in ids.iter().zip(outcomes) {
                match outcome {
                    Outcome::Found(account) | Outcome::Emptied(account, _) => assert_eq!(account.id, *id),
                    Outcome::Broken(why) => is_about_a_tweet(&why),
                    Outcome::Unavailable | Outcome::Absent(_) => {}
                }
            }
        }
        Err(LookupError::BadAnswer(why)) => is_about_a_tweet(&why),
        Err(other) => panic!("a body decides nothing else: {other:?}"),
    }
}

fn answers(read: Result<(Vec<Outcome>, UnsolicitedObjects), LookupError>, ids: &[String]) {
    match read {
        Ok((outcomes, _)) => {
            assert_eq!(outcomes.len(), ids.len());
            for outcome in outcomes {
                match outcome {
                    Outcome::Found(tweet) => {
                        assert!(tweet.text.is_some() || tweet.withheld_in.is_some(), "{tweet:?}");
                        assert_ne!(tweet.withheld_in.as_deref(), Some(""), "{tweet:?}");
                    }
                    Outcome::Broken(why) => is_about_a_tweet(&why),
                    Outcome::Unavailable | Outcome::Absent(_) => {}
                    Outcome::Emptied(..) => panic!("a post is never returned without its content"),
                }
            }
        }
        Err(LookupError::BadAnswer(why)) => is_about_a_tweet(&why),
        Err(other) => panic!("a body decides nothing else: {other:?}"),
    }
}

/// A file of tweets to enqueue, read in chunks of this size.
pub fn enqueue_line(file: &[u8], chunk: usize) {
    let read = async {
        let mut tweets = PostReader::new(tokio::io::BufReader::with_capacity(chunk.max(1), file), parse_ingested);
        let lines = file.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        let mut done = 0;
        while let Some(item) = tweets.next().await.expect("memory can be read") {
            assert!((1..=lines).contains(&item.line), "line {} of {lines}", item.line);
            assert!((done..=lines).contains(&tweets.done_line()), "{} after {done}", tweets.done_line());
            done = tweets.done_line();
            match item.tweet {
                Ok(tweet) => {
                    let date = TweetId::date_of(&tweet.id);
                    assert!(tweet.content.is_none() || date.is_ok(), "a tweet with an id that is none: {tweet:?}");
                    date.err().iter().for_each(|why| is_about_a_tweet(&why.to_string()));
                }
                Err(why) => is_about_a_tweet(&why.to_string()),
            }
        }
        assert!(tweets.bytes() <= file.len() as u64);
    };
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(read);
}

/// A file of accounts, each line to each network's reader.
pub fn account_lines(file: &[u8], chunk: usize) {
    let instance = Provider::Mastodon("social".to_owned());
    for of in [Provider::Twitter, Provider::X, instance, Provider::Bluesky] {
        let read = async {
            let source = tokio::io::BufReader::with_capacity(chunk.max(1), file);
            let mut lines = AccountReader::new(source, read_account_ref(&of));
            let last = file.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            while let Some(line) = lines.next().await.expect("memory can be read") {
                assert!((1..=last).contains(&line.line), "line {} of {last}", line.line);
                match line.named {
                    Ok(AccountRef::Id(id)) => assert!((accounts_of(&of).date_of)(&id).is_ok(), "{of} has no id {id:?}"),
                    Ok(AccountRef::Handle(handle)) => {
                        is_a_message(&handle);
                        assert!(!handle.starts_with('@') && !handle.contains(char::is_whitespace), "{handle:?}");
                        // Written as a handle, it is read as that again.
                        let again = read_account_ref(&of)(&format!("@{handle}"));
                        assert_eq!(again, Ok(AccountRef::Handle(handle)), "{of}");
                    }
                    Err(why) => is_about_a_tweet(&why.to_string()),
                }
            }
        };
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(read);
    }
}

/// A configuration file.
pub fn configuration(text: &str) {
    match Settings::load_text(Path::new("settings.toml"), text, &[]) {
        Ok(settings) => {
            let masked_toml = settings.masked_toml();
            assert!(masked_toml.parse::<toml::Table>().is_ok(), "{masked_toml}");
            // The files with secrets are not read: they may be any.
            for provider in settings.providers().unwrap_or_default() {
                settings.callers(&provider).err().iter().for_each(|error| is_a_message(&error.to_string()));
            }
        }
        Err(error) => {
            let error = error.to_string();
            assert!(error.starts_with("configuration: "), "{error}");
            is_a_message(&error);
            // Elsewhere it is an unknown word like any other, and the message names those.
            let secrets = SECRET_PLACES.iter().map(|place| text.matches(place).count()).sum::<usize>();
            let only_secret = text.matches(CANARY).count() == secrets;
            assert!(!only_secret || !error.contains(CANARY), "it repeats a secret: {error:?}");
        }
    }
}
