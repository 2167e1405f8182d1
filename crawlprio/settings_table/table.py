"""Every setting that crawlprio reads: name, values, defaults, unit and meaning.

Those of a plugin are in its folder, and join the others here. The settings of the bundled project,
`docs/settings.md`, the delays of `crawlprio simulate` and the messages about invalid values come
from this table. After a change, run `python docs/write_settings.py` to update the page. It imports
neither Scrapy nor anything that is slow to load.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from copy import copy
from typing import Any

from crawlprio import __version__
from crawlprio.plugins import ADDED, load_all, missing
from crawlprio.settings_table import setting_types as kinds
from crawlprio.settings_table.setting_types import Section, Setting
from crawlprio.web.scope import SKIP_EXTENSIONS

logger = logging.getLogger("crawlprio")

_NO_LIMIT = "no limit"

PLOT_SUFFIXES = (".png", ".svg", ".pdf")
"""The supported extensions of a plot file; `show.figures` writes these formats."""

ORDER = Section(
    "Order",
    Setting(
        "ORDERING",
        kinds.AnyValue("the name of an ordering, or an import path"),
        "sibling-sampling",
        "Which waiting page is fetched next: the name of an ordering, or the import path of "
        "your own class.",
        option="--ordering NAME",
    ),
    Setting("ORDERING_OPTIONS", kinds.Options(), {}, "Options of the ordering, by name."),
    Setting(
        "TOPIC",
        kinds.AnyValue("comma-separated words or phrases"),
        "",
        "Comma-separated words and phrases; pages about them come first; empty: none.",
        option="--topic WORDS",
    ),
    Setting(
        "TOPIC_OPTIONS",
        kinds.Options(),
        {},
        "How pages about the topic are recognized: distance (3 links), title (1 word), body "
        "(10 words), stem (a language; none).",
    ),
)

POLITENESS = Section(
    "Politeness",
    Setting(
        "ROBOTSTXT_OBEY",
        kinds.Bool(),
        True,
        "Fetch nothing that the robots.txt of a site forbids.",
        guest=False,
    ),
    Setting(
        "CRAWLPRIO_ROBOTS_UNREACHABLE",
        kinds.Choice(words=("allow", "forbid")),
        "forbid",
        "Whether a site may be fetched from if its robots.txt was not read: no response, a "
        "refused fetch, too many redirects, or a status other than 2xx and 4xx, or 429.",
        guest="allow",
    ),
    Setting(
        "CRAWLPRIO_CONTACT",
        kinds.Text(*kinds.CONTACT, none="nobody"),
        None,
        "Mail address or URL that the user agent of the bundled project names, for owners of "
        "sites; your own USER_AGENT is left as it is.",
    ),
    Setting(
        "DOWNLOAD_DELAY",
        kinds.Float(),
        1,
        "Minimum delay on a site, from the end of a fetch to the start of the next, or from "
        "start to start if a site may have several concurrent fetches.",
        "seconds",
        guest=0,
        rule="delay",
        option="--delay SECONDS",
    ),
    Setting(
        "CONCURRENT_REQUESTS",
        kinds.Int(),
        16,
        "Maximum number of concurrent fetches over all sites, of which one registered domain "
        "has at most half while others wait; 0: no limit, which the spider `site` refuses.",
        "fetches",
        option="--at-once N",
        summary="maximum concurrent fetches; default: 16, and up to 100 on many domains",
    ),
    Setting(
        "CRAWLPRIO_MAX_CONCURRENT_REQUESTS",
        kinds.Int(1, none="CONCURRENT_REQUESTS"),
        100,
        "Number up to which concurrent fetches grow from CONCURRENT_REQUESTS, by one for each "
        "registered domain that the crawl has fetched from. Has no effect where you set "
        "CONCURRENT_REQUESTS, unless you set this at a higher priority (on the command line).",
        "fetches",
        guest=None,
    ),
    Setting(
        "CONCURRENT_REQUESTS_PER_DOMAIN",
        kinds.Int(),
        1,
        "Maximum number of concurrent fetches on one site; 0: no limit.",
        "fetches",
        guest=8,
    ),
    Setting(
        "CRAWLPRIO_PAGES_PER_VISIT",
        kinds.Int(1),
        1,
        "Pages fetched from a site in a row before its delay applies.",
        "pages",
    ),
    Setting(
        "CRAWLPRIO_SMALL_SITE_DELAY",
        kinds.Float(none="the delay of other sites"),
        None,
        "Replaces DOWNLOAD_DELAY on a site of which few pages are known.",
        "seconds",
        rule="small_site_delay",
    ),
    Setting(
        "CRAWLPRIO_SMALL_SITE_PAGES",
        kinds.Int(),
        100,
        "Number of known pages below which a site is small.",
        "pages",
        rule="small_site_pages",
    ),
    Setting(
        "CRAWLPRIO_ADAPTIVE_DELAY",
        kinds.Float(),
        0,
        "Minimum delay on a site, as a multiple of the duration of the last fetch there.",
        rule="adaptive",
    ),
    Setting(
        "CRAWLPRIO_MAX_ADAPTIVE_DELAY",
        kinds.Float(),
        60,
        "Maximum delay that CRAWLPRIO_ADAPTIVE_DELAY causes. Mercator's, ten times the last "
        "fetch, has no maximum in the paper.",
        "seconds",
        rule="max_adaptive",
    ),
    Setting(
        "CRAWLPRIO_SITE_BANDWIDTH",
        kinds.Float(),
        0,
        "Maximum bytes per second to fetch from a site: a fetch and the delay after it take as "
        "long together as the body takes at that speed; 0: no limit.",
        "bytes/s",
        rule="site_bandwidth",
    ),
    Setting(
        "CRAWLPRIO_MAX_CRAWL_DELAY",
        kinds.Float(),
        300,
        "Maximum Crawl-delay of a robots.txt that is obeyed; 0: none is.",
        "seconds",
        rule="max_crawl_delay",
    ),
    Setting(
        "CRAWLPRIO_MAX_BACK_OFF",
        kinds.Float(),
        3600,
        "Maximum pause that Retry-After, or consecutive 429 and 503 responses, cause.",
        "seconds",
        rule="max_back_off",
    ),
    Setting(
        "DOWNLOAD_TIMEOUT", kinds.Float(), 60, "Maximum duration of a fetch.", "seconds", guest=180
    ),
    Setting(
        "DOWNLOAD_MAXSIZE",
        kinds.Int(),
        10_485_760,
        "Maximum size of a body, before and after decompression; 0: no limit.",
        "bytes",
        guest=1_073_741_824,
    ),
    about="A site is a host. If several delays apply, the longest one counts.",
)

BOUNDS = Section(
    "Limits of a crawl",
    Setting(
        "CRAWLPRIO_MAX_PAGES_PER_SITE",
        kinds.Int(1, none=_NO_LIMIT),
        25_000,
        "Maximum number of pages of one site that a crawl takes in.",
        "pages",
        guest=None,
    ),
    Setting(
        "CRAWLPRIO_MAX_PAGES_PER_DOMAIN",
        kinds.Int(1, none=_NO_LIMIT),
        250_000,
        "Maximum number of pages of one registered domain that a crawl takes in.",
        "pages",
        guest=None,
    ),
    Setting(
        "CRAWLPRIO_MAX_PAGES_PER_PATTERN",
        kinds.Int(1, none=_NO_LIMIT),
        5_000,
        "Maximum number of pages that a crawl takes in whose URLs differ only in digits and in "
        "the values of parameters.",
        "pages",
        guest=None,
    ),
    Setting(
        "CRAWLPRIO_MAX_SITES",
        kinds.Int(1, none=_NO_LIMIT),
        1_000_000,
        "Maximum number of sites that links may add to those known, each of which takes some 0.6 "
        "kB of memory. The links of one page may add 1,000, and the pages of one domain a quarter "
        "of all, of which a sixteenth (at least 1,000) may be sites that have not answered yet.",
        "sites",
        guest=None,
    ),
    Setting(
        "CRAWLPRIO_MAX_WAITING",
        kinds.Int(1, none=_NO_LIMIT),
        None,
        "Maximum number of waiting pages, give or take a tenth; the least promising ones "
        "beyond are dropped.",
        "pages",
    ),
    Setting(
        "CRAWLPRIO_MAX_PAGES",
        kinds.Int(1, none=_NO_LIMIT),
        None,
        "Stop once this run has fetched this many pages, all workers together; a "
        "page counts if it was fetched, and files such as robots.txt do not count.",
        "pages",
        option="--pages N",
        is_of_one_run=True,
    ),
    Setting(
        "CRAWLPRIO_STOP_AT_COVERAGE",
        kinds.Share(none="no computation"),
        None,
        "Stop once the fetched pages are known to hold at least this share of the "
        "importance, counted from the seeds, or (likely:SHARE) are estimated to hold it "
        "([coverage](coverage.md)); 1: only show what is known.",
    ),
    Setting(
        "CRAWLPRIO_PRIVATE_ADDRESSES",
        kinds.Choice(words=("allow", "refuse", "seeds")),
        "seeds",
        "Which private addresses and local names a page may lead to: those of the seeds "
        "(seeds), all of them (allow), or none (refuse); see [security](security.md).",
        guest="allow",
    ),
    Setting(
        "CRAWLPRIO_PRIVATE_NETWORKS",
        kinds.Networks(none="no others"),
        None,
        "Further networks, addresses and local names that pages may lead to.",
    ),
    about="These apply to every spider. The stats count what they refuse, under "
    "`crawlprio/refused/`.",
)

SITE = Section(
    "Links that the spider `site` follows",
    Setting(
        "CRAWLPRIO_SKIP_EXTENSIONS",
        kinds.Extensions(),
        SKIP_EXTENSIONS,
        "Extensions of links that are not followed. All other links are, and the content type "
        "of their pages decides whether they are HTML.",
    ),
    Setting(
        "CRAWLPRIO_FOLLOW_NOFOLLOW",
        kinds.Bool(),
        False,
        "Follow links marked nofollow, and links of pages that say nofollow in a robots meta "
        "tag or an X-Robots-Tag header.",
    ),
    Setting(
        "CRAWLPRIO_HEURISTICS",
        kinds.Bool(),
        True,
        "Follow nothing under /cgi-bin/, and apply the settings below.",
    ),
    Setting(
        "CRAWLPRIO_MAX_STATIC_DEPTH",
        kinds.Int(none=_NO_LIMIT),
        15,
        "Maximum number of links from a seed to a page.",
        "links",
    ),
    Setting(
        "CRAWLPRIO_MAX_DYNAMIC_DEPTH",
        kinds.Int(none=_NO_LIMIT),
        5,
        "Maximum number of links from a seed to a page whose URL has a query or a script's "
        "extension.",
        "links",
    ),
    Setting(
        "CRAWLPRIO_MAX_PATH_SEGMENTS",
        kinds.Int(none=_NO_LIMIT),
        20,
        "Maximum number of segments of a path.",
        "segments",
    ),
    Setting(
        "CRAWLPRIO_MAX_REPEATED_SEGMENTS",
        kinds.Int(none=_NO_LIMIT),
        3,
        "How often one segment may occur in a path.",
        "times",
    ),
    Setting(
        "CRAWLPRIO_MAX_QUERY_PARAMETERS",
        kinds.Int(none=_NO_LIMIT),
        16,
        "Maximum number of parameters of a query.",
        "parameters",
    ),
    Setting(
        "CRAWLPRIO_STRIP_SESSIONS",
        kinds.Bool(),
        True,
        "Remove from links what does not change a page: well-known session ids (jsessionid, "
        "PHPSESSID), marks of campaigns (utm_source, gclid), sort orders of Apache's listings.",
    ),
    about="Links that are not followed are still recorded. Seeds are fetched regardless of these.",
)

SITEMAPS = Section(
    "Sitemaps",
    Setting(
        "CRAWLPRIO_SITEMAPS",
        kinds.SitemapSources(none="no sitemaps"),
        None,
        "Read the sitemaps that the robots.txt files of the crawled sites name (robots), or "
        "those at these URLs, or both.",
        option="--sitemaps robots|URL",
    ),
    Setting(
        "CRAWLPRIO_SITEMAP_PAGES",
        kinds.Choice(words=("last", "seeds", "record")),
        "last",
        "What to do with the pages that sitemaps name: fetch them once no linked page waits "
        "(last), fetch them as seeds (seeds), or only record them (record).",
    ),
    Setting(
        "CRAWLPRIO_MAX_SITEMAP_URLS",
        kinds.Int(1),
        1_000_000,
        "Maximum number of URLs of one site that are taken from sitemaps.",
        "URLs",
    ),
    about="See [sitemaps](sitemaps.md).",
)

OUTPUT = Section(
    "Output",
    Setting(
        "CRAWLPRIO_STORE",
        kinds.FileName(none="no store"),
        "crawl.sqlite",
        "The crawl store, inside JOBDIR if that is set.",
        option="--store FILE",
    ),
    Setting(
        "CRAWLPRIO_KEEP_STORES",
        kinds.Int(none="all"),
        None,
        "How many stores of earlier crawls to keep under numbered names (`crawl.1.sqlite`); a "
        "new crawl without JOBDIR deletes the oldest.",
        "stores",
    ),
    Setting(
        "CRAWLPRIO_RECEIPT",
        kinds.Bool(),
        True,
        "When a crawl with a store ends, write `receipt.json` beside it: what was asked, fetched, "
        "refused and missed, and the share of the importance, counted from the "
        "seeds, that was fetched ([coverage](coverage.md)).",
    ),
    Setting(
        "CRAWLPRIO_ITEMS",
        kinds.Bool(),
        False,
        "Keep the items of a spider in the crawl store, each with the visit of its page, so "
        "that a crawl that is killed and resumed has each item exactly once.",
    ),
    Setting(
        "CRAWLPRIO_BODIES",
        kinds.Bool(),
        False,
        "Keep the body of each page in the crawl store, with the visit of its page (the extra "
        "`bodies`).",
        needs=(("", "zstandard", "bodies"),),
    ),
    Setting(
        "CRAWLPRIO_KEPT_HEADERS",
        kinds.HeaderNames(none="all"),
        None,
        "The headers to store with the waiting requests of a crawl with JOBDIR. A downloader "
        "middleware must set the others (Authorization and Cookie, say) again, even in the "
        "same run.",
    ),
    Setting(
        "CRAWLPRIO_MAX_STORE_BYTES",
        kinds.Int(1_048_576, none="no limit"),
        100_000_000_000,
        "The size of the store at which the crawl closes, as on a full disk; it can resume "
        "with a larger limit.",
        "bytes",
        guest=None,
    ),
    Setting(
        "CRAWLPRIO_MAX_UNPACKED_BYTES",
        kinds.Int(1, none="fifty times the size of the file, or 256 MB"),
        None,
        "Maximum size of a compressed graph file once decompressed.",
        "bytes",
    ),
    Setting(
        "CRAWLPRIO_PLOT",
        kinds.FileName(none="no plot", suffixes=PLOT_SUFFIXES, in_folder=True),
        "crawl.png",
        "The plot of the curves, inside JOBDIR if that is set, drawn if the whole web is known "
        "(demo web, replay).",
        guest=None,
        is_of_one_run=True,
    ),
    Setting(
        "CRAWLPRIO_PRINT",
        kinds.Bool(),
        True,
        "Print the final report to the terminal; otherwise log it.",
        guest=False,
    ),
    Setting(
        "CRAWLPRIO_PROGRESS",
        kinds.Bool(),
        True,
        "Show a progress line if stderr is a terminal.",
        guest=False,
    ),
)

PROCESS = Section(
    "The process",
    Setting(
        "CRAWLPRIO_COMPILE",
        kinds.Bool(),
        True,
        "Compile performance-critical code in another process while the crawl goes on, after "
        "500 pages or fewer large ones, and then use it, which takes 120 MB and changes no "
        "order; otherwise compile it once 200,000 pages are known.",
    ),
    Setting(
        "CRAWLPRIO_TUNE_GC",
        kinds.Bool(),
        True,
        "Run Python's garbage collector less often, in the whole process, while a crawl runs.",
        guest=False,
    ),
    Setting(
        "CRAWLPRIO_LENIENT_HTTP",
        kinds.Bool(),
        True,
        "Fetch plain http and https pages by a client of crawlprio's own, which reads faulty "
        "responses as browsers do ([HTTP](reliability.md#faulty-http)), unless "
        "DOWNLOAD_HANDLERS names another.",
        guest=False,
    ),
)

DEMO = Section(
    "The demo web",
    Setting(
        "CRAWLPRIO_DEMO_PAGES", kinds.Int(10, 100_000_000), 20_000, "Number of pages.", "pages"
    ),
    Setting(
        "CRAWLPRIO_DEMO_SITES",
        kinds.Int(1, none="a tenth of its pages, at most 200"),
        None,
        "Number of sites, at most the number of pages.",
        "sites",
    ),
    Setting("CRAWLPRIO_DEMO_SEED", kinds.Int(0, 2**31), 0, "Random seed of the web."),
    Setting(
        "CRAWLPRIO_DEMO_PORT",
        kinds.Int(0, 65_535),
        0,
        "The port of the loopback server of a demo web or a replay; 0: any free port.",
    ),
    Setting(
        "CRAWLPRIO_SERVER_LOG",
        kinds.FileName(none="no log", in_folder=True),
        None,
        "The file to which that server writes a line of JSON for each request.",
        is_of_one_run=True,
    ),
    about="The spider `site` crawls it if it is given no seeds.",
)

INTERNAL = Section(
    "Set by crawlprio itself",
    Setting(
        "CRAWLPRIO_REPLAY",
        kinds.FileName(none="no replay"),
        None,
        "The recording that the spider `site` crawls; `crawlprio replay` sets it.",
    ),
    Setting(
        "CRAWLPRIO_LOOPBACK",
        kinds.AnyValue("127.0.0.1:PORT", none="the real web"),
        None,
        "The loopback server from which `crawlprio.demo.handler.LoopbackHandler` fetches every "
        "page; a demo crawl or a replay sets it.",
    ),
    is_written=False,
)

SCRAPYS = Section(
    "Other settings of Scrapy",
    Setting(
        "JOBDIR",
        kinds.Folder(none="a crawl that cannot be resumed"),
        None,
        "The folder in which a crawl keeps all that it needs to be resumed, including the store.",
    ),
    Setting("DOWNLOAD_SLOTS", kinds.Slots(), {}, "Delay and concurrency of individual hosts."),
    Setting(
        "DEPTH_LIMIT",
        kinds.Int(),
        0,
        "Maximum number of links from a seed to a page; 0: no limit.",
        "links",
        option="--depth N",
        summary="maximum number of links from a seed to a page; 0: as many as "
        "CRAWLPRIO_MAX_STATIC_DEPTH and CRAWLPRIO_MAX_DYNAMIC_DEPTH allow, which apply in any case",
    ),
    Setting(
        "USER_AGENT",
        kinds.AnyValue("a text"),
        f"crawlprio/{__version__} (a Scrapy crawler)",
        "The User-Agent header of requests.",
        guest="Scrapy/VERSION (+https://scrapy.org)",
    ),
    Setting(
        "ROBOTSTXT_USER_AGENT",
        kinds.AnyValue("a text", none="USER_AGENT"),
        None,
        "The user agent to look up in a robots.txt, for Crawl-delay too.",
    ),
    Setting(
        "REDIRECT_MAX_TIMES", kinds.Int(), 20, "Maximum number of redirects that a request follows."
    ),
    Setting(
        "DUPEFILTER_CLASS",
        kinds.AnyValue("a class or its import path"),
        "scrapy.dupefilters.RFPDupeFilter",
        "A filter of your own is asked before a request is queued.",
    ),
    Setting("DUPEFILTER_DEBUG", kinds.Bool(), False, "Log every duplicate request."),
    Setting(
        "DOWNLOAD_FAIL_ON_DATALOSS",
        kinds.Bool(),
        True,
        "Fail a page whose body the server breaks off.",
    ),
    Setting(
        "DOWNLOAD_HANDLERS",
        kinds.Options(),
        {},
        "Handlers by scheme; a demo crawl or a replay replaces those for http and https.",
    ),
    Setting(
        "TWISTED_REACTOR_ENABLED",
        kinds.Bool(),
        True,
        "Without a reactor, private addresses are recognized only where URLs contain them.",
    ),
    Setting(
        "AUTOTHROTTLE_ENABLED",
        kinds.Bool(),
        False,
        "Let Scrapy's AutoThrottle set the delay of each site. Crawl-delay and the other rules "
        "above still apply if they ask for a longer one.",
    ),
    Setting(
        "AUTOTHROTTLE_START_DELAY",
        kinds.Float(),
        5,
        "Delay of a site until AutoThrottle has seen its first response, unless "
        "DOWNLOAD_DELAY is longer.",
        "seconds",
    ),
    Setting(
        "CONCURRENT_REQUESTS_PER_IP",
        kinds.Int(),
        0,
        "Has no effect and logs a warning; use CONCURRENT_REQUESTS_PER_DOMAIN instead.",
    ),
    is_written=False,
    about="crawlprio reads these too, with their usual meaning.",
)


def _with_plugins(sections: Iterable[Section]) -> Iterable[Section]:
    """Return sections, and those of plugins, whose settings join a section of the same title."""
    by_title = {section.title: section for section in sections}
    used = set[str]().union(*map(_words, _OWN))
    for section in dict.fromkeys(load_all("sections")):
        if taken := used & _words(section):
            left_out = "The settings of a plugin (%s) are left out, as some exist already: %s."
            logger.warning(left_out, section.title, ", ".join(sorted(taken)))
            continue
        used |= _words(section)
        if own := by_title.get(section.title):
            rows = *own.settings, *section.settings
            section = Section(own.title, *rows, about=own.about, is_written=own.is_written)
        by_title[section.title] = section
    return by_title.values()


def _words(section: Section) -> set[str]:
    """Return the names of settings, and their options."""
    return {word for one in section.settings for word in (one.name, *one.option.split()[:1])}


_OWN = (ORDER, POLITENESS, BOUNDS, SITE, SITEMAPS, OUTPUT, PROCESS, DEMO, INTERNAL, SCRAPYS)

SECTIONS = (*_with_plugins(_OWN[:-2]), *_OWN[-2:])
"""Every section, as `docs/settings.md` has them."""

SETTINGS = {
    setting.name: setting for section in (*SECTIONS, *_OWN) for setting in section.settings
} | {
    name: Setting(
        name,
        kinds.Missing(name, plugin, none="off"),
        None,
        "Its plugin is missing.",
        option=f"--{name.removeprefix(kinds.OWN_PREFIX).lower().replace('_', '-')} VALUE",
        alone="True",
    )
    for name, plugin in missing("sections").items()
}
"""Every setting, by name; those of a missing plugin in the table of plugins can only be off."""

for name in ADDED["parts"].keys() - SETTINGS:  # of plugins whose sections cannot be imported
    SETTINGS[name] = Setting(name, kinds.AnyValue(none="off"), None, "Has no section.")

FORMER_NAMES = {one.former_name: one.name for one in SETTINGS.values() if one.former_name}
"""The names of settings, by the one that each had in the version before this one."""

DELAY_RULES = {setting.rule: setting for setting in POLITENESS.settings if setting.rule}
"""The settings of the delay rules, by the field of `crawlprio.frontier.Politeness`."""


def bundled_defaults() -> dict[str, Any]:
    """Return the values that the bundled project sets, by name."""
    return {
        setting.name: copy(setting.default)
        for section in (*SECTIONS, *_OWN)
        if section.is_written
        for setting in section.settings
    }
