"""What was sent and answered, as WARC files with a CDXJ index."""

from crawlprio.settings_table import setting_types as kinds
from crawlprio.settings_table.setting_types import Section, Setting

WARC = Section(
    "Output",
    Setting(
        "CRAWLPRIO_WARC",
        kinds.Folder(none="no archive"),
        None,
        "The folder in which to archive all requests and responses as WARC files, each with "
        "the visit of its page.",
        option="--warc FOLDER",
    ),
    Setting(
        "CRAWLPRIO_WARC_SECRET_HEADERS",
        kinds.HeaderNames(),
        "Authorization,Proxy-Authorization,Cookie,X-Api-Key,Api-Key,X-Auth-Token,X-Access-Token,X-Csrf-Token,X-Amz-Security-Token",
        "Headers of requests and responses that `CRAWLPRIO_WARC` leaves out of its files; a "
        "list of your own replaces this one. Bodies of requests are archived as they are sent.",
    ),
    Setting(
        "CRAWLPRIO_MAX_WARC_BYTES",
        kinds.Int(1),
        1_000_000_000,
        "Size at which a WARC file is complete and a new one begins.",
        "bytes",
    ),
)

REQUISITES = Section(
    "Page requisites",
    Setting(
        "CRAWLPRIO_REQUISITES",
        kinds.Choice(words=("domain", "all"), none="nothing"),
        None,
        "Archive the images, styles, scripts, fonts and icons of fetched pages, after the last "
        "page: those on the registered domain of the page that needs them (domain), or on any "
        "host (all). Needs `CRAWLPRIO_WARC` and a store.",
        option="--requisites domain|all",
    ),
    Setting(
        "CRAWLPRIO_MAX_REQUISITES",
        kinds.Int(1),
        100_000,
        "Maximum number of page requisites of a crawl.",
        "requisites",
    ),
    Setting(
        "CRAWLPRIO_MAX_REQUISITE_BYTES",
        kinds.Int(1),
        10_000_000_000,
        "Total size of the page requisites of a crawl at which no more are fetched.",
        "bytes",
    ),
    Setting(
        "CRAWLPRIO_MAX_REQUISITES_PER_PAGE",
        kinds.Int(1),
        300,
        "Maximum number of requisites of one page, including those that its styles name.",
        "requisites",
    ),
    Setting(
        "CRAWLPRIO_MAX_REQUISITE_BYTES_PER_PAGE",
        kinds.Int(1),
        50_000_000,
        "Total size of the requisites fetched for one page at which no more are fetched for "
        "it. A requisite counts for the first page that needs it.",
        "bytes",
    ),
    about="See [the archive](archive.md#what-pages-need-to-look-like-themselves).",
)
