//! An updater that works on files keeps to one processor core.

use super::*;
use crate::support::role::Role;

/// The cores on which each thread of a process may run, as the kernel writes them.
fn cores_of(process: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let status = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap());
    let cores = |status: String| {
        status.lines().find_map(|line| Some(line.strip_prefix("Cpus_allowed_list:")?.trim().to_owned()))
    };
    status.map(|status| cores(status).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_updater_of_files_keeps_to_one_core_unless_it_is_told_not_to() {
    let home = Home::new();
    let all = cores_of(std::process::id()).remove(0);
    for keeps in [true, false] {
        let settings = home.settings(&[("updater.one_core", if keeps { "true" } else { "false" })]);
        let updater = Role::start("updater", &settings, &home.path("log")).await;
        let cores = cores_of(updater.process.id());
        assert!(cores.len() > 2, "the threads of the runtime and of SQLite: {cores:?}");
        if keeps {
            assert!(cores[0].parse::<usize>().is_ok(), "one core: {cores:?}");
            assert!(cores.iter().all(|of| *of == cores[0]), "{cores:?}");
        } else {
            assert!(cores.iter().all(|of| *of == all), "{cores:?}, not {all}");
        }
        assert_eq!(updater.stopped().await, Some(0));
        std::fs::remove_file(home.path("log")).unwrap();
    }
}
