"""The settings around a crawl: what it leaves behind, its process, the demo web, Scrapy's own."""

from __future__ import annotations

from crawlprio import __version__
from crawlprio.setting_table.kinds import (
    Anything,
    FileName,
    Folder,
    HeaderNames,
    Options,
    Section,
    Setting,
    Slots,
    Switch,
    Whole,
)

PLOT_SUFFIXES = (".png", ".svg", ".pdf")
"""How the name of a picture may end; `evaluation.plots` draws these."""

OUTPUT = Section(
    "What is recorded and shown",
    "",
    (
        Setting(
            "CRAWLPRIO_STORE",
            FileName(none="no store"),
            "crawl.sqlite",
            "The crawl store, inside JOBDIR where that is set.",
        ),
        Setting(
            "CRAWLPRIO_ITEMS",
            Switch(),
            False,
            "Keep the items of a spider in the crawl store, each with the visit of its page, so "
            "that a crawl that is killed and resumed has every item once.",
        ),
        Setting(
            "CRAWLPRIO_KEPT_HEADERS",
            HeaderNames(none="all"),
            None,
            "The request headers that waiting requests have in the store of a crawl with JOBDIR; "
            "those left out (Authorization and Cookie, say) must be set again by a downloader "
            "middleware, before a resume too.",
        ),
        Setting(
            "CRAWLPRIO_MAX_STORE_BYTES",
            Whole(1_048_576, none="no limit"),
            100_000_000_000,
            "The size of the store at which the crawl closes as on a full disk; it resumes with a "
            "larger one.",
            "bytes",
            guest=None,
        ),
        Setting(
            "CRAWLPRIO_MAX_UNPACKED_BYTES",
            Whole(1, none="fifty times the size of the file, or 256 MB"),
            None,
            "What a packed graph file may unpack to.",
            "bytes",
        ),
        Setting(
            "CRAWLPRIO_PLOT",
            FileName(none="no picture", suffixes=PLOT_SUFFIXES, in_folder=True),
            "crawl.png",
            "The picture of the curves, drawn where the whole web is known (demo web, replay).",
            guest=None,
        ),
        Setting(
            "CRAWLPRIO_PRINT",
            Switch(),
            True,
            "Print the report at the end on the terminal; otherwise it is in the log.",
            guest=False,
        ),
        Setting(
            "CRAWLPRIO_PROGRESS",
            Switch(),
            True,
            "Show a line of progress where the terminal can.",
            guest=False,
        ),
    ),
)

PROCESS = Section(
    "The process",
    "",
    (
        Setting(
            "CRAWLPRIO_COMPILE",
            Switch(),
            True,
            "Compile what runs often before the crawl starts, for speed; else once 200,000 pages "
            "are known or something needs it, which saves half a second and 130 MB.",
            guest=False,
        ),
        Setting(
            "CRAWLPRIO_TUNE_GC",
            Switch(),
            True,
            "Have Python's garbage collector look less often, in the whole process, while a crawl "
            "runs.",
            guest=False,
        ),
    ),
)

DEMO = Section(
    "The demo web",
    "The spider `site` crawls it when it is given no seeds.",
    (
        Setting(
            "CRAWLPRIO_DEMO_PAGES", Whole(10, 100_000_000), 20_000, "Pages of the web.", "pages"
        ),
        Setting(
            "CRAWLPRIO_DEMO_SITES",
            Whole(1, none="a tenth of its pages, at most 200"),
            None,
            "Sites of the web, no more than its pages.",
            "sites",
        ),
        Setting("CRAWLPRIO_DEMO_SEED", Whole(0, 2**31), 0, "Which of many such webs it is."),
        Setting(
            "CRAWLPRIO_DEMO_PORT",
            Whole(0, 65_535),
            0,
            "The port of the loopback server of a demo web or a replay; 0: any that is free.",
        ),
        Setting(
            "CRAWLPRIO_SERVER_LOG",
            FileName(none="no log", in_folder=True),
            None,
            "Where that server writes a line of JSON for each request.",
        ),
    ),
)

INTERNAL = Section(
    "Set by crawlprio itself",
    "",
    (
        Setting(
            "CRAWLPRIO_REPLAY",
            FileName(none="no replay"),
            None,
            "The recording that the spider `site` crawls; `scrapy replay` sets it.",
        ),
        Setting(
            "CRAWLPRIO_LOOPBACK",
            Anything("127.0.0.1:PORT", none="the real web"),
            None,
            "The loopback server that `crawlprio.demo.handler.LoopbackHandler` asks for every "
            "page; a demo crawl or a replay sets it.",
        ),
    ),
    is_written=False,
)

SCRAPYS = Section(
    "Other settings of Scrapy",
    "crawlprio reads these too, and they mean what they always do.",
    (
        Setting(
            "JOBDIR",
            Folder(none="a crawl that cannot be resumed"),
            None,
            "Where a crawl keeps all that it needs to be resumed, the store included.",
        ),
        Setting("DOWNLOAD_SLOTS", Slots(), {}, "Own delay and concurrency of single hosts."),
        Setting("DEPTH_LIMIT", Whole(), 0, "Links from a seed to a page; 0: no limit.", "links"),
        Setting(
            "USER_AGENT",
            Anything("a text"),
            f"crawlprio/{__version__} (a Scrapy crawler)",
            "What the crawler calls itself.",
            guest="Scrapy/VERSION (+https://scrapy.org)",
        ),
        Setting(
            "ROBOTSTXT_USER_AGENT",
            Anything("a text", none="USER_AGENT"),
            None,
            "The name that counts in a robots.txt, for Crawl-delay too.",
        ),
        Setting("REDIRECT_MAX_TIMES", Whole(), 20, "Redirects that one request follows."),
        Setting(
            "DUPEFILTER_CLASS",
            Anything("a class or its import path"),
            "scrapy.dupefilters.RFPDupeFilter",
            "A filter of your own is asked before a request waits.",
        ),
        Setting("DUPEFILTER_DEBUG", Switch(), False, "Log every duplicate request."),
        Setting(
            "DOWNLOAD_HANDLERS",
            Options(),
            {},
            "Handlers by scheme; a demo crawl or a replay exchanges those for http and https.",
        ),
        Setting(
            "TWISTED_REACTOR_ENABLED",
            Switch(),
            True,
            "Without a reactor, private addresses are known only where they stand in URLs.",
        ),
        Setting(
            "AUTOTHROTTLE_ENABLED",
            Switch(),
            False,
            "Without effect, with a warning: CRAWLPRIO_ADAPTIVE_DELAY stands in for it.",
        ),
        Setting(
            "CONCURRENT_REQUESTS_PER_IP",
            Whole(),
            0,
            "Without effect, with a warning: CONCURRENT_REQUESTS_PER_DOMAIN stands in for it.",
        ),
    ),
    is_written=False,
)
