# Two commands do everything: `make run` opens the playground, `make test` passes the tests.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
NPM := $(PY) -m tests.npm
export GRADIO_ANALYTICS_ENABLED := False
export HF_HUB_DISABLE_TELEMETRY := 1
# Hundreds of processes import the project; without compiled files each of them compiles it anew. Empty is off.
export PYTHONDONTWRITEBYTECODE :=

# One process more than there are cores, at most four, as tests wait for servers and browsers; one thread in
# each. A file stays whole, as its tests share pages; the browser's files come first, as one of them at the end
# would run alone. A worker that crashes is not replaced: with a replacement, pytest-xdist 3.8 waits for ever.
WORKERS := $(shell nproc 2>/dev/null | awk '{ print ($$1 < 4 ? $$1 + 1 : 4) }')
PYTEST := OMP_NUM_THREADS=1 $(PY) -m pytest -q -n $(or $(WORKERS),2) --dist loadfile --no-loadscope-reorder \
	--max-worker-restart=0 --ignore tests/cluster
# What `make quick` runs: files that need neither torch nor a browser, nor a server. A file that comes to
# need torch fails there with a sentence that says so.
QUICK := $(addprefix tests/,test_audit.py test_languages.py test_lock.py \
	test_space_lock.py test_structure.py deploy/test_files.py scale/test_page.py \
	$(addprefix engine/,test_one_shot_thread.py test_forward_checks.py test_lesson_files.py test_lesson_path.py \
	test_lesson_values.py test_media_hostile.py test_media_pictures.py test_media_shelf.py test_media_sounds.py \
	test_media_traces.py test_settings.py test_sources.py) \
	$(addprefix playground/,test_audit.py test_body_budget.py test_page_words.py) \
	$(addprefix visualizers/,test_compare.py test_bundle.py test_prefix_tree.py))
PROFILE := .test_profile
# Two checks at a time, the longest first; what each prints stays together.
BESIDE := @$(MAKE) --no-print-directory --jobs 2 --output-sync=target
LINT := lint-types lint-page lint-rest

.PHONY: run space quick quick-page quick-python test test-cluster nightly profile-tests bench reliability \
	reliability-nightly lint $(LINT) lock clean

run: $(VENV)/.run
	$(PY) app.py

# The last commit as a Hugging Face Space: make space TO=owner/name. It shows what will change and asks.
space: $(VENV)/.run
	$(PY) -m deploy.space --to "$(TO)" $(OPTIONS)

# For work in progress: style, types, and what can be tested within seconds.
quick: $(VENV)/.dev node_modules/.ready
	$(BESIDE) $(LINT) quick-page quick-python

quick-page:
	$(NPM) test --silent

quick-python:
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -p no:xdist -p tests.helpers.no_torch $(QUICK)

# Before a commit: everything a person does, and every path through the code.
test: $(VENV)/.dev node_modules/.ready
	$(NPM) test --silent
	$(PY) -m tests.browser_setup
	$(PYTEST)

# Runs on replicas: this target installs Ray.
test-cluster: $(VENV)/.cluster
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -p no:xdist tests/cluster

# What is too long for every change: all architectures under all strategies, every panel of every tab on
# two widths, many random parameters, and every planted defect, which the tests have to find. A test that fails
# does not keep the defects from being planted.
nightly: $(VENV)/.dev node_modules/.ready
	$(PY) -m tests.browser_setup
	$(PYTEST) -m nightly; tests=$$?; $(PY) -m tests.planted && exit $$tests

# What every test of `make test` costs, for docs/test_profile.md.
profile-tests: $(VENV)/.dev node_modules/.ready
	$(PY) -m tests.browser_setup
	rm -rf $(PROFILE)
	$(PYTEST) -p tests.helpers.cost --cost-to $(PROFILE)
	$(PY) -m tests.helpers.cost $(PROFILE)

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
	$(BESIDE) $(LINT)

lint-types:
	$(VENV)/bin/basedpyright

lint-page:
	$(NPM) run --silent lint

lint-rest:
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports
	@# What could not be looked up, it names, and that is no failure: lint works without a network.
	$(PY) -m tests.helpers.audit

# Names the versions that are installed, once all tests have passed with them, and what a Space
# installs of them, with hashes.
lock: $(VENV)/.dev
	$(PY) -m tests.helpers.lock
	$(PY) -m tests.helpers.space_lock

clean:
	rm -rf $(VENV) node_modules $(PROFILE) .pytest_cache .ruff_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.txt | $(VENV)/bin/python
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/.dev: requirements.txt requirements-models.txt requirements-openvino.txt requirements-notebook.txt requirements-dev.txt | $(VENV)/bin/python
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@ $(VENV)/.run

$(VENV)/.cluster: requirements-cluster.txt | $(VENV)/.dev
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-cluster.txt
	touch $@

# The page's scripts need no build; node only checks them.
node_modules/.ready: package.json package-lock.json | $(VENV)/.dev
	$(NPM) ci --silent --no-audit --no-fund
	touch $@
