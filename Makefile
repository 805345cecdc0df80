# The verbs of this repository. README.md names two of them: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# local (built from source), kind (needs docker and kind), or none (leaves the control plane out)
CLUSTER ?= local

.PHONY: help install host check test prove demo cluster bench bench-kueue lock docs clean

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP)  ## the environment with the `muster` command, in .venv/

# Exact versions with hashes; the project itself is installed in place without build isolation.
# An environment without pip (making it was cut short) or of an older Python is made anew.
$(STAMP): requirements/test.txt pyproject.toml
	@$(PYTHON) -c '$(NEW_ENOUGH)' 2>/dev/null || { echo "$(PYTHON) is not Python 3.11 or newer:" \
	  "$$($(PYTHON) --version 2>&1 | head -n 1); give one by its name: make $(or $(MAKECMDGOALS),install) PYTHON=python3.12" >&2; exit 1; }
	@echo "installing into $(VENV)/ (half a minute to some minutes, 420 MB)"
	@$(BIN)/python -c 'import pip; $(NEW_ENOUGH)' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python scripts/install.py requirements/test.txt
	@touch $@

host:  ## packages of the host (Debian), where this user may install them
	@./scripts/host.sh

check: $(STAMP)  ## ruff, mypy, import-linter, generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports
	$(BIN)/python scripts/generate_docs.py --check
	$(BIN)/python -m webhook.policy.schema --check
	$(BIN)/python charts/generate.py --check

# Real processes on a noisy machine: what fails is tried once more, alone, and named. A test that fails twice fails the
# run; one that fails once is a bug with priority (CONTRIBUTING.md), and both outputs stay in the log.
test: $(STAMP) host check  ## everything, the real control plane included
	$(BIN)/python -m pytest --cluster=$(CLUSTER) || \
	  { echo "=== second try of what failed ==="; $(BIN)/python -m pytest --cluster=$(CLUSTER) --last-failed --last-failed-no-failures=none; }

prove: $(STAMP)  ## the long recorded runs, of which `make test` has a short form each
	HYPOTHESIS_PROFILE=prove $(BIN)/python -m pytest --cluster=none tests/properties/test_engine_against_brute_force.py \
	  --hypothesis-seed=$$($(BIN)/python -c 'import secrets; print(secrets.randbelow(2**32))')
	HYPOTHESIS_PROFILE=prove $(BIN)/python -m pytest --cluster=$(CLUSTER) -m prove

demo: $(STAMP)  ## a running webhook over a folder of objects, and what it says of examples/
	$(BIN)/muster demo

cluster: $(STAMP)  ## a real Kubernetes 1.37.2 control plane with Muster registered, until Ctrl-C
	$(BIN)/python -m tests.live

bench: $(STAMP)  ## speed, as ratios within one run
	$(BIN)/python -m tests.bench

bench-kueue: $(STAMP)  ## the feasibility check beside Kueue's own (downloads and compiles Kueue, some minutes the first time)
	$(BIN)/python -m tests.bench.kueue

docs: $(STAMP)  ## pages made from the code
	$(BIN)/python scripts/generate_docs.py
	$(BIN)/python -m webhook.policy.schema
	$(BIN)/python charts/generate.py

lock: $(STAMP)  ## new exact versions and hashes, without URLs
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate pyproject.toml --extra test -o requirements/test.txt

clean:  ## the environment and all caches of this checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .demo
