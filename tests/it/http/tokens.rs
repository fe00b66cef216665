//! Tokens that clients send: their length, guesses, rotation, and the sessions of the page.

use reqwest::redirect::Policy;
use reqwest::{Client, Response};

use super::*;

const OLD: &str = "canary-token-before";
const NEW: &str = "canary-token-after-it";
const PATIENCE: Duration = Duration::from_secs(30);

/// A mounted Secret: the file is a link through `..data`, which is swapped by one rename.
struct Secret(PathBuf);

impl Secret {
    fn mount(folder: PathBuf, token: &str) -> Self {
        std::fs::create_dir_all(&folder).unwrap();
        let secret = Self(folder);
        secret.swap(token);
        std::os::unix::fs::symlink("..data/token", secret.file()).unwrap();
        secret
    }

    fn file(&self) -> PathBuf {
        self.0.join("token")
    }

    fn swap(&self, token: &str) {
        let version = format!("..version-{}", std::fs::read_dir(&self.0).unwrap().count());
        std::fs::create_dir(self.0.join(&version)).unwrap();
        std::fs::write(self.0.join(&version).join("token"), format!("{token}\n")).unwrap();
        let next = self.0.join("..data_tmp");
        std::os::unix::fs::symlink(&version, &next).unwrap();
        std::fs::rename(next, self.0.join("..data")).unwrap();
    }
}

/// Sends a form without following where it leads.
async fn send(role: &Role, path: &str, token: &str, cookie: &str) -> Response {
    let client = Client::builder().no_proxy().timeout(PATIENCE).redirect(Policy::none()).build().unwrap();
    let request = client.post(format!("{}{path}", role.url)).header("cookie", cookie);
    request.form(&[("reason", "why"), ("token", token)]).send().await.unwrap()
}

async fn resume(role: &Role, token: &str, cookie: &str) -> u16 {
    send(role, "/resume", token, cookie).await.status().as_u16()
}

async fn log_in(role: &Role, token: &str) -> String {
    let answer = send(role, "/resume", token, "").await;
    assert_eq!(answer.status(), 303);
    answer.headers()["set-cookie"].to_str().unwrap().to_owned()
}

fn named(cookie: &str) -> String {
    cookie.split(';').next().unwrap().to_owned()
}

async fn hook(role: &Role, token: &str) -> Response {
    let request = role.client.post(format!("{}/tweets", role.url)).header("content-type", "application/json");
    request.bearer_auth(token).body(json!(young(1)).to_string()).send().await.unwrap()
}

