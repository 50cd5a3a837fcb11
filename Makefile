# Two commands do everything: `make run` opens the playground, `make test` passes the tests.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
NPM := $(PY) -m tests.npm
export GRADIO_ANALYTICS_ENABLED := False
export HF_HUB_DISABLE_TELEMETRY := 1

.PHONY: run test test-cluster nightly bench reliability reliability-nightly lint lock clean

run: $(VENV)/.run
	$(PY) app.py

test: $(VENV)/.dev node_modules/.ready
	$(NPM) test --silent
	$(PY) -m tests.browser_setup
	@# One process for each core, one thread in each. A file stays whole, as its tests share pages;
	@# the browser's files come first, as one of them at the end would run alone.
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Runs on replicas, where Ray is installed; `make test` passes over them elsewhere.
test-cluster: $(VENV)/.cluster
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -p no:xdist tests/cluster

# What is too long for every run of the tests: all architectures under all strategies, every panel of
# every tab, and a defect planted wherever a guard stands, which the tests have to find.
nightly: $(VENV)/.dev node_modules/.ready
	$(PY) -m tests.browser_setup
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -n auto --maxprocesses 4 --dist loadfile -m nightly
	$(PY) -m tests.planted

# Every benchmark after the other, and docs/results.md of what they found: about an hour.
bench: $(VENV)/.dev
	$(PY) -m tests.browser_setup
	$(PY) -m benchmarks.results

# What the playground withstands; the long form takes a night.
reliability: $(VENV)/.dev
	$(PY) -m benchmarks.reliability --write

reliability-nightly: $(VENV)/.dev
	$(PY) -m benchmarks.reliability --nightly --write

lint: $(VENV)/.dev node_modules/.ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/basedpyright
	$(NPM) run --silent lint
	@# What could not be looked up, it names, and that is no failure: lint works without a network.
	$(PY) -m tests.helpers.audit

# Names the versions that are installed, once all tests have passed with them, and what a Space
# installs of them, with hashes.
lock: $(VENV)/.dev
	$(PY) -m tests.helpers.lock
	$(PY) -m tests.helpers.space_lock

clean:
	rm -rf $(VENV) node_modules .pytest_cache .ruff_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.txt | $(VENV)/bin/python
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/.dev: requirements.txt requirements-models.txt requirements-openvino.txt requirements-dev.txt | $(VENV)/bin/python
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@ $(VENV)/.run

$(VENV)/.cluster: requirements-cluster.txt | $(VENV)/.dev
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-cluster.txt
	touch $@

# The page's scripts need no build; node only checks them.
node_modules/.ready: package.json package-lock.json | $(VENV)/.dev
	$(NPM) ci --silent --no-audit --no-fund
	touch $@
