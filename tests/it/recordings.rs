//! Recorded answers of the real API through the real provider. What is expected comes from a plain
//! reading of the recording with `serde_json::Value`, not from our reader.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use twitter_updater::model::post::Tweet;
use twitter_updater::providers::lookup::{Answer, Lookup, LookupError, Outcome, Quota};
use twitter_updater::providers::twitter_v1::{BATCH_LIMIT, parse_ingested, parse_tweet, read_answer};
use twitter_updater::simulator::Replay;

use crate::support::http::{Canned, CannedServer, anonymous, bearer, recordings, twitter};

/// A recorded exchange, of whatever cassette.
pub struct Exchange {
    file: PathBuf,
    pub address: String,
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: String,
}

pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

pub fn json(file: &Path) -> Option<Value> {
    if file.extension()? != "json" {
        return None;
    }
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

/// Every object with a request and a response, wherever it stands.
pub fn exchanges(file: &Path, value: &Value, found: &mut Vec<Exchange>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| exchanges(file, item, found)),
        Value::Object(fields) => match (fields.get("request"), fields.get("response")) {
            (Some(request), Some(response)) => found.push(exchange(file, request, response)),
            _ => fields.values().for_each(|field| exchanges(file, field, found)),
        },
        _ => {}
    }
}

fn exchange(file: &Path, request: &Value, response: &Value) -> Exchange {
    let address = ["uri", "url"].iter().find_map(|name| request[name].as_str()).unwrap_or_default().to_owned();
    // rtweet writes status.status_code, extwitter ["HTTP/1.1", 429, "…"], the others "HTTP/1.1 200 OK".
    let status = response["status"]["status_code"]
        .as_u64()
        .or_else(|| response["status_code"][1].as_u64())
        .or_else(|| response["status"].as_u64())
        .or_else(|| response["status"].as_str()?.split(' ').find_map(|word| word.parse().ok()))
        .unwrap_or(200) as u16;
    let headers = response["headers"].as_object().into_iter().flatten();
    let headers = headers.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let body = match &response["body"] {
        Value::String(text) => text.clone(),
        Value::Object(fields) if fields.get("string").is_some_and(Value::is_string) => {
            fields["string"].as_str().unwrap().to_owned()
        }
        other => other.to_string(),
    };
    Exchange { file: file.to_owned(), address, status, headers: headers.collect(), body }
}

impl Exchange {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// As it was, but for what concerned the bytes on the recorded wire (bodies are kept unpacked).
    fn canned(&self) -> Canned {
        let transport = ["content-length", "content-encoding", "transfer-encoding", "connection", "set-cookie"];
        let mut canned = Canned::new(self.status, self.body.clone());
        for (name, value) in self.headers.iter().filter(|(name, _)| !transport.contains(&name.to_lowercase().as_str()))
        {
            canned = canned.header(name, value);
        }
        canned
    }

    /// The ids in the address, or else those in the body.
    pub fn asked(&self) -> Vec<String> {
        let query = self.address.split_once('?').map_or("", |(_, query)| query);
        let ids = query.split('&').find_map(|pair| pair.strip_prefix("id="));
        match ids {
            Some(ids) if self.address.contains("statuses/lookup") => {
                ids.replace("%2C", ",").split(',').map(str::to_owned).collect()
            }
            _ => {
                let mut seen = HashSet::new();
                let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
                let ids = body.as_array().into_iter().flatten().filter_map(plain_id);
                ids.filter(|id| seen.insert(id.clone())).take(BATCH_LIMIT).collect()
            }
        }
    }

    async fn look_up(&self, asked: &[String]) -> Result<Answer, LookupError> {
        let server = CannedServer::start(self.canned()).await;
        twitter(&server.base_url()).look_up(asked, &bearer("token")).await
    }

    fn quota(&self) -> Option<(u32, u32, i64)> {
        Some((
            self.header("x-rate-limit-limit")?.parse().ok()?,
            self.header("x-rate-limit-remaining")?.parse().ok()?,
            self.header("x-rate-limit-reset")?.parse::<i64>().ok()? * 1000,
        ))
    }
}

/// What the headers said, without when that was.
fn told(quota: Quota) -> (u32, u32, i64) {
    (quota.limit, quota.remaining, quota.reset_at)
}

pub fn plain_id(tweet: &Value) -> Option<String> {
    tweet["id_str"].as_str().map(str::to_owned).or_else(|| tweet["id"].as_u64().map(|id| id.to_string()))
}

