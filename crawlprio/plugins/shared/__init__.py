"""One frontier for several processes: a coordinator has it and the store, and workers fetch."""

from crawlprio.settings_table import setting_types as kinds
from crawlprio.settings_table.setting_types import Section, Setting

_KEY = "a name without braces", lambda text: text.isprintable() and not {"{", "}"} & set(text)
"""A name that can stand in the keys of a Redis server, inside a hash tag."""

SECTION = Section(
    "Many machines",
    Setting(
        "CRAWLPRIO_FRONTIER",
        kinds.Choice(words=("local", "redis")),
        "local",
        "Where pages wait: in this process, or, for any number of workers that hear of it "
        "through Redis, in one that they elect.",
        needs=(("redis", "redis", "redis"),),
    ),
    Setting(
        "CRAWLPRIO_WORKERS",
        kinds.Int(1, none="fetching in this process"),
        None,
        "Processes on this machine that fetch and parse pages for `crawlprio crawl`; another "
        "one has frontier and store. `crawlprio crawl --workers` sets it.",
        option="--workers N",
        summary="fetch and parse in N processes, and keep order, delays and the store in another",
    ),
    Setting(
        "CRAWLPRIO_COORDINATOR",
        kinds.Choice(words=("auto", "never", "only")),
        "auto",
        "With CRAWLPRIO_FRONTIER `redis`: whether this worker may start the process that has "
        "frontier and store (`auto`), leaves that to others (`never`), or is that process and "
        "fetches nothing (`only`).",
        former_name="CRAWLPRIO_BRAIN",
    ),
    Setting(
        "CRAWLPRIO_REDIS_CRAWL",
        kinds.Text(*_KEY, none="the name of the spider"),
        None,
        "The name of the crawl in Redis; workers with the same name share the crawl.",
    ),
    Setting(
        "CRAWLPRIO_LEASE_SECONDS",
        kinds.Float(),
        60,
        "Silence after which a worker is considered dead and its leased pages are queued "
        "again. Workers that wait for answers are not silent.",
        "seconds",
    ),
    Setting(
        "REDIS_URL",
        kinds.AnyValue("a URL"),
        "redis://localhost:6379/0",
        "The Redis server that carries the mail. rediss:// uses TLS; "
        "redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/0 asks sentinels for the primary; "
        "redis+cluster://HOST:PORT,HOST:PORT lists nodes of a cluster.",
    ),
    Setting(
        "REDIS_PARAMS", kinds.Options(secret=True), {}, "Arguments of redis-py's client, by name."
    ),
    Setting(
        "SCHEDULER_PERSIST",
        kinds.Bool(),
        False,
        "Keep what Redis knows of the crawl after it has ended. Its store stays in any case.",
    ),
    Setting(
        "SCHEDULER_FLUSH_ON_START",
        kinds.Bool(),
        False,
        "Delete the crawl of this name from Redis before starting, and begin another in a "
        "folder of its own; set it on the first worker only.",
    ),
    Setting(
        "REDIS_START_URLS_KEY",
        kinds.Text(*_KEY, none="no key"),
        None,
        "The Redis key from which any spider reads start URLs while it runs, where `%(name)s` "
        "stands for the spider's name: of a list, popped from its head, a sorted set, popped "
        "from its highest score, or a set. Spiders of scrapy-redis read their own keys.",
    ),
    Setting(
        "REDIS_START_URLS_BATCH_SIZE",
        kinds.Int(least=1, none="CONCURRENT_REQUESTS"),
        None,
        "Start URLs to pop at a time.",
    ),
    Setting(
        "MAX_IDLE_TIME_BEFORE_CLOSE",
        kinds.Float(),
        0,
        "Close an idle spider with a REDIS_START_URLS_KEY after this long without a start URL; "
        "0: never.",
        "seconds",
    ),
    is_written=False,
    about="See [distributed.md](distributed.md). Names without our prefix are those of "
    "scrapy-redis.",
)
