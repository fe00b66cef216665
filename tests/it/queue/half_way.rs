//! A script that fails half-way: Redis does not undo what it did until then, so what adds comes before
//! what removes.

use super::*;

/// What a script reads or writes; one of them cannot be written at a time.
const KEYS: [&str; 17] = [
    "delayed:young",
    "delayed:old",
    "delayed:middle",
    "delayed:unknown",
    "promoted",
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

fn middle() -> Lane {
    Lane::new("middle", Duration::from_secs(3_600))
}

/// Some ids in every place: due, held by the claim "held", one of them a suspect, and one of those promoted.
async fn put(queue: &dyn Queue) -> Batch {
    schedule(queue, &young(), 0, &["1", "2", "3", "4", "5", "6"]).await;
    let first = batch(queue, ClaimRequest { limit: 2, ..request("before") }).await;
    let retry = Verdict::Retry { after: 0, counted: true };
    let verdicts: Vec<_> = first.jobs.iter().map(|job| (job.clone(), retry.clone())).collect();
    queue.settle(&first.fence, &verdicts, &[]).await.unwrap();
    let held = batch(queue, ClaimRequest { limit: 3, ..request("held") }).await;
    let promoted = NewJob { id: held.jobs[0].id.clone(), lane: middle(), due: 5.into() };
    assert_eq!(queue.promote(&[promoted]).await.unwrap(), [PromoteOutcome::Noted]);
    held
}

/// Does what is called so; says whether it was done.
async fn run(queue: &RedisQueue, command: &str, held: &Batch) -> bool {
    let verdict = match command {
        "reschedule" => Verdict::Reschedule { lane: old(), due: 5.into() },
        "finish" => Verdict::Finish,
        "bury" => Verdict::MarkDead { reason: "why".to_owned() },
        "retry" => Verdict::Retry { after: 5, counted: true },
        "release" => return queue.release(&held.fence, &held.jobs).await.is_ok(),
        "postpone" => {
            let job = |id: u32| NewJob { id: id.to_string(), lane: middle(), due: 999_999.into() };
            return queue.postpone(&(1..=6).map(job).collect::<Vec<_>>()).await.is_ok();
        }
        "promote" => {
            // A lane that the script has not looked into when it moves them.
            let unknown = Lane::new("unknown", Duration::from_secs(3_600));
            let job = |id: u32| NewJob { id: id.to_string(), lane: unknown.clone(), due: 0.into() };
            return queue.promote(&(1..=6).map(job).collect::<Vec<_>>()).await.is_ok();
        }
        _ => return queue.claim(&request("again")).await.is_ok(),
    };
    let verdicts: Vec<_> = held.jobs.iter().map(|job| (job.clone(), verdict.clone())).collect();
    queue.settle(&held.fence, &verdicts, &[]).await.is_ok()
}

/// After the same call once more, as its caller makes it.
async fn one_place(queue: &dyn Queue, ids: &[String], what: &str) {
    for (id, places) in ids.iter().zip(queue.locate(ids).await.unwrap()) {
        assert_eq!(places.len(), 1, "{what}, and once more: {id} is in {places:?}");
    }
}

#[tokio::test]
async fn leaves_no_id_nowhere() {
    let redis = TestRedis::shared();
    let mut raw = redis.connection().await;
    let (mut failed, mut all) = (0, 0);
    for key in KEYS {
        for command in
            ["claim", "reschedule", "finish", "bury", "retry", "release", "promote", "postpone", "claim expired"]
        {
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

            let done = run(&queue, command, &held).await;
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
            if matches!(command, "promote" | "reschedule" | "retry" | "release") {
                run(&queue, command, &held).await;
                one_place(&queue, &ids, &format!("{command} with {key} broken")).await;
                let promoted = place(&queue, &held.jobs[0].id).await.unwrap();
                let is_noted = matches!(&promoted, Place::Delayed { lane, .. } if lane == "middle");
                assert!(is_noted || command == "promote", "{command} with {key} broken: {promoted:?}");
            }
        }
    }
    println!("{failed} of {all} scripts failed half-way");
    assert!(failed > 20, "{failed} of {all}");
}
