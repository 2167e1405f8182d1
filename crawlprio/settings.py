"""Settings of the bundled Scrapy project: polite by default, and fast because it leaves much out.

Most come from the settings table (`crawlprio/settings_table/`), which `docs/settings.md` shows.
"""

from importlib.util import find_spec

from scrapy.settings import default_settings

from crawlprio import __version__
from crawlprio.settings_table.table import bundled_defaults

BOT_NAME = "crawlprio"
SPIDER_MODULES = ["crawlprio.spiders"]
COMMANDS_MODULE = "crawlprio.commands.crawl"  # `scrapy crawl` names options that it does not have
ADDONS = {"crawlprio.Addon": 500}
USER_AGENT = f"crawlprio/{__version__} (a Scrapy crawler)"
LOG_LEVEL = "INFO"

# A faster event loop, if it is installed (the extra `fast`).
ASYNCIO_EVENT_LOOP = "uvloop.Loop" if find_spec("uvloop") else None

# The settings table; docs/settings.md describes each setting.
globals().update(bundled_defaults())

# Left out or replaced because each would cost time on every page: the spider yields one item per
# page and no requests, has its own scope and needs no password. Set a name back to Scrapy's default
# to restore it; the same goes for DOWNLOADER, which the add-on sets.
STATS_CLASS = "crawlprio.live.downloader.StatsCollector"  # no check for deprecated arguments
SPIDER_MIDDLEWARES = {
    "scrapy.spidermiddlewares.start.StartSpiderMiddleware": None,
    "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": None,
    "scrapy.spidermiddlewares.referer.RefererMiddleware": None,
    "crawlprio.middlewares.RedirectReferer": 700,  # the same for redirects only
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
    "scrapy.spidermiddlewares.depth.DepthMiddleware": None,
    "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,
}
DOWNLOADER_MIDDLEWARES = {
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
    "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "crawlprio.middlewares.LocationMiddleware": 600,  # the same, but a Location is like an `href`
    "scrapy.downloadermiddlewares.stats.DownloaderStats": None,
    "crawlprio.live.downloader.FetchStats": 850,  # the same without downloader/request_bytes
}
CONCURRENT_ITEMS = 1  # worker tasks that Scrapy starts for each response; its default is 100
# Without the remote control, a server on loopback with a folder in the user's home: importing it
# would take a tenth of the time in which a crawl starts.
EXTENSIONS_BASE = {
    path: order
    for path, order in default_settings.EXTENSIONS_BASE.items()
    if not path.startswith("scrapy.extensions.remote_control.")
}
EXTENSIONS = {
    # It unpickles `spider.state` from JOBDIR: resuming a folder would run code from it.
    "scrapy.extensions.spiderstate.SpiderState": None,
}
LOG_FORMATTER = "crawlprio.live.engine.QuietLogFormatter"  # no line for each page and item
COOKIES_ENABLED = False
METAREFRESH_ENABLED = False
WARN_ON_GENERATOR_RETURN_VALUE = False  # Scrapy would check at each page
TELNETCONSOLE_ENABLED = False
DOWNLOAD_WARNSIZE = 0  # no warning about a body below DOWNLOAD_MAXSIZE
RETRY_GIVE_UP_LOG_LEVEL = "DEBUG"  # QuietLogFormatter logs the failed fetch
