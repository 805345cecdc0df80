# The verbs of this repository. README.md names two of them: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: install host check test demo cluster prove bench lock docs clean

install: $(STAMP)

# Exact versions with hashes; the project itself is installed in place without build isolation.
$(STAMP): requirements/test.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/test.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

lock:  ## new exact versions and hashes, without URLs
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-header --no-annotate pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-header --no-annotate pyproject.toml --extra test -o requirements/test.txt
