"""What every web that the loopback server serves has to offer: an answer to any URL.

Nothing here knows where the pages of a web come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Answer:
    """What a web says to one request.

    Parameters
    ----------
    status
        HTTP status.
    headers
        Header names and values, without those of the connection and without `Content-Length`.
    body
        The page, neither compressed nor chunked.
    delay
        Seconds that the server waits before it answers.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0


class Web(Protocol):
    """Anything that the loopback server can serve.

    `seeds` are URLs to start a crawl from, best first; `hosts` the host names it has pages on.
    `len(web)` is its number of pages. `answer` is asked for any URL at all, and says 404 where it
    has no page.
    """

    @property
    def seeds(self) -> Sequence[str]: ...

    @property
    def hosts(self) -> Sequence[str]: ...

    def __len__(self) -> int: ...

    def answer(self, url: str) -> Answer: ...


def html_answer(text: str, delay: float = 0.0, status: int = 200) -> Answer:
    """Return an answer that is an HTML page in UTF-8."""
    return Answer(status, {"Content-Type": "text/html; charset=utf-8"}, text.encode(), delay)


def text_answer(status: int, text: str) -> Answer:
    """Return an answer that is plain text in UTF-8."""
    return Answer(status, {"Content-Type": "text/plain; charset=utf-8"}, text.encode())
