# make test   everything that must hold, on a machine with Rust and Debian's packages; leaves pictures of the page in target/page
# make soak   the same faults for an hour, by other seeds
# make lint   checks whose tools have to be compiled or fetched first
# make image  builds the container image without a registry, and runs it; a part of make lint
# make release-check  compares what is collected with what a real Bluesky network says, before a release
# make bench  measures, and records what it finds in docs/benchmarks/; half an hour on a quiet machine
# make fuzz   looks for input that breaks a reader; needs a nightly toolchain
# make demo   the first thing to look at

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:

.PHONY: test services format clippy doc compiled unit faults waiting patient smoke load bench soak lint image sbom manifests redis-versions clients exports first-hour release-check fuzz demo

# The compiler waits for its slowest crate, and tests wait for timers. Clippy and rustdoc run in what that leaves of the
# processors, in a folder with a lock of its own.
test: services format
	@mkdir -p target
	set -m
	idle=$$(command -v chrt >/dev/null && echo "chrt --idle 0" || echo "nice")
	$$idle $(MAKE) --no-print-directory clippy doc CHECKED="--target-dir target/checked" >target/checked.log 2>&1 &
	checks=$$!
	set +m
	trap 'kill -- "-$$checks" 2>/dev/null || true' EXIT
	$(MAKE) --no-print-directory compiled waiting unit load
	wait "$$checks" || { cat target/checked.log; exit 1; }
	trap - EXIT

# What the tests start for themselves, privately. Missing is a failure, never a skipped test.
services:
	@missing=()
	command -v redis-server >/dev/null || missing+=(redis-server)
	command -v openssl >/dev/null || missing+=(openssl)
	command -v chromium >/dev/null || missing+=(chromium)
	command -v chromedriver >/dev/null || missing+=(chromium-driver)
	command -v tidy >/dev/null || missing+=(tidy)
	command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || missing+=(pgbouncer)
	[ -n "$$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null)" ] || command -v initdb >/dev/null || missing+=(postgresql)
	if [ $${#missing[@]} -gt 0 ]; then
	  .ci/install "$${missing[@]}"
	fi

format:
	cargo fmt --all --check

# What the image is built with.
FEATURES := --features parquet,s3
# The program that is tested is the one that users run, and is compiled once for both.
TESTED := --release --locked $(FEATURES)

clippy:
	cargo clippy --workspace --locked $(FEATURES) --all-targets $(CHECKED) -- -D warnings
	cargo clippy --locked --no-default-features $(CHECKED) -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --locked $(FEATURES) --no-deps $(CHECKED)

# For unit tests the crates are compiled once more, with them; that takes a third of the time unoptimised.
CRATES := twitter-updater $(shell sed -n 's/^name = "\(.*\)"/\1/p' crates/*/Cargo.toml)
UNIT := --workspace $(TESTED) $(CRATES:%=--config profile.release.package.%.opt-level=0) --lib

# All of it in one go: while one crate is alone in its slow part, another is compiled.
compiled:
	cargo test $(TESTED) --test it --bench bench --no-run
	cargo test $(UNIT) --no-run

# More tests at once than processors: most of these wait. With three for each, a test that measures time waited for the others
# on a slow machine.
THREADS := --test-threads=$(shell echo $$(($$(nproc) * 2)))

unit:
	cargo test $(UNIT)
	cargo test $(TESTED) --test it -- $(THREADS) --skip load::
	cargo test --workspace $(TESTED) --doc

# Of those, everything that can break, broken on purpose; prints what it covered.
faults:
	cargo test $(TESTED) --test it -- $(THREADS) faults:: queue::half_way simulation:: model:: state_machine:: --nocapture

# Whole systems under load want the machine to themselves, but for those that mostly wait. These run beside each other and beside
# the benchmarks, each at its smallest; clippy gets on meanwhile.
WAITING := load::accounts load::doors load::fault_table load::fill load::media load::quota load::rebuild load::relations

waiting:
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target patient smoke

patient:
	cargo test $(TESTED) --test it -- $(WAITING) $(THREADS) --nocapture

smoke:
	cargo test $(TESTED) --bench bench

load:
	cargo test $(TESTED) --test it load:: -- --test-threads=1 --nocapture $(WAITING:%=--skip %)

bench: services
	cargo bench --locked $(FEATURES) --bench bench -- --record

# A hundred thousand seeds, then the real processes again and again, the network by a new seed each time.
soak:
	SEEDS=$${SEEDS:-100000} cargo test $(TESTED) --test it simulation::seeds -- --nocapture
	for round in $$(seq $${ROUNDS:-20}); do
	  NETWORK_SEED=$$RANDOM cargo test $(TESTED) --test it -- faults:: load::kill load::rebuild --test-threads=2 --nocapture
	done

lint: manifests image sbom redis-versions clients exports first-hour
	command -v cargo-deny >/dev/null || cargo install --locked --debug cargo-deny@0.20.2
	cargo deny check bans licenses sources

manifests:
	.ci/manifests

image:
	.ci/image

# The parts of the program and their licences, as licenses/ has them; CycloneDX's schema by a package of PyPI.
sbom:
	.ci/sbom check

# The deployed Redis on newer servers than Debian's, which are in packages of PyPI: `make test` has it on Debian's.
redis-versions:
	.ci/redis-versions

# Clients of other people's, at the simulator: packages of PyPI.
clients:
	.ci/clients

# What `export` writes, read by pyarrow, DuckDB and networkx, in packages of PyPI.
exports:
	.ci/exports

# What a new user does first, with a real Redis and PostgreSQL.
first-hour:
	.ci/first-hour

# What is collected of a real Bluesky network, from packages of npm, compared with what that says. Not a part of `make lint`: it
# fetches half a gigabyte.
release-check:
	.ci/release-check

# The properties are those of tests/it/fuzz.rs, which `make test` holds for a few seconds.
fuzz:
	command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
	for target in lookup_answer enqueue_line account_lines configuration; do
	  cargo +nightly fuzz run "$$target" -- -max_total_time=$${SECONDS_EACH:-60}
	done

demo:
	cargo run --release -- demo
