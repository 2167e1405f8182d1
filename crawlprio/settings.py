"""Settings of the bundled Scrapy project: polite by default, and fast in what it leaves out.

Every setting of crawlprio is here with its default and unit; the names without CRAWLPRIO_ that
Scrapy knows mean what they always do.
"""

from importlib.util import find_spec

from crawlprio import __version__

BOT_NAME = "crawlprio"
SPIDER_MODULES = ["crawlprio.spiders"]
ADDONS = {"crawlprio.Addon": 500}

# What comes first.
ORDERING = "opic"  # a name, or the import path of an Ordering
ORDERING_OPTIONS: dict[str, object] = {}  # keyword arguments of the ordering
TOPIC = ""  # words, commas between terms: turns the hot queue on
TOPIC_OPTIONS: dict[str, object] = {}  # distance=3 links, title=1 and body=10 words, stem=None

# Politeness. Seconds unless said otherwise.
USER_AGENT = f"crawlprio/{__version__} (a Scrapy crawler)"
ROBOTSTXT_OBEY = True
DOWNLOAD_DELAY = 1  # from the end of a fetch to the next start on the site, at least
CONCURRENT_REQUESTS = 16  # fetches in flight on all sites
CONCURRENT_REQUESTS_PER_DOMAIN = 1  # fetches at once on a site
CRAWLPRIO_ADAPTIVE_DELAY = 0  # wait at least this many times the last fetch's duration
CRAWLPRIO_MAX_ADAPTIVE_DELAY = 60  # but for that reason no longer than this
CRAWLPRIO_MAX_CRAWL_DELAY = 300  # the most that robots.txt can ask for; 0: it is not asked
CRAWLPRIO_MAX_BACK_OFF = 3600  # the most that Retry-After, or refusals in a row, can ask for
DOWNLOAD_TIMEOUT = 60  # for a whole fetch; Scrapy's default is 180
DOWNLOAD_MAXSIZE = 10_485_760  # bytes of a body, before and after decompression
DOWNLOAD_WARNSIZE = 0  # no warnings below that
CRAWLPRIO_SMALL_SITE_DELAY = None  # delay of sites with few pages; None: as for others
CRAWLPRIO_SMALL_SITE_PAGES = 100  # pages below which a site is small
CRAWLPRIO_PAGES_PER_VISIT = 1  # pages fetched from a site before its delay applies

# What is followed.
CRAWLPRIO_MAX_PAGES_PER_SITE = 25_000  # pages; None: no limit
CRAWLPRIO_MAX_PAGES_PER_DOMAIN = 250_000  # pages, by registered domain; None: no limit
CRAWLPRIO_MAX_WAITING = None  # pages that wait: the least promising beyond are dropped; None: all
CRAWLPRIO_MAX_PAGES_PER_PATTERN = 5_000  # URLs that differ in digits and values; None: no limit
CRAWLPRIO_PRIVATE_ADDRESSES = "seeds"  # private hosts: where seeds are; "allow": all; "refuse"
CRAWLPRIO_HEURISTICS = True  # no /cgi-bin/, and all that stands below
CRAWLPRIO_MAX_STATIC_DEPTH = 15  # links from a seed
CRAWLPRIO_MAX_DYNAMIC_DEPTH = 5  # links from a seed, for URLs with a query or a script's ending
CRAWLPRIO_MAX_PATH_SEGMENTS = 20  # segments of a path; None: no bound, as for the next two
CRAWLPRIO_MAX_REPEATED_SEGMENTS = 3  # times that one segment stands in a path
CRAWLPRIO_MAX_QUERY_PARAMETERS = 16  # parameters of a query
CRAWLPRIO_STRIP_SESSIONS = True  # links lose jsessionid, PHPSESSID and other well-known sessions

# What is recorded and shown.
CRAWLPRIO_STORE = "crawl.sqlite"  # inside JOBDIR when that is set; None: nothing is recorded
CRAWLPRIO_PLOT = "crawl.png"  # picture of the curves, where the whole graph is known; None: none
CRAWLPRIO_PRINT = True  # the table at the end on the terminal, not only in the log
CRAWLPRIO_PROGRESS = True  # a progress line on a terminal
LOG_LEVEL = "INFO"

# A faster event loop, where it is installed (the extra `fast`).
ASYNCIO_EVENT_LOOP = "uvloop.Loop" if find_spec("uvloop") else None

# The demo web, which is crawled when no seeds are given.
CRAWLPRIO_DEMO_PAGES = 20_000
CRAWLPRIO_DEMO_SITES = 200
CRAWLPRIO_DEMO_SEED = 0
CRAWLPRIO_DEMO_PORT = 0  # 0: any free port
CRAWLPRIO_SERVER_LOG = None  # file for one line of JSON per request that the loopback server saw

# Left out or exchanged, since each would cost time on every page: the spider yields one item a page
# and no requests, follows by its own scope and has no password. Set a name back to Scrapy's default
# to have it again; DOWNLOADER and STATS_CLASS, which the add-on sets, likewise.
SPIDER_MIDDLEWARES = {
    "scrapy.spidermiddlewares.start.StartSpiderMiddleware": None,
    "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": None,
    "scrapy.spidermiddlewares.referer.RefererMiddleware": None,
    "crawlprio.middlewares.RedirectReferer": 700,  # the same for redirects alone
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
    "scrapy.spidermiddlewares.depth.DepthMiddleware": None,
    "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,
}
DOWNLOADER_MIDDLEWARES = {
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
    "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "crawlprio.middlewares.BoundedCompression": 590,  # the same, and counts what it refuses
    "scrapy.downloadermiddlewares.stats.DownloaderStats": None,
    "crawlprio.live.stats.FetchStats": 850,  # the same without the bytes of requests
}
CONCURRENT_ITEMS = 1  # worker tasks that Scrapy starts for each response; its default is 100
LOG_FORMATTER = "crawlprio.live.logformatter.QuietLogFormatter"  # no line for each page and item
COOKIES_ENABLED = False
METAREFRESH_ENABLED = False
WARN_ON_GENERATOR_RETURN_VALUE = False  # Scrapy would ask at each page
TELNETCONSOLE_ENABLED = False
RETRY_GIVE_UP_LOG_LEVEL = "INFO"  # the end table counts what failed