#[test]
fn a_token_that_is_short_enough_to_be_guessed_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("token"), "canary-of-15-ch\n").unwrap();
    let database = path("home.db");
    let own =
        [("queue.embedded.path", &*database), ("store.sqlite.path", &database), ("twitter.api", "http://127.0.0.1:9")];
    let file = path("token");
    for (setting, value, role) in [
        ("ops.token", "canary-of-15-ch", "ops"),
        ("ops.token_file", &file, "ops"),
        ("starter.bearer_token", "canary-of-15-ch", "starter"),
        ("starter.bearer_token_file", &file, "starter"),
    ] {
        let settings = variables(&[&own[..], &[(setting, value)]].concat());
        for arguments in [&[role, "--listen", "127.0.0.1:0"][..], &["check"]] {
            let ended = run(arguments, &settings);
            let said = text(&ended.stderr);
            assert_eq!(ended.status.code(), Some(64), "{arguments:?}: {said}");
            let names = said.contains(setting) && said.contains("has 15 characters") && said.contains("at least 16");
            assert!(names && !said.contains("canary"), "{said}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_are_limited_and_the_right_token_works_while_they_come() {
    let home = Home::new().await;
    let settings = home.settings(&[("ops.token", OLD), ("starter.bearer_token", OLD)]);
    let (ops, starter) = (home.role("ops", &settings).await, home.role("starter", &settings).await);
    let limited = |answer: &Response| {
        let is_limited = answer.status() == 429;
        assert!(!is_limited || answer.headers()["retry-after"] == "1", "{answer:?}");
        is_limited
    };
    // More than one per second, however slow this machine is: each round sends thirty at once.
    let mut found = false;
    for _ in 0..20 {
        let guesses = futures::future::join_all((0..30).map(|n| {
            let ops = &ops;
            async move { send(ops, "/resume", &format!("guess-{n}"), "").await }
        }));
        let (answers, right) = tokio::join!(guesses, resume(&ops, OLD, ""));
        assert_eq!(right, 303, "the right token waits for no guess");
        assert!(answers.iter().all(|answer| answer.status() == 403 || answer.status() == 429));
        found = answers.iter().filter(|answer| limited(answer)).count() > 0;
        if found {
            break;
        }
    }
    assert!(found, "no guess was limited");
    assert_eq!(resume(&ops, OLD, "").await, 303);
    let cookie = named(&log_in(&ops, OLD).await);
    assert_eq!(resume(&ops, "", &cookie).await, 303);

    let mut found = false;
    for _ in 0..20 {
        let guesses = futures::future::join_all((0..30).map(|_| hook(&starter, "a wrong one")));
        let (answers, right) = tokio::join!(guesses, hook(&starter, OLD));
        assert_eq!(right.status(), 202);
        assert!(answers.iter().all(|answer| answer.status() == 401 || answer.status() == 429));
        found = answers.iter().filter(|answer| limited(answer)).count() > 0;
        if found {
            break;
        }
    }
    assert!(found, "no guess was limited");
    let log = home.log("ops.log");
    assert!(log.contains("a wrong token was sent to the page") && !log.contains("canary"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_token_is_applied_and_ends_the_sessions() {
    let home = Home::new().await;
    let secret = Secret::mount(home.path("secret"), OLD);
    let file = secret.file();
    let file = file.to_str().unwrap();
    let settings = home.settings(&[("ops.token_file", file), ("starter.bearer_token_file", file)]);
    let (ops, starter) = (home.role("ops", &settings).await, home.role("starter", &settings).await);
    let cookie = named(&log_in(&ops, OLD).await);
    assert_eq!(resume(&ops, "", &cookie).await, 303);

    secret.swap(NEW);
    let logs = |line: &str| ["ops", "starter"].map(|role| home.log(&format!("{role}.log")).matches(line).count());
    until_true("both log the new token", PATIENCE, async || logs("the token has changed") == [1, 1]).await;
    assert_eq!((resume(&ops, OLD, "").await, resume(&ops, NEW, "").await), (403, 303));
    assert_eq!(resume(&ops, "", &cookie).await, 403, "its session ended with its token");
    assert_eq!((hook(&starter, OLD).await.status().as_u16(), hook(&starter, NEW).await.status().as_u16()), (401, 202));

    // Tokens that cannot be used: the one in force stays, and one line says why.
    let refused = "the changed token cannot be used: the former token stays in force";
    let cookie = named(&log_in(&ops, NEW).await);
    secret.swap("canary-short");
    until_true("both refuse a short one", PATIENCE, async || logs(refused) == [1, 1]).await;
    std::fs::remove_file(secret.file()).unwrap();
    until_true("both refuse a missing one", PATIENCE, async || logs(refused) == [2, 2]).await;
    assert_eq!((resume(&ops, NEW, "").await, resume(&ops, "", &cookie).await), (303, 303));
    assert_eq!(hook(&starter, NEW).await.status(), 202);
    let log = home.log("ops.log");
    assert!(log.contains("has 12 characters") && log.contains("cannot be read") && !log.contains("canary"), "{log}");

    // Written in place, as by an editor.
    std::fs::write(secret.file(), OLD).unwrap();
    until_true("both log the last one", PATIENCE, async || logs("the token has changed") == [2, 2]).await;
    assert_eq!((resume(&ops, NEW, "").await, resume(&ops, OLD, "").await), (403, 303));
    assert_eq!(resume(&ops, "", &cookie).await, 403);
    assert_eq!((ops.stopped().await, starter.stopped().await), (Some(0), Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_logout_ends_the_session_on_the_server() {
    let home = Home::new().await;
    let ops = home.role("ops", &home.settings(&[("ops.token", OLD)])).await;
    assert!(ops.get("/").await.1.contains("action=\"/logout\""));
    let (one, other) = (named(&log_in(&ops, OLD).await), named(&log_in(&ops, OLD).await));
    // Another site's page ends no session.
    let foreign = ops.client.post(format!("{}/logout", ops.url)).header("cookie", &one);
    assert_eq!(foreign.header("sec-fetch-site", "cross-site").send().await.unwrap().status(), 403);
    assert_eq!(resume(&ops, "", &one).await, 303);
    let answer = send(&ops, "/logout", "", &one).await;
    let cookie = answer.headers()["set-cookie"].to_str().unwrap();
    assert!(answer.status() == 303 && cookie.contains("Max-Age=0"), "{cookie}");
    assert_eq!((resume(&ops, "", &one).await, resume(&ops, "", &other).await), (403, 303));
    assert_eq!(home.log("ops.log").matches("was ended by its browser").count(), 1);
    assert_eq!(ops.stopped().await, Some(0));
    let read_only = Role::start_ready("ops", &home.settings(&[]), &home.path("read-only.log")).await;
    assert!(!read_only.get("/").await.1.contains("logout"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_tls_the_cookie_is_sent_over_tls_alone() {
    let home = Home::new().await;
    for (behind_tls, name) in [("false", "twitter-updater-session="), ("true", "__Host-twitter-updater-session=")] {
        let settings = home.settings(&[("ops.token", OLD), ("http.behind_tls", behind_tls)]);
        let ops = Role::start_ready("ops", &settings, &home.path(&format!("{behind_tls}.log"))).await;
        let cookie = log_in(&ops, OLD).await;
        let parts: Vec<&str> = cookie.split(';').map(str::trim).collect();
        assert!(parts[0].starts_with(name), "{cookie}");
        for part in ["Path=/", "HttpOnly", "SameSite=Strict"] {
            assert!(parts.contains(&part), "{cookie}");
        }
        // A name with __Host- allows no domain.
        assert_eq!((parts.contains(&"Secure"), cookie.contains("Domain")), (behind_tls == "true", false), "{cookie}");
        assert_eq!(resume(&ops, "", parts[0]).await, 303);
        let renamed = parts[0].strip_prefix("__Host-").map_or_else(|| format!("__Host-{}", parts[0]), str::to_owned);
        assert_eq!(resume(&ops, "", &renamed).await, 403, "{renamed}");
        let forgotten = send(&ops, "/logout", "", parts[0]).await.headers()["set-cookie"].to_str().unwrap().to_owned();
        assert!(forgotten.starts_with(name) && forgotten.contains("Max-Age=0"), "{forgotten}");
        assert_eq!(ops.stopped().await, Some(0));
    }
}
