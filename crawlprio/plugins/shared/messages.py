"""The messages between a coordinator and its workers, as JSON; reading one runs no code.

A statement is a list that begins with its kind.

===========  ====================================  =================================================
from         statement                             meaning
===========  ====================================  =================================================
worker       add, ENTRY                            queue a page
worker       add_seeds, URLS                       queue seeds
worker       observe, LEASE, VISIT                 the outcome of a leased page
worker       begun, LEASE                          the fetch of a leased page has begun
worker       put_back, LEASE, REQUEST, PRIORITY    a leased page is to wait again
worker       release_site, LEASE                   its site may go on; its callback has not ended
worker       started, SITE, HANDED_OUT             calls of the site clock, a `FetchClock`: FETCH
worker       ended, SITE, FETCH                    has the values of `FETCH_FIELDS`
worker       not_fetched, SITE
worker       set_delay, SITE, SECONDS
worker       set_limit, SITE, N
worker       obey_crawl_delay, SITE, SECONDS
worker       refused, RULE, N, URLS                links that a rule refused
worker       archive, EXCHANGE                     a fetch beside its pages, for the archive
worker       stats, COUNTS                         growth of Scrapy's stats since the last one
worker       scope, URL                            a seed redirected here
coordinator  lease, HANDOUT, USAGE, KEY            fetch this page now; robots.txt on its use
coordinator  scope, URL                            a seed redirected here
coordinator  end, REASON                           the crawl is over
===========  ====================================  =================================================

Under `--workers`, a message is a list of statements; an empty one is a heartbeat. Only messages
through Redis have these statements, too:

===========  ====================================  =================================================
from         statement                             meaning
===========  ====================================  =================================================
worker       hello, SETTINGS, SCOPE                the first statement of a worker
worker       bye                                   it ends, and has put back all its pages
coordinator  lost, LEASES                          these leases are revoked
coordinator  revoked_below, LEASE                  so are all before this one
coordinator  may, NUMBER, CAUSE                    send this request now; or why not
coordinator  refuse, SENTENCE                      this worker is not of this crawl
coordinator  status, N, OUT, SECONDS, N_LINKS      pages that wait and that workers have, time to
                                                   the next, links queued
===========  ====================================  =================================================

Such a message of a worker is CLOCK, WANTS, RECEIVED, LEASES, ASKS, STATEMENTS; of a coordinator,
NUMBER, READ, ECHO, STATEMENTS. Messages may be late, lost with the server, or read twice. So:

1.  A worker numbers its messages from 1. A coordinator carries out each number once, in order, and
    commits READ, the last one, with its effects. A heartbeat repeats the number of the last
    message; that of a worker that has no leases, and has received everything, gets no answer.
2.  A worker keeps each message until READ acknowledges it. ECHO is CLOCK, the worker's own clock,
    in the latest message that the coordinator has read: unacknowledged messages sent before it are
    sent again.
3.  LEASES are the worker's leases before the statements of the message: lease, page, number of its
    request (its KEY begins with them), and the progress of its fetch.
4.  A listed lease that the coordinator does not know is of an earlier coordinator: it adopts it, or
    revokes it if its page does not wait any more. All leases of a worker that is taken for dead are
    revoked, also those that it has yet to receive: each message repeats this.
5.  RECEIVED is the last message that reached the worker. A lease that was granted up to it, but is
    not listed, never arrived or is over: its page waits again.
6.  All numbers of a coordinator are larger than those of the one before it. A worker ignores a
    message whose number is not larger than RECEIVED.
7.  A new coordinator leases nothing until each worker of the last one has received it, or has been
    silent for its lease timeout.
8.  A worker starts fetches until two thirds of a lease timeout after an ECHO up to which READ
    acknowledges all its messages.

`Schema` has the valid values of each statement. A message with any invalid one is logged and
skipped. WANTS is how many pages the worker wants in all. ASKS are requests besides pages that it
waits for or sends: number, URL, agent, whether private addresses are open to it, and the site once
it is permitted.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from itertools import chain
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from crawlprio.errors import printable
from crawlprio.frontier.protocol import HttpRecord, LeasedPage, PageVisit, QueueEntry
from crawlprio.items import LinkPairs
from crawlprio.store.side_tables import TABLES, SideTable
from crawlprio.web.urls import is_of_page, normalise_url

logger = logging.getLogger("crawlprio")

Statement = list[Any]

Reader: TypeAlias = Callable[[Any], Any]
"""Returns the value that JSON stands for; raises ValueError if it is invalid."""

Schema: TypeAlias = Mapping[str, Reader]
"""The statements of one side: the reader of what follows each kind."""

UNSTARTED, FETCHING, ENDED = range(3)
"""Progress of the fetch of a leased page."""

OF_ONE_COORDINATOR = 2**31
"""Numbers of leases, and of messages to one worker, that each coordinator has to itself."""

MOST_WANTED = 10_000
"""Pages that a worker may want in all."""

LINGER = 0.005
"""Seconds for which a message that is not urgent waits for more statements."""

MOST_SECONDS = 1e15
"""Largest duration in a message."""

MERGED = "crawlprio/cut/", "crawlprio/rendered/", "downloader/", "retry/", "httpcompression/"
"""Counts of a worker's Scrapy that are added to the coordinator's, by how their names begin."""

_encode = json.JSONEncoder(
    ensure_ascii=True, separators=(",", ":"), default=lambda value: b64encode(value).decode()
).encode


def written(statements: list[Statement]) -> bytes:
    return _encode(statements).encode()


def parsed(message: bytes) -> Any:
    """Return JSON; ValueError if it is none."""
    try:
        return json.loads(message)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def read(message: bytes, schema: Schema) -> list[Statement]:
    """Return the statements of a message; ValueError if it is none."""
    return checked(parsed(message), schema)


def checked(statements: Any, schema: Schema) -> list[Statement]:
    """Return statements with the values that they stand for; ValueError if one is none."""
    if type(statements) is not list:
        raise _not("a list of statements", statements)
    made = []
    for statement in statements:
        try:
            kind = statement[0]
            reader = schema[kind]
        except (TypeError, IndexError, KeyError):
            raise _not(f"one of the statements {', '.join(schema)}", statement) from None
        try:
            made.append([kind, *reader(statement[1:])])
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{kind}: {error}") from None
    return made


def skip(error: ValueError, where: str = "in Redis") -> None:
    """Log that a message is skipped."""
    logger.error("A message %s is none of crawlprio: %s.", where, printable(error, _MOST_SHOWN))


_MOST_SHOWN = 300


def _not(wanted: str, found: object) -> ValueError:
    try:
        text = repr(found if not isinstance(found, str | bytes | list) else found[:20])
    except (ValueError, RecursionError):  # too many digits, or too deep
        text = type(found).__name__
    return ValueError(f"found {printable(text, 80)}, expected {wanted}")


_ROWS = list, tuple


class Field(NamedTuple):
    """Values of some types, from `least` to `most` if they are numbers; `read` does the rest."""

    wanted: str
    types: tuple[type, ...]
    least: float | None = None
    most: float = 0.0
    read: Reader | None = None

    def __or__(self, other: None) -> Field:
        """Return a field that may also be None."""
        inner = row(self)
        read: Reader = lambda found: None if found is None else inner([found])[0]  # noqa: E731
        return Field(f"{self.wanted}, or null", (*self.types, NoneType), read=read)


def row(*of: Field, make: Callable[..., Any] | None = None) -> Reader:
    """Return the reader of a list with one value for each field, which may `make` it another value.

    The types of all values are looked up at once, as nearly all rows have the same ones.
    """
    ranges = [(at, *field[2:4]) for at, field in enumerate(of) if field.least is not None]
    reads = [(at, field.read) for at, field in enumerate(of) if field.read is not None]
    seen: set[tuple[type, ...]] = set()

    def read(found: Any) -> Any:
        kinds = tuple(map(type, found)) if isinstance(found, _ROWS) else ()
        if kinds not in seen:
            if len(kinds) != len(of):
                raise _not(f"a list of {len(of)}", found)
            for field, kind, value in zip(of, kinds, found, strict=True):
                if kind not in field.types and (kind is bool or not issubclass(kind, field.types)):
                    raise _not(field.wanted, value)
            seen.add(kinds)
        for at, least, most in ranges:
            if not least <= found[at] <= most:
                raise _not(of[at].wanted, found[at])
        values = [*found] if reads else found
        for at, reader in reads:
            values[at] = reader(values[at])
        return values if make is None else make(*values)

    return read


def whole(least: int, most: int = 2**63 - 1) -> Field:
    return Field(f"a whole number from {least} to {most}", (int,), least, most)


def decimal(least: float, most: float = MOST_SECONDS) -> Field:
    return Field(f"a number from {least:g} to {most:g}", (float, int), least, most)


def each(of: Field) -> Field:
    """Return the field that is a list of others."""
    of_one = row(of)
    return _LIST._replace(read=lambda found: [of_one([value])[0] for value in found])


def text(read: Reader | None = None) -> Field:
    return Field("a text", (str,), read=read)


def of_row(reader: Reader) -> Field:
    return Field("a list", (list, tuple), read=reader)


def _texts(found: Any) -> Any:
    try:
        "".join(found)  # the fastest test
    except TypeError:
        raise _not("a list of texts", found) from None
    return found


def _url(is_valid: Callable[[str], object]) -> Field:
    def read(found: str) -> str:
        if not is_valid(found):
            raise _not("a URL", found)
        return found

    return text(read)


def _is_of_request(found: str) -> bool:
    """Return whether Scrapy can make a request of a URL."""
    if found.startswith(("http://", "https://")):
        return is_of_page(found)
    return ":" in found and bool(urlsplit(found).scheme and found.encode())


def name_of_worker(found: bytes) -> str:
    """Return the name of a worker; ValueError if it is none."""
    name = found.decode()
    if not (name.isprintable() and 0 < len(name) <= _MOST_SHOWN):
        raise _not("the name of a worker", name)
    return name


def number_of(found: bytes) -> int:
    """Return the number of a message; ValueError if it has none."""
    if not (found.isdigit() and len(found) < 20):
        raise _not("the number of a message", found)
    return int(found)


def _counts(found: Any) -> Any:
    if not all(name.startswith(MERGED) for name in found):
        raise _not("counts of a worker", found)
    row(*[_COUNT] * len(found))([*found.values()])
    return found


def _scope(found: Any) -> Any:
    for value in found.values():
        if isinstance(value, list):
            _texts(value)
        elif not isinstance(value, str | int | NoneType):
            raise _not("a text, a number or a list of texts", value)
    return found


_TEXT, _URL = text(), _url(_is_of_request)
_LINK, _SEED = _url(is_of_page), _url(normalise_url)
_BYTES = text(lambda found: b64decode(found, validate=True) if found else b"")
_FLAG = Field("true or false", (bool,))
_LIST = Field("a list", (list, tuple))
_TEXTS = _LIST._replace(read=_texts)
_OBJECT = Field("an object", (dict,))
_COUNT, _LEASE, _INT32 = whole(0, 2**50), whole(0), whole(0, 2**31 - 1)
_INT64 = whole(-(2**63))
_SECONDS = decimal(0)


def request_text(request: object | None) -> str | None:
    """Return the JSON of a request as text; None for a plain page, or what JSON cannot hold."""
    return request.decode() if isinstance(request, bytes) else None


def entry_row(entry: QueueEntry) -> Statement:
    depth = min(max(int(entry.depth), 0), 2**31 - 1)  # a spider may have set any
    return list(entry._replace(depth=depth, request=request_text(entry.request)))


def leased_page_row(leased_page: LeasedPage) -> Statement:
    """Return a leased page without its site and numbers, which are the KEY of the lease."""
    page = leased_page
    return [page.lease, page.url, page.depth, request_text(page.request)]


def visit_row(visit: PageVisit) -> Statement:
    exchange = None if visit.exchange is None else list(map(_plain, visit.exchange))
    extras = {name: list(map(_plain, row)) for name, row in visit.pairs.extras.items()}
    return [_links_of(visit.pairs), *visit[1:-1], exchange, extras]


def _plain(value: Any) -> Any:
    """Return bytes as text, and anything else as it is."""
    return b64encode(value).decode() if isinstance(value, bytes) else value


def _text_pairs(found: Any) -> Any:
    """Read pairs of texts, all at once: some pages have hundreds."""
    if not all(isinstance(pair, _ROWS) and len(pair) == 2 for pair in found):
        raise _not("a list of pairs", found)
    _texts([*chain.from_iterable(found)])
    return list(map(tuple, found))


_PAIRS = {
    **{"source": _TEXT, "targets": _TEXTS, "anchors": _TEXTS},
    "outside": _LIST._replace(read=_text_pairs),
    **{"status": _INT32, "title": _TEXT, "text": _TEXT, "content_hash": _INT64, "n_bytes": _COUNT},
}
_links_of = attrgetter(*_PAIRS)

_EXCHANGE = of_row(
    row(
        *(_URL, _SECONDS, _INT32, _TEXT, _BYTES, _FLAG, _BYTES, _BYTES, each(_LINK), _BYTES),
        make=HttpRecord,
    )
)

_link_pairs = row(*_PAIRS.values(), make=LinkPairs)


def _pairs(found: Any) -> LinkPairs:
    """Read link pairs: as many anchor texts as targets, or none."""
    made: LinkPairs = _link_pairs(found)
    if made.anchors and len(made.anchors) != len(made.targets):
        raise _not(f"{len(made.targets)} anchor texts", len(made.anchors))
    return made


_OF_COLUMN = {"INTEGER": _INT64, "REAL": decimal(-1e308, 1e308), "TEXT": _TEXT, "BLOB": _BYTES}


def _side_row(table: SideTable) -> Reader:
    def make(*values: Any) -> tuple[Any, ...]:
        if table.is_valid is not None and not table.is_valid(*values):
            raise _not(f"a row of {table.name}", values)
        return values

    return row(*(_OF_COLUMN[of_type] for of_type in table.types.values()), make=make)


def visit_reader(tables: Mapping[str, SideTable]) -> Reader:
    """Return the reader of what `visit_row` wrote, with rows of these side tables, no others."""
    readers = {name: _side_row(table) for name, table in tables.items()}

    def make(pairs: LinkPairs, *of: Any) -> PageVisit:
        for name, found in of[-1].items():
            if name in readers:
                pairs.extras[name] = readers[name](found)
        return PageVisit(pairs, *of[:-1])

    return row(
        of_row(_pairs),
        *(_FLAG, _SECONDS, _SECONDS, _TEXT, _TEXTS, _EXCHANGE | None, _OBJECT),
        make=make,
    )


FETCH_FIELDS = {
    **{"was_handed_out": _FLAG, "elapsed": _SECONDS, "status": _COUNT, "n_bytes": _COUNT},
    "retry_after": _SECONDS | None,
}
"""The keywords of `FetchClock.ended`, and their values in messages."""

_FETCH = of_row(
    row(*FETCH_FIELDS.values(), make=lambda *of: dict(zip(FETCH_FIELDS, of, strict=True)))
)


def _leases(found: list[Any]) -> list[Any]:
    """Read the leases that each message lists: by columns, the fastest way."""
    if not found:
        return found
    try:
        leases, pages, requests, progress = zip(*found, strict=True)
        known = (number for number in requests if number is not None)
        is_whole = {*map(type, (*leases, *pages, *progress, *known))} == {int}
        if not (is_whole and min(*leases, *pages, *progress) >= 0 and max(progress) <= ENDED):
            raise ValueError
    except (TypeError, ValueError):
        raise _not("a list of leases", found) from None
    return found


class WorkerMessage(NamedTuple):
    """A message of a worker: `n_received` is RECEIVED."""

    clock: float
    wants: int
    n_received: int
    leases: list[list[Any]]
    asks: list[list[Any]]
    statements: list[Statement]


_ASK = of_row(row(_COUNT, _URL, text(lambda found: found.encode() and found), _FLAG, _TEXT))
_of_worker = row(
    *(decimal(0, 1e10), whole(0, MOST_WANTED), _LEASE),
    *(of_row(_leases), each(_ASK), _LIST),
    make=WorkerMessage,
)


def worker_message(body: bytes, schema: Schema) -> WorkerMessage:
    """Read a message of a worker; ValueError if it is invalid."""
    message: WorkerMessage = _of_worker(parsed(body))
    return message._replace(statements=checked(message.statements, schema))


class CoordinatorMessage(NamedTuple):
    """A message of a coordinator."""

    number: int
    n_read: int
    echo: float
    statements: list[Statement]


_of_coordinator = row(whole(1), _LEASE, decimal(0, 1e10), _LIST, make=CoordinatorMessage)


def coordinator_message(body: bytes, schema: Schema) -> CoordinatorMessage:
    """Read a message of a coordinator; ValueError if it is invalid."""
    message: CoordinatorMessage = _of_coordinator(parsed(body))
    return message._replace(statements=checked(message.statements, schema))


def from_worker(
    is_request: Callable[[bytes], bool], tables: Mapping[str, SideTable] = TABLES
) -> Schema:
    """Return the statements of workers, with requests and side rows that the crawl can have."""
    request = _request(is_request) | None
    entry = row(
        *(_TEXT, _URL, _TEXT, _INT32, Field("a whole number", (int,)), request, _FLAG, _FLAG),
        _LEASE | None,
        make=QueueEntry,
    )
    values = _OBJECT._replace(read=lambda found: _texts([*found.values()]) and found)
    return {
        "add": row(of_row(entry)),
        "add_seeds": row(each(_LINK)),
        "observe": row(_LEASE, of_row(visit_reader(tables))),
        "begun": row(_LEASE),
        "put_back": row(_LEASE, request, Field("a whole number", (int,)) | None),
        "release_site": row(_LEASE),
        "started": row(_TEXT, _FLAG),
        "ended": row(_TEXT, _FETCH),
        "not_fetched": row(_TEXT),
        "set_delay": row(_TEXT, _SECONDS),
        "set_limit": row(_TEXT, _COUNT),
        "obey_crawl_delay": row(_TEXT, _SECONDS),
        "refused": row(_TEXT, _COUNT, _TEXTS),
        "archive": row(_EXCHANGE),
        "stats": row(_OBJECT._replace(read=_counts)),
        "scope": row(_SEED),
        "hello": row(values, _OBJECT._replace(read=_scope)),
        "bye": row(),
    }


def from_coordinator(is_request: Callable[[bytes], bool]) -> Schema:
    """Return the statements of coordinators, with requests that the crawl can make."""
    leased_page = row(_LEASE, _URL, _INT32, _request(is_request) | None, make=LeasedPage)
    return {
        "lease": row(of_row(leased_page), _TEXT, of_row(row(_LEASE, _LEASE | None, _TEXT))),
        "scope": row(_SEED),
        "end": row(_TEXT),
        "lost": row(each(_LEASE)),
        "revoked_below": row(_LEASE),
        "may": row(_COUNT, _TEXT),
        "refuse": row(_TEXT),
        "status": row(_COUNT, _COUNT, decimal(-1e15) | None, _COUNT),
    }


def _request(is_request: Callable[[bytes], bool]) -> Field:
    def read(found: str) -> bytes:
        data = found.encode()
        if not is_request(data):
            raise _not("a request of this crawl", found)
        return data

    return text(read)


def coordinator_of(number: int) -> int:
    """Return the epoch of the coordinator that numbered a lease or a message."""
    return number // OF_ONE_COORDINATOR
