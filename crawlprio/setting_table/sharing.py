"""The settings of a crawl that many processes share; names without prefix are scrapy-redis's."""

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
            "Shards of the frontier, each with part of the sites; in Redis Cluster each is on one "
            "node. With several, the order is approximate and orderings that need an elected "
            "worker are refused.",
        ),
        Setting(
            "CRAWLPRIO_LEASE_SECONDS",
            Number(),
            60,
            "A worker that is silent for this long counts as dead, and its pages wait again; set "
            "more than DOWNLOAD_TIMEOUT.",
            "seconds",
        ),
        Setting(
            "REDIS_URL",
            Anything("a URL"),
            "redis://localhost:6379/0",
            "The server of a frontier in Redis; rediss:// uses TLS, "
            "redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/0 asks sentinels for the server, and "
            "redis+cluster://HOST:PORT,HOST:PORT names nodes of a cluster.",
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
            "it for the first worker only.",
        ),
        Setting(
            "REDIS_START_URLS_KEY",
            KeyName(none="none but those of scrapy-redis's own spiders"),
            None,
            "The Redis key from which any spider takes more start URLs while it runs; `%(name)s` "
            "in it stands for the spider's name. Spiders of scrapy-redis read their own keys.",
        ),
        Setting(
            "REDIS_START_URLS_AS_SET",
            Switch(),
            False,
            "Whether that key is a set; otherwise it is a list, whose head is taken first.",
        ),
        Setting(
            "REDIS_START_URLS_AS_ZSET",
            Switch(),
            False,
            "Whether that key is a sorted set, whose highest score is taken first.",
        ),
        Setting(
            "REDIS_START_URLS_BATCH_SIZE",
            Whole(least=1, none="CONCURRENT_REQUESTS"),
            None,
            "Start URLs to take at a time.",
        ),
        Setting(
            "MAX_IDLE_TIME_BEFORE_CLOSE",
            Number(),
            0,
            "A spider that takes start URLs from REDIS_START_URLS_KEY ends after this long without "
            "any page or start URL; 0: never.",
            "seconds",
        ),
    ),
    is_written=False,
)
