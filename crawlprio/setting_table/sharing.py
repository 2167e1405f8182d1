"""The settings of a shared frontier; names without our prefix come from scrapy-redis."""

from __future__ import annotations

from crawlprio.setting_table.kinds import (
    Anything,
    Choice,
    KeyName,
    Number,
    Options,
    Section,
    Setting,
    Switch,
    Whole,
)

SHARING = Section(
    "Many machines",
    "See [distributed.md](distributed.md). Names without our prefix are those of scrapy-redis.",
    (
        Setting(
            "CRAWLPRIO_FRONTIER",
            Choice(words=("local", "redis")),
            "local",
            "Where pages wait: in this process, or in Redis, for any number of workers.",
        ),
        Setting(
            "CRAWLPRIO_REDIS_CRAWL",
            KeyName(none="the name of the spider"),
            None,
            "The name of the crawl in Redis; workers with the same name share the crawl.",
        ),
        Setting(
            "CRAWLPRIO_REDIS_SHARDS",
            Whole(least=1),
            1,
            "Number of shards of the frontier, each with part of the sites; Redis Cluster keeps "
            "each on one node. With several, the order is approximate and orderings that need an "
            "elected worker are refused.",
        ),
        Setting(
            "CRAWLPRIO_REDIS_PAGES",
            Whole(1, none="no limit"),
            None,
            "Maximum number of pages that all workers fetch together, failed fetches included; "
            "each worker then ends. `crawlprio crawl --pages` sets it.",
            "pages",
        ),
        Setting(
            "CRAWLPRIO_LEASE_SECONDS",
            Number(),
            60,
            "Silence after which a worker is considered dead and its leased pages are queued "
            "again; set it above DOWNLOAD_TIMEOUT.",
            "seconds",
        ),
        Setting(
            "REDIS_URL",
            Anything("a URL"),
            "redis://localhost:6379/0",
            "The Redis server of the frontier. rediss:// uses TLS; "
            "redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/0 asks sentinels for the primary; "
            "redis+cluster://HOST:PORT,HOST:PORT lists nodes of a cluster.",
        ),
        Setting("REDIS_PARAMS", Options(), {}, "Arguments of redis-py's client, by name."),
        Setting(
            "SCHEDULER_PERSIST",
            Switch(),
            False,
            "Keep the frontier in Redis after the crawl has ended; visits always stay there until "
            "they are collected.",
        ),
        Setting(
            "SCHEDULER_FLUSH_ON_START",
            Switch(),
            False,
            "Delete the crawl of this name from Redis, including its visits, before starting; set "
            "it on the first worker only.",
        ),
        Setting(
            "REDIS_START_URLS_KEY",
            KeyName(none="no key"),
            None,
            "The Redis key from which any spider reads start URLs while it runs; `%(name)s` stands "
            "for the spider's name. Spiders of scrapy-redis read their own keys.",
        ),
        Setting(
            "REDIS_START_URLS_AS_SET",
            Switch(),
            False,
            "Whether that key is a set. Otherwise it is a list, popped from its head.",
        ),
        Setting(
            "REDIS_START_URLS_AS_ZSET",
            Switch(),
            False,
            "Whether that key is a sorted set, popped from its highest score.",
        ),
        Setting(
            "REDIS_START_URLS_BATCH_SIZE",
            Whole(least=1, none="CONCURRENT_REQUESTS"),
            None,
            "Start URLs to pop at a time.",
        ),
        Setting(
            "MAX_IDLE_TIME_BEFORE_CLOSE",
            Number(),
            0,
            "Close an idle spider with a REDIS_START_URLS_KEY after this long without a start URL; "
            "0: never.",
            "seconds",
        ),
    ),
    is_written=False,
)