/// `Tue Mar 21 20:50:14 +0000 2006` in ms, by counting days.
pub fn plain_date(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split(' ').collect();
    let [_, month, day, time, "+0000", year] = words[..] else { return None };
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|known| *known == month)?;
    let (day, year): (i64, i64) = (day.parse().ok()?, year.parse().ok()?);
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let years: i64 = (1970..year).map(|year| if leap(year) { 366 } else { 365 }).sum();
    let days = years + lengths[..month].iter().sum::<i64>() + day - 1;
    let seconds: Vec<i64> = time.split(':').filter_map(|part| part.parse().ok()).collect();
    let [hour, minute, second] = seconds[..] else { return None };
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000)
}

/// What makes a v1.1 tweet, to a plain reader.
pub fn is_tweet(value: &Value) -> bool {
    plain_id(value).is_some_and(|id| id.len() < 20 && !id.starts_with('0') && id.bytes().all(|b| b.is_ascii_digit()))
        && value["created_at"].as_str().and_then(plain_date).is_some()
        && (value["full_text"].is_string() || value["text"].is_string())
        && value["user"].is_object()
}

/// Whether the text of a tweet is a sentence in its place.
fn is_notice(plain: &Value) -> bool {
    let text = plain["full_text"].as_str().or(plain["text"].as_str()).unwrap_or_default();
    plain["user"]["screen_name"]
        .as_str()
        .is_some_and(|name| text.starts_with(&format!("This Tweet from @{name} has been withheld ")))
}

/// The text of a tweet, where it stands whole: of a retweet in the one it repeats.
pub fn whole_text(plain: &Value) -> Option<String> {
    let text = |of: &Value| of["full_text"].as_str().or(of["text"].as_str()).map(str::to_owned);
    let original = &plain["retweeted_status"];
    // The text of a retweet says whom it repeats, too.
    let own = text(plain).and_then(|own| Some(own.strip_prefix("RT @")?.split_once(':')?.0.to_owned()));
    match (text(original), original["user"]["screen_name"].as_str().or(own.as_deref())) {
        (Some(text), Some(name)) if !is_notice(original) => Some(format!("RT @{name}: {text}")),
        _ => text(plain).filter(|_| !is_notice(plain)),
    }
}

pub fn withheld_in(plain: &Value) -> Option<String> {
    let list = plain["withheld_in_countries"].as_array().into_iter().flatten();
    let countries: Vec<&str> = list.filter_map(Value::as_str).collect();
    let text = plain["full_text"].as_str().or(plain["text"].as_str()).unwrap_or_default();
    let sentence =
        plain["user"]["screen_name"].as_str().map(|name| format!("This Tweet from @{name} has been withheld "));
    if !countries.is_empty() {
        Some(countries.join(","))
    } else if plain["withheld_copyright"] == true {
        Some("XY".to_owned())
    } else {
        sentence.filter(|sentence| text.starts_with(sentence)).map(|_| "ZZ".to_owned())
    }
}

fn same(tweet: &Tweet, plain: &Value) {
    let id = plain_id(plain).unwrap();
    assert_eq!(tweet.id, id);
    assert_eq!(tweet.created_at, plain["created_at"].as_str().and_then(plain_date), "{id}");
    assert_eq!(tweet.text, whole_text(plain), "{id}");
    assert_eq!(tweet.withheld_in, withheld_in(plain), "{id}");
    assert_eq!(tweet.details.lang.as_deref(), plain["lang"].as_str(), "{id}");
    let id_in = |name: &str| {
        let text = plain[format!("{name}_str")].as_str().map(str::to_owned);
        text.or_else(|| Some(plain[name].as_u64()?.to_string()))
    };
    assert_eq!(tweet.details.reply_to, id_in("in_reply_to_status_id"), "{id}");
    assert_eq!(tweet.details.quote_of, id_in("quoted_status_id"), "{id}");
    assert_eq!(tweet.details.retweet_of, plain_id(&plain["retweeted_status"]), "{id}");
    let count = |name: &str| plain[name].as_i64().filter(|count| *count >= 0);
    assert_eq!(tweet.metrics.retweet_count, count("retweet_count"), "{id}");
    assert_eq!(tweet.metrics.favorite_count, count("favorite_count"), "{id}");
    assert_eq!(tweet.metrics.reply_count, count("reply_count"), "{id}");
    assert_eq!(tweet.metrics.quote_count, count("quote_count"), "{id}");
    assert_eq!(tweet.author_id, plain_id(&plain["user"]), "{id}");
    assert_eq!(tweet.author_name.as_deref(), plain["user"]["screen_name"].as_str(), "{id}");
}

