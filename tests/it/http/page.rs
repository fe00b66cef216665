//! The page as it is served: what it shows, what it refuses, how it stays live and how it ends.

use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use twitter_updater::engine::queue::{EmbeddedQueue, Inspection, Job, Jobs, Verdict};
use twitter_updater::model::post::{ItemState, Metrics, Tweet};
use twitter_updater::pipelines::posts::NAMESPACE;
use twitter_updater::store::{Finding, Lifecycle, Observation, Posts, SqliteStore};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);
const TOKEN: &str = "canary-9d-of-the-page";
const SECTIONS: [&str; 7] = ["freshness", "lateness", "coming", "flow", "quota", "workers", "dead"];

impl Home {
    async fn store(&self) -> SqliteStore {
        let store = SqliteStore::open(&self.path("home.db"), PATIENCE).await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    async fn queue(&self) -> EmbeddedQueue {
        EmbeddedQueue::open(&self.path("home.db"), NAMESPACE, PATIENCE).await.unwrap()
    }

    /// These are dead, as the updater leaves them: in the store, then in the queue.
    async fn mark_dead(&self, ids: &[String], reason: &str) {
        let dead: Vec<_> = ids.iter().map(|id| (id.clone(), reason.to_owned())).collect();
        self.store().await.mark_dead(NAMESPACE, wall_ms(), &dead).await.unwrap();
        let queue = self.queue().await;
        for ids in ids.chunks(500) {
            let taken = queue.adopt(&format!("bury-{}", ids[0]), ids, PATIENCE).await.unwrap();
            let verdict = |id: &String| {
                let job = Job {
                    id: id.clone(),
                    lane: "x".into(),
                    due: 0,
                    deliveries: 0,
                    failures: 0,
                    order: Default::default(),
                };
                (job, Verdict::MarkDead { reason: reason.to_owned() })
            };
            let verdicts: Vec<_> = ids.iter().map(verdict).collect();
            assert_eq!(queue.settle(&taken.fence, &verdicts, &[]).await.unwrap().settled, ids.len() as u64);
        }
    }
}

/// The next events of that name, as what is in them; `None` at the end.
struct Events {
    response: Response,
    text: String,
}

impl Events {
    async fn of(role: &Role, path: &str) -> Self {
        let response = role.client.get(format!("{}{path}", role.url)).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
        Self { response, text: String::new() }
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: ")).map(str::to_owned);
                let is_ours = event.lines().any(|line| line == "event: figures");
                self.text = rest.to_owned();
                if let Some(data) = data.filter(|_| is_ours) {
                    return Some(serde_json::from_str(&data).unwrap());
                }
                continue;
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("it goes on");
            self.text += std::str::from_utf8(&chunk.unwrap()?).unwrap();
        }
    }
}

/// The text of the element with that id: what stands before its end, as far as it matters here.
fn element<'a>(page: &'a str, id: &str) -> &'a str {
    let at = page.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no #{id}: {page}"));
    let rest = &page[at..];
    &rest[..rest.find("</p>").or_else(|| rest.find("</section>")).unwrap_or(rest.len())]
}

