"""The demo web and recorded webs, served on loopback so that the real engine crawls known pages.

The package is not needed to crawl the real web, and it never connects beyond loopback. This module
has the interface of a web that the server can serve: an answer to any URL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a web to one request: a body that is neither compressed nor chunked.

    The headers lack those of the connection and `Content-Length`. The server waits `delay` seconds
    before it answers.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0


class Web(Protocol):
    """A web that the loopback server can serve.

    `seeds` are URLs to start a crawl from, best first; `hosts` are the host names of its pages;
    `len(web)` is its number of pages. `answer` must accept any URL, and return a 404 if there is no
    such page.
    """

    @property
    def seeds(self) -> Sequence[str]: ...

    @property
    def hosts(self) -> Sequence[str]: ...

    def __len__(self) -> int: ...

    def answer(self, url: str) -> Answer: ...


def html_answer(text: str, delay: float = 0.0, status: int = 200) -> Answer:
    """Return an answer with an HTML page in UTF-8."""
    return Answer(status, {"Content-Type": "text/html; charset=utf-8"}, text.encode(), delay)


def text_answer(status: int, text: str) -> Answer:
    """Return an answer with plain text in UTF-8."""
    return Answer(status, {"Content-Type": "text/plain; charset=utf-8"}, text.encode())
