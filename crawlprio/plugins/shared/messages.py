"""What a brain and its hands say to each other, as JSON; nothing that is read can run code.

A message is a list of statements, each a list that begins with its kind.

===========  ====================================  ================================================
from         statement                             meaning
===========  ====================================  ================================================
hand         add, ENTRY                            queue a page
hand         add_seeds, URLS                       queue seeds
hand         observe, LEASE, VISIT, KEY            a leased page has its outcome
hand         put_back, LEASE, REQUEST, PRIORITY,   a leased page is to wait again
             KEY
hand         release_site, LEASE, KEY              its site may go on; its callback has not ended
hand         clock, METHOD, ARGUMENTS, KEYWORDS    what became of a fetch: `FetchClock`
hand         refused, RULE, N, URLS                links that a rule refused
hand         stats, COUNTS                         what Scrapy has counted since the last time
hand         scope, URL                            a seed redirected here
brain        lease, HANDOUT, USAGE, KEY            fetch this page now; robots.txt on its use
brain        scope, URL                            a seed redirected here
brain        end, REASON                           the crawl is over
===========  ====================================  ================================================

An empty message is a sign of life. Where messages go through Redis, there are these besides:

===========  ====================================  ================================================
from         statement                             meaning
===========  ====================================  ================================================
hand         hello, SETTINGS, SCOPE                the first statement of a hand
hand         holds, HEARD, LEASES                  all that it has, once it has heard that answer:
                                                   lease, KEY, `FETCHING`, `ENDED` or nothing
hand         ask, NUMBER, URL, AGENT, MAY          may it fetch this, which is no page, as this
                                                   robot, and from private addresses if MAY?
hand         fetches, NUMBER, SITE                 it was permitted to, and has not ended
hand         done, NUMBER                          what it asked for has ended
hand         bye, REASON                           it ends, and has put back all it had; if the
                                                   reason is `finished`, nothing is left to do
shard        links, *`LinksOut`                    links to pages of the shard that is told
brain        hold                                  say what you have: this brain is new
brain        held                                  what the hand says it has is agreed
brain        lost, LEASES                          these pages are others' now
brain        may, NUMBER, CAUSE                    fetch it now; or why not, if there is a cause
brain        refuse, SENTENCE                      this hand is not of this crawl
brain        status, N, OUT, SECONDS, N_LINKS      pages that wait and that hands have, time to the
                                                   next, links queued
             and with shards: HEAD, PREPARING,     what the next page ranks by, pages about to be
             SENT, READ                            leased, messages to each shard, and from each
===========  ====================================  ================================================

The KEY of a lease comes with it, and tells the next brain which page it is of. The brains of a
crawl's shards are each other's hands, as far as messages go.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import fields
from typing import Any

from crawlprio.frontier.protocol import Entry, Exchange, Handout, PageVisit
from crawlprio.items import Directives, LinkPairs, TextNotes

Statement = list[Any]

FETCHING, ENDED = "fetching", "ended"
"""How far a hand is with a page, once it has begun to fetch it."""

_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def written(statements: list[Statement]) -> bytes:
    """Return a message."""
    return _encode(statements).encode()


def read(message: bytes) -> list[Statement]:
    """Return the statements of a message; ValueError if it is none."""
    statements = json.loads(message)
    if not is_statements(statements):
        raise ValueError("a message is no list of statements")
    return statements  # type: ignore[no-any-return]


def is_statements(found: object) -> bool:
    """Return whether what was read is a list of statements."""
    return isinstance(found, list) and all(map(_is_statement, found))


def _is_statement(statement: object) -> bool:
    return isinstance(statement, list) and bool(statement) and isinstance(statement[0], str)


def request_text(request: object | None) -> str | None:
    """Return the JSON of a request as text; None for a plain page, or what JSON cannot hold."""
    return request.decode() if isinstance(request, bytes) else None


def request_bytes(text: str | None) -> bytes | None:
    """Return the request that `request_text` wrote."""
    return None if text is None else text.encode()


def entry_row(entry: Entry) -> Statement:
    return list(entry._replace(request=request_text(entry.request)))


def row_entry(row: Statement) -> Entry:
    entry = Entry(*row)
    return entry._replace(request=request_bytes(entry.request))  # type: ignore[arg-type]


def handout_row(handout: Handout) -> Statement:
    return list(handout._replace(request=request_text(handout.request)))


def row_handout(row: Statement) -> Handout:
    handout = Handout(*row)
    return handout._replace(request=request_bytes(handout.request))  # type: ignore[arg-type]


def visit_row(visit: PageVisit) -> Statement:
    exchange = None if visit.exchange is None else list(map(_plain, visit.exchange))
    pairs = [getattr(visit.pairs, name) for name in _PAIRS]
    return list(visit._replace(pairs=pairs, exchange=exchange, body=_plain(visit.body)))  # type: ignore[arg-type]


def row_visit(row: Statement) -> PageVisit:
    visit = PageVisit(*row)
    pairs = LinkPairs(*row[0])
    pairs.outside = [(url, anchor) for url, anchor in pairs.outside]
    pairs.directives = Directives(*pairs.directives)
    pairs.notes = None if pairs.notes is None else TextNotes(*pairs.notes)
    exchange = None
    if visit.exchange is not None:
        said: Any = Exchange(*visit.exchange)
        exchange = said._replace(**{name: b64decode(getattr(said, name)) for name in _BYTES})
    return visit._replace(pairs=pairs, exchange=exchange, body=b64decode(visit.body))


_BYTES = ("digest", "response", "request")
_PAIRS = [each.name for each in fields(LinkPairs)]


def _plain(value: Any) -> Any:
    """Return bytes as text, and anything else as it is."""
    return b64encode(value).decode() if isinstance(value, bytes) else value
