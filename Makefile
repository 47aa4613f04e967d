# `make` without a target lists the targets. Each target first checks that the programs it needs are there
# (tools/prepare), and as root on Debian installs the missing ones.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test lint docs site deb deb-arm64 static static-arm64 wheel bench claims adaptive-grid peers clean study-package

# Rust may have been installed after this shell was started.
export PATH := $(PATH):$(HOME)/.cargo/bin

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
C_FILES := crates/gateway/bpf/fairhop.c bench/peers/ns3/network.cc
PYTHON_FOLDERS := bench/peers bench/routing bench/emulator bench/gateway tools tools/site
PYTHON_FILES := $(wildcard bench/*.py $(addsuffix /*.py,$(PYTHON_FOLDERS)))
SHELL_FILES := .ci/run tools/prepare tools/deb tools/try-arm64 tools/try-deb tools/try-unit tools/fresh-root $(addprefix crates/gateway/package/,postinst prerm postrm) $(wildcard bench/emulator/*.sh bench/gateway/*.sh)
# Runs a study with the package of the target study-package.
STUDY = PYTHONPATH=out/study/package FAIRHOP=$(TARGET_DIR)/release/fairhop .venv/bin/python -m fairhop study
# Runs a command on the last core that this process may use: speed is measured on one core.
PINNED = taskset -c $$(taskset -pc $$$$ | sed 's/.*[^0-9]//')

help: ## List the targets
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

demo: ## Three downloads and five calls over four radio hops: a table, and pictures in out/
	@tools/prepare rust compiler clang iproute iperf3
	cargo run --release --locked --package fairhop -- demo --out out
	@echo "Next: docs/guides/first-steps.md, and $(TARGET_DIR)/release/fairhop --help"
	@echo "As root, with real calls and downloads on an emulated mesh, and the gateway in front of it:"
	@echo "  $(TARGET_DIR)/release/fairhop emulate k-real --gateway     and without --gateway, to see the difference"

test: ## All tests
	@tools/prepare rust compiler clang python tshark iproute ethtool daemons guests venv
	@echo "» all tests: about 16 minutes on 2 cores from a clean clone, compilation included"
	cargo test --workspace --locked --no-run
	python3 tools/docs.py --check --program $(TARGET_DIR)/debug/fairhop
	cargo test --workspace --locked

lint: ## All checks that are not tests: formatting, lints, types, licences
	@tools/prepare rust rust-lints compiler python shell c venv
	cargo fmt --all --check
	cargo fmt --all --check --manifest-path fuzz/Cargo.toml
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --no-deps --document-private-items --locked --quiet
	@if [[ -x .venv/bin/mypy ]]; then set -x; \
		.venv/bin/ruff check $(PYTHON_FILES); \
		.venv/bin/ruff format --check $(PYTHON_FILES); \
		for folder in $(PYTHON_FOLDERS); do .venv/bin/mypy --strict "$$folder"/*.py; done; \
		.venv/bin/ruff check python; .venv/bin/ruff format --check python; .venv/bin/mypy --strict python/fairhop; fi
	@if command -v shellcheck >/dev/null; then set -x; shellcheck $(SHELL_FILES); fi
	@if command -v shfmt >/dev/null; then set -x; shfmt -d $(SHELL_FILES); fi
	@if command -v clang-format >/dev/null; then set -x; clang-format --dry-run --Werror $(C_FILES); fi
	@if cargo deny --version >/dev/null 2>&1; then set -x; cargo deny --locked check; \
		else echo "» cargo-deny is missing: licences, sources and advisories of dependencies are not checked;" \
			"fix: cargo install cargo-deny"; fi

docs: ## Run the commands in the documents, update the outputs shown there, and draw the pictures
	@tools/prepare rust compiler python
	cargo build --release --locked --package fairhop
	python3 tools/docs.py --program $(TARGET_DIR)/release/fairhop
	$(TARGET_DIR)/release/fairhop demo --out docs >/dev/null
	python3 tools/pictures.py --program $(TARGET_DIR)/release/fairhop

site: ## The documentation as a site that needs no network, in out/site
	@tools/prepare rust compiler clang python venv
	cargo build --release --locked --package fairhop --package fairhop-python
	.venv/bin/python tools/try_wheel.py --library $(TARGET_DIR)/release/lib_native.so \
		--program $(TARGET_DIR)/release/fairhop --site out/site

deb: ## A Debian package of the program with its gateway, in out/
	@tools/prepare rust compiler clang
	cargo build --release --locked --package fairhop
	tools/deb $(TARGET_DIR)/release/fairhop out
	@echo "Next: dpkg -i out/fairhop_*.deb, and docs/guides/gateway.md; tools/try-deb out/fairhop_*.deb tries it in a fresh root, tools/try-unit under systemd"

deb-arm64: ## The same package for 64-bit ARM, cross-compiled, in out/
	@tools/prepare rust compiler clang arm64
	cargo build --release --locked --package fairhop
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc \
		cargo build --release --locked --package fairhop --target aarch64-unknown-linux-gnu
	tools/deb $(TARGET_DIR)/aarch64-unknown-linux-gnu/release/fairhop out arm64 $(TARGET_DIR)/release/fairhop
	@echo "Next: on a machine with arm64, dpkg -i fairhop_*_arm64.deb; tools/try-arm64 out/fairhop_*_arm64.deb tries it in a guest"

static: ## The program without any library of the system, for routers and distributions with another C library, in out/
	@tools/prepare rust compiler clang static
	cargo build --release --locked --package fairhop --target x86_64-unknown-linux-musl
	mkdir -p out && strip --strip-unneeded -o out/fairhop-x86_64 $(TARGET_DIR)/x86_64-unknown-linux-musl/release/fairhop
	@echo "Next: copy out/fairhop-x86_64 there, as fairhop, and docs/guides/gateway.md"

static-arm64: ## The same for 64-bit ARM, in out/
	@tools/prepare rust compiler clang static_arm64
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld CC_aarch64_unknown_linux_musl=aarch64-linux-gnu-gcc \
		cargo build --release --locked --package fairhop --target aarch64-unknown-linux-musl
	mkdir -p out && aarch64-linux-gnu-strip --strip-unneeded -o out/fairhop-arm64 \
		$(TARGET_DIR)/aarch64-unknown-linux-musl/release/fairhop
	@echo "Next: copy out/fairhop-arm64 there, as fairhop, and docs/guides/gateway.md"

wheel: ## The Python package, with the program, as a wheel in out/
	@tools/prepare rust compiler clang python
	cargo build --release --locked --package fairhop --package fairhop-python
	python3 tools/wheel.py --library $(TARGET_DIR)/release/lib_native.so --program $(TARGET_DIR)/release/fairhop --out out
	@echo "Next: pip install out/fairhop-*.whl, and docs/guides/python.md"

bench: ## Speed: cost by network size, the gateway's observer, and the ratio to ns-2 in the same run
	@tools/prepare rust compiler python ns2
	cargo bench --locked --package fairhop-sim --bench scale --no-run
	$(PINNED) cargo bench --locked --package fairhop-sim --bench scale
	cargo bench --locked --package fairhop-control --bench observer --no-run
	$(PINNED) cargo bench --locked --package fairhop-control --bench observer
	cargo build --release --locked --package fairhop
	@rm -f out/bench/speed.json
	python3 bench/peers/run.py --cases speed --out out/bench \
		--only $$(command -v ns >/dev/null && echo ns2,)fairhop

claims: ## Repeat what the papers measured, with a report in out/study (15 minutes to two hours; resumes after an interruption)
	@tools/prepare rust compiler clang python tshark venv
	@$(MAKE) -s study-package
	$(STUDY) all --full --page docs/claims.md

adaptive-grid: ## Adaptive control against the best fixed setting in 3 × 1080 cells (hours; resumes after an interruption)
	@tools/prepare rust compiler clang python venv
	@$(MAKE) -s study-package
	$(STUDY) adaptive --full --page docs/validation/adaptive-grid.md
	$(STUDY) adaptive --full --direction up --page docs/validation/adaptive-grid.md
	$(STUDY) adaptive --full --direction mixed --page docs/validation/adaptive-grid.md
	$(STUDY) adaptive --changes --page docs/validation/adaptive-grid.md
	$(STUDY) adaptive --picture docs/validation/adaptive-region.svg
	$(STUDY) adaptive --sample --controls adaptive --golden crates/sim/tests/golden/adaptive.jsonl

# The Python package as `make wheel` makes it, where $(STUDY) finds it.
study-package:
	cargo build --release --locked --package fairhop --package fairhop-python
	rm -rf out/study/package
	python3 tools/wheel.py --library $(TARGET_DIR)/release/lib_native.so --program $(TARGET_DIR)/release/fairhop \
		--out out/study/package
	.venv/bin/pip install --quiet --no-index --no-deps --target out/study/package out/study/package/*.whl

peers: ## The same scenarios in ns-2, ns-3 and Fairhop (45 minutes, nearly all for ns-3)
	@tools/prepare rust compiler python ns2 ns3
	cargo build --release --locked --package fairhop
	python3 bench/peers/run.py --only $$(command -v ns >/dev/null && echo ns2,)$$(\
		compgen -G '/usr/include/ns3*' >/dev/null && echo ns3,)fairhop

clean: ## Remove build products; results in out/ stay
	cargo clean
	rm -rf .venv .mypy_cache .ruff_cache
	$(MAKE) -s -C bench/peers/ns3 clean
