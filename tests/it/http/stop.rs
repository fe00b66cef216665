//! How the roles that serve HTTP stop: whoever sends tweets looks elsewhere first, and what is in work is
//! finished.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// A request of which the last byte is still to come, on a connection that is accepted already.
async fn held_back(role: &Role, id: &str) -> TcpStream {
    let addr = role.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(addr).await.unwrap();
    // Answered: so it is accepted, and its next request is read.
    stream.write_all(format!("GET /live HTTP/1.1\r\nhost: {addr}\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = [0; 512];
    assert!(stream.read(&mut answer).await.unwrap() > 0);
    let (length, part) = (id.len(), &id[..id.len() - 1]);
    let head = format!(
        "POST /tweets HTTP/1.1\r\nhost: {addr}\r\ncontent-type: application/x-ndjson\r\ncontent-length: {length}\r\n\
         expect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // It says that it reads the body now.
    let read = stream.read(&mut answer).await.unwrap();
    assert!(answer[..read].starts_with(b"HTTP/1.1 100"), "{}", text(&answer[..read]));
    stream.write_all(part.as_bytes()).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_work_is_finished_and_nobody_new_is_sent_away_unwarned() {
    let home = Home::new().await;
    let settings = home.settings(&[("http.drain_notice", "5s"), ("updater.drain_deadline", "60s")]);
    let mut starter = home.role("starter", &settings).await;
    let ids = young(2);
    let mut stream = held_back(&starter, &ids[0]).await;
    starter.process.signal("TERM");
    starter.until("/ready", 503).await;
    // It still takes what comes.
    assert_eq!(starter.get("/live").await.0, 200);
    assert_eq!(post(&starter, &ids[1..]).await.0, 202);
    // Then no more.
    starter.until("/live", 0).await;
    assert!(starter.process.runs(), "it waits for the one that is in work: {}", home.log("starter.log"));
    stream.write_all(&ids[0].as_bytes()[ids[0].len() - 1..]).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 202") && answer.contains("\"scheduled\":1"), "{answer}");
    assert_eq!(starter.process.ended(Duration::from_secs(20)).await.code(), Some(0));
    let status: Value = serde_json::from_slice(&run(&["status", "--json"], &settings).stdout).unwrap();
    assert_eq!(status["delayed"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_never_ends_does_not_hold_it_longer_than_the_deadline() {
    let home = Home::new().await;
    let settings = home.settings(&[("http.drain_notice", "0s"), ("updater.drain_deadline", "1s")]);
    let mut starter = home.role("starter", &settings).await;
    let mut stream = held_back(&starter, &young(1)[0]).await;
    starter.process.signal("TERM");
    let status = starter.process.ended(Duration::from_secs(20)).await;
    assert_eq!(status.code(), Some(0), "{}", home.log("starter.log"));
    let mut answer = Vec::new();
    // The end, or a reset; in no case a 202.
    let _ = stream.read_to_end(&mut answer).await;
    assert_eq!(text(&answer), "");
    assert!(home.log("starter.log").contains("are cut off"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_nobody_asks_stops_after_its_notice() {
    let home = Home::new().await;
    let settings = home.settings(&[("http.drain_notice", "0s")]);
    for name in ROLES {
        let role = home.role(name, &settings).await;
        // A connection that is kept and idle holds nobody.
        assert_eq!(role.get("/live").await.0, 200);
        assert_eq!(role.stopped().await, Some(0), "{}", home.log(&format!("{name}.log")));
        assert!(!home.log(&format!("{name}.log")).contains("deadline has passed"));
    }
}
