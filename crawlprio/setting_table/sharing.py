"""The settings of a crawl that many processes share; those without prefix are scrapy-redis's."""

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
    "See [distributed.md](distributed.md). Those without our prefix have scrapy-redis's names.",
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
            "The name of the crawl in Redis; workers that give the same one share it.",
        ),
        Setting(
            "CRAWLPRIO_REDIS_SHARDS",
            Whole(least=1),
            1,
            "Parts of the frontier, among which sites are spread; Redis Cluster keeps each on one "
            "node. With more than one the order is close to that of one, and orderings that "
            "an elected worker computes are refused.",
        ),
        Setting(
            "CRAWLPRIO_LEASE_SECONDS",
            Number(),
            60,
            "After so long a silence a worker is taken for dead, and its pages wait again; give "
            "more than DOWNLOAD_TIMEOUT.",
            "seconds",
        ),
        Setting(
            "REDIS_URL",
            Anything("a URL"),
            "redis://localhost:6379/0",
            "The server, for a frontier in Redis; rediss:// is TLS, and "
            "redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/0 the one that sentinels name, "
            "redis+cluster://HOST:PORT,HOST:PORT a cluster, by some of its nodes.",
        ),
        Setting("REDIS_PARAMS", Options(), {}, "Arguments of redis-py's client, by name."),
        Setting(
            "SCHEDULER_PERSIST",
            Switch(),
            False,
            "Keep the frontier in Redis when the crawl has ended; visits stay there in any case, "
            "until they are collected.",
        ),
        Setting(
            "SCHEDULER_FLUSH_ON_START",
            Switch(),
            False,
            "Delete the crawl of this name from Redis, its visits included, before starting; for "
            "the first worker alone.",
        ),
        Setting(
            "REDIS_START_URLS_KEY",
            KeyName(none="none but those of scrapy-redis's own spiders"),
            None,
            "The key in Redis from which any spider takes more start URLs, while it runs; "
            "`%(name)s` in it is the spider's name; spiders of scrapy-redis read their own.",
        ),
        Setting(
            "REDIS_START_URLS_AS_SET",
            Switch(),
            False,
            "Whether that key is a set; else it is a list, whose head is taken first.",
        ),
        Setting(
            "REDIS_START_URLS_AS_ZSET",
            Switch(),
            False,
            "Whether that key is a sorted set, whose largest score is taken first.",
        ),
        Setting(
            "REDIS_START_URLS_BATCH_SIZE",
            Whole(least=1, none="CONCURRENT_REQUESTS"),
            None,
            "Start URLs that are taken at once.",
        ),
        Setting(
            "MAX_IDLE_TIME_BEFORE_CLOSE",
            Number(),
            0,
            "After so long without any page or start URL a spider that takes start URLs from "
            "REDIS_START_URLS_KEY ends; 0: never.",
            "seconds",
        ),
    ),
    is_written=False,
)