fn tweet(id: &str, text: &str, likes: i64) -> Tweet {
    Tweet {
        id: id.to_owned(),
        created_at: None,
        text: Some(text.to_owned()),
        author_id: Some("1".to_owned()),
        author_name: Some("<i>me</i>".to_owned()),
        metrics: Metrics { favorite_count: Some(likes), retweet_count: Some(1), ..Metrics::default() },
        raw: "{}".to_owned(),
        ..Tweet::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_answers_whether_all_is_fresh_and_finds_a_tweet() {
    let home = Home::new().await;
    let settings = home.settings(&[]);
    let (starter, updater) = (home.role("starter", &settings).await, home.role("updater", &settings).await);
    let ops = home.role("ops", &settings).await;
    let ids = young(30);
    assert_eq!(post(&starter, &ids).await.0, 202);
    until_true("all is fresh, and it says of how many", PATIENCE, async || {
        let page = ops.get("/").await.1;
        page.contains("data-state=\"fresh\"") && element(&page, "freshness").contains("30 posts")
    })
    .await;
    let response = ops.client.get(&ops.url).send().await.unwrap();
    let headers = response.headers().clone();
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    assert!(header("content-security-policy").starts_with("default-src 'self';"));
    assert!(header("content-security-policy").contains("frame-ancestors 'none'"));
    let expected = [("x-content-type-options", "nosniff"), ("referrer-policy", "same-origin")];
    for (name, value) in expected.into_iter().chain([("x-frame-options", "DENY"), ("cache-control", "no-store")]) {
        assert_eq!(header(name), value);
    }
    let page = response.text().await.unwrap();
    for id in SECTIONS {
        assert!(page.contains(&format!("id=\"{id}\"")), "no #{id}: {page}");
    }
    // What such a policy would refuse.
    assert!(!page.contains("style=") && !page.contains("<style") && !page.contains("<script>"), "{page}");

    until_true("it was looked up", PATIENCE, async || {
        ops.get(&format!("/tweet?id={}", ids[0])).await.1.contains("likes")
    })
    .await;
    for asked in
        [ids[0].clone(), format!("%20{}", ids[0]), format!("https%3A%2F%2Fx.com%2Fme%2Fstatus%2F{}%3Fs%3D20", ids[0])]
    {
        let (status, page) = ops.get(&format!("/tweet?id={asked}")).await;
        assert_eq!(status, 200);
        assert!(
            ["waiting in", "due in", "leased"].iter().any(|place| element(&page, "place").contains(place)),
            "{page}"
        );
        assert!(page.contains("role=\"img\" aria-label=\"Counts by the post"), "{page}");
    }
    let unknown = TweetId::at(wall_ms() - 120_000, 77);
    for (asked, status, says) in [
        (unknown.to_string(), 404, "Unknown to queue and store"),
        (String::new(), 400, "the id is empty"),
        ("12345678901234567890".to_owned(), 400, "20 digits"),
        ("1e18".to_owned(), 400, "scientific"),
        ("%3Cscript%3E".to_owned(), 400, "not a digit"),
        ("%22%3E%3Cimg%20src%3Dx%3E".to_owned(), 400, "not a digit"),
        ("9".repeat(4_000), 400, "4000 digits"),
    ] {
        let (got, page) = ops.get(&format!("/tweet?id={asked}")).await;
        assert_eq!(got, status, "{asked}");
        assert!(element(&page, "problem").contains(says), "{asked}: {page}");
        assert!(!page.contains("<script>") && !page.contains("<img"), "{page}");
    }
    // What was typed stands there again.
    let page = ops.get("/tweet?id=%22%3Eabc").await.1;
    assert!(page.contains("value=\"&quot;&gt;abc\""), "{page}");
    assert_eq!(ops.get("/tweet").await.0, 400);
    for role in [starter, updater, ops] {
        assert_eq!(role.stopped().await, Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_tweet_says_stays_text_and_its_counts_are_drawn_by_its_age() {
    let home = Home::new().await;
    let settings = home.settings(&[("tweet_age", "18m: 3m, 60m: 10m, 1d: 1h")]);
    let store = home.store().await;
    let made = wall_ms() - 2 * 3_600_000;
    let id = TweetId::at(made, 1).to_string();
    let text = "</blockquote><script>alert(1)</script><img onerror=x> \"'& \u{202e}abc";
    for (age, likes) in [(180_000, 3), (1_800_000, 40), (7_000_000, 4_100)] {
        let observation = Observation {
            id: id.clone(),
            answered_at: made + age,
            finding: Finding::Found(tweet(&id, text, likes)),
            state: ItemState::Live,
            next_due: Some(wall_ms() + 60_000),
            follow: None,
            forget: false,
            recent: None,
        };
        assert_eq!(store.save(NAMESPACE, &[observation]).await.unwrap().saved, 1);
    }
    let ops = home.role("ops", &settings).await;
    let (status, page) = ops.get(&format!("/tweet?id={id}")).await;
    assert_eq!(status, 200);
    assert!(page.contains("&lt;/blockquote&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;img onerror=x&gt;"), "{page}");
    assert!(page.contains("&lt;i&gt;me&lt;/i&gt;") && !page.contains("<i>") && !page.contains("<img"), "{page}");
    // The store alone knows it.
    assert!(element(&page, "place").contains("not in the queue"), "{page}");
    let chart = &page[page.find("role=\"img\"").unwrap()..page.find("</figure>").unwrap()];
    for word in ["18m", "60m", "1d", "10m", "1h"] {
        assert!(chart.contains(&format!(">\n{word}\n</text>")), "{word}: {chart}");
    }
    assert!(chart.contains("4,100 likes, 1 retweets at the age of 1h 56m"), "{chart}");
    let table = &page[page.find("<tbody>").unwrap()..page.find("</tbody>").unwrap()];
    let rows: Vec<_> = table.matches("<tr>").collect();
    let likes: Vec<usize> =
        ["4,100", "40", "3"].iter().map(|count| table.find(&format!(">{count}<")).unwrap()).collect();
    assert!(rows.len() == 3 && likes.is_sorted(), "the newest first: {table}");
    // A lookup that did not find it has no counts.
    let at = made + 7_100_000;
    let missed = Observation {
        id: id.clone(),
        answered_at: at,
        finding: Finding::Missing { misses: 1, since: at, reason: None, handle: None },
        state: ItemState::Live,
        next_due: Some(wall_ms() + 60_000),
        follow: None,
        forget: false,
        recent: None,
    };
    assert_eq!(store.save(NAMESPACE, &[missed]).await.unwrap().saved, 1);
    let page = ops.get(&format!("/tweet?id={id}")).await.1;
    assert!(page.contains("1 times in a row") && page.contains("1 retweets at the age of 1h 56m"), "{page}");
    let table = &page[page.find("<tbody>").unwrap()..page.find("</tbody>").unwrap()];
    assert_eq!(table.matches("<tr>").count(), 3, "{table}");
    assert_eq!(ops.stopped().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changes_comes_by_itself_and_a_stop_ends_it_at_once() {
    let home = Home::new().await;
    // Whoever is in work could go on for long.
    let settings = home.settings(&[("http.drain_notice", "0s"), ("updater.drain_deadline", "10m")]);
    let starter = home.role("starter", &settings).await;
    let mut ops = home.role("ops", &settings).await;
    let ids = young(3);
    assert_eq!(post(&starter, &ids[..2]).await.0, 202);
    let mut events = Events::of(&ops, "/events").await;
    let mut tweet = Events::of(&ops, &format!("/events?tweet={}", ids[0])).await;
    let first = events.next().await.unwrap();
    for id in SECTIONS.into_iter().chain(["headline"]) {
        assert!(first["parts"][id].as_str().unwrap().contains(&format!("id=\"{id}\"")), "{first}");
    }
    assert!(first["parts"]["freshness"].as_str().unwrap().contains("2 posts"), "{first}");
    let page = ops.get("/").await.1;
    assert!(page.contains(&format!("data-version={}", first["version"])), "{page}");
    assert!(tweet.next().await.unwrap()["parts"]["tweet"].as_str().unwrap().contains("id=\"place\""));

    assert_eq!(post(&starter, &ids[2..]).await.0, 202);
    let mut at = first["at"].as_i64().unwrap();
    loop {
        let event = events.next().await.unwrap();
        assert!(event["at"].as_i64().unwrap() > at, "{event}");
        at = event["at"].as_i64().unwrap();
        // What is as it was is not sent again.
        assert!(event["parts"]["workers"].is_null(), "{event}");
        if event["parts"]["freshness"].as_str().is_some_and(|part| part.contains("3 posts")) {
            break;
        }
    }
    for bad in ["/events?tweet=abc", "/events?tweet="] {
        assert_eq!(ops.get(bad).await.0, 400);
    }

    ops.process.signal("TERM");
    while events.next().await.is_some() {}
    while tweet.next().await.is_some() {}
    assert_eq!(ops.process.ended(PATIENCE).await.code(), Some(0), "{}", home.log("ops.log"));
    assert!(!home.log("ops.log").contains("cut off"), "{}", home.log("ops.log"));
    assert_eq!(starter.stopped().await, Some(0));
}

/// Fields of a form, or headers.
type Pairs<'a> = &'a [(&'a str, &'a str)];

/// A client that is not led on.
fn still() -> Client {
    Client::builder().no_proxy().timeout(PATIENCE).redirect(Policy::none()).build().unwrap()
}

async fn send(role: &Role, path: &str, fields: &[(&str, &str)], headers: &[(&str, &str)]) -> (u16, String, String) {
    let mut request = still().post(format!("{}{path}", role.url)).form(fields);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    let to = response.headers().get("location").map(|to| to.to_str().unwrap().to_owned()).unwrap_or_default();
    (response.status().as_u16(), to, response.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_are_retried_and_dropped_by_who_has_the_token() {
    let home = Home::new().await;
    let ids = young(4);
    home.mark_dead(&ids, "it kept failing: <b>500</b>").await;
    let (store, queue) = (home.store().await, home.queue().await);
    let state = async |id: &String| store.tweet(NAMESPACE, id).await.unwrap().unwrap().state;

    let read_only = home.role("ops", &home.settings(&[])).await;
    let (status, page) = read_only.get("/dead").await;
    assert_eq!(status, 200);
    assert!(page.contains(&ids[0]) && page.contains("&lt;b&gt;500&lt;/b&gt;") && !page.contains("<b>"), "{page}");
    assert!(!page.contains("/dead/retry") && page.contains("read-only"), "{page}");
    for fields in [&[("id", &*ids[0]), ("token", "")][..], &[("id", &ids[0]), ("token", TOKEN)], &[]] {
        let (status, _, page) = send(&read_only, "/dead/retry", fields, &[]).await;
        assert!(status == 403 && element(&page, "problem").contains("ops.token_file"), "{page}");
    }
    assert_eq!(read_only.stopped().await, Some(0));

    let file = home.path("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let with_token = home.settings(&[("ops.token_file", file.to_str().unwrap()), ("log.level", "trace")]);
    let log = home.path("with_token.log");
    let ops = Role::start_ready("ops", &with_token, &log).await;
    let mut said = ops.get("/dead").await.1;
    assert!(said.contains("action=\"/dead/retry\"") && said.contains("formaction=\"/dead/drop\""), "{said}");
    let own = [("origin", &*ops.url), ("sec-fetch-site", "same-origin")];
    let elsewhere: [Pairs<'_>; 2] =
        [&[("origin", "https://example.com"), ("sec-fetch-site", "cross-site")], &[("origin", "null")]];
    let right = [("id", &*ids[0]), ("token", TOKEN)];
    let refused: [(Pairs<'_>, Pairs<'_>, u16, &str); 6] = [
        (&right, elsewhere[0], 403, "another site"),
        (&right, elsewhere[1], 403, "another site"),
        (&[("id", &ids[0]), ("token", "canary-wrong")], &own, 403, "wrong token"),
        (&[("id", &ids[0])], &own, 400, "the fields id and token"),
        (&[("id", "<script>"), ("token", TOKEN)], &own, 400, "not a digit"),
        (&[("id", "1460323737035677698"), ("token", TOKEN)], &own, 409, "neither the queue nor the store"),
    ];
    for (fields, headers, status, says) in refused {
        let (got, to, page) = send(&ops, "/dead/retry", fields, headers).await;
        assert!(got == status && page.contains(says), "{status}: {got} {page}");
        said += &(page + &to);
    }
    for id in &ids {
        assert_eq!(state(id).await, ItemState::Dead);
    }
    let (status, to, _) = send(&ops, "/dead/retry", &right, &own).await;
    assert_eq!((status, &*to), (303, &*format!("/dead?retried={}", ids[0])));
    let answer = ops.get(&to).await.1;
    assert!(element(&answer, "notice").contains("is tracked again"), "{answer}");
    assert_eq!(state(&ids[0]).await, ItemState::Live);
    assert_eq!(queue.locate(&ids[..1]).await.unwrap()[0].len(), 1);
    // Once more: it lives already.
    let (status, to, _) = send(&ops, "/dead/retry", &right, &own).await;
    assert_eq!((status, &*to), (303, &*format!("/dead?already={}", ids[0])));
    assert!(element(&ops.get(&to).await.1, "notice").contains("not dead any more"));
    // What it tells is no place for what others write.
    assert!(!ops.get("/dead?retried=%3Cb%3Eyou").await.1.contains("id=\"notice\""));
    // A program has no origin.
    let (status, to, _) = send(&ops, "/dead/drop", &[("id", &ids[1]), ("token", TOKEN)], &[]).await;
    assert_eq!((status, &*to), (303, &*format!("/dead?dropped={}", ids[1])));
    assert_eq!(state(&ids[1]).await, ItemState::Ended);
    said += &(ops.get(&to).await.1 + &to + &ops.get("/").await.1 + &ops.get("/metrics").await.1);
    assert_eq!(ops.get("/dead/retry").await.0, 405);
    assert_eq!(ops.stopped().await, Some(0));
    said += &std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("DEBUG") && said.contains("a wrong token"), "{said}");
    assert!(!said.contains("canary"), "{}", said.lines().find(|line| line.contains("canary")).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_are_listed_page_by_page() {
    let home = Home::new().await;
    let ids = young(120);
    home.mark_dead(&ids, "no reason").await;
    // The queue alone knows these.
    let lost = (0..3).map(|n| TweetId::at(wall_ms() - 90_000, n).to_string()).collect::<Vec<_>>();
    let taken = home.queue().await.adopt("lost", &lost, PATIENCE).await.unwrap();
    let verdict = |id: &String| {
        let job =
            Job { id: id.clone(), lane: "x".into(), due: 0, deliveries: 0, failures: 0, order: Default::default() };
        (job, Verdict::MarkDead { reason: "lost".to_owned() })
    };
    home.queue().await.settle(&taken.fence, &lost.iter().map(verdict).collect::<Vec<_>>(), &[]).await.unwrap();
    let ops = home.role("ops", &home.settings(&[])).await;
    let (mut path, mut seen, mut pages) = ("/dead".to_owned(), Vec::new(), 0);
    loop {
        let (status, page) = ops.get(&path).await;
        assert_eq!(status, 200);
        seen.extend(page.split("/tweet?id=").skip(1).map(|rest| rest[..rest.find('"').unwrap()].to_owned()));
        pages += 1;
        let Some(next) = page.split("href=\"").find(|rest| rest.contains("rel=\"next\"")) else { break };
        next[..next.find('"').unwrap()].clone_into(&mut path);
        assert!(pages < 20, "it ends");
    }
    let mut all = [ids, lost].concat();
    all.sort();
    seen.sort();
    assert_eq!(seen, all, "{pages} pages");
    assert!(ops.get("/").await.1.contains("123 posts"));
    assert_eq!(ops.stopped().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_goes_on_without_the_queue_and_without_the_store() {
    let home = Home::new().await;
    let mut redis = TestRedis::start(&["--appendonly", "yes"]);
    let no_store = [("store.backend", "postgres"), ("store.postgres.url", "postgres://me:canary@127.0.0.1:9/none")];
    let settings = home.on(&redis, &[&no_store[..], &[("queue.redis.response_timeout", "1s")]].concat());
    let ops = home.role("ops", &settings).await;
    // It has asked nothing else.
    until_true("it says what answers", PATIENCE, async || home.log("ops.log").contains("the queue answers")).await;
    let page = ops.get("/").await.1;
    assert!(
        element(&page, "answer").contains("data-state=\"stopped\"") && page.contains("the store does not answer"),
        "{page}"
    );
    assert!(page.contains("No posts are scheduled"), "{page}");
    let mut said = page;
    for path in ["/dead".to_owned(), format!("/tweet?id={}", young(1)[0])] {
        let (status, page) = ops.get(&path).await;
        assert!(status == 503 && page.contains("id=\"problem\""), "{page}");
        said += &page;
    }
    let mut events = Events::of(&ops, "/events").await;
    events.next().await.unwrap();
    redis.kill();
    loop {
        let event = events.next().await.unwrap();
        if let Some(headline) = event["parts"]["headline"].as_str().filter(|part| part.contains("unknown")) {
            assert!(headline.contains("The figures below are old"), "{headline}");
            break;
        }
    }
    // Who comes now sees no figures, and why.
    let page = ops.get("/").await.1;
    assert!(element(&page, "answer").contains("data-state=\"unknown\""), "{page}");
    redis.start_again();
    until_true("it has figures again", PATIENCE, async || element(&ops.get("/").await.1, "answer").contains("stopped"))
        .await;
    said += &page;
    assert_eq!(ops.stopped().await, Some(0));
    said += &home.log("ops.log");
    assert!(!said.contains("canary"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_page_loads_comes_from_the_binary_and_is_kept() {
    let home = Home::new().await;
    let ops = home.role("ops", &home.settings(&[])).await;
    let page = ops.get("/").await.1;
    for (path, kind) in [("/page.css", "text/css"), ("/page.js", "text/javascript"), ("/icon.svg", "image/svg+xml")] {
        assert!(page.contains(&format!("\"{path}?")), "{page}");
        let response = ops.client.get(format!("{}{path}", ops.url)).send().await.unwrap();
        assert!(response.headers()["content-type"].to_str().unwrap().starts_with(kind));
        let tag = response.headers()["etag"].clone();
        assert!(response.text().await.unwrap().len() > 100);
        let again = ops.client.get(format!("{}{path}", ops.url)).header("if-none-match", tag).send().await.unwrap();
        assert_eq!((again.status(), again.text().await.unwrap().len()), (StatusCode::NOT_MODIFIED, 0));
    }
    // Nothing is named that is elsewhere.
    let elsewhere = page.split(['"', '\'']).find(|part| part.starts_with("http") || part.starts_with("//"));
    assert_eq!(elsewhere, None);
    assert_eq!(ops.stopped().await, Some(0));
}
