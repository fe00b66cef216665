//! One binary, a subcommand per role. See `twitter_updater` for the map.

fn main() -> std::process::ExitCode {
    twitter_updater::app::cli::main()
}
