//! An updater that works on files keeps to one processor core.

use super::*;
use crate::support::role::Role;
use crate::support::wait::until;

/// The name of each thread of a process, and the cores on which it may run, as the kernel writes them.
fn threads_of(process: u32) -> Vec<(String, String)> {
    let word =
        |status: &str, key: &str| status.lines().find_map(|line| Some(line.strip_prefix(key)?.trim().to_owned()));
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    // One may end meanwhile.
    let status = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    status.filter_map(|status| Some((word(&status, "Name:")?, word(&status, "Cpus_allowed_list:")?))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_updater_of_files_keeps_to_one_core_unless_it_is_told_not_to() {
    let home = Home::new();
    let all = threads_of(std::process::id()).remove(0).1;
    for keeps in [true, false] {
        let settings = home.settings(&[("updater.one_core", if keeps { "true" } else { "false" })]);
        let updater = Role::start("updater", &settings, &home.path("log")).await;
        let threads = until("SQLite has its threads", Duration::from_secs(20), async || {
            let threads = threads_of(updater.process.id());
            threads.iter().any(|(name, _)| name.starts_with("sqlite")).then_some(threads)
        })
        .await;
        let cores = &threads[0].1;
        assert!(threads.iter().all(|(_, of)| of == cores), "{threads:?}");
        if keeps {
            assert!(cores.parse::<usize>().is_ok(), "one core: {threads:?}");
        } else {
            assert_eq!(*cores, all);
        }
        assert_eq!(updater.stopped().await, Some(0));
        std::fs::remove_file(home.path("log")).unwrap();
    }
}