fn same_outcome(outcome: &Outcome, plain: Option<&Value>) {
    match (outcome, plain) {
        (Outcome::Unavailable, None) => {}
        (Outcome::Found(tweet), Some(plain)) => same(tweet, plain),
        (outcome, plain) => panic!("{outcome:?} is not what was recorded: {plain:?}"),
    }
}

/// Asks for `asked` and compares every outcome with the recorded body, an array or a map.
fn compare(answer: &Answer, asked: &[String], body: &Value) {
    let mut plain: HashMap<String, &Value> = HashMap::new();
    match body {
        Value::Array(items) => {
            for item in items {
                plain.entry(plain_id(item).unwrap()).or_insert(item);
            }
        }
        other => {
            let map = other["id"].as_object().unwrap().iter().filter(|(_, value)| !value.is_null());
            plain.extend(map.map(|(id, value)| (id.clone(), value)));
        }
    }
    assert_eq!(answer.outcomes.len(), asked.len());
    for (id, outcome) in asked.iter().zip(&answer.outcomes) {
        // A map names what it does not return; the ids of the other body's part are not in it.
        let is_mentioned = body.get("id").is_none_or(|map| map.get(id).is_some());
        match outcome {
            Outcome::Broken(_) if !is_mentioned => {}
            outcome => same_outcome(outcome, plain.get(id).copied()),
        }
    }
    let strangers = plain.keys().filter(|id| !asked.contains(id)).count();
    assert_eq!(answer.unsolicited, strangers);
}

/// Reads a body as the answer to more ids than a call takes.
fn serve(body: &str, asked: &[String]) -> Result<Answer, LookupError> {
    let (outcomes, unsolicited) = read_answer(body.as_bytes(), asked)?;
    Ok(Answer::new(outcomes, None, unsolicited))
}

#[tokio::test]
async fn every_recorded_exchange_gives_what_it_shows() {
    let Some(dir) = recordings() else { return };
    let mut found = Vec::new();
    for file in files(&dir) {
        if let Some(value) = json(&file) {
            exchanges(&file, &value, &mut found);
        }
    }
    let (mut tweets, mut missing, mut withheld, mut refused) = (0, 0, 0, 0);
    for exchange in &found {
        println!("{}: {}", exchange.file.display(), exchange.address.chars().take(80).collect::<String>());
        let mut asked = exchange.asked();
        if asked.is_empty() {
            asked.push("20".to_owned()); // nobody is called for nothing
        }
        let body: Value = serde_json::from_str(&exchange.body).unwrap_or_default();
        let result = exchange.look_up(&asked).await;
        let is_answer = body["id"].is_object() || body.as_array().is_some_and(|items| items.iter().all(is_tweet));
        match (exchange.status, result) {
            (200, Ok(answer)) if is_answer => {
                compare(&answer, &asked, &body);
                assert_eq!(answer.quota.map(told), exchange.quota());
                for outcome in &answer.outcomes {
                    match outcome {
                        Outcome::Found(tweet) if tweet.withheld_in.is_some() => withheld += 1,
                        Outcome::Found(_) => tweets += 1,
                        _ => missing += 1,
                    }
                }
            }
            // Another endpoint's array (users) has objects with ids and without a text: nothing is found.
            (200, Ok(answer)) => {
                assert!(body.is_array(), "only a list of something else can pass for an answer");
                assert!(!answer.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Found(_))));
            }
            (200, Err(error)) => {
                assert!(!body.is_array() && !is_answer, "{error}");
                assert!(matches!(error, LookupError::BadAnswer(_)), "{error:?}");
            }
            (status, result) => {
                refused += 1;
                check_refusal(exchange, status, &body, &result.unwrap_err());
            }
        }
    }
    println!("{} exchanges: {tweets} tweets, {missing} missing, {withheld} withheld, {refused} refused", found.len());
}

