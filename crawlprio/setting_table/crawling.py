"""The settings that decide what is fetched, in which order, and how soon."""

from __future__ import annotations

from crawlprio.setting_table.kinds import (
    Anything,
    Choice,
    Extensions,
    Networks,
    Number,
    Options,
    Section,
    Setting,
    Share,
    Switch,
    Whole,
)
from crawlprio.web.extensions import SKIP_EXTENSIONS

_NO_LIMIT = "no limit"

ORDER = Section(
    "What comes first",
    "",
    (
        Setting(
            "ORDERING",
            Anything("the name of an ordering, or an import path"),
            "sibling-sampling",
            "Which waiting page is fetched next: the name of an ordering, or the import path of a "
            "class of your own.",
            guest="rankmass",
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
            "CRAWLPRIO_ROBOTS_UNREACHABLE",
            Choice(words=("allow", "forbid")),
            "forbid",
            "What a site allows whose robots.txt is answered with a status of 5xx, or not at all.",
            guest="allow",
        ),
        Setting(
            "DOWNLOAD_DELAY",
            Number(),
            1,
            "The least pause on a site, from the end of a fetch to the next start; from start to "
            "start where a site may have several fetches at once.",
            "seconds",
            guest=0,
            rule="delay",
        ),
        Setting(
            "CONCURRENT_REQUESTS",
            Whole(),
            16,
            "Fetches at once, on all sites together; 0: no limit, which the site spider refuses.",
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
            rule="small_site_delay",
        ),
        Setting(
            "CRAWLPRIO_SMALL_SITE_PAGES",
            Whole(),
            100,
            "Known pages below which a site is small.",
            "pages",
            rule="small_site_pages",
        ),
        Setting(
            "CRAWLPRIO_ADAPTIVE_DELAY",
            Number(),
            0,
            "Pause on a site for at least this many times as long as the last fetch there took.",
            rule="adaptive",
        ),
        Setting(
            "CRAWLPRIO_MAX_ADAPTIVE_DELAY",
            Number(),
            60,
            "The longest pause that CRAWLPRIO_ADAPTIVE_DELAY leads to.",
            "seconds",
            rule="max_adaptive",
        ),
        Setting(
            "CRAWLPRIO_SITE_BANDWIDTH",
            Number(),
            0,
            "The most bytes per second that a site is asked for: a fetch and the pause after it "
            "last as long together as its body takes at that speed; 0: no limit.",
            "bytes/s",
            rule="site_bandwidth",
        ),
        Setting(
            "CRAWLPRIO_MAX_CRAWL_DELAY",
            Number(),
            300,
            "The longest Crawl-delay of a robots.txt that is obeyed; 0: none is.",
            "seconds",
            rule="max_crawl_delay",
        ),
        Setting(
            "CRAWLPRIO_MAX_BACK_OFF",
            Number(),
            3600,
            "The longest pause that Retry-After, or answers 429 and 503 in a row, lead to.",
            "seconds",
            rule="max_back_off",
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
            "CRAWLPRIO_MAX_SITES",
            Whole(1, none=_NO_LIMIT),
            1_000_000,
            "Sites that links may add to those known, each of which takes some 0.6 kB of memory: "
            "at most 1,000 from one page; from all pages of one domain a quarter of the limit, of "
            "which a sixteenth, or 1,000, may be sites that have not answered yet.",
            "sites",
            guest=None,
        ),
        Setting(
            "CRAWLPRIO_MAX_WAITING",
            Whole(1, none=_NO_LIMIT),
            None,
            "Pages that may wait, give or take a tenth; the least promising beyond are dropped.",
            "pages",
        ),
        Setting(
            "CRAWLPRIO_STOP_AT_COVERAGE",
            Share(none="no computation"),
            None,
            "Stop once the pages fetched are known to have at least this share of all importance, "
            "as of a surfer who starts from the seeds ([coverage](coverage.md)); 1: only show it.",
        ),
        Setting(
            "CRAWLPRIO_PRIVATE_ADDRESSES",
            Choice(words=("allow", "refuse", "seeds")),
            "seeds",
            "Which private addresses and local names a page may lead to: those where the seeds "
            "are, all of them (allow), or none (refuse).",
        ),
        Setting(
            "CRAWLPRIO_PRIVATE_NETWORKS",
            Networks(none="no others"),
            None,
            "Networks, addresses and local names that pages may lead to besides.",
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
