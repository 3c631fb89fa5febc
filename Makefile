# humpyard: `make demo` shows it, `make test` tests it. Both install what is missing on a Debian or Ubuntu machine with Rust.

CARGO ?= cargo

.PHONY: help demo test format lint docs check-no-std bench prerequisites clean

help:
	@echo "make demo     compose traffic, run it live under four policies, compare them (a minute after the build)"
	@echo "make test     formatting, lints, documentation, all tests"
	@echo "make bench    time the hot paths"
	@echo "make clean    remove everything built"

demo: prerequisites
	$(CARGO) build --locked --release --package humpyard-cli
	./target/release/humpyard demo

test: prerequisites format lint docs check-no-std
	$(CARGO) test --locked --workspace --all-features

format:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --locked --workspace --all-targets --all-features -- --deny warnings

docs:
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --locked --workspace --all-features --no-deps

# Policies and core must build where there is no operating system: the proof that they are pure.
check-no-std:
	@scripts/check-no-std

bench: prerequisites
	$(CARGO) bench --locked --workspace

prerequisites:
	@scripts/prerequisites

clean:
	$(CARGO) clean
