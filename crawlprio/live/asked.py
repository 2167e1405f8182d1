"""What a page says of its use and its text, for the visit of the page."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.http import Response

from crawlprio.items import NO_DIRECTIVES, Directives, TextNotes
from crawlprio.texts.language import language_of
from crawlprio.web.directives import joined

if TYPE_CHECKING:
    from crawlprio.web.html import ParsedPage


def directives_of(
    response: Response, robots: Sequence[str], usages: MutableMapping[Request, str]
) -> Directives:
    """Return the directives of a page; `NO_DIRECTIVES` itself if there are none.

    Parameters
    ----------
    robots
        What its `meta name=robots` say.
    usages
        The preferences of robots.txt files, by request.
    """
    headers, request = response.headers, response.request
    usage = usages.get(request, "") if usages and request is not None else ""
    if not (usage or robots or "X-Robots-Tag" in headers or "Content-Usage" in headers):
        return NO_DIRECTIVES
    tags, preferences = (
        joined(value.decode("latin-1") for value in headers.getlist(name))
        for name in ("X-Robots-Tag", "Content-Usage")
    )
    found = Directives(tags, joined(robots), preferences, usage)
    return found if any(found) else NO_DIRECTIVES


def notes_of(page: ParsedPage) -> TextNotes:
    """Return what is known of the text of a page that was parsed with its text."""
    return TextNotes(language_of(page.text), page.language, joined(page.licences))
