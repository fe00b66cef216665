//! A script that fails half-way: Redis does not undo what it did until then, so what adds comes before
//! what removes.

use super::*;

/// What a script reads or writes; one of them cannot be written at a time.
const KEYS: [&str; 14] = [
    "delayed:young",
    "delayed:old",
    "leased",
    "lanes",
    "fence",
    "claim:again",
    "deliveries",
    "failures",
    "trials",
    "turns",
    "dead",
    "dead:why",
    "stats",
    "claim:held",
];

/// Some ids in every place: due, held by the claim "held", one of them a suspect.
async fn put(queue: &dyn Queue) -> Batch {
    schedule(queue, &young(), 0, &["1", "2", "3", "4", "5", "6"]).await;
    let first = batch(queue, ClaimRequest { limit: 2, ..request("before") }).await;
    let retry = Verdict::Retry { after: 0, counted: true };
    let verdicts: Vec<_> = first.jobs.iter().map(|job| (job.clone(), retry.clone())).collect();
    queue.settle(&first.fence, &verdicts, &[]).await.unwrap();
    batch(queue, ClaimRequest { limit: 3, ..request("held") }).await
}

#[tokio::test]
async fn leaves_no_id_nowhere() {
    let redis = TestRedis::shared();
    let mut raw = redis.connection().await;
    let (mut failed, mut all) = (0, 0);
    for key in KEYS {
        for command in ["claim", "reschedule", "finish", "bury", "retry", "release", "claim expired"] {
            let namespace = namespace();
            let queue = RedisQueue::new(redis.pool(), &namespace);
            let held = put(&queue).await;
            if command == "claim expired" {
                // Its time is up.
                for job in &held.jobs {
                    let leased = format!("{{{namespace}}}:leased");
                    let () = redis::cmd("ZADD").arg(leased).arg(1).arg(&job.id).query_async(&mut raw).await.unwrap();
                }
            }
            // A string cannot be added to, and a list is nobody's string.
            let (broken, aside) = (format!("{{{namespace}}}:{key}"), format!("{{{namespace}}}:aside"));
            let was: bool = redis::cmd("EXISTS").arg(&broken).query_async(&mut raw).await.unwrap();
            if was {
                let () = redis::cmd("RENAME").arg(&broken).arg(&aside).query_async(&mut raw).await.unwrap();
            }
            let wrong = match key {
                "fence" | "turns" | "claim:again" | "claim:held" => "RPUSH",
                _ => "APPEND",
            };
            let () = redis::cmd(wrong).arg(&broken).arg("broken").query_async(&mut raw).await.unwrap();

            let verdict = match command {
                "reschedule" => Some(Verdict::Reschedule { lane: old(), delay: 5 }),
                "finish" => Some(Verdict::Finish),
                "bury" => Some(Verdict::Bury { reason: "why".to_owned() }),
                "retry" => Some(Verdict::Retry { after: 5, counted: true }),
                _ => None,
            };
            let done = match (command, verdict) {
                (_, Some(verdict)) => {
                    let verdicts: Vec<_> = held.jobs.iter().map(|job| (job.clone(), verdict.clone())).collect();
                    queue.settle(&held.fence, &verdicts, &[]).await.is_ok()
                }
                ("release", _) => queue.release(&held.fence, &held.jobs).await.is_ok(),
                _ => queue.claim(&request("again")).await.is_ok(),
            };
            all += 1;
            failed += usize::from(!done);

            let () = redis::cmd("DEL").arg(&broken).query_async(&mut raw).await.unwrap();
            if was {
                let () = redis::cmd("RENAME").arg(&aside).arg(&broken).query_async(&mut raw).await.unwrap();
            }
            let ids: Vec<String> = (1..=6).map(|id| id.to_string()).collect();
            for (id, places) in ids.iter().zip(queue.locate(&ids).await.unwrap()) {
                let may_be_gone = command == "finish" && held.jobs.iter().any(|job| job.id == *id);
                assert!(!places.is_empty() || may_be_gone, "{command} with {key} broken: {id} is nowhere");
            }
        }
    }
    println!("{failed} of {all} scripts failed half-way");
    assert!(failed > 20, "{failed} of {all}");
}