fn check_refusal(exchange: &Exchange, status: u16, body: &Value, error: &LookupError) {
    let code = body["errors"][0]["code"].as_u64();
    match (status, code) {
        (429, _) => {
            let LookupError::Throttled { status: 429, quota, pause } = error else { panic!("{error:?}") };
            assert_eq!(quota.map(told), exchange.quota());
            assert!((1..=960).contains(&pause.as_secs()), "{pause:?}");
        }
        (401, Some(32 | 89)) | (400, Some(215)) => assert!(matches!(error, LookupError::Credential(_)), "{error:?}"),
        (401, None) if body["error"] == "Not authorized." => {
            assert!(matches!(error, LookupError::BadRequest(_)), "{error:?}");
        }
        (500.., _) => assert!(matches!(error, LookupError::Outage(_)), "{error:?}"),
        _ => println!("  {status} is decided as {error:?}"),
    }
}

/// The exchanges of one file; `None` where the folder or the file is not there.
fn cassette(name: &str) -> Option<Vec<Exchange>> {
    let file = files(&recordings()?).into_iter().find(|file| file.ends_with(name));
    let Some(file) = file else {
        println!("skipped: {name} is not among the recordings");
        return None;
    };
    let mut found = Vec::new();
    exchanges(&file, &json(&file)?, &mut found);
    Some(found)
}

#[tokio::test]
async fn lookup_tweets_is_withheld_and_keeps_its_counts() {
    let Some(found) = cassette("tests/fixtures/lookup_tweets.json") else { return };
    let asked = found[0].asked();
    let answer = found[0].look_up(&asked).await.unwrap();
    let [Outcome::Found(tweet)] = &answer.outcomes[..] else { panic!("{:?}", answer.outcomes) };
    assert_eq!((tweet.withheld_in.as_deref(), tweet.text.as_ref()), (Some("XY"), None));
    // A retweet: its own like count, not the original's 25,559.
    assert_eq!((tweet.metrics.retweet_count, tweet.metrics.favorite_count), (Some(11_824), Some(0)));
    assert_eq!(answer.quota.map(told), Some((300, 299, 1_667_943_156_000)));
}

#[tokio::test]
async fn the_rtweet_lookups_find_what_was_there() {
    for (name, asked, back) in [
        ("tests/fixtures/ids1.json", vec![3], vec![2]),
        ("tests/fixtures/geo_objects1.json", vec![7], vec![2]),
        ("tests/fixtures/ids11.json", vec![10], vec![10]),
        ("tests/fixtures/ids12.json", vec![1; 7], vec![0, 0, 1, 1, 0, 1, 1]),
    ] {
        let Some(found) = cassette(name) else { return };
        let lookups: Vec<&Exchange> =
            found.iter().filter(|exchange| exchange.address.contains("statuses/lookup")).collect();
        let mut numbers = (Vec::new(), Vec::new());
        for exchange in lookups {
            let ids = exchange.asked();
            let answer = exchange.look_up(&ids).await.unwrap();
            numbers.0.push(ids.len());
            numbers.1.push(answer.outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Found(_))).count());
        }
        assert_eq!(numbers, (asked, back), "{name}");
    }
}

#[tokio::test]
async fn a_recorded_429_rests_until_its_reset() {
    let Some(found) = cassette("custom_cassettes/rate_limit_exceed.json") else { return };
    let error = found[0].look_up(&["20".to_owned()]).await.unwrap_err();
    let LookupError::Throttled { status, pause, quota } = error else { panic!("{error:?}") };
    assert_eq!((status, quota.unwrap().remaining), (429, 0));
    // From its Date, 13:38:32, to its reset, 1422021121 = 13:52:01.
    assert_eq!(pause.as_secs(), 809);
}

#[tokio::test]
async fn a_recorded_401_about_a_target_spares_the_credential() {
    let Some(found) = cassette("tests/fixtures/get_favorites3.json") else { return };
    let error = found[0].look_up(&["20".to_owned()]).await.unwrap_err();
    assert!(matches!(error, LookupError::BadRequest(_)), "{error:?}");
}

#[tokio::test]
async fn recorded_error_bodies_keep_their_meaning() {
    let Some(dir) = recordings() else { return };
    for file in files(&dir) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let status = match name.as_str() {
            "not_found.json" => 404,
            name if name.starts_with("error-") && name.contains("token") => 401,
            _ => continue,
        };
        let server = CannedServer::start(Canned::new(status, std::fs::read(&file).unwrap())).await;
        let error = twitter(&server.base_url()).look_up(&["20".to_owned()], &anonymous()).await.unwrap_err();
        match status {
            401 => assert!(matches!(error, LookupError::Credential(_)), "{name}: {error:?}"),
            _ => assert!(matches!(error, LookupError::Outage(_)), "{name}: {error:?}"),
        }
    }
}

