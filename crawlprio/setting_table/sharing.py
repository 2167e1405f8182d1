"""The settings of a crawl that many processes share; the last four have scrapy-redis's names."""

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
)

SHARING = Section(
    "Many machines",
    "See [distributed.md](distributed.md). The last four have scrapy-redis's names.",
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
            "The server, for a frontier in Redis; rediss:// is TLS.",
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
    ),
    is_written=False,
)
