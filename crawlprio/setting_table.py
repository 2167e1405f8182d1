"""Every setting that crawlprio reads, once: name, values, defaults, unit and what it does.

The settings of the bundled project, `docs/settings.md` and the messages about bad values come from
this table. After a change, `python docs/write_settings.py` writes the first two.
"""

from __future__ import annotations

from typing import NamedTuple

from crawlprio import __version__
from crawlprio.setting_kinds import (
    Anything,
    Choice,
    Extensions,
    FileName,
    Folder,
    Number,
    Options,
    Setting,
    Slots,
    Switch,
    Whole,
)
from crawlprio.web.extensions import SKIP_EXTENSIONS

PLOT_SUFFIXES = (".png", ".svg", ".pdf")
"""How the name of a picture may end; `evaluation.plots` draws these."""

_NO_LIMIT = "no limit"


class Section(NamedTuple):
    """Settings that belong together; `is_written`: whether the bundled project lists them."""

    title: str
    about: str
    settings: tuple[Setting, ...]
    is_written: bool = True


ORDER = Section(
    "What comes first",
    "",
    (
        Setting(
            "ORDERING",
            Anything("the name of an ordering, or an import path"),
            "opic",
            "Which waiting page is fetched next: the name of an ordering, or the import path of a "
            "class of your own.",
        ),
        Setting("ORDERING_OPTIONS", Options(), {}, "Options of the ordering, by name."),
        Setting(
            "TOPIC",
            Anything("words, with commas between terms"),
            "",
            "Words and phrases, with commas between them, whose pages come first; empty: none.",
        ),
        Setting(
            "TOPIC_OPTIONS",
            Options(),
            {},
            "How the topic is looked for: distance (3 links), title (1 word), body (10 words), "
            "stem (a language; none).",
        ),
    ),
)

POLITENESS = Section(
    "Politeness",
    "A site is a host. Of several delays the longest holds.",
    (
        Setting(
            "ROBOTSTXT_OBEY",
            Switch(),
            True,
            "Fetch nothing that the robots.txt of a site forbids.",
            guest=False,
        ),
        Setting(
            "DOWNLOAD_DELAY",
            Number(),
            1,
            "The least pause on a site, from the end of a fetch to the next start; from start to "
            "start where a site may have several fetches at once.",
            "seconds",
            guest=0,
        ),
        Setting(
            "CONCURRENT_REQUESTS",
            Whole(),
            16,
            "Fetches at once, on all sites together; 0: no limit.",
            "fetches",
        ),
        Setting(
            "CONCURRENT_REQUESTS_PER_DOMAIN",
            Whole(),
            1,
            "Fetches at once on one site; 0: no limit.",
            "fetches",
            guest=8,
        ),
        Setting(
            "CRAWLPRIO_PAGES_PER_VISIT",
            Whole(1),
            1,
            "Pages fetched from a site in a row before its delay applies.",
            "pages",
        ),
        Setting(
            "CRAWLPRIO_SMALL_SITE_DELAY",
            Number(none="the delay of other sites"),
            None,
            "What stands in for DOWNLOAD_DELAY on a site of which few pages are known.",
            "seconds",
        ),
        Setting(
            "CRAWLPRIO_SMALL_SITE_PAGES",
            Whole(),
            100,
            "Known pages below which a site is small.",
            "pages",
        ),
        Setting(
            "CRAWLPRIO_ADAPTIVE_DELAY",
            Number(),
            0,
            "Pause on a site for at least this many times as long as the last fetch there took.",
        ),
        Setting(
            "CRAWLPRIO_MAX_ADAPTIVE_DELAY",
            Number(),
            60,
            "The longest pause that CRAWLPRIO_ADAPTIVE_DELAY leads to.",
            "seconds",
        ),
        Setting(
            "CRAWLPRIO_MAX_CRAWL_DELAY",
            Number(),
            300,
            "The longest Crawl-delay of a robots.txt that is obeyed; 0: none is.",
            "seconds",
        ),
        Setting(
            "CRAWLPRIO_MAX_BACK_OFF",
            Number(),
            3600,
            "The longest pause that Retry-After, or answers 429 and 503 in a row, lead to.",
            "seconds",
        ),
        Setting(
            "DOWNLOAD_TIMEOUT",
            Number(),
            60,
            "The longest time that one fetch may take.",
            "seconds",
            guest=180,
        ),
        Setting(
            "DOWNLOAD_MAXSIZE",
            Whole(),
            10_485_760,
            "The largest body that is read, before and after decompression; 0: no limit.",
            "bytes",
            guest=1_073_741_824,
        ),
    ),
)

