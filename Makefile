# humpyard: `make demo` shows it, `make test` tests it. Both install what is missing on a Debian or Ubuntu machine with Rust.

CARGO ?= cargo

# Where Python's checks are installed.
PYTHON_ENVIRONMENT = $(abspath $(or $(CARGO_TARGET_DIR),target))/python
PYTHON = $(PYTHON_ENVIRONMENT)/bin/python

# Where the runner of the benchmarks that count instructions is installed.
GUNGRAUN = $(abspath $(or $(CARGO_TARGET_DIR),target))/gungraun

# Where the check of licences, versions and sources is installed.
DENY = $(abspath $(or $(CARGO_TARGET_DIR),target))/cargo-deny

# Where mdBook is installed.
MDBOOK = $(abspath $(or $(CARGO_TARGET_DIR),target))/mdbook

# Where the book is built.
BOOK = $(abspath $(or $(CARGO_TARGET_DIR),target))/book

# Where what judges metrics is, unless it is installed.
PROMETHEUS = $(abspath $(or $(CARGO_TARGET_DIR),target))/prometheus

# Property tests draw the same cases each time. By `cargo test` alone they draw others each time.
PROPTEST_RNG_SEED ?= 1

# Where the Python package is installed as users install it.
PACKAGE = $(abspath $(or $(CARGO_TARGET_DIR),target))/package-python

.PHONY: help demo test reproduce format lint docs book check-no-std bench bench-instructions bench-share bench-sim bench-dispatch bench-overload bench-steer bench-wire bench-python validate promises check-release package install prerequisites prometheus python transcode clean

help:
	@echo "make demo     show who waits under three policies, simulated and live, and write report.html (half a minute after the build)"
	@echo "make test     formatting, lints, documentation, all tests, limits of instructions"
	@echo "make reproduce  experiments of the papers, a fixed part of each: data, plots and outcomes in target/reproduction/ (five minutes)"
	@echo "make book     the book for a browser, in target/book/docs/index.html, with its links checked (two minutes the first time)"
	@echo "make bench    time the hot paths"
	@echo "make bench-instructions  count instructions of whole runs and of single steps, and fail above a limit (two minutes after the build; ARGUMENTS=...)"
	@echo "make bench-share  time sharing policies in turn with dummynet's schedulers (four minutes; ARGUMENTS=...)"
	@echo "make bench-sim  time a simulation in turn with a bare loop and with ns-2 (two minutes; ARGUMENTS=...)"
	@echo "make bench-dispatch  compare the scheduler and the runtime with DPDK's event devices, in turn (four minutes; ARGUMENTS=...)"
	@echo "make bench-overload  forward more than can be forwarded, in turn with DPDK's testpmd and the kernel (half an hour, root; ARGUMENTS=...)"
	@echo "make bench-steer  steer packets to processors, in turn with no steering and the kernel's RPS, and cost the program (fifteen minutes, root; ARGUMENTS=...)"
	@echo "make bench-wire  forward between interfaces, in turn with DPDK's testpmd and the kernel (half an hour, root; ARGUMENTS=...)"
	@echo "make bench-python  time simulations from Python in turn with the command line (two minutes after the builds)"
	@echo "make validate  hold the simulator against live runs, in a hundred cells (half an hour, alone on the machine; ARGUMENTS=...)"
	@echo "make promises  hold recommend against captures of real programs, made on the spot (three quarters of an hour, alone; root)"
	@echo "make check-release  check what is published: each crate alone, packages, licences, duplicates, instructions of simulations from Python (half an hour the first time; ARGUMENTS=--no-verify: less)"
	@echo "make install  build the library for C alone, and install it with header and pkg-config file (DESTDIR=, PREFIX=, LIBDIR=)"
	@echo "make clean    remove everything built"

demo: prerequisites
	$(CARGO) build --locked --release --package humpyard-cli
	./target/release/humpyard demo

reproduce: prerequisites
	$(CARGO) build --locked --release --package humpyard-cli
	./target/release/humpyard reproduce all --quick --out target/reproduction

test: prerequisites prometheus transcode format lint docs book check-no-std
	@scripts/prerequisites network
	@scripts/prerequisites vectorscan
	@scripts/prerequisites scapy
	@scripts/prerequisites c-library
	@scripts/prerequisites valgrind
	HUMPYARD_PYTHON=$(PYTHON) HUMPYARD_PROMETHEUS=$(PROMETHEUS) PROPTEST_RNG_SEED=$(PROPTEST_RNG_SEED) \
		$(if $(shell command -v apt-get),HUMPYARD_REQUIRE_C_LIBRARY=1) $(CARGO) test --locked --workspace --all-features
# The limits are those of one architecture.
ifeq ($(shell uname -m),x86_64)
	$(MAKE) bench-instructions
endif

format: python
	$(CARGO) fmt --all --check
	cd crates/humpyard-python && $(PYTHON) -m ruff format --no-cache --check

lint: python transcode
	$(CARGO) clippy --locked --workspace --all-targets --all-features -- --deny warnings
	cd crates/humpyard-python && $(PYTHON) -m ruff check --no-cache
	cd crates/humpyard-python && $(PYTHON) -m mypy --cache-dir $(PYTHON_ENVIRONMENT)/cache

docs: transcode
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --locked --workspace --all-features --no-deps

