"""The settings around a crawl: output, process, demo web, and other settings of Scrapy."""

from __future__ import annotations

from crawlprio import __version__
from crawlprio.settings_table.kinds import (
    Anything,
    FileName,
    Folder,
    HeaderNames,
    Number,
    Options,
    Section,
    Setting,
    Slots,
    Switch,
    Whole,
)

PLOT_SUFFIXES = (".png", ".svg", ".pdf")
"""The supported extensions of a plot file; `evaluation.plots` writes these formats."""

OUTPUT = Section(
    "Output",
    "",
    (
        Setting(
            "CRAWLPRIO_STORE",
            FileName(none="no store"),
            "crawl.sqlite",
            "The crawl store, inside JOBDIR if that is set.",
        ),
        Setting(
            "CRAWLPRIO_KEEP_STORES",
            Whole(none="all"),
            None,
            "How many stores of earlier crawls to keep under numbered names (`crawl.1.sqlite`); a "
            "new crawl without JOBDIR deletes the oldest.",
            "stores",
        ),
        Setting(
            "CRAWLPRIO_RECEIPT",
            Switch(),
            True,
            "When a crawl with a store ends, write `receipt.json` beside it: what was asked, got, "
            "refused and missed, and the share of all importance that was fetched "
            "([coverage](coverage.md)).",
        ),
        Setting(
            "CRAWLPRIO_ITEMS",
            Switch(),
            False,
            "Keep the items of a spider in the crawl store, each with the visit of its page, so "
            "that a crawl that is killed and resumed has each item exactly once.",
        ),
        Setting(
            "CRAWLPRIO_BODIES",
            Switch(),
            False,
            "Keep the body of each page in the crawl store, with the visit of its page (the extra "
            "`bodies`); `CRAWLPRIO_WARC` keeps more, in files.",
        ),
        Setting(
            "CRAWLPRIO_KEEP_TEXT",
            Switch(),
            False,
            "Keep the text of each page in the crawl store, with the visit of its page, its "
            "language and the licence that it names (the extra `texts`); `crawlprio texts export` "
            "writes them as Parquet or JSON lines ([value](value.md#keep-the-texts)).",
        ),
        Setting(
            "CRAWLPRIO_KEPT_HEADERS",
            HeaderNames(none="all"),
            None,
            "The headers to store with the waiting requests of a crawl with JOBDIR. A downloader "
            "middleware must set the others (Authorization and Cookie, say) again, even in the "
            "same run.",
        ),
        Setting(
            "CRAWLPRIO_WARC",
            Folder(none="no archive"),
            None,
            "The folder in which to archive all requests and responses as WARC files, each with "
            "the visit of its page (the extra `warc`).",
        ),
        Setting(
            "CRAWLPRIO_WARC_SECRET_HEADERS",
            HeaderNames(),
            "Authorization,Proxy-Authorization,Cookie,X-Api-Key,Api-Key,X-Auth-Token,X-Access-Token,"
            "X-Csrf-Token,X-Amz-Security-Token",
            "Headers of requests and responses that `CRAWLPRIO_WARC` leaves out of its files; a "
            "list of your own replaces this one. Bodies of requests are archived as they are sent.",
        ),
        Setting(
            "CRAWLPRIO_MAX_WARC_BYTES",
            Whole(1),
            1_000_000_000,
            "Size at which a WARC file is complete and a new one begins.",
            "bytes",
        ),
        Setting(
            "CRAWLPRIO_MAX_STORE_BYTES",
            Whole(1_048_576, none="no limit"),
            100_000_000_000,
            "The size of the store at which the crawl closes, as on a full disk; it can resume "
            "with a larger limit.",
            "bytes",
            guest=None,
        ),
        Setting(
            "CRAWLPRIO_MAX_UNPACKED_BYTES",
            Whole(1, none="fifty times the size of the file, or 256 MB"),
            None,
            "Maximum size of a compressed graph file once decompressed.",
            "bytes",
        ),
        Setting(
            "CRAWLPRIO_PLOT",
            FileName(none="no plot", suffixes=PLOT_SUFFIXES, in_folder=True),
            "crawl.png",
            "The plot of the curves, inside JOBDIR if that is set, drawn if the whole web is known "
            "(demo web, replay).",
            guest=None,
        ),
        Setting(
            "CRAWLPRIO_PRINT",
            Switch(),
            True,
            "Print the final report to the terminal; otherwise log it.",
            guest=False,
        ),
        Setting(
            "CRAWLPRIO_PROGRESS",
            Switch(),
            True,
            "Show a progress line if stderr is a terminal.",
            guest=False,
        ),
        Setting(
            "CRAWLPRIO_MONITOR",
            Whole(0, 65_535, none="no live view"),
            None,
            "The port of 127.0.0.1 on which a page shows the crawl while it runs, and can pause "
            "and stop it ([live view](monitor.md)); 0: any free port.",
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
            "Compile performance-critical code before the crawl starts; otherwise compile it once "
            "200,000 pages are known or something needs it, which saves half a second and 130 MB.",
            guest=False,
        ),
        Setting(
            "CRAWLPRIO_TUNE_GC",
            Switch(),
            True,
            "Run Python's garbage collector less often, in the whole process, while a crawl runs.",
            guest=False,
        ),
    ),
)

