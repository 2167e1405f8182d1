"""Settings of the bundled Scrapy project: polite by default, and fast in what it leaves out.

Most are the settings table's (`crawlprio/setting_table/`), which `docs/settings.md` shows.
"""

from importlib.util import find_spec

from crawlprio import __version__
from crawlprio.setting_table import bundled_defaults

BOT_NAME = "crawlprio"
SPIDER_MODULES = ["crawlprio.spiders"]
ADDONS = {"crawlprio.Addon": 500}
USER_AGENT = f"crawlprio/{__version__} (a Scrapy crawler)"
LOG_LEVEL = "INFO"

# A faster event loop, where it is installed (the extra `fast`).
ASYNCIO_EVENT_LOOP = "uvloop.Loop" if find_spec("uvloop") else None

# The settings table: docs/settings.md says what each is.
globals().update(bundled_defaults())

# Left out or exchanged, since each would cost time on every page: the spider yields one item a page
# and no requests, follows by its own scope and has no password. Set a name back to Scrapy's default
# to have it again; DOWNLOADER, which the add-on sets, likewise.
STATS_CLASS = "crawlprio.live.stats.StatsCollector"  # no look for arguments of older days
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
REMOTE_CONTROL_ENABLED = False  # a server on loopback, whose folder is in the home of the user
DOWNLOAD_WARNSIZE = 0  # no warning about a body below DOWNLOAD_MAXSIZE
RETRY_GIVE_UP_LOG_LEVEL = "DEBUG"  # the one line of a failed fetch comes after it
