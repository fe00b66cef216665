//! One binary with a subcommand per role. The crate `twitter_updater` documents the modules.

fn main() -> std::process::ExitCode {
    twitter_updater::app::cli::main()
}