# Pages link to files of the repository: links beside the book lead there.
book: prerequisites
	@scripts/prerequisites python
	@scripts/mdbook $(MDBOOK)
	$(MDBOOK)/bin/mdbook build docs --dest-dir $(BOOK)/docs
	@for name in crates examples reproduction scripts *.md; do ln -sfn "$(CURDIR)/$$name" "$(BOOK)/$$name"; done
	@scripts/check-links $(BOOK)/docs

# Policies and core must build where there is no operating system: the proof that they are pure.
check-no-std:
	@scripts/check-no-std

# Those beside a peer have targets of their own.
bench: prerequisites
	$(CARGO) bench --locked --workspace --bench decisions --bench share --bench services --bench l7_filter --bench draws --bench reading

# The program is that of `make demo`. ARGUMENTS are those of the runner, such as a pattern of names: ARGUMENTS="'*drr*'".
bench-instructions: prerequisites
	@scripts/prerequisites valgrind
	@scripts/gungraun-runner $(GUNGRAUN)
	$(CARGO) build --locked --release --package humpyard-cli
	PATH="$(GUNGRAUN)/bin:$$PATH" $(CARGO) bench --locked --package humpyard-gate --no-fail-fast -- $(ARGUMENTS)

# dummynet is found by HUMPYARD_PEERS. ARGUMENTS are those of the benchmark: --help shows them.
bench-share: prerequisites
	$(CARGO) bench --locked --package humpyard-policies --bench peer -- $(ARGUMENTS)

# The bare loop is found by HUMPYARD_PEERS. ARGUMENTS are those of the benchmark: --help shows them.
bench-sim: prerequisites
	@scripts/prerequisites ns2
	$(CARGO) bench --locked --package humpyard-cli --bench sim -- $(ARGUMENTS)

# ARGUMENTS are those of the benchmark: --pairs, --milliseconds, --json.
bench-dispatch: prerequisites
	@scripts/prerequisites dpdk
	$(CARGO) bench --locked --package humpyard --bench dispatch -- $(ARGUMENTS)

# The package as users build it.
bench-python: package
	$(PACKAGE)/bin/python crates/humpyard-python/benchmarks/simulate.py ./target/release/humpyard

# The Python package in an environment of its own, and the command line beside it.
package: prerequisites
	@scripts/prerequisites python
	$(CARGO) build --locked --release --package humpyard-cli
	python3 -m venv --clear $(PACKAGE)
	$(PACKAGE)/bin/pip install --quiet --disable-pip-version-check ./crates/humpyard-python

# ARGUMENTS are --captures N and --json FILE.
promises: prerequisites
	@scripts/prerequisites programs target/programs
	$(CARGO) build --locked --release --package humpyard-cli
	python3 scripts/promises $(ARGUMENTS)

# ARGUMENTS are those of the benchmark: --cells, --runs, --seconds, --csv. Captures are found by HUMPYARD_TRACES.
validate: prerequisites
	$(CARGO) bench --locked --package humpyard-cli --bench validate -- $(ARGUMENTS)

# Before a release. ARGUMENTS are those of `cargo package`: --no-verify, --allow-dirty.
check-release: prerequisites
	@scripts/cargo-deny $(DENY)
	PATH="$(DENY)/bin:$$PATH" $(CARGO) deny --locked check licenses bans sources
	@scripts/check-packages $(ARGUMENTS)
	@scripts/prerequisites valgrind
	$(MAKE) package
	$(PACKAGE)/bin/python crates/humpyard-python/benchmarks/simulate.py --instructions ./target/release/humpyard
	@echo "Not run here, and needed before a release: make test, make reproduce, make validate, make promises."

# ARGUMENTS are those of the benchmark: --turns, --seconds, --json, --plots, --only.
bench-overload: prerequisites
	@scripts/prerequisites network
	@scripts/prerequisites dpdk
	$(CARGO) build --locked --release --package humpyard-wire --example flood
	$(CARGO) bench --locked --package humpyard-cli --bench overload -- $(ARGUMENTS)

# ARGUMENTS are those of the benchmark: --turns, --seconds, --json, --only. Captures are found by HUMPYARD_TRACES.
bench-steer: prerequisites
	@scripts/prerequisites network
	$(CARGO) bench --locked --package humpyard-cli --bench steer -- $(ARGUMENTS)

# ARGUMENTS are those of the benchmark: --pairs, --seconds, --json, --only.
bench-wire: prerequisites
	@scripts/prerequisites network
	@scripts/prerequisites dpdk
	$(CARGO) build --locked --release --package humpyard-wire --example flood
	$(CARGO) bench --locked --package humpyard-cli --bench wire -- $(ARGUMENTS)

# The library for C, built alone: its size and its symbols do not depend on the rest of the workspace.
install:
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" LIBDIR="$(LIBDIR)" CARGO="$(CARGO)" scripts/install-c-library

prerequisites:
	@scripts/prerequisites

# For the check of the metrics; without it that is skipped.
prometheus:
	@scripts/prerequisites prometheus $(PROMETHEUS)

# For the checks of the Python module; the program and its demonstration do without.
python:
	@scripts/prerequisites python
	@scripts/python-environment $(PYTHON_ENVIRONMENT)

# For all features; builds without do without.
transcode:
	@scripts/prerequisites transcode

clean:
	$(CARGO) clean
