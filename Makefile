# `make demo` and `make test` set up all they need in .venv, and nothing outside this folder.
PYTHON ?= python3
BIN := .venv/bin
DATA ?= ../shared/data

.PHONY: demo test lint bench bare kills redis-kills redis-cluster spiders upstream upstream-tests reproduce scale soak clean

demo: .venv/run
	$(BIN)/scrapy crawl site -s CLOSESPIDER_PAGECOUNT=4000 -s LOG_LEVEL=WARNING

# Compiled first: else whichever test is the first to need it has a line more on stderr, and waits.
test: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/crawlprio compile
	$(BIN)/pytest -n 2 --dist loadfile

lint: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# All benchmarks, for 12 to 30 minutes; needs the link graphs and the WARC in $(DATA).
bench: .venv/dev
	$(BIN)/python benchmarks/run_all.py --shared $(DATA)

# An empty environment, the package installed, a crawl killed, resumed and scored: some minutes.
bare: .venv/dev
	CRAWLPRIO_BARE=1 $(BIN)/pytest -s tests/test_bare_venv.py

# A hundred kills of real crawls, for some six minutes.
kills: .venv/dev
	CRAWLPRIO_KILLS=100 $(BIN)/pytest -s tests/test_kills.py

# Four workers on a web of 20,000 pages and one Redis server, one of them killed every ten seconds,
# for some five minutes.
redis-kills: .venv/dev
	CRAWLPRIO_REDIS_KILL_PAGES=20000 $(BIN)/pytest -s tests/test_redis_kills.py

# All tests of the frontier in Redis, on three servers of a cluster in place of one.
redis-cluster: .venv/dev
	CRAWLPRIO_REDIS_CLUSTER=1 $(BIN)/pytest tests/test_redis_*.py

# A web a third of which is hostile, 200,000 fetches, for some twenty minutes.
soak: .venv/dev
	$(BIN)/python benchmarks/soak.py

# A thousand random spiders, 50 of them killed, each against Scrapy alone, for about an hour.
spiders: .venv/dev
	CRAWLPRIO_SPIDERS=1000 $(BIN)/pytest -n 2 tests/test_random_spiders.py

# Scrapy's own tests with parts of crawlprio switched on, for half an hour; they are fetched into
# the user's cache, not into this folder. What may differ is in docs/compatibility.md.
upstream: .venv/dev
	$(BIN)/python tests/upstream/run.py

upstream-tests: .venv/dev
	$(BIN)/python tests/upstream/run.py --prepare

# The papers' experiments, for half an hour of processor time, into docs/reproduction; needs the graphs in
# $(DATA). One section alone: $(BIN)/python experiments/reproduce.py --shared $(DATA) --only choices
reproduce: .venv/dev
	$(BIN)/python experiments/reproduce.py --shared $(DATA)

# Webs of up to 30 million pages, for half an hour.
scale: .venv/dev
	$(BIN)/python benchmarks/scale.py --hosts $(DATA)/uk1996-hosts.npz

.venv/created:
	@$(PYTHON) -c 'import sys; sys.exit("crawlprio needs Python 3.11 or later; say PYTHON=python3.11 or the like." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	touch $@

.venv/run: .venv/created pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/dev: .venv/run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
