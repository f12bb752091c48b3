# What a contributor runs. `make` alone lists it; nothing but Python 3.10 or newer is needed.

PYTHON ?= python3
TORCH_INDEX_URL ?=
ARGS ?=
BENCHES := startup crossed_files reasons evaluation_cost reading verdicts pages footprint delivery

VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --disable-pip-version-check --constraint constraints.txt

# The stamp names the Python and the folder it was made for, since an environment works with no other of either.
MADE_FOR := $(shell $(PYTHON) -c 'import os, sys, zlib; \
	print("%d.%d-%08x" % (sys.version_info[0], sys.version_info[1], zlib.crc32(os.getcwd().encode()) & 0xffffffff))' 2>/dev/null)
READY := $(VENV)/.ready-$(MADE_FOR)

.DEFAULT_GOAL := help
.PHONY: help demo test test-browser test-deploy lint format bench pins clean

help: ## list the targets
	@echo "make TARGET [PYTHON=python3.12] [TORCH_INDEX_URL=URL] [ARGS='...']"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS='|' read -r name text; do \
		printf '  %-12s %s\n' $$name "$$text"; done
	@echo
	@echo "PYTHON            the Python that makes .venv (now $(PYTHON))"
	@echo "TORCH_INDEX_URL   package index with another build of torch, used when .venv is made"
	@echo "ARGS              handed on: to the demo, pytest, the benchmarks or the pin resolver"
	@echo "TEST_DATABASE_URL PostgreSQL for the tests; without it they start their own"

demo: $(READY) ## measure this machine, post it to a server of your own, show the answer (ARGS=--once to end by itself)
	@$(RUN) deploy/demo.py $(ARGS)

test: $(READY) ## run every test, on SQLite, and on PostgreSQL where that may differ
	@$(RUN) -m pytest --numprocesses logical --maxprocesses 8 --dist worksteal $(ARGS)

test-browser: $(READY) ## look at every page with a real Chromium, which it needs (CONTRIBUTING.md); pictures go to .screenshots
	@$(INSTALL) --quiet --no-build-isolation --editable '.[agent,server,dev,browser]'
	@$(RUN) -m pytest -m 'programs or not programs' tests/web $(ARGS)

test-deploy: $(READY) ## check everything in deploy/ with the programs that read it (CONTRIBUTING.md names them)
	@$(INSTALL) --quiet --no-build-isolation --editable '.[agent,server,dev,deploy]'
	@$(RUN) -m pytest --numprocesses logical --maxprocesses 8 --dist loadfile -m 'programs or not programs' tests/deploy $(ARGS)

lint: $(READY) ## check style, formatting, types and who imports whom
	@$(RUN) -m ruff check .
	@$(RUN) -m ruff format --check .
	@$(RUN) -m mypy
	@$(VENV)/bin/lint-imports

format: $(READY) ## format, and mend what ruff can mend
	@$(RUN) -m ruff format .
	@$(RUN) -m ruff check --fix .

bench: $(READY) ## run the benchmarks that need no GPU (bench/measure.py and bench/device_check.py need one)
	@for name in $(BENCHES); do echo "== bench/$$name.py"; $(RUN) bench/$$name.py $(ARGS) || exit 1; done

pins: ## renew constraints.txt: only what must change, or everything with ARGS=--upgrade
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
	$(PYTHON) -m venv "$$scratch" && "$$scratch/bin/python" -m pip install --quiet uv && \
	"$$scratch/bin/uv" pip compile --quiet pyproject.toml --all-extras --universal --python-version 3.10 --no-annotate \
		--custom-compile-command 'make pins' --output-file constraints.txt $(ARGS)

clean: ## remove the environment, the demo's data and every cache
	@rm -rf $(VENV) .demo .screenshots dist htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Without a stamp (first run, interrupted run, another Python, moved folder) the environment is made afresh;
# with an old one it is brought up to date in place. The stamp goes first and comes back last.
$(READY): pyproject.toml constraints.txt hatch_build.py
	@command -v $(PYTHON) >/dev/null || { \
		echo "There is no $(PYTHON) here. Install Python 3.10 or newer, or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
		echo "$(PYTHON) is too old: Python 3.10 or newer is needed. Name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments, for it came without ensurepip." >&2; \
		echo "Install that part (Debian, Ubuntu: apt install python3-venv) or name another Python: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; }
	@set -e; \
	if test -e $@; then rm -f $@; quiet=--quiet; else \
		echo "Making $(VENV). torch comes with it, gigabytes in its default build: see Downloads in README.md."; \
		rm -rf $(VENV); $(PYTHON) -m venv $(VENV); quiet=; fi; \
	if test -n "$(TORCH_INDEX_URL)"; then $(INSTALL) $$quiet --no-deps --index-url "$(TORCH_INDEX_URL)" torch; fi; \
	$(INSTALL) $$quiet hatchling; \
	$(INSTALL) $$quiet --no-build-isolation --editable '.[agent,server,dev]'; \
	touch $@
