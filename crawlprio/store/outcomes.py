"""What a visit got: a page, or nothing for a stated cause."""

from __future__ import annotations

from crawlprio.pages import Visit

ROBOTS = "forbidden by robots.txt"
UNREACHABLE = "robots.txt unreachable"
REFUSED = "refused"


def is_refusal(status: int, error: str) -> bool:
    """Return whether a visit is of a page that this run would not request.

    Another run may: under other settings, say, or once robots.txt can be read.
    """
    return status == 0 and error.startswith((REFUSED, ROBOTS, UNREACHABLE))


def failure_of(visit: Visit) -> str:
    """Return why a visit got no page: a cause without details; empty if it did.

    A page is got with a 2xx status, or with a redirect that was followed.
    """
    if visit.status == 0:
        # The text after a colon may differ for each page.
        return visit.error.partition(":")[0] or "no answer"
    if visit.status >= 400 or (visit.status >= 300 and not len(visit.targets)):
        return f"HTTP {visit.status}"
    return REFUSED if visit.error.startswith(REFUSED) else ""
