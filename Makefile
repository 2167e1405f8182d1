# `make demo` and `make test` install what they need into .venv, and nothing outside this folder.
PYTHON ?= python3
BIN := .venv/bin
# uv, if there is one, takes a tenth of pip's time. Neither compiles modules that are never imported.
INSTALL = $(if $(shell command -v uv),uv pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile)
DATA ?= ../shared/data
PAGES ?= /tmp/crawlprio-pages
WEBS ?= /tmp/crawlprio-webs
# Otherwise each of the hundreds of processes that tests start compiles Python's modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long check compiled lint lint-only docs bench bare kills archive-kills shared-kills spiders upstream upstream-tests reproduce webs scale soak clean

demo: .venv/run
	$(BIN)/scrapy crawl site -s CLOSESPIDER_PAGECOUNT=4000 -s LOG_LEVEL=WARNING -s CRAWLPRIO_COMPILE=False

# The tests but for the long ones, or those that T names: make test T=tests/test_store.py. More
# processes than processors, because crawls wait for delays; each takes up to 1.2 GB. Compiling first
# keeps its notice out of what the tests read.
PYTEST := $(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder --durations=25
test: .venv/dev
	$(MAKE) -j2 compiled $(if $(T),,lint-only)
	$(if $(T),$(BIN)/pytest $(T),$(PYTEST) -m "not long")

# What `make test` leaves out: Scrapy's own tests, whole installations, all cases of slow tests.
test-long: .venv/dev
	$(MAKE) compiled
	CRAWLPRIO_LONG=1 $(PYTEST) -m "long or sampled"

# Format, types, and the tests that run no crawl, no server and no other process: two minutes.
check: .venv/dev
	$(MAKE) -j2 compiled lint-only
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

compiled: .venv/dev
	$(BIN)/crawlprio compile

lint-only: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lint: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The docs site, into docs/_build/html; a warning is an error.
docs: .venv/docs
	$(BIN)/python -m sphinx -b html -W --keep-going -q docs docs/_build/html

# All benchmarks: 12 to 35 minutes. Needs the link graphs and the WARC in $(DATA).
bench: .venv/dev
	$(BIN)/python benchmarks/run_all.py --shared $(DATA)

# Install the package into an empty environment, then kill, resume and score a crawl: a few minutes.
bare: .venv/dev
	CRAWLPRIO_BARE=1 $(BIN)/pytest -s tests/test_bare_venv.py

# Kill real crawls a hundred and fifty times: about eight minutes.
kills: compiled
	CRAWLPRIO_KILLS=100 $(BIN)/pytest -s tests/test_kills.py

# Kill a crawl of the 3,000 pages and more of four documentation packages twenty times, with an archive: five minutes.
archive-kills: .venv/dev
	mkdir -p $(PAGES) && cd $(PAGES) && apt-get download python3.11-doc postgresql-doc-15 python-django-doc sqlite3-doc
	for package in $(PAGES)/*.deb; do dpkg-deb -x $$package $(PAGES); done
	CRAWLPRIO_ARCHIVE_KILLS=20 CRAWLPRIO_ARCHIVE_PAGES=$(PAGES)/usr/share/doc/python3.11/html:$(PAGES)/usr/share/doc/postgresql-doc-15/html:$(PAGES)/usr/share/doc/python-django-doc/html:$(PAGES)/usr/share/doc/sqlite3 \
		$(BIN)/pytest -s tests/test_archive_kills.py

# Twenty random sequences of faults for workers with and without Redis: ten minutes.
shared-kills: .venv/dev
	CRAWLPRIO_FAULT_RUNS=10 $(BIN)/pytest -s tests/test_workers.py -k any_sequence

# 200,000 fetches from a web of which a third is hostile: about twenty minutes.
soak: .venv/dev
	$(BIN)/python benchmarks/soak.py

# A thousand random spiders, 50 of them killed, each compared with Scrapy alone: about an hour.
spiders: .venv/dev
	CRAWLPRIO_SPIDERS=1000 $(BIN)/pytest -n 2 tests/test_random_spiders.py

# Scrapy's own tests with parts of crawlprio switched on: half an hour. They are downloaded to the
# user's cache, not to this folder. docs/compatibility.md lists the differences that are expected. Then
# other libraries' plug-ins, with and without the add-on.
upstream: .venv/dev
	$(BIN)/python tests/upstream/run.py
	$(BIN)/python tests/upstream/libraries.py

upstream-tests: .venv/dev
	$(BIN)/python tests/upstream/run.py --prepare

# The papers' experiments, written to docs/reproduction, whose README.md says what they took and which
# graphs in $(DATA) they need. For one section:
# $(BIN)/python experiments/reproduce.py --shared $(DATA) --webs $(WEBS) --only choices
reproduce: webs
	$(BIN)/python experiments/reproduce.py --shared $(DATA) --webs $(WEBS)

# Build the real webs of the experiments from Debian packages and public git histories, and compare
# all data with the recorded hashes: about fifteen minutes and 10 GB in $(WEBS). What cannot be had is
# named, and left out of the experiments.
webs: .venv/dev
	mkdir -p $(WEBS)
	$(BIN)/python experiments/sources.py $(WEBS) --shared $(DATA)

# Webs of up to 30 million pages: half an hour.
scale: .venv/dev
	$(BIN)/python benchmarks/scale.py --hosts $(DATA)/uk1996-hosts.npz

.venv/created:
	@$(PYTHON) -c 'import sys; sys.exit("crawlprio needs Python 3.11 or later; run make with PYTHON=python3.11, for example." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	touch $@

.venv/run: .venv/created pyproject.toml
	$(INSTALL) --editable .
	touch $@

.venv/dev: .venv/run
	$(INSTALL) --editable '.[dev]'
	touch $@

.venv/docs: .venv/run
	$(INSTALL) --editable '.[docs]'
	touch $@

clean:
	rm -rf docs/_build .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