BOUNDS = Section(
    "What a crawl takes in",
    "These hold whatever spider runs. What they keep out is counted in the stats, under "
    "`crawlprio/refused/`.",
    (
        Setting(
            "CRAWLPRIO_MAX_PAGES_PER_SITE",
            Whole(1, none=_NO_LIMIT),
            25_000,
            "Pages of one site that a crawl takes in.",
            "pages",
            guest=None,
        ),
        Setting(
            "CRAWLPRIO_MAX_PAGES_PER_DOMAIN",
            Whole(1, none=_NO_LIMIT),
            250_000,
            "Pages of one registered domain that a crawl takes in.",
            "pages",
            guest=None,
        ),
        Setting(
            "CRAWLPRIO_MAX_PAGES_PER_PATTERN",
            Whole(1, none=_NO_LIMIT),
            5_000,
            "Pages that a crawl takes in whose URLs differ only in digits and in the values of "
            "parameters.",
            "pages",
            guest=None,
        ),
        Setting(
            "CRAWLPRIO_MAX_WAITING",
            Whole(1, none=_NO_LIMIT),
            None,
            "Pages that wait at any time; the least promising beyond are dropped.",
            "pages",
        ),
        Setting(
            "CRAWLPRIO_PRIVATE_ADDRESSES",
            Choice(words=("allow", "refuse", "seeds")),
            "seeds",
            "Which private addresses and local names may be fetched from: those where the seeds "
            "are, all of them (allow), or none (refuse).",
        ),
    ),
)

SITE = Section(
    "What the spider `site` follows",
    "A link that is not followed is recorded all the same. Seeds are fetched whatever these say.",
    (
        Setting(
            "CRAWLPRIO_SKIP_EXTENSIONS",
            Extensions(),
            SKIP_EXTENSIONS,
            "Links whose path ends in one of these are not followed; all others are, and their "
            "content type says whether they are HTML.",
        ),
        Setting(
            "CRAWLPRIO_FOLLOW_NOFOLLOW",
            Switch(),
            False,
            "Follow links that say nofollow, and those of pages that say it in a robots meta tag "
            "or an X-Robots-Tag header.",
        ),
        Setting(
            "CRAWLPRIO_HEURISTICS",
            Switch(),
            True,
            "Follow nothing under /cgi-bin/, and apply the settings below.",
        ),
        Setting(
            "CRAWLPRIO_MAX_STATIC_DEPTH",
            Whole(none=_NO_LIMIT),
            15,
            "Links from a seed to a page.",
            "links",
        ),
        Setting(
            "CRAWLPRIO_MAX_DYNAMIC_DEPTH",
            Whole(none=_NO_LIMIT),
            5,
            "Links from a seed to a page whose URL has a query or the ending of a script.",
            "links",
        ),
        Setting(
            "CRAWLPRIO_MAX_PATH_SEGMENTS",
            Whole(none=_NO_LIMIT),
            20,
            "Segments of a path.",
            "segments",
        ),
        Setting(
            "CRAWLPRIO_MAX_REPEATED_SEGMENTS",
            Whole(none=_NO_LIMIT),
            3,
            "How often one segment may stand in a path.",
            "times",
        ),
        Setting(
            "CRAWLPRIO_MAX_QUERY_PARAMETERS",
            Whole(none=_NO_LIMIT),
            16,
            "Parameters of a query.",
            "parameters",
        ),
        Setting(
            "CRAWLPRIO_STRIP_SESSIONS",
            Switch(),
            True,
            "Take jsessionid, PHPSESSID and other well-known sessions out of links.",
        ),
    ),
)

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

SECTIONS = (ORDER, POLITENESS, BOUNDS, SITE, OUTPUT, PROCESS, DEMO, INTERNAL, SCRAPYS)

SETTINGS = {setting.name: setting for section in SECTIONS for setting in section.settings}
"""Every setting, by name."""
