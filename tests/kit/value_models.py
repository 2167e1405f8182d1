"""Value models of users, for tests: named by import path."""

import os
import threading
import time

from crawlprio.plugins.value.model import Page


class Length:
    """The ten lines that the documentation shows, in one."""

    def score_page(self, page: Page) -> float:
        return min(len(page.text) / 100, 1.0)


class Batched:
    """Scores batches, and knows on which threads."""

    batch = 4
    threads: set[int]
    sizes: list[int]

    def __init__(self) -> None:
        type(self).threads = set()
        type(self).sizes = []

    def score_page(self, page: Page) -> float:
        raise AssertionError("it has score_pages")

    def score_pages(self, pages: list[Page]) -> list[float]:
        self.threads.add(threading.get_ident())
        self.sizes.append(len(pages))
        return [0.25 for _ in pages]


class Elsewhere:
    """Says in which process it runs."""

    runs_in = "process"

    def __init__(self, argument: str) -> None:
        self.argument = argument

    def score_page(self, page: Page) -> float:
        return 1.0 if self.argument == "yes" and os.getpid() != int(page.title) else 0.0


class Dies:
    runs_in = "process"

    def score_page(self, page: Page) -> float:
        os._exit(3)


class Raises:
    def score_page(self, page: Page) -> float:
        raise KeyError("no such word")


class NotANumber:
    runs_in = "here"

    def score_page(self, page: Page) -> float:
        return float("nan")


class TooFew:
    def score_page(self, page: Page) -> float:
        return 0.0

    def score_pages(self, pages: list[Page]) -> list[float]:
        return []


class Hangs:
    timeout = 0.05

    def score_page(self, page: Page) -> float:
        time.sleep(60)
        return 1.0


class NoModel:
    pass


class NeedsAnArgument:
    def __init__(self, argument: str) -> None:
        self.argument = argument

    def score_page(self, page: Page) -> float:
        return 0.5


class Nowhere:
    runs_in = "cloud"

    def score_page(self, page: Page) -> float:
        return 0.5


class French:
    """Pages are worth 1 if they are in French."""

    needs_language = True
    runs_in = "here"

    def score_page(self, page: Page) -> float:
        return float(page.language == "fr")
