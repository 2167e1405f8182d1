"""The rules that a crawler is judged by, and what was found against it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

MAX_EXAMPLES = 3


class Rule(StrEnum):
    """A rule by its name in reports; `ASKS` says what each asks."""

    DISALLOWED = "disallowed"
    ROBOTS_FIRST = "robots-first"
    ROBOTS_AGE = "robots-age"
    ROBOTS_5XX = "robots-5xx"
    CRAWL_DELAY = "crawl-delay"
    DELAY = "delay"
    BACK_OFF = "back-off"
    AT_ONCE = "at-once"
    CONTACT = "contact"
    DISGUISE = "disguise"
    METHODS = "methods"
    QUERIES = "queries"


ASKS = {
    Rule.DISALLOWED: "fetch nothing that robots.txt disallows",
    Rule.ROBOTS_FIRST: "read robots.txt before any page of a host",
    Rule.ROBOTS_AGE: "read robots.txt again after 24 hours",
    Rule.ROBOTS_5XX: "fetch no page while robots.txt is 5xx and was never read",
    Rule.CRAWL_DELAY: "keep the Crawl-delay of robots.txt",
    Rule.DELAY: "keep the delay given with --delay",
    Rule.BACK_OFF: "pause after 429 and 503 as long as --retry-after says",
    Rule.AT_ONCE: "make no more requests at once on a host than --at-once",
    Rule.CONTACT: "name a URL or mail address in the user agent",
    Rule.DISGUISE: "use no other user agent from the same address",
    Rule.METHODS: "send only GET and HEAD",
    Rule.QUERIES: "ask one path for no more queries than --queries",
}


@dataclass
class Finding:
    """How a crawler did by one rule.

    Attributes
    ----------
    n_judged, n_broken
        Requests (or agents) that were judged, and those that broke the rule.
    examples
        The first three of those.
    unjudged
        Why it was not judged; empty if it was.
    """

    rule: Rule
    n_judged: int = 0
    n_broken: int = 0
    examples: list[str] = field(default_factory=list)
    unjudged: str = ""

    @property
    def verdict(self) -> str:
        """`kept`, `broken`, or `not judged`."""
        if self.n_broken:
            return "broken"
        return "kept" if self.n_judged else "not judged"

    def count(self, example: str | None) -> None:
        """Count a judged request, which broke the rule if there is an example."""
        self.n_judged += 1
        if example is not None:
            self.n_broken += 1
            if len(self.examples) < MAX_EXAMPLES:
                self.examples.append(example)
