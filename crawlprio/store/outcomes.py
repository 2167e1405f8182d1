"""The outcome of a visit: the page that it fetched, or why it fetched none."""

from __future__ import annotations

import re

from crawlprio.graph.pages import Visit
from crawlprio.web.content import CUT, NOT_DECODED, TOO_LARGE

ROBOTS = "forbidden by robots.txt"
UNREACHABLE = "robots.txt unreachable"
REFUSED = "refused"
TO_ITSELF = "redirects to itself"
DIED = "worker died"

_SILENT = "connection refused|connection failed|name not resolved|timed out|TLS failed"


def is_refusal(status: int, error: str) -> bool:
    """Return whether a visit is of a page that this run would not request.

    Another run may: under other settings, say, or once robots.txt can be read.
    """
    return status == 0 and error.startswith((REFUSED, ROBOTS, UNREACHABLE))


def waits_again(status: int, error: str) -> bool:
    """Return whether the page of a visit waits for the next run, and the visit is no evidence.

    It was refused, or failed because nothing of its body could be read, or because workers died.
    """
    return is_refusal(status, error) or (
        status == 0 and (error == DIED or error.startswith((CUT, NOT_DECODED)))
    )


def got(status: int, *, has_links: bool) -> int:
    """Return what a response is: 1 a page, 2 a redirect that was followed, 0 neither."""
    if 200 <= status < 300:
        return 1
    return 2 if 300 <= status < 400 and has_links else 0


def is_silent(error: str) -> bool:
    """Return whether a page was not requested because its server did not even give a robots.txt."""
    return re.fullmatch(rf"{UNREACHABLE} \((?:{_SILENT})\)", error) is not None


def has_links(visit: Visit) -> bool:
    """Return whether a visit fetched a page, not a redirect, whose links the crawl may follow."""
    return visit.status < 300 and len(visit.targets) > 0 and not failure_of(visit)


def failure_of(visit: Visit) -> str:
    """Return why a visit fetched no page, without details; empty if it fetched one.

    A page is got with a 2xx status, or with a redirect that was followed.
    """
    if visit.status == 0:
        # The text after a colon may differ for each page.
        return visit.error.partition(":")[0] or "no answer"
    if not got(visit.status, has_links=len(visit.targets) > 0):
        return TO_ITSELF if visit.error == TO_ITSELF else f"HTTP {visit.status}"
    # An answer came, whose body was not taken.
    return next((cause for cause in (REFUSED, TOO_LARGE) if visit.error.startswith(cause)), "")
