//! What a person does on the page: who has the token, once a session.

use super::*;

async fn paused(stage: &Stage) -> Option<String> {
    stage.world.queue.stats().await.unwrap().paused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_is_asked_once_and_then_everything_goes() {
    let stage = Stage::new(&[("ops.token", TOKEN)]).await;
    stage.until_updated().await;
    let browser = Browser::start().await;
    browser.open(&stage.url("/")).await;
    browser.click("#hands summary").await;
    browser.type_into("form[action='/pause'] input[name=reason]", "the database moves").await;
    browser.click("form[action='/pause'] button").await;
    browser.until_text("#problem", "wants the token", |text| text.contains("enter the token")).await;
    assert_eq!(paused(&stage).await, None);

    browser.open(&stage.url("/")).await;
    browser.click("#hands summary").await;
    browser.type_into("form[action='/pause'] input[name=reason]", "the database moves").await;
    browser.type_into("form[action='/pause'] input[name=token]", TOKEN).await;
    browser.click("form[action='/pause'] button").await;
    browser
        .until_text("#answer", "says why", |text| text.contains("it is paused") && text.contains("the database moves"))
        .await;
    assert_eq!(paused(&stage).await.as_deref(), Some("the database moves"));

    // From now on without it: this browser sent it before.
    browser.click("#hands summary").await;
    browser.click("form[action='/resume'] button").await;
    until_true("it goes on", PATIENCE, async || paused(&stage).await.is_none()).await;
    let id = &stage.ids[2];
    browser.open(&stage.url(&format!("/tweet?id={id}"))).await;
    browser.click("#refresh button").await;
    // The page that it leads to is the same one; the log tells.
    let log = || std::fs::read_to_string(stage.log("ops.log")).unwrap();
    until_true("each act is in the log", PATIENCE, async || {
        ["paused on the page", "resumed on the page", "post made due"].iter().all(|act| log().contains(act))
    })
    .await;
    assert!(!log().contains(TOKEN), "{}", log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_no_token_does_nothing() {
    let form = |token: &'static str| [("reason", "why"), ("id", "20"), ("sure", "yes"), ("token", token)];
    for (settings, tokens) in [(&[][..], ["", TOKEN]), (&[("ops.token", TOKEN)][..], ["", "not it"])] {
        let stage = Stage::new(settings).await;
        stage.mark_dead(1, "refused (HTTP 400)").await;
        for path in ["/pause", "/resume", "/refresh", "/dead/retry-all", "/dead/drop-all"] {
            for token in tokens {
                let request = stage.ops.client.post(stage.url(path)).form(&form(token));
                assert_eq!(request.send().await.unwrap().status().as_u16(), 403, "{path} {token:?}");
            }
            for (header, value) in [("origin", "https://elsewhere.example"), ("sec-fetch-site", "cross-site")] {
                let request = stage.ops.client.post(stage.url(path)).header(header, value).form(&form(TOKEN));
                assert_eq!(request.send().await.unwrap().status().as_u16(), 403, "{path} {header}");
            }
            let cookie = ("cookie", "twitter-updater-session=AAAA");
            let request = stage.ops.client.post(stage.url(path)).header(cookie.0, cookie.1).form(&form(""));
            assert_eq!(request.send().await.unwrap().status().as_u16(), 403, "{path} with a made-up session");
        }
        assert_eq!((paused(&stage).await, stage.world.queue.stats().await.unwrap().dead), (None, 1));
        let browser = Browser::start().await;
        browser.open(&stage.url("/")).await;
        assert_eq!(browser.count("#hands").await, u64::from(!settings.is_empty()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_done_is_said() {
    let stage = Stage::new(&[("ops.token", TOKEN)]).await;
    let send = async |path: &str, form: &[(&str, &str)]| {
        stage.ops.client.post(stage.url(path)).form(form).send().await.unwrap().status().as_u16()
    };
    assert_eq!(send("/pause", &[("token", TOKEN), ("reason", " ")]).await, 400, "others will ask why");
    assert_eq!(send("/refresh", &[("token", TOKEN), ("id", "20")]).await, 409, "nobody knows it");
    assert_eq!(send("/refresh", &[("token", TOKEN), ("id", "<b>")]).await, 400);
    assert_eq!(send("/pause", &[("reason", "why")]).await, 400, "no token at all");
    assert_eq!(paused(&stage).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_begins_also_where_nothing_could_be_done() {
    let stage = Stage::new(&[("ops.token", TOKEN)]).await;
    for path in ["/refresh", "/dead/retry", "/dead/drop"] {
        let send = async |token: &str, cookie: &str| {
            let request = stage.ops.client.post(stage.url(path)).header("cookie", cookie);
            request.form(&[("id", "20"), ("token", token)]).send().await.unwrap()
        };
        let answer = send(TOKEN, "").await;
        assert_eq!(answer.status().as_u16(), 409, "{path}: nobody knows it");
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        assert_eq!(send("", &cookie).await.status().as_u16(), 409, "{path}: this browser may");
    }
}
