"""What a page and its server ask of those who use the page: recorded, and for others to obey.

X-Robots-Tag and `meta name=robots` are Google's and Bing's; Content-Usage is that of the IETF
working group AIPREF (draft-ietf-aipref-attach-05): a header, or a line in a group of a robots.txt,
`Content-Usage: [PATH] PREFERENCES`. None of them decides what is fetched.
"""

from __future__ import annotations

from collections.abc import Iterable

from protego import Protego

from crawlprio.web.anchors import printable

MAX_LENGTH = 1_000
"""Maximum number of characters kept of each; the rest is cut off."""

USAGE_LINE = "Content-Usage: "


def joined(values: Iterable[str]) -> str:
    """Return some values of one directive as one text, printable and cut at `MAX_LENGTH`."""
    return printable(", ".join(filter(None, (value.strip() for value in values))))[:MAX_LENGTH]


class UsageRules:
    """The Content-Usage lines of a robots.txt as `rules_for` returns it, for one robot.

    Departure from the draft: preferences for one path that differ are all kept, for the vocabulary
    to combine.
    """

    def __init__(self, rules: str) -> None:
        self._rules: list[tuple[int, Protego, str]] = []
        for line in rules.split("\n"):
            if line.startswith(USAGE_LINE):
                value = line.removeprefix(USAGE_LINE)
                words = value.split(maxsplit=1) if value.startswith("/") else ["/", value]
                if len(words) == 2:
                    path, preferences = words
                    # Its paths match as those of Disallow do.
                    matcher = Protego.parse(f"User-agent: *\nDisallow: {path}")
                    length = len(path.encode()) if value.startswith("/") else 0
                    self._rules.append((length, matcher, preferences))

    def preferences(self, url: str) -> str:
        """Return the preferences for a URL by the longest path; empty if there are none."""
        found = [
            (length, said)
            for length, matcher, said in self._rules
            if not matcher.can_fetch(url, "*")
        ]
        longest = max((length for length, _ in found), default=0)
        return joined(dict.fromkeys(said for length, said in found if length == longest))
