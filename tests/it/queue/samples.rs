//! Samples of what is in the queue, and due times that are out of bounds.

use super::*;

fn shape(samples: &[Sample]) -> Vec<(Option<&str>, Option<Millis>, u64, usize)> {
    samples.iter().map(|of| (of.lane.as_deref(), of.patience_ms, of.total, of.ids.len())).collect()
}

pub(super) async fn a_sample_is_of_each_lane_and_of_the_leased(world: World) {
    let queue = &*world.one;
    assert_eq!(shape(&queue.sample(10).await.unwrap()), [(None, None, 0, 0)]);
    schedule(queue, &young(), 0, &["l1", "l2", "l3"]).await;
    batch(queue, request("a")).await;
    let many: Vec<String> = (0..1_200).map(|n| format!("o{n}")).collect();
    schedule(queue, &old(), 60_000, &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    schedule(queue, &young(), 60_000, &["y1", "y2"]).await;
    for (most, of_old) in [(0, 0), (1, 1), (3, 3), (500, 500), (1_000, 1_000), (5_000, PAGE_LIMIT)] {
        let samples = world.two.sample(most).await.unwrap();
        let expected = [
            (Some("young"), Some(180_000), 2, most.min(2)),
            (Some("old"), Some(86_400_000), 1_200, of_old),
            (None, None, 3, most.min(3)),
        ];
        assert_eq!(shape(&samples), expected, "{most}");
        for (sample, letter) in samples.iter().zip(["y", "o", "l"]) {
            let distinct: BTreeSet<&str> = sample.ids.iter().map(String::as_str).collect();
            assert_eq!(distinct.len(), sample.ids.len(), "an id twice");
            assert!(distinct.iter().all(|id| id.starts_with(letter)), "{sample:?}");
        }
    }
}

/// 40 samples of 500 of 2,000: each id is chosen ten times on average.
pub(super) async fn each_id_has_a_fair_chance_in_a_sample(world: World) {
    let queue = &*world.one;
    let jobs: Vec<_> =
        (0..2_000).map(|n| NewJob { id: n.to_string(), lane: old(), due: (60_000 + n / 7).into() }).collect();
    queue.schedule(&jobs).await.unwrap();
    let mut chosen = vec![0_u32; 2_000];
    for _ in 0..40 {
        let samples = queue.sample(500).await.unwrap();
        assert_eq!(samples[0].ids.len(), 500);
        samples[0].ids.iter().for_each(|id| chosen[id.parse::<usize>().unwrap()] += 1);
    }
    // Of an even choice (a quarter each time, 40 times) the variance is 7.5, and an id is never chosen once in 10⁵
    // times. Redis chooses from its hash table and prefers ids after empty places a little: about 12.
    for (tenth, ids) in chosen.chunks(200).enumerate() {
        let sum: u32 = ids.iter().sum();
        assert!((1_800..=2_200).contains(&sum), "tenth {tenth}: {sum}");
    }
    let never = chosen.iter().filter(|times| **times == 0).count();
    assert!(never <= 5 && chosen.iter().all(|times| *times < 35), "{never} were never chosen");
    let spread = chosen.iter().map(|times| (f64::from(*times) - 10.0).powi(2)).sum::<f64>() / 2_000.0;
    assert!((5.0..20.0).contains(&spread), "as if some were preferred: variance {spread}");
}

const SLACK: Duration = Duration::from_secs(600);

pub(super) async fn due_times_out_of_bounds_are_mended_and_no_others(world: World) {
    let queue = &*world.one;
    assert_eq!(queue.repair_due_times(SLACK, 1_000).await.unwrap(), 0);
    schedule(queue, &young(), 0, &["due"]).await;
    schedule(queue, &young(), 180_000 + 500_000, &["in-bounds"]).await;
    let far: Vec<String> = (0..90).map(|n| format!("y{n}")).collect();
    schedule(queue, &young(), 1_000_000, &far.iter().map(String::as_str).collect::<Vec<_>>()).await;
    schedule(queue, &old(), 86_400_000 + 900_000, &["o1", "o2"]).await;
    let before = world.two.locate(&["due".to_owned(), "in-bounds".to_owned()]).await.unwrap();
    let beyond = async || queue.stats().await.unwrap().lanes.iter().map(|lane| lane.beyond).collect::<Vec<_>>();
    // By the slack of the stats, which is shorter.
    assert_eq!(beyond().await, [91, 2]);

    assert_eq!(queue.repair_due_times(SLACK, 0).await.unwrap(), 0);
    assert_eq!(queue.repair_due_times(SLACK, 60).await.unwrap(), 60, "the most impatient lane first");
    assert_eq!(beyond().await, [31, 2]);
    assert_eq!(world.two.repair_due_times(SLACK, 5_000).await.unwrap(), 32);
    assert_eq!(queue.repair_due_times(SLACK, 1_000).await.unwrap(), 0);
    assert_eq!(queue.stats().await.unwrap().counters["mended"], 92);
    assert_eq!(queue.locate(&["due".to_owned(), "in-bounds".to_owned()]).await.unwrap(), before);

    // Evenly over the next patience: in each third of it there is a third, of both calls together.
    let now = queue.stats().await.unwrap().now_ms;
    let mut waits = Vec::new();
    for places in queue.locate(&far).await.unwrap() {
        match &places[..] {
            [Place::Delayed { lane, due }] if lane == "young" => waits.push(due - now),
            other => panic!("{other:?}"),
        }
    }
    waits.sort_unstable();
    assert!(waits[0] > -30_000 && waits[89] <= 180_000, "{waits:?}");
    assert!((100_000..=180_000).contains(&(waits[89] - waits[0])), "{waits:?}");
    let steps: Vec<_> = waits.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| *step <= 6_100), "a gap: {waits:?}");
    for id in ["o1", "o2"] {
        let place = place(queue, id).await;
        assert!(matches!(place, Some(Place::Delayed { due, .. }) if due <= now + 86_400_000), "{place:?}");
    }
}

