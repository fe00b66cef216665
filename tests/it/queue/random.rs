//! Random commands, and where each id has to be after them.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// Draws from a seed, which is printed; `QUEUE_SEED` repeats one.
fn seeded() -> StdRng {
    let seed: u64 = std::env::var("QUEUE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    println!("QUEUE_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// Many due jobs in lanes of unequal patience, many of them equally late: each claim takes the most urgent of all that are left.
pub(super) async fn claims_of_any_size_take_the_most_urgent(world: World) {
    let mut rng = seeded();
    let queue = &*world.one;
    let patience = [180_u64, 3_600, 86_400];
    for round in 0..4 {
        let now = wall_ms() - 1_000; // by any queue's clock this is past
        let share: [u32; 3] = std::array::from_fn(|_| rng.random_range(1..10));
        // Tenths of its patience that a job is late, its lane, its id. A tenth is 18 s at least: what passes meanwhile reorders
        // nothing, and of the equally late it puts the most impatient first.
        let mut due: Vec<(std::cmp::Reverse<i64>, usize, String)> = Vec::new();
        for n in 0..rng.random_range(30..300) {
            let drawn = rng.random_range(0..share.iter().sum());
            let lane = usize::from(drawn >= share[0]) + usize::from(drawn >= share[0] + share[1]);
            due.push((
                std::cmp::Reverse(rng.random_range(1..30)),
                lane,
                format!("{round}x{:03}x{n}", rng.random_range(0..999)),
            ));
        }
        let jobs = due.iter().map(|(std::cmp::Reverse(tenths), lane, id)| NewJob {
            id: id.clone(),
            lane: Lane::new(["a", "b", "c"][*lane], Duration::from_secs(patience[*lane])),
            due: Due::At(now - tenths * 100 * patience[*lane].cast_signed()),
        });
        queue.schedule(&jobs.collect::<Vec<_>>()).await.unwrap();
        due.sort();
        let mut left: Vec<String> = due.into_iter().map(|(.., id)| id).collect();
        while !left.is_empty() {
            let (token, limit) = (format!("{round} {}", left.len()), rng.random_range(1..60));
            let claimed = batch(queue, ClaimRequest { limit, ..request(&token) }).await;
            let expected: BTreeSet<String> = left.drain(..limit.min(left.len())).collect();
            let ids: BTreeSet<String> = claimed.jobs.iter().map(|job| job.id.clone()).collect();
            assert_eq!(ids, expected, "round {round}, limit {limit}, {} left", left.len());
            let verdicts: Vec<_> = claimed.jobs.iter().map(|job| (job.clone(), Verdict::Finish)).collect();
            assert_eq!(queue.settle(&claimed.fence, &verdicts, &[]).await.unwrap().lost, 0);
        }
    }
}

/// Random commands with lost replies, late settles and dead workers; a plain map follows which ids
/// must exist.
pub(super) async fn random_commands_leave_each_id_in_one_place(world: World) {
    let mut rng = seeded();
    let pool: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let lanes = [young(), old(), Lane::new("middle", Duration::from_secs(3_600))];
    let mut expected: BTreeMap<String, &str> = BTreeMap::new(); // id → "alive" | "dead"
    let mut claims: Vec<Batch> = Vec::new();
    for step in 0..400 {
        let queue = if rng.random_bool(0.5) { &world.one } else { &world.two };
        match rng.random_range(0..100) {
            0..35 => {
                let jobs: Vec<_> = (0..rng.random_range(1..8))
                    .map(|_| NewJob {
                        id: pool[rng.random_range(0..pool.len())].clone(),
                        lane: lanes[rng.random_range(0..3)].clone(),
                        due: rng.random_range(0..30).into(),
                    })
                    .collect();
                for (job, answer) in jobs.iter().zip(queue.schedule(&jobs).await.unwrap()) {
                    let was = expected.get(&job.id).copied();
                    assert_eq!(
                        answer == ScheduleOutcome::Scheduled,
                        was.is_none(),
                        "step {step}: {job:?} {was:?} {answer:?}"
                    );
                    assert_eq!(answer == ScheduleOutcome::Dead, was == Some("dead"), "step {step}");
                    expected.entry(job.id.clone()).or_insert("alive");
                }
            }
            35..65 => {
                let token = format!("t{step}");
                let request = ClaimRequest {
                    limit: rng.random_range(1..12),
                    lease: Duration::from_millis(rng.random_range(1..40)),
                    lookahead: 0.00005,
                    ..request(&token)
                };
                if let Claim::Batch(batch) = queue.claim(&request).await.unwrap() {
                    for job in &batch.jobs {
                        assert_eq!(expected.get(&job.id), Some(&"alive"), "step {step}: {job:?}");
                    }
                    // A quarter of the workers die here.
                    if rng.random_bool(0.75) {
                        claims.push(batch);
                    }
                }
            }
            65..70 => {
                let mut ids: Vec<String> = (0..5).map(|_| pool[rng.random_range(0..pool.len())].clone()).collect();
                ids.sort();
                ids.dedup();
                let lease = Duration::from_millis(rng.random_range(1..40));
                let taken = queue.adopt(&format!("t{step}"), &ids, lease).await.unwrap();
                let now = QueueTime::starting_at(taken.now);
                let mut adopted = Batch { fence: taken.fence, now, claimed_at: taken.now, jobs: Vec::new() };
                for (id, answer) in ids.iter().zip(taken.answers) {
                    let was = expected.get(id).copied();
                    assert_eq!(
                        answer == ScheduleOutcome::Scheduled,
                        was.is_none(),
                        "step {step}: {id} {was:?} {answer:?}"
                    );
                    assert_eq!(answer == ScheduleOutcome::Dead, was == Some("dead"), "step {step}");
                    if was.is_none() {
                        expected.insert(id.clone(), "alive");
                        adopted.jobs.push(job(id));
                    }
                }
                // A quarter of the rebuilds die here.
                if rng.random_bool(0.75) {
                    claims.push(adopted);
                }
            }
            70..73 => {
                let id = &pool[rng.random_range(0..pool.len())];
                let new = NewJob { id: id.clone(), lane: lanes[rng.random_range(0..3)].clone(), due: 0.into() };
                let answer = queue.revive(&[new]).await.unwrap()[0];
                let was = expected.insert(id.clone(), "alive");
                assert_eq!(
                    answer == ScheduleOutcome::Scheduled,
                    was != Some("alive"),
                    "step {step}: {id} {was:?} {answer:?}"
                );
            }
            73..75 => {
                let id = &pool[rng.random_range(0..pool.len())];
                let leased =
                    matches!(queue.locate(std::slice::from_ref(id)).await.unwrap()[0][..], [Place::Leased { .. }]);
                queue.forget(std::slice::from_ref(id)).await.unwrap();
                if !leased {
                    expected.remove(id);
                }
            }
            75..80 => promote_some(&**queue, &pool, &lanes, &expected, &mut rng).await,
            _ if !claims.is_empty() => {
                let claim = claims.swap_remove(rng.random_range(0..claims.len()));
                let mut verdicts = Vec::new();
                for job in &claim.jobs {
                    let verdict = match rng.random_range(0..6) {
                        0 => Verdict::Finish,
                        1 => Verdict::MarkDead { reason: "a test".into() },
                        2 => Verdict::Retry { after: rng.random_range(0..10), counted: rng.random_bool(0.5) },
                        _ => Verdict::Reschedule {
                            lane: lanes[rng.random_range(0..3)].clone(),
                            due: rng.random_range(0..30).into(),
                        },
                    };
                    verdicts.push((job.clone(), verdict));
                }
                // One verdict at a time, so that what was applied is known.
                for verdict in verdicts {
                    let settled = queue.settle(&claim.fence, std::slice::from_ref(&verdict), &[]).await.unwrap();
                    assert_eq!(settled.settled + settled.lost, 1);
                    if settled.settled == 1 {
                        match verdict.1 {
                            Verdict::Finish => drop(expected.remove(&verdict.0.id)),
                            Verdict::MarkDead { .. } => drop(expected.insert(verdict.0.id.clone(), "dead")),
                            _ => {}
                        }
                    }
                    // The reply was lost: said again.
                    if rng.random_bool(0.3) {
                        let repeated = queue.settle(&claim.fence, &[(verdict.0, Verdict::Finish)], &[]).await.unwrap();
                        assert!(repeated.settled == 0 || settled.settled == 0);
                        assert_eq!(repeated.settled, 0, "step {step}: an unheld id was finished");
                    }
                }
            }
            _ => {}
        }
        let places = queue.locate(&pool).await.unwrap();
        for (id, places) in pool.iter().zip(places) {
            let expected = expected.get(id).copied();
            assert_eq!(places.len(), usize::from(expected.is_some()), "step {step}, id {id}: {places:?}, {expected:?}");
            if let Some(place) = places.first() {
                assert_eq!(matches!(place, Place::Dead { .. }), expected == Some("dead"), "step {step}, id {id}");
            }
        }
    }
}

/// Promotes some ids, which stay where they are or go to their lane, due no later than before.
async fn promote_some(
    queue: &dyn Queue,
    pool: &[String],
    lanes: &[Lane],
    expected: &BTreeMap<String, &str>,
    rng: &mut rand::rngs::StdRng,
) {
    use rand::RngExt;
    let ids: BTreeSet<String> = (0..6).map(|_| pool[rng.random_range(0..pool.len())].clone()).collect();
    let ids: Vec<String> = ids.into_iter().collect();
    let job = |id: &String| NewJob {
        id: id.clone(),
        lane: lanes[rng.random_range(0..lanes.len())].clone(),
        due: rng.random_range(0..30).into(),
    };
    let jobs: Vec<NewJob> = ids.iter().map(job).collect();
    let before = queue.locate(&ids).await.unwrap();
    let answers = queue.promote(&jobs).await.unwrap();
    let after = queue.locate(&ids).await.unwrap();
    for (((job, answer), before), after) in jobs.iter().zip(answers).zip(before).zip(after) {
        let was = expected.get(&job.id).copied();
        let fits = match (&before[..], &after[..]) {
            ([Place::Delayed { due: was, .. }], [Place::Delayed { lane, due }]) => {
                answer == PromoteOutcome::Moved && **lane == *job.lane.name && due <= was
            }
            ([Place::Leased { fence: was, .. }], [Place::Leased { fence, .. }]) => {
                answer == PromoteOutcome::Noted && fence == was
            }
            ([Place::Dead { .. }], [Place::Dead { .. }]) => answer == PromoteOutcome::Dead && was == Some("dead"),
            ([], []) => answer == PromoteOutcome::Absent && was.is_none(),
            _ => false,
        };
        assert!(fits, "{job:?} was in {before:?}, is in {after:?}: {answer:?}");
    }
}
