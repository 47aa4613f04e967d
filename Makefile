# What a person does with this repository. `make` alone lists it. Each target first sees that what it needs is there
# (tools/prepare); as root on Debian it installs what is missing.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test lint docs bench claims adaptive-grid peers clean

# A shell that was open before Rust was installed does not know where it is.
export PATH := $(PATH):$(HOME)/.cargo/bin

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
PYTHON_FOLDERS := bench/claims bench/adaptive bench/peers tools
PYTHON_FILES := $(wildcard bench/*.py $(addsuffix /*.py,$(PYTHON_FOLDERS)))
SHELL_FILES := .ci/run tools/prepare
# The last core that this process may use: figures of speed are taken on one.
PINNED = taskset -c $$(taskset -pc $$$$ | sed 's/.*[^0-9]//')

help: ## List the targets
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## What three downloads do to five calls over four radio hops: a table, and a picture in out/
	@tools/prepare rust compiler
	cargo run --release --locked --package fairhop -- demo --out out
	@echo "To go on: docs/guides/first-steps.md, and $(TARGET_DIR)/release/fairhop --help"

test: ## Every test
	@tools/prepare rust compiler python tshark
	cargo test --workspace --locked --no-run
	python3 tools/docs.py --check --program $(TARGET_DIR)/debug/fairhop
	cargo test --workspace --locked

lint: ## Every check that is not a test: layout, lints, types, licences
	@tools/prepare rust rust-lints compiler python shell venv
	cargo fmt --all --check
	cargo fmt --all --check --manifest-path fuzz/Cargo.toml
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --no-deps --document-private-items --locked --quiet
	@if [[ -x .venv/bin/mypy ]]; then set -x; \
		.venv/bin/ruff check $(PYTHON_FILES); \
		.venv/bin/ruff format --check $(PYTHON_FILES); \
		for folder in $(PYTHON_FOLDERS); do .venv/bin/mypy --strict "$$folder"/*.py; done; fi
	@if command -v shellcheck >/dev/null; then set -x; shellcheck $(SHELL_FILES); fi
	@if command -v shfmt >/dev/null; then set -x; shfmt -d $(SHELL_FILES); fi
	@if cargo deny --version >/dev/null 2>&1; then set -x; cargo deny --locked check; \
		else echo "» cargo-deny is missing: licences, sources and advisories of dependencies are not checked;" \
			"to have it: cargo install cargo-deny"; fi

docs: ## Run the commands that the documents show, and put what they print into them
	@tools/prepare rust compiler python
	cargo build --release --locked --package fairhop
	python3 tools/docs.py --program $(TARGET_DIR)/release/fairhop
	$(TARGET_DIR)/release/fairhop demo --out docs >/dev/null

bench: ## Speed: cost by size of the network, the observer of the gateway, and the ratio to ns-2 in the same run
	@tools/prepare rust compiler python ns2
	cargo bench --locked --package fairhop-sim --bench scale --no-run
	$(PINNED) cargo bench --locked --package fairhop-sim --bench scale
	cargo bench --locked --package fairhop-control --bench observer --no-run
	$(PINNED) cargo bench --locked --package fairhop-control --bench observer
	cargo build --release --locked --package fairhop
	@rm -f out/bench/speed.json
	python3 bench/peers/run.py --cases speed --out out/bench \
		--only $$(command -v ns >/dev/null && echo ns2,)fairhop

claims: ## Run what the papers measured, and judge it
	@tools/prepare rust compiler python
	cargo build --release --locked --package fairhop
	python3 bench/claims

adaptive-grid: ## Adaptive control against the best fixed setting in 3 × 1080 cells (hours; goes on where it was ended)
	@tools/prepare rust compiler python
	cargo build --release --locked --package fairhop
	python3 bench/adaptive --write
	python3 bench/adaptive --direction up --write
	python3 bench/adaptive --direction mixed --write
	python3 bench/adaptive --changes --write
	python3 bench/adaptive --picture

peers: ## The same scenarios in ns-2, ns-3 and Fairhop (45 minutes, nearly all of them ns-3's)
	@tools/prepare rust compiler python ns2 ns3
	cargo build --release --locked --package fairhop
	python3 bench/peers/run.py --only $$(command -v ns >/dev/null && echo ns2,)$$(\
		compgen -G '/usr/include/ns3*' >/dev/null && echo ns3,)fairhop

clean: ## Remove what was built; results in out/ stay
	cargo clean
	rm -rf .venv .mypy_cache .ruff_cache
	$(MAKE) -s -C bench/peers/ns3 clean
