"""The exceptions that crawlprio raises for bad input; nothing here knows Scrapy."""


class CrawlprioError(Exception):
    """Bad input or a broken file, said in one sentence: subject, value, bound, remedy.

    What it quotes of a file or an answer does nothing to the terminal that it is shown on.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class ConfigError(CrawlprioError):
    """A setting, spider argument or command option has a value that is not allowed."""


class GraphError(CrawlprioError):
    """A link graph or a file of scores cannot be read or makes no sense."""


class StoreError(CrawlprioError):
    """A crawl store cannot be opened, read or written."""


def printable(text: str) -> str:
    """Return a text that does nothing to a terminal: `?` for control and direction characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)
