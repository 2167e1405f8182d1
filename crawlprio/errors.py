"""The exceptions that crawlprio raises for bad input; nothing here knows Scrapy."""


class CrawlprioError(Exception):
    """Bad input or a broken file, said in one sentence: subject, value, bound, remedy."""


class ConfigError(CrawlprioError):
    """A setting, spider argument or command option has a value that is not allowed."""


class GraphError(CrawlprioError):
    """A link graph or a file of scores cannot be read or makes no sense."""


class StoreError(CrawlprioError):
    """A crawl store cannot be opened, read or written."""
