//! Addresses: users and single posts, what is refused in each network's form, and what every answer has.

use super::*;

/// An author of the simulated world: its id and its handle.
const USER: (&str, &str) = ("49602", "tiny_heron0");

async fn get(running: &Running, target: &str) -> (u16, Value) {
    let (status, _, body) = raw(running, "GET", target, None, "").await;
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn an_unknown_address_is_refused_in_its_network_s_form() {
    let running = start(plain()).await;
    assert_eq!(get(&running, "/1.1/nowhere.json").await.1["errors"][0]["code"], 34);
    let x = json!({ "title": "Not Found", "detail": "Not Found", "type": "about:blank", "status": 404 });
    assert_eq!(get(&running, "/2/nowhere").await, (404, x));
    assert_eq!(get(&running, "/xrpc/app.bsky.nowhere").await.1["error"], "XRPCNotSupported");
    let (status, headers, page) = raw(&running, "GET", "/api/v1/nowhere", None, "").await;
    assert_eq!((status, headers["content-type"].as_str()), (404, "text/html; charset=utf-8"), "{page}");
    let (status, _, body) = request(&running, "GET", "/api/v1/nowhere", &["Accept: application/json"]).await;
    assert_eq!((status, &*body), (404, &br#"{"error":"Not Found"}"#[..]));
    // And by a method that an address does not have.
    for (target, status, says) in [
        ("/2/tweets", 405, "Method Not Allowed"),
        ("/xrpc/app.bsky.feed.getPosts", 400, "Incorrect HTTP method (PUT) expected GET"),
        ("/1.1/statuses/lookup.json", 404, "Sorry, that page does not exist."),
    ] {
        let (told, _, body) = raw(&running, "PUT", target, None, "").await;
        assert!(told == status && body.contains(says), "{target}: {told} {body}");
    }
}

#[tokio::test]
async fn mastodon_s_addresses_may_end_with_a_slash() {
    let running = start(plain()).await;
    let id = simulator::mastodon_id(wall_ms() - DAY, 1);
    for target in [
        "/api/v2/instance".to_owned(),
        "/api/v1/instance".to_owned(),
        "/api/v1/timelines/public".to_owned(),
        "/api/v1/timelines/tag/rust".to_owned(),
        format!("/api/v1/accounts/{}/statuses", USER.0),
        format!("/api/v1/accounts/{}", USER.0),
        format!("/api/v1/statuses/{id}"),
        "/api/v1/statuses".to_owned(),
    ] {
        assert_eq!(get(&running, &target).await.0, 200, "{target}");
        assert_eq!(get(&running, &format!("{target}/")).await.0, 200, "{target}/");
    }
}

#[tokio::test]
async fn users_are_found_by_id_and_by_handle() {
    let running = start(plain()).await;
    let (id, handle) = USER;
    for target in [
        format!("/2/users?ids={id},404"),
        format!("/2/users/by?usernames={handle},missing"),
        format!("/2/users/{id}"),
        format!("/2/users/by/username/{handle}"),
    ] {
        let (status, body) = get(&running, &target).await;
        let (user, is_list) = match &body["data"] {
            Value::Array(users) => (users[0].clone(), true),
            user => (user.clone(), false),
        };
        assert_eq!((status, &user["id"], &user["username"]), (200, &json!(id), &json!(handle)), "{target}: {body}");
        assert_eq!(user.as_object().unwrap().len(), 3, "no field that is not asked for: {user}");
        assert_eq!(body["errors"][0]["title"] == "Not Found Error", is_list, "{body}");
        let more = if target.contains('?') { '&' } else { '?' };
        let (_, body) = get(&running, &format!("{target}{more}user.fields=created_at,public_metrics")).await;
        let user = body["data"].get(0).unwrap_or(&body["data"]).clone();
        assert!(user["public_metrics"]["tweet_count"].is_u64() && user["created_at"].is_string(), "{user}");
        let (status, body) = get(&running, &format!("{target}{more}user.fields=colour")).await;
        assert_eq!(status, 400);
        assert!(body["errors"][0]["parameters"].get("user.fields").is_some(), "{body}");
    }
    let (status, body) = get(&running, "/2/users/404").await;
    assert!(status == 200 && body["data"].is_null() && body["errors"][0]["parameter"] == "id", "{body}");
    for target in ["/2/users?ids=x", "/2/users?ids=", "/2/users/x", "/2/users/by?usernames=a-b", "/2/users"] {
        assert_eq!(get(&running, target).await.0, 400, "{target}");
    }
    let hundred_and_one = vec![id; 101].join(",");
    assert_eq!(get(&running, &format!("/2/users?ids={hundred_and_one}")).await.0, 400);

    for target in [format!("/1.1/users/show.json?user_id={id}"), format!("/1.1/users/show.json?screen_name={handle}")] {
        let (_, user) = get(&running, &target).await;
        assert_eq!((&user["id_str"], &user["screen_name"]), (&json!(id), &json!(handle)));
    }
    assert_eq!(get(&running, "/1.1/users/show.json?user_id=404").await.1["errors"][0]["code"], 50);
    let (_, users) = get(&running, &format!("/1.1/users/lookup.json?user_id={id},404&screen_name={handle}")).await;
    assert_eq!(users.as_array().unwrap().len(), 2);
    let (status, body) = get(&running, "/1.1/users/lookup.json?screen_name=missing").await;
    assert_eq!((status, &body["errors"][0]["code"]), (404, &json!(17)));
    let (_, account) = get(&running, &format!("/api/v1/accounts/{id}")).await;
    assert_eq!((&account["id"], &account["username"]), (&json!(id), &json!(handle)));
    assert_eq!(get(&running, "/api/v1/accounts/404").await.0, 404);
}

#[tokio::test]
async fn who_calls_is_for_users_alone() {
    let running = start(plain()).await;
    let (_, me) = get(&running, "/2/users/me").await;
    let (_, same) = get(&running, "/1.1/account/verify_credentials.json").await;
    assert_eq!(me["data"]["id"], same["id_str"], "{me} {same}");
    let (status, _, body) = raw(&running, "GET", "/2/users/me", Some("any"), "").await;
    assert!(status == 403 && body.contains("Unsupported Authentication"), "{body}");
    let (status, _, body) = raw(&running, "GET", "/1.1/account/verify_credentials.json", Some("any"), "").await;
    assert!(status == 403 && body.contains("\"code\":220"), "{body}");
    // An instance knows nobody without a token.
    assert_eq!(get(&running, "/api/v1/accounts/verify_credentials").await.0, 401);
    let (status, _, body) = raw(&running, "GET", "/api/v1/accounts/verify_credentials", Some("any"), "").await;
    assert!(status == 200 && body.contains("\"acct\""), "{body}");
}

#[tokio::test]
async fn one_post_is_shown_or_refused_with_the_reason() {
    let running = start(plain()).await;
    let id = &aged(DAY, 1)[0];
    for target in [format!("/1.1/statuses/show.json?id={id}"), format!("/1.1/statuses/show/{id}.json")] {
        assert_eq!(get(&running, &target).await.1["id_str"], json!(id), "{target}");
        let (_, trimmed) =
            get(&running, &format!("{target}{}trim_user=true", if target.contains('?') { "&" } else { "?" })).await;
        assert_eq!(trimmed["user"].as_object().unwrap().len(), 2);
    }
    let (_, post) = get(&running, &format!("/2/tweets/{id}?tweet.fields=author_id")).await;
    assert_eq!(post["data"]["id"], json!(id));
    assert!(post["data"]["author_id"].is_string() && post["data"].get("lang").is_none(), "{post}");
    assert_eq!(running.counters().charged, 1);
    let mut refusals = HashMap::new();
    for n in 0..40 {
        let future = TweetId::at(wall_ms() + DAY, n).to_string();
        let (status, body) = get(&running, &format!("/1.1/statuses/show.json?id={future}")).await;
        *refusals.entry((status, body["errors"][0]["code"].as_u64())).or_insert(0) += 1;
        let (status_v2, body) = get(&running, &format!("/2/tweets/{future}")).await;
        assert!(status_v2 == 200 && body["data"].is_null(), "{body}");
        let is_protected = body["errors"][0]["title"] == "Authorization Error";
        assert_eq!((is_protected, &body["errors"][0]["parameter"]), (status == 403, &json!("id")), "{body}");
    }
    assert!(refusals[&(404, Some(144))] > refusals[&(403, Some(179))], "{refusals:?}");
    assert_eq!((running.counters().charged, get(&running, "/2/tweets/x").await.0), (1, 400));
}

#[tokio::test]
async fn map_is_taken_as_python_writes_it() {
    let running = start(plain()).await;
    assert!(lookup(&running, "id=20&map=True").await["id"]["20"].is_object());
    assert!(lookup(&running, "id=20&map=False").await.is_array());
}

/// One request with these headers: status, headers in lower case, the body's bytes.
async fn request(
    running: &Running,
    method: &str,
    target: &str,
    more: &[&str],
) -> (u16, HashMap<String, String>, Vec<u8>) {
    let mut stream = TcpStream::connect(running.addr()).await.unwrap();
    let more: String = more.iter().map(|header| format!("{header}\r\n")).collect();
    let request = format!("{method} {target} HTTP/1.1\r\nHost: simulator\r\nConnection: close\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let headers = head.lines().filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    (status, headers, answer[end + 4..].to_vec())
}

#[tokio::test]
async fn answers_are_compressed_for_those_who_take_it() {
    let running = start(SimulatorOptions { gzip: true, ..plain() }).await;
    // Years old: the counts stand still.
    let target = "/1.1/statuses/lookup.json?id=20&trim_user=true";
    let (_, plain_headers, bare) = request(&running, "GET", target, &[]).await;
    assert!(!plain_headers.contains_key("content-encoding"));
    let (_, headers, packed) = request(&running, "GET", target, &["Accept-Encoding: gzip, deflate"]).await;
    assert_eq!(headers["content-encoding"], "gzip");
    assert_eq!(headers["content-length"].parse::<usize>().unwrap(), packed.len());
    assert!(packed.starts_with(&[0x1f, 0x8b]) && packed.len() < bare.len(), "{} of {}", packed.len(), bare.len());
    // The product's own client takes it, and unpacks it.
    assert!(matches!(look_up(&running, &ids(&["20"])).await.unwrap().outcomes[0], Outcome::Found(_)));
    // What a fault breaks stays broken.
    running.inject(Fault::CutBody, 1);
    let mut stream = TcpStream::connect(running.addr()).await.unwrap();
    let call = format!("GET {target} HTTP/1.1\r\nHost: s\r\nAccept-Encoding: gzip\r\n\r\n");
    stream.write_all(call.as_bytes()).await.unwrap();
    let mut cut = Vec::new();
    let _ = stream.read_to_end(&mut cut).await;
    assert!(!String::from_utf8_lossy(&cut).to_lowercase().contains("content-encoding"));
}

#[tokio::test]
async fn a_signed_call_hears_what_it_may_do() {
    let running = start(plain()).await;
    let signed = "Authorization: OAuth oauth_token=\"t\"";
    for (target, header, says) in [
        ("/1.1/statuses/lookup.json?id=20", signed, Some("read")),
        ("/2/tweets?ids=20", signed, Some("read")),
        ("/1.1/statuses/lookup.json?id=20", "Authorization: Bearer t", None),
        ("/1.1/nowhere.json", signed, None),
        ("/api/v2/instance", signed, None),
    ] {
        let (_, headers, _) = request(&running, "GET", target, &[header]).await;
        assert_eq!(headers.get("x-access-level").map(String::as_str), says, "{target} {header}");
    }
}
