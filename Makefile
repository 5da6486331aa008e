# Everything runs in an environment of its own, .venv; `make test` and `make run` set it up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The constraints pin what the results were made with; torch is the CPU build there.
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

# Two processes, a file of tests at a time, so that what a file sets up is shared; short ones come last.
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# What `make quick` leaves to `make test`: whole studies, kills, peers, a browser, pages and results.
SLOW := tests/studies tests/service tests/runs tests/benchmarks tests/reporting/test_html_browser.py \
	tests/test_architectures.py tests/test_docs.py tests/test_numbers.py tests/test_results.py tests/test_damaged_inputs.py

.PHONY: help run test quick lint docs bench serve live torture presets release browser setup fetch clean

help:
	@awk -F': ' '/^## [a-z]+: /{sub("## ", "", $$1); printf "make %-8s %s\n", $$1, $$2}' Makefile

## run: set everything up, fetch SmolLM2, run the quick program study, name its report
run: fetch
	@echo "== the quick program study (about five and a half minutes on two idle cores)"
	$(BIN)/larc study programs --preset quick --out runs/programs-quick

## test: set everything up, fetch SmolLM2, check style, types and structure, run all tests
test: fetch lint browser
	@echo "== tests (tiny model, then SmolLM2)"
	$(PYTEST)

## quick: lint, types, structure, unit tests and doctests on the tiny model, in minutes
quick: lint
	@echo "== unit tests and doctests (tiny model)"
	$(PYTEST) -m "not smollm2" $(SLOW:%=--ignore=%) tests larc

## lint: style, types and the one-way house
lint: setup
	@echo "== style, types, structure"
	$(BIN)/ruff check larc tests benchmarks website
	$(BIN)/ruff format --check larc tests benchmarks website
	$(BIN)/mypy
	$(BIN)/lint-imports

## serve: the live service on this machine, SQLite in larc-data/, until Ctrl-C
serve: setup
	$(BIN)/larc serve --data larc-data

# Another history than the made-up one: make live LIVE='flask.jsonl.gz --speed 600'.
## live: a server on this machine and a repository's CI that happens in it now, until Ctrl-C
live: setup
	@rm -rf larc-live
	@LARC_LOG=$${LARC_LOG:-warning} $(BIN)/larc ci live $(LIVE) || test $$? -eq 130

## docs: bring the pages up to date with the results, build the site into site/
docs: setup
	@echo "== the site"
	$(BIN)/python -m website
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "the site is site/index.html"

## bench: one table of ratios, against other tools and against the machine
bench: fetch $(VENV)/bench
	$(BIN)/larc bench

# Fewer of each: make torture TORTURE='--kills 10 --flips 500 --inputs 1000'.
## torture: kill, flip and feed damaged input until something breaks, and count
torture: setup
	$(BIN)/python -m benchmarks.torture $(TORTURE)

# The largest too, with 9 GB of memory: make presets LARC_NETWORK=all.
## presets: bring every preset from the network into an empty cache, and use it offline
presets: LARC_NETWORK ?= 1
presets: setup
	LARC_NETWORK=$(LARC_NETWORK) $(BIN)/python -m pytest -m network tests/substrate

## release: what a release has to pass besides: the wheel in an empty environment, the notebook
release: fetch
	LARC_NETWORK=1 $(BIN)/python -m pytest -m network tests/cli tests/test_examples.py

# Report pages are tried in a headless Chromium: one that is here, or else one that is brought.
browser: setup
	@echo "== a browser for the tests of report pages"
	$(BIN)/python -m tests.browser

fetch: setup
	@echo "== SmolLM2-135M (93 MB, once)"
	$(BIN)/larc fetch smollm2-135m

setup: $(VENV)/ready

# torch first and by its exact version: a range would pull several gigabytes for accelerators.
$(VENV)/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name it with make PYTHON=python3.11"; exit 1; }
	@echo "== environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	$(INSTALL) --editable '.[dev]'
	touch $@

# What the benchmark compares with; nothing else needs it.
$(VENV)/bench: $(VENV)/ready
	@echo "== the benchmark's peers"
	$(INSTALL) --editable '.[bench]'
	# Peers that ask for an old transformers, and work with this one.
	$(INSTALL) --no-deps pyreft pyvene
	touch $@

## clean: remove the environment and every cache; runs stay
clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
