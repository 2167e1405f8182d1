"""Settings of the bundled Scrapy project: polite by default, and fast in what it leaves out.

`docs/settings.md` has them as a table, beside their defaults under the add-on.
"""

from importlib.util import find_spec

from crawlprio import __version__

BOT_NAME = "crawlprio"
SPIDER_MODULES = ["crawlprio.spiders"]
ADDONS = {"crawlprio.Addon": 500}
USER_AGENT = f"crawlprio/{__version__} (a Scrapy crawler)"
LOG_LEVEL = "INFO"

# A faster event loop, where it is installed (the extra `fast`).
ASYNCIO_EVENT_LOOP = "uvloop.Loop" if find_spec("uvloop") else None

# Begin of what docs/write_settings.py writes from crawlprio/setting_table/.

# What comes first

# Which waiting page is fetched next: the name of an ordering, or the import path of a class of your
# own.
ORDERING = "sibling-sampling"

# Options of the ordering, by name.
ORDERING_OPTIONS: dict[str, object] = {}

# Words and phrases, with commas between them, whose pages come first; empty: none.
TOPIC = ""

# How the topic is looked for: distance (3 links), title (1 word), body (10 words), stem (a
# language; none).
TOPIC_OPTIONS: dict[str, object] = {}

# Politeness

# Fetch nothing that the robots.txt of a site forbids.
ROBOTSTXT_OBEY = True

# What a site allows whose robots.txt is answered with a status of 5xx, or not at all.
CRAWLPRIO_ROBOTS_UNREACHABLE = "forbid"

# The least pause on a site, from the end of a fetch to the next start; from start to start where a
# site may have several fetches at once. In seconds.
DOWNLOAD_DELAY = 1

# Fetches at once, on all sites together.
CONCURRENT_REQUESTS = 16

# Fetches at once on one site; 0: no limit.
CONCURRENT_REQUESTS_PER_DOMAIN = 1

# Pages fetched from a site in a row before its delay applies.
CRAWLPRIO_PAGES_PER_VISIT = 1

# What stands in for DOWNLOAD_DELAY on a site of which few pages are known. In seconds. None: the
# delay of other sites.
CRAWLPRIO_SMALL_SITE_DELAY = None

# Known pages below which a site is small.
CRAWLPRIO_SMALL_SITE_PAGES = 100

# Pause on a site for at least this many times as long as the last fetch there took.
CRAWLPRIO_ADAPTIVE_DELAY = 0

# The longest pause that CRAWLPRIO_ADAPTIVE_DELAY leads to. In seconds.
CRAWLPRIO_MAX_ADAPTIVE_DELAY = 60

# The longest Crawl-delay of a robots.txt that is obeyed; 0: none is. In seconds.
CRAWLPRIO_MAX_CRAWL_DELAY = 300

# The longest pause that Retry-After, or answers 429 and 503 in a row, lead to. In seconds.
CRAWLPRIO_MAX_BACK_OFF = 3600

# The longest time that one fetch may take. In seconds.
DOWNLOAD_TIMEOUT = 60

# The largest body that is read, before and after decompression; 0: no limit. In bytes.
DOWNLOAD_MAXSIZE = 10_485_760

# What a crawl takes in

# Pages of one site that a crawl takes in. None: no limit.
CRAWLPRIO_MAX_PAGES_PER_SITE = 25_000

# Pages of one registered domain that a crawl takes in. None: no limit.
CRAWLPRIO_MAX_PAGES_PER_DOMAIN = 250_000

# Pages that a crawl takes in whose URLs differ only in digits and in the values of parameters.
# None: no limit.
CRAWLPRIO_MAX_PAGES_PER_PATTERN = 5000

# Sites that links may add to those known, each of which takes some 0.4 kB of memory: at most 1,000
# of one page, and a quarter of all those of one domain's pages. None: no limit.
CRAWLPRIO_MAX_SITES = 1_000_000

# Pages that may wait, give or take a tenth; the least promising beyond are dropped. None: no limit.
CRAWLPRIO_MAX_WAITING = None

# Stop once the pages fetched are known to have at least this share of all importance, as of a
# surfer who starts from the seeds ([coverage](coverage.md)); 1: only show it. None: no computation.
CRAWLPRIO_STOP_AT_COVERAGE = None

# Which private addresses and local names a page may lead to: those where the seeds are, all of them
# (allow), or none (refuse).
CRAWLPRIO_PRIVATE_ADDRESSES = "seeds"