#[test]
fn the_101_first_tweets_come_in_both_forms() {
    let Some(dir) = recordings() else { return };
    let dir = dir.join("bear+python-twitter/testdata");
    let Ok(list) = std::fs::read_to_string(dir.join("get_statuses.ids.txt")) else { return };
    let listed: Vec<String> = list.lines().map(str::to_owned).collect();
    let mut found = HashSet::new();
    for name in ["get_statuses.1.json", "get_statuses.2.json", "get_statuses.map.1.json", "get_statuses.map.2.json"] {
        let body = std::fs::read_to_string(dir.join(name)).unwrap();
        let plain: Value = serde_json::from_str(&body).unwrap();
        let answer = serve(&body, &listed).unwrap();
        compare(&answer, &listed, &plain);
        for (id, outcome) in listed.iter().zip(&answer.outcomes) {
            if let Outcome::Found(tweet) = outcome {
                assert_eq!(tweet.id, *id);
                found.insert((name.contains("map"), id));
            }
        }
    }
    assert_eq!((listed.len(), found.len()), (101, 202));
}

#[test]
fn arrays_of_other_endpoints_read_the_same() {
    let Some(dir) = recordings() else { return };
    let (mut rounded, mut unknown) = (0, 0);
    for file in files(&dir) {
        let Some(value) = json(&file) else { continue };
        // A plain array of tweets, or the one in a search's answer.
        let Some(items) = value.as_array().or_else(|| value["statuses"].as_array()) else { continue };
        if items.is_empty() || !items.iter().all(is_tweet) {
            continue;
        }
        let asked: Vec<String> = items.iter().filter_map(plain_id).collect();
        let body = Value::from(items.clone());
        compare(&serve(&body.to_string(), &asked).unwrap(), &asked, &body);
        let numbers = items.iter().filter_map(|item| Some((item["id"].as_u64()?, plain_id(item)?)));
        rounded += numbers.filter(|(number, text)| number.to_string() != *text).count();
        unknown += items.iter().filter(|item| item["retweet_count"].as_i64().is_none()).count();
    }
    println!("{rounded} tweets with a rounded id, {unknown} without a known retweet_count");
}

/// Every tweet in a value, also inside others and inside strings of JSON.
pub fn tweets(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| tweets(item, found)),
        Value::Object(fields) => {
            if is_tweet(value) {
                found.push(value.clone());
            }
            fields.values().for_each(|field| tweets(field, found));
        }
        Value::String(text) if text.starts_with(['[', '{']) => {
            if let Ok(inner) = serde_json::from_str(text) {
                tweets(&inner, found);
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn every_recorded_tweet_reads_as_it_plainly_does() {
    let Some(dir) = recordings() else { return };
    let mut found = Vec::new();
    for file in files(&dir) {
        if let Some(value) = json(&file) {
            tweets(&value, &mut found);
        }
    }
    let mut ids = HashSet::new();
    for plain in &found {
        let raw = plain.to_string();
        let read = [parse_tweet(&raw), parse_ingested(&raw)];
        for tweet in read {
            same(&tweet.unwrap_or_else(|why| panic!("{why}: {raw}")), plain);
        }
        ids.insert(plain_id(plain).unwrap());
    }
    // The simulator finds the same tweets, and serves what reads the same.
    let replay = Replay::load(&dir).unwrap();
    assert_eq!(replay.ids().map(str::to_owned).collect::<HashSet<_>>(), ids);
    for id in &ids {
        let raw = replay.get(id).unwrap();
        same(&parse_tweet(raw).unwrap(), &serde_json::from_str(raw).unwrap());
    }
    println!("{} recorded tweets, {} ids", found.len(), ids.len());
}

#[tokio::test]
async fn no_file_makes_the_reader_panic() {
    let Some(dir) = recordings() else { return };
    for file in files(&dir) {
        let bytes = std::fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let _ = (parse_tweet(&text), parse_ingested(&text));
        let server = CannedServer::start(Canned::new(200, bytes.clone())).await;
        let result = twitter(&server.base_url()).look_up(&["20".to_owned()], &anonymous()).await;
        assert!(matches!(result, Ok(_) | Err(LookupError::BadAnswer(_))), "{}: {result:?}", file.display());
        // Cut anywhere, it is no answer either.
        for part in 1..8 {
            let cut = &bytes[..bytes.len() * part / 8];
            let text = String::from_utf8_lossy(cut);
            let _ = (parse_tweet(&text), parse_ingested(&text));
        }
    }
}
