"""The compiled two-level queue, under the names by which the frontier calls it."""

from crawlprio.frontier.buffer import take_out
from crawlprio.frontier.bulk import rekey_all, rekey_pages, update
from crawlprio.frontier.heaps import end_fetch, place_site, pop, push, rekey, release, remove
from crawlprio.frontier.site_heaps import soonest

__all__ = [
    "end_fetch",
    "place_site",
    "pop",
    "push",
    "rekey",
    "rekey_all",
    "rekey_pages",
    "release",
    "remove",
    "soonest",
    "take_out",
    "update",
]
