# `make demo` and `make test` set up all that they need in .venv; nothing else has to be installed first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
DEMO_RESULTS ?= demo-results
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Neighbours stay in one process, where what they share is imported and built once, until the other one is idle.
TEST_ARGS ?= -n auto --dist worksteal
# To collect all tests takes longer than to run these.
ALONE = $(shell grep -rl --include="test_*.py" "mark[.]alone" tests)

.PHONY: demo test test-nightly test-wheel test-adapters lint test-light benchmark benchmark-mining clean docs

# The board of the bundled sample: light core, the student that ships and mUSE; no torch.
demo: $(VENV)/.demo
	$(BIN)/leaderboard run --suite sample --encoder student --encoder muse --encoder chargrams --results $(DEMO_RESULTS)
	$(BIN)/leaderboard report --results $(DEMO_RESULTS)
	$(BIN)/leaderboard show --results $(DEMO_RESULTS)

# All tests, with every package that they need (torch among them).
test: $(VENV)/.test
	$(BIN)/python -m pytest -n 0 -m "alone and not nightly" $(ALONE)
	$(BIN)/python -m pytest $(TEST_ARGS)

# What takes too long for every change: longer versions of tests, thousands of damaged files.
test-nightly: $(VENV)/.test
	$(BIN)/python -m pytest $(TEST_ARGS) -m "nightly and not alone"
	$(BIN)/python -m pytest -n 0 -m "nightly and alone" $(ALONE)
	HARNESS_MUTATIONS=5000 $(BIN)/python -m pytest $(TEST_ARGS) tests/test_mutated_files.py

# The wheel, away from the checkout; and a second repository that has nothing but it.
test-wheel: $(VENV)/.light
	$(BIN)/python -m pytest -m nightly tests/test_wheel.py

# Only the adapters, through the real libraries: LASER, TensorFlow Hub, transformers, training.
test-adapters: $(VENV)/.test
	$(BIN)/python -m pytest $(TEST_ARGS) tests/baselines tests/test_side_by_side.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The light core's tests, but for the slow ones; on another Python: make test-light PYTHON=python3.13 VENV=.venvs/3.13
test-light: $(VENV)/.light
	$(BIN)/python -m pytest $(TEST_ARGS) -m "not slow and not nightly and not alone"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e ".[demo]"
	touch $@

$(VENV)/.light: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e ".[test]"
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e ".[dev]"
	touch $@ $(VENV)/.demo $(VENV)/.light

# The documentation's site, in build/site.
docs: $(VENV)/.test
	$(BIN)/python tools/build_docs.py

# What the harness costs beside the bare encoder.
benchmark: $(VENV)/.demo
	$(BIN)/python benchmarks/overhead.py

# Bitext mining beside LASER's way.
benchmark-mining: $(VENV)/.test
	$(BIN)/python benchmarks/mining.py

clean:
	rm -rf $(VENV) .venvs $(DEMO_RESULTS) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
