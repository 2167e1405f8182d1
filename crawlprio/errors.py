"""The exceptions that crawlprio raises for invalid input."""


class CrawlprioError(Exception):
    """Invalid input or a damaged file, in one sentence: subject, value, bound, remedy.

    The sentence has no control characters, whatever it quotes of a file or a response.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class ConfigError(CrawlprioError):
    """A setting, spider argument or command option has a value that is not allowed."""


class GraphError(CrawlprioError):
    """A link graph or a file of scores cannot be read or is invalid."""


class StoreError(CrawlprioError):
    """A crawl store cannot be opened, read or written."""


def printable(text: str) -> str:
    """Return a text with `?` in place of control and direction characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "?" for char in text)
