"""What a brain and its hands say to each other, as JSON; nothing that is read can run code.

A statement is a list that begins with its kind.

===========  ====================================  ================================================
from         statement                             meaning
===========  ====================================  ================================================
hand         add, ENTRY                            queue a page
hand         add_seeds, URLS                       queue seeds
hand         observe, LEASE, VISIT                 a leased page has its outcome
hand         put_back, LEASE, REQUEST, PRIORITY    a leased page is to wait again
hand         release_site, LEASE                   its site may go on; its callback has not ended
hand         clock, METHOD, ARGUMENTS, KEYWORDS    what became of a fetch: `FetchClock`
hand         refused, RULE, N, URLS                links that a rule refused
hand         stats, COUNTS                         what Scrapy has counted since the last time
hand         scope, URL                            a seed redirected here
brain        lease, HANDOUT, USAGE, KEY            fetch this page now; robots.txt on its use
brain        scope, URL                            a seed redirected here
brain        end, REASON                           the crawl is over
===========  ====================================  ================================================

Under `--workers`, a message is a list of statements; an empty one is a sign of life. Where messages
go through Redis, there are these statements besides:

===========  ====================================  ================================================
from         statement                             meaning
===========  ====================================  ================================================
hand         hello, SETTINGS, SCOPE                the first statement of a hand
hand         bye, REASON                           it ends, and has put back all it had; if the
                                                   reason is `finished`, nothing is left to do
shard        links, *`LinksOut`                    links to pages of the shard that is told
brain        lost, LEASES                          these pages are others' now
brain        lost_below, LEASE                     so are those of all leases before this one
brain        may, NUMBER, CAUSE                    fetch it now; or why not, if there is a cause
brain        refuse, SENTENCE                      this hand is not of this crawl
brain        status, N, OUT, SECONDS, N_LINKS      pages that wait and that hands have, time to the
                                                   next, links queued
             and with shards: HEAD, PREPARING,     what the next page ranks by, pages about to be
             SENT, READ                            leased, messages to each shard, and from each
===========  ====================================  ================================================

A message of a hand is then CLOCK, WANTS, HEARD, LEASES, ASKS, STATEMENTS; one of a brain is NUMBER,
READ, ECHO, STATEMENTS. Messages may be late, lost with the server, or read twice. So:

1.  A hand numbers its messages from 1. A brain carries out each number once, in order, and commits
    READ, the last one, with what it led to. A sign of life repeats the number of the last message;
    one of a hand that has nothing, and has heard all, gets no answer.
2.  A hand keeps each message until READ has its number. ECHO is CLOCK, the hand's own clock, of the
    latest message that the brain has read: what was sent earlier and is not in READ is sent again.
3.  LEASES are all that the hand has before the statements of the message: lease, page and number of
    its request (its KEY begins with them), and how far it is with the fetch.
4.  A lease on the list that the brain does not know is of an earlier brain: it adopts it, or says
    that it is lost if its page does not wait any more. A hand that was taken for dead has lost all
    leases until then, also those of which it has not heard yet: each message says so again.
5.  A lease that the brain knows, and told of in a message up to HEARD, the last one that the hand
    has heard, has not arrived or is over if it is not on the list: its page waits again.
6.  All numbers of a brain are larger than those of the one before it. A hand ignores a message
    whose number is not larger than HEARD.
7.  A new brain hands out nothing until each hand of the last one has HEARD it, or has been silent
    for its term.
8.  A hand starts fetches until two thirds of a term after an ECHO up to which READ has all it said.

WANTS is how many pages the hand wants in all. ASKS are the requests besides pages that it waits
for, or sends: number, URL, agent, whether private addresses are open to it, and the site once it is
permitted. The brains of a crawl's shards are each other's hands, as far as messages go.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import fields
from typing import Any

from crawlprio.frontier.protocol import Entry, Exchange, Handout, PageVisit
from crawlprio.items import Directives, LinkPairs, TextNotes

Statement = list[Any]

UNSTARTED, FETCHING, ENDED = range(3)
"""How far a hand is with the fetch of a page."""

OF_ONE_BRAIN = 2**31
"""Leases that one brain may give, and messages to one hand: the numbers of all brains differ."""

LINGER = 0.005
"""Seconds for which what is said waits for more, where nobody waits for it."""

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


def brain_of(number: int) -> int:
    """Return the number of the brain that gave a lease or a message its number."""
    return number // OF_ONE_BRAIN


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
