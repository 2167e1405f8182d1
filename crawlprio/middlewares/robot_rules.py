"""A robots.txt parser of bounded cost."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING

from protego import Protego
from scrapy.robotstxt import RobotParser, decode_robotstxt
from scrapy.utils.python import to_unicode

from crawlprio.config import read_setting
from crawlprio.web.robots import RobotRules, rules_for

if TYPE_CHECKING:
    from typing import Self

    from scrapy import Spider
    from scrapy.crawler import Crawler

MAX_ROBOTS_BYTES = 512 * 1024
"""Maximum number of bytes read of a robots.txt; RFC 9309, section 2.5, requires 500 KiB or more."""

MAX_RULES_KEPT = 250_000
"""Maximum number of rules kept parsed for all sites together, which takes up to 100 MB or so."""

_SHORT = 1_000


class BoundedRobotParser(RobotParser):
    """Parses the rules that concern one robot, with Protego, as Scrapy does.

    Only the first `MAX_ROBOTS_BYTES` of a file are read, and of these the part that `rules_for`
    selects. Each file that has more is counted as `crawlprio/cut/robots-rules`. The file is kept
    compressed, and parsed again after the rules of other sites have evicted its own.

    It is used unless the project sets its own ROBOTSTXT_PARSER.

    Parameters
    ----------
    robotstxt_body
        the file.
    spider
        named in the log if the file is not valid UTF-8.
    agent
        the robot whose rules `rp` has.
    """

    def __init__(self, robotstxt_body: bytes, spider: Spider | None, agent: str = "*") -> None:
        is_cut = len(robotstxt_body) > MAX_ROBOTS_BYTES
        if is_cut:
            end = robotstxt_body.rfind(b"\n", 0, MAX_ROBOTS_BYTES)
            robotstxt_body = robotstxt_body[: end if end > 0 else MAX_ROBOTS_BYTES]
        text = decode_robotstxt(robotstxt_body, spider)
        self._agent = agent
        self._packed = _pack(text)
        rules = rules_for(text, agent)
        self.is_cut = is_cut or rules.is_cut
        _parsed.keep((self._packed, agent), rules)

    @classmethod
    def from_crawler(cls, crawler: Crawler, robotstxt_body: bytes) -> Self:
        """Create the parser for Scrapy."""
        agent = read_setting(crawler.settings, "ROBOTSTXT_USER_AGENT") or read_setting(
            crawler.settings, "USER_AGENT"
        )
        parser = cls(robotstxt_body, crawler.spider, to_unicode(agent or "*"))
        if parser.is_cut and crawler.stats is not None:
            crawler.stats.inc_value("crawlprio/cut/robots-rules")
        return parser

    @property
    def rp(self) -> Protego:
        """Protego's rules for the robot of the settings, as in Scrapy's own parser."""
        return self._rules(self._agent)

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        """Return whether a robot may fetch a page."""
        agent = to_unicode(user_agent)
        return self._rules(agent).can_fetch(to_unicode(url), agent)

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        """Return the Crawl-delay for a robot in seconds, or None."""
        agent = to_unicode(user_agent)
        return self._rules(agent).crawl_delay(agent)

    def _rules(self, agent: str) -> Protego:
        key = (self._packed, agent)
        return _parsed.get(key) or _parsed.keep(key, rules_for(_unpack(self._packed), agent))


class _Parsed:
    """A cache of the files parsed last, bounded by their rules; identical files share an entry."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._n_rules = 0
        self._kept: OrderedDict[tuple[bytes, str], tuple[int, Protego]] = OrderedDict()

    def get(self, key: tuple[bytes, str]) -> Protego | None:
        """Return the cached rules of a file for a robot; None if there are none."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[1]

    def keep(self, key: tuple[bytes, str], rules: RobotRules) -> Protego:
        """Parse and cache rules, and return them."""
        known = self.get(key)
        if known is not None:
            return known
        parsed = Protego.parse(rules.text)
        weight = rules.n_rules + 10
        self._kept[key] = weight, parsed
        self._n_rules += weight
        while self._n_rules > self._most and len(self._kept) > 1:
            _, (weight, _) = self._kept.popitem(last=False)
            self._n_rules -= weight
        return parsed


_parsed = _Parsed(MAX_RULES_KEPT)


def _pack(text: str) -> bytes:
    """Return a file in compressed form, unless it is short."""
    whole = text.encode("utf-8", "surrogatepass")
    return b"=" + whole if len(whole) < _SHORT else zlib.compress(whole, 1)


def _unpack(packed: bytes) -> str:
    whole = packed[1:] if packed[:1] == b"=" else zlib.decompress(packed)
    return whole.decode("utf-8", "surrogatepass")
