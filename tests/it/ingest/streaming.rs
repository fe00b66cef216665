//! Flat memory, and pipes that pause or break.

use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use twitter_updater::ingest::{Input, Progress, ProgressDisplay};

use super::*;

/// Makes ids, one per line, as they are read, and counts them; then ends, or fails.
struct Generator {
    next: u64,
    lines: u64,
    made: Arc<AtomicU64>,
    fails: bool,
}

impl Generator {
    fn new(lines: u64) -> Self {
        let next = id_aged(MINUTE, 0).parse().unwrap();
        Self { next, lines, made: Arc::default(), fails: false }
    }
}

impl AsyncRead for Generator {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.lines == 0 && self.fails {
            return Poll::Ready(Err(io::Error::other("the disk is gone")));
        }
        while self.lines > 0 && buf.remaining() >= 20 {
            buf.put_slice(format!("{:019}\n", self.next).as_bytes());
            self.next += 1;
            self.lines -= 1;
            self.made.fetch_add(1, SeqCst);
        }
        Poll::Ready(Ok(()))
    }
}

/// Memory is what is between the generator and the queue: that is counted, not the process's pages.
#[tokio::test]
async fn two_million_lines_take_no_more_room_than_ten_thousand() {
    const LINES: u64 = 2_000_000;
    let world = World::new().await;
    world.queue.sink.store(true, SeqCst);
    let ages: AgeTable = "18m: 3m, 30d: 1d".parse().unwrap();
    let starter = Starter::new(world.queue.clone(), None, ages, Arc::new(TweetId::date_of), parse);
    let generator = Generator::new(LINES);
    let made = generator.made.clone();
    let most_held = AtomicU64::new(0);
    let reports = AtomicU64::new(0);
    let last = Mutex::new(Progress::default());
    let progress = |now: Progress| {
        let held = made.load(SeqCst) - world.queue.jobs_done.load(SeqCst);
        most_held.fetch_max(held, SeqCst);
        reports.fetch_add(1, SeqCst);
        let before = std::mem::replace(&mut *last.lock().unwrap(), now);
        assert!(before.bytes <= now.bytes && before.lines <= now.lines && before.done <= now.done);
    };
    let options = quick();
    let summary = enqueue(generator, "generated", &starter, &options, progress, |_, _| {}).await.unwrap();
    assert_eq!((summary.lines, summary.scheduled), (LINES, LINES));
    // Four batches on their way, a window that is cut and one that is filled, and what one read brings (256 KiB / 20 B).
    let most = world.queue.most_jobs_in_flight.load(SeqCst);
    assert!((2_001..=8_000).contains(&most), "{most} in flight");
    let held = most_held.load(SeqCst);
    assert!(held <= 8_000 + 2 * options.window as u64 + 256 * 1024 / 20, "{held} held");
    assert!(reports.load(SeqCst) >= LINES / 1_000);
    assert_eq!(*last.lock().unwrap(), Progress { bytes: 20 * LINES, lines: LINES, done: LINES });
    println!("{:.0} lines per second", summary.ids_per_second);
}

#[tokio::test]
async fn large_lines_make_small_batches() {
    let world = World::new().await;
    world.queue.sink.store(true, SeqCst);
    let padding = " ".repeat(900_000);
    let file: String = (0..40).map(|line| format!("{{{padding}\"id\":\"{}\"}}\n", id(line))).collect();
    assert_eq!(world.enqueue(file.as_bytes()).await.scheduled, 40);
    // 4 MiB fill a window, which is 5 of these lines and one batch; four batches are on their way.
    assert!(world.queue.most_jobs_in_flight.load(SeqCst) <= 20);
}

#[tokio::test]
async fn a_pipe_that_pauses_is_not_waited_for() {
    let world = World::new().await;
    let (mut pipe, source) = tokio::io::duplex(1_000);
    let options = EnqueueOptions { linger: Duration::from_millis(5), ..quick() };
    let feed = async {
        // Half a line, a pause in which the first tweet leaves, and the other half.
        let (head, tail) = (id(2)[..9].to_owned(), id(2)[9..].to_owned());
        pipe.write_all(format!("{}\n{head}", id(1)).as_bytes()).await.unwrap();
        world.queue.scheduled.notified().await;
        assert_eq!(world.places(&id(1)).await.len(), 1);
        pipe.write_all(format!("{tail}\n").as_bytes()).await.unwrap();
        world.queue.scheduled.notified().await;
        drop(pipe);
    };
    let (summary, ()) = tokio::join!(enqueue(source, "pipe", &world.starter, &options, |_| {}, |_, _| {}), feed);
    let summary = summary.unwrap();
    assert_eq!((summary.lines, summary.scheduled), (2, 2));
    assert_eq!(world.places(&id(2)).await.len(), 1);
}

#[tokio::test]
async fn a_source_that_breaks_says_where_and_loses_nothing_before() {
    let world = World::new().await;
    let mut generator = Generator::new(1_500);
    generator.fails = true;
    let error = enqueue(generator, "disk", &world.starter, &quick(), |_| {}, |_, _| {}).await.unwrap_err();
    assert!(matches!(error, EnqueueError::Read { line: 1_500, .. }), "{error}");
    assert!(error.to_string().contains("the disk is gone"), "{error}");
    assert_eq!(world.queue.stats().await.unwrap().delayed, 1_500);
}

#[tokio::test]
async fn a_file_is_opened_by_its_path() {
    let world = World::new().await;
    let file = world.dir.path().join("ids.txt");
    std::fs::write(&file, format!("{}\n", id(1))).unwrap();
    let input = Input::open(&file).await.unwrap();
    assert_eq!(input.bytes, Some(20));
    let display = ProgressDisplay::new(&input.name, input.bytes);
    let show = |progress| display.show(progress);
    let summary = enqueue(input.source, &input.name, &world.starter, &quick(), show, |_, _| {}).await.unwrap();
    display.finish();
    assert_eq!(summary.scheduled, 1);
    assert_eq!(summary.name, file.display().to_string());

    let error = Input::open(&world.dir.path().join("none.txt")).await.unwrap_err();
    assert!(error.to_string().contains("none.txt cannot be opened") && !error.to_string().contains("echo"), "{error}");
    let error = Input::open(std::path::Path::new("1460323737035677698")).await.unwrap_err();
    assert!(error.to_string().contains("if it is an id") && error.to_string().contains("echo 1460"), "{error}");
    let error = Input::open(world.dir.path()).await.unwrap_err();
    assert!(error.to_string().ends_with(" is a folder: name a file in it"), "{error}");
    // One that opens and then cannot be read.
    let folder = tokio::fs::File::open(world.dir.path()).await.unwrap();
    let error = enqueue(folder, "folder", &world.starter, &quick(), |_| {}, |_, _| {}).await.unwrap_err();
    assert!(matches!(error, EnqueueError::Read { line: 0, .. }), "{error}");
}