# Networks, addresses and local names that pages may lead to besides. None: no others.
CRAWLPRIO_PRIVATE_NETWORKS = None

# What the spider site follows

# Links whose path ends in one of these are not followed; all others are, and their content type
# says whether they are HTML.
CRAWLPRIO_SKIP_EXTENSIONS = """
    3gp 7z aac aif aiff apk asf avi avif bin bmp bz2 cab cdr deb djvu dmg doc docm docx dvi
    dxf eot eps epub exe flac flv gif gz heic ico img iso jar jp2 jpeg jpg lz lzma m4a m4v mid
    midi mkv mobi mov mp2 mp3 mp4 mpeg mpg msi npy npz odp ods odt oga ogg ogv opus otf
    parquet pbm pdf pgm pickle pkl png pnm ppm pps ppsx ppt pptm pptx ps psd pyc rar rpm rtf
    sqlite svg swf tar tgz tif tiff ttf wasm wav webm webp wma wmv woff woff2 xbm xls xlsb
    xlsm xlsx xpm xz zip zst
"""

# Follow links that say nofollow, and those of pages that say it in a robots meta tag or an
# X-Robots-Tag header.
CRAWLPRIO_FOLLOW_NOFOLLOW = False

# Follow nothing under /cgi-bin/, and apply the settings below.
CRAWLPRIO_HEURISTICS = True

# Links from a seed to a page. None: no limit.
CRAWLPRIO_MAX_STATIC_DEPTH = 15

# Links from a seed to a page whose URL has a query or the ending of a script. None: no limit.
CRAWLPRIO_MAX_DYNAMIC_DEPTH = 5

# Segments of a path. None: no limit.
CRAWLPRIO_MAX_PATH_SEGMENTS = 20

# How often one segment may stand in a path. None: no limit.
CRAWLPRIO_MAX_REPEATED_SEGMENTS = 3

# Parameters of a query. None: no limit.
CRAWLPRIO_MAX_QUERY_PARAMETERS = 16

# Take jsessionid, PHPSESSID and other well-known sessions out of links.
CRAWLPRIO_STRIP_SESSIONS = True

# What is recorded and shown

# The crawl store, inside JOBDIR where that is set. None: no store.
CRAWLPRIO_STORE = "crawl.sqlite"

# Keep the items of a spider in the crawl store, each with the visit of its page, so that a crawl
# that is killed and resumed has every item once.
CRAWLPRIO_ITEMS = False

# The request headers that waiting requests have in the store of a crawl with JOBDIR; those left out
# (Authorization and Cookie, say) must be set again by a downloader middleware, before a resume too.
# None: all.
CRAWLPRIO_KEPT_HEADERS = None

# The size of the store at which the crawl closes as on a full disk; it resumes with a larger one.
# In bytes. None: no limit.
CRAWLPRIO_MAX_STORE_BYTES = 100_000_000_000

# What a packed graph file may unpack to. In bytes. None: fifty times the size of the file, or 256
# MB.
CRAWLPRIO_MAX_UNPACKED_BYTES = None

# The picture of the curves, drawn where the whole web is known (demo web, replay). None: no
# picture.
CRAWLPRIO_PLOT = "crawl.png"

# Print the report at the end on the terminal; otherwise it is in the log.
CRAWLPRIO_PRINT = True

# Show a line of progress where the terminal can.
CRAWLPRIO_PROGRESS = True

# The process

# Compile what runs often before the crawl starts, for speed; else once 200,000 pages are known or
# something needs it, which saves half a second and 130 MB.
CRAWLPRIO_COMPILE = True

# Have Python's garbage collector look less often, in the whole process, while a crawl runs.
CRAWLPRIO_TUNE_GC = True

# The demo web

# Pages of the web.
CRAWLPRIO_DEMO_PAGES = 20_000

# Sites of the web, no more than its pages. None: a tenth of its pages, at most 200.
CRAWLPRIO_DEMO_SITES = None

# Which of many such webs it is.
CRAWLPRIO_DEMO_SEED = 0

# The port of the loopback server of a demo web or a replay; 0: any that is free.
CRAWLPRIO_DEMO_PORT = 0

# Where that server writes a line of JSON for each request. None: no log.
CRAWLPRIO_SERVER_LOG = None

# End of what docs/write_settings.py writes.

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