DEMO = Section(
    "The demo web",
    "The spider `site` crawls it if it is given no seeds.",
    (
        Setting(
            "CRAWLPRIO_DEMO_PAGES", Whole(10, 100_000_000), 20_000, "Number of pages.", "pages"
        ),
        Setting(
            "CRAWLPRIO_DEMO_SITES",
            Whole(1, none="a tenth of its pages, at most 200"),
            None,
            "Number of sites, at most the number of pages.",
            "sites",
        ),
        Setting("CRAWLPRIO_DEMO_SEED", Whole(0, 2**31), 0, "Random seed of the web."),
        Setting(
            "CRAWLPRIO_DEMO_PORT",
            Whole(0, 65_535),
            0,
            "The port of the loopback server of a demo web or a replay; 0: any free port.",
        ),
        Setting(
            "CRAWLPRIO_SERVER_LOG",
            FileName(none="no log", in_folder=True),
            None,
            "The file to which that server writes a line of JSON for each request.",
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
            "The recording that the spider `site` crawls; `crawlprio replay` sets it.",
        ),
        Setting(
            "CRAWLPRIO_LOOPBACK",
            Anything("127.0.0.1:PORT", none="the real web"),
            None,
            "The loopback server from which `crawlprio.demo.handler.LoopbackHandler` fetches every "
            "page; a demo crawl or a replay sets it.",
        ),
    ),
    is_written=False,
)

SCRAPYS = Section(
    "Other settings of Scrapy",
    "crawlprio reads these too, with their usual meaning.",
    (
        Setting(
            "JOBDIR",
            Folder(none="a crawl that cannot be resumed"),
            None,
            "The folder in which a crawl keeps all that it needs to be resumed, including the "
            "store.",
        ),
        Setting("DOWNLOAD_SLOTS", Slots(), {}, "Delay and concurrency of individual hosts."),
        Setting(
            "DEPTH_LIMIT",
            Whole(),
            0,
            "Maximum number of links from a seed to a page; 0: no limit.",
            "links",
        ),
        Setting(
            "USER_AGENT",
            Anything("a text"),
            f"crawlprio/{__version__} (a Scrapy crawler)",
            "The User-Agent header of requests.",
            guest="Scrapy/VERSION (+https://scrapy.org)",
        ),
        Setting(
            "ROBOTSTXT_USER_AGENT",
            Anything("a text", none="USER_AGENT"),
            None,
            "The user agent to look up in a robots.txt, for Crawl-delay too.",
        ),
        Setting(
            "REDIRECT_MAX_TIMES", Whole(), 20, "Maximum number of redirects that a request follows."
        ),
        Setting(
            "DUPEFILTER_CLASS",
            Anything("a class or its import path"),
            "scrapy.dupefilters.RFPDupeFilter",
            "A filter of your own is asked before a request is queued.",
        ),
        Setting("DUPEFILTER_DEBUG", Switch(), False, "Log every duplicate request."),
        Setting(
            "DOWNLOAD_FAIL_ON_DATALOSS",
            Switch(),
            True,
            "Fail a page whose body the server breaks off.",
        ),
        Setting(
            "DOWNLOAD_HANDLERS",
            Options(),
            {},
            "Handlers by scheme; a demo crawl or a replay replaces those for http and https.",
        ),
        Setting(
            "TWISTED_REACTOR_ENABLED",
            Switch(),
            True,
            "Without a reactor, private addresses are recognized only where URLs contain them.",
        ),
        Setting(
            "AUTOTHROTTLE_ENABLED",
            Switch(),
            False,
            "Let Scrapy's AutoThrottle set the delay of each site. Crawl-delay and the other rules "
            "above still apply if they ask for a longer one.",
        ),
        Setting(
            "AUTOTHROTTLE_START_DELAY",
            Number(),
            5,
            "Delay of a site until AutoThrottle has seen its first response, unless "
            "DOWNLOAD_DELAY is longer.",
            "seconds",
        ),
        Setting(
            "CONCURRENT_REQUESTS_PER_IP",
            Whole(),
            0,
            "Has no effect and logs a warning; use CONCURRENT_REQUESTS_PER_DOMAIN instead.",
        ),
    ),
    is_written=False,
)