pub(super) async fn a_changed_interval_applies_to_waiting_jobs(world: World) {
    let queue = &*world.one;
    let shorter = Lane { patience: 60_000, ..young() };
    assert_eq!(queue.apply_lane(&shorter, SLACK, 1_000).await.unwrap(), 0, "no such lane");
    assert!(queue.stats().await.unwrap().lanes.is_empty());
    schedule(queue, &young(), 0, &["due"]).await;
    schedule(queue, &young(), 50_000, &["soon"]).await;
    let far: Vec<String> = (0..90).map(|n| format!("y{n}")).collect();
    schedule(queue, &young(), 170_000, &far.iter().map(String::as_str).collect::<Vec<_>>()).await;
    schedule(queue, &old(), 170_000, &["old"]).await;
    let others = ["due", "soon", "old"].map(str::to_owned);
    let before = world.two.locate(&others).await.unwrap();

    assert_eq!(queue.apply_lane(&shorter, SLACK, 0).await.unwrap(), 0);
    assert_eq!(world.two.apply_lane(&shorter, SLACK, 60).await.unwrap(), 60);
    assert_eq!(queue.apply_lane(&shorter, SLACK, 1_000).await.unwrap(), 30);
    assert_eq!(queue.apply_lane(&shorter, SLACK, 1_000).await.unwrap(), 0);
    let stats = queue.stats().await.unwrap();
    assert_eq!(stats.lanes.iter().map(|lane| lane.patience_ms).collect::<Vec<_>>(), [60_000, old().patience]);
    assert_eq!(queue.locate(&others).await.unwrap(), before, "earlier due times stay");
    let mut waits = Vec::new();
    for places in queue.locate(&far).await.unwrap() {
        let [Place::Delayed { due, .. }] = &places[..] else { panic!("{places:?}") };
        waits.push(due - stats.now_ms);
    }
    waits.sort_unstable();
    assert!(waits[0] > -10_000 && waits[89] <= 60_000, "{waits:?}");
    assert!(waits.windows(2).all(|pair| pair[1] - pair[0] <= 2_100), "evenly: {waits:?}");

    // A longer interval changes no due time.
    let longer = Lane { patience: 600_000, ..young() };
    let before = queue.locate(&far).await.unwrap();
    assert_eq!(queue.apply_lane(&longer, SLACK, 1_000).await.unwrap(), 0);
    assert_eq!(queue.locate(&far).await.unwrap(), before);
    assert_eq!(queue.stats().await.unwrap().lanes[0].patience_ms, 600_000);
}

/// As after a clock that stepped back: the last fence is further ahead than any lease could be.
pub(super) async fn nothing_is_mended_while_the_clock_is_behind_the_fences(world: World) {
    let queue = &*world.one;
    schedule(queue, &young(), 0, &["leased"]).await;
    assert_eq!(queue.stats().await.unwrap().fence_ahead_ms, 0);
    schedule(queue, &young(), 10_000_000, &["far"]).await;
    let lease = Duration::from_secs(900);
    let held = batch(queue, ClaimRequest { lease, ..request("a") }).await;
    let ahead = world.two.stats().await.unwrap().fence_ahead_ms;
    assert!((800_000..=900_000).contains(&ahead), "{ahead}");
    assert_eq!(queue.repair_due_times(SLACK, 1_000).await.unwrap(), 0);
    assert_eq!(queue.repair_due_times(2 * SLACK, 1_000).await.unwrap(), 1, "within the slack");
    // The fence stays when its lease is settled.
    queue.settle(&held.fence, &reschedule(&held, &young(), 10_000_000), &[]).await.unwrap();
    assert_eq!(queue.repair_due_times(SLACK, 1_000).await.unwrap(), 0);
}
