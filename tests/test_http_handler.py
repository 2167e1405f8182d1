"""`HttpHandler` reads what browsers read, is never sure of what is ambiguous, and connects safely.

The servers here send any bytes; the judge of valid HTTP is h11.
"""

import asyncio
import gzip
import logging
import random
import ssl
import subprocess
from contextlib import contextmanager
from itertools import pairwise

import h11
import pytest
from crawls import ADDON, _called, _in_loop, _reactor, job_in, run_spider
from hostile import BUNDLED
from names import Names
from scrapy import Request, Spider, signals
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
    StopDownload,
)
from scrapy.utils.test import get_crawler
from warcs import records

from crawlprio.live import http_handler
from crawlprio.live.http_handler import MOST_HEAD, HttpHandler, Reply
from crawlprio.spiders.site import SiteSpider

BODY = b"<title>t</title>ok"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"5\r\n<titl\r\nd\r\ne>t</title>ok\r\n0\r\n\r\n"


def response(*fields, first=b"HTTP/1.1 200 OK", body=BODY, length=LENGTH):
    lines = [first, b"Content-Type: text/html", *fields]
    return b"".join(line + b"\r\n" for line in lines) + length + b"\r\n" + body


def chunked(body, field=CHUNKED, **others):
    return response(body=body, length=field, **others)


GOOD = {
    "plain": response(),
    "chunked": chunked(CHUNKS),
    "trailers": chunked(CHUNKS[:-2] + b"X-A: 1\r\nX-B: 2\r\n\r\n"),
    "interim responses": b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + response(),
    "no reason phrase": response(first=b"HTTP/1.1 200"),
    "lower case": response(first=b"http/1.1 200 ok"),
    "spaces in the status line": response(first=b"HTTP/1.1  200\tOK"),
    "unknown status": response(first=b"HTTP/1.1 999 Denied"),
    "600 fields": response(*(b"X-%d: 1" % n for n in range(600))),
    "control byte in a value": response(b"X-A: a\x01b"),
    "length with zeros in front": response(length=b"Content-Length: 000%d\r\n" % len(BODY)),
    "chunk sizes with zeros in front": chunked(b"000000000000000000" + CHUNKS),
    "line of 20 kB": response(b"X-A: " + b"a" * 20_000),
    "line of 200 kB": response(b"X-A: " + b"a" * 200_000),
    "transfer coding in capitals": chunked(CHUNKS, b"Transfer-Encoding: Chunked\r\n"),
}
"""Whole responses, after which the connection can be used again."""

FAULTY = {
    "name with a space": response(b"X Powered By: a"),
    "name with a bracket": response(b"X-A(b): a"),
    "name with @": response(b"X@A: a"),
    "name with a slash": response(b"a/b: a"),
    "name in quotation marks": response(b'"X-A": a'),
    "name that is not ASCII": response("X-\u00c4: a".encode()),
    "no name": response(b": a"),
    "no colon": response(b"PHP Warning"),
    "HTML in the head": response(b"<b>Warning</b>: x in y.php on line 3"),
    "space before the colon": response(b"X-A : a"),
    "space before the colon of the length": response(length=b"Content-Length : %d\r\n" % len(BODY)),
    "faulty line that is folded": response(b"X A: 1\r\n Content-Length: 3"),
    "folded field": response(b"X-A: a\r\n b\r\n\tc"),
    "folded length": response(length=b"Content-Length:\r\n %d\r\n" % len(BODY)),
    "fold in the first line": response(first=b"HTTP/1.1 200 OK\r\n X-A: a"),
    "NUL in a value": response(b"X-A: a\0b"),
    "CR in a value": response(b"X-A: a\rContent-Length: 3"),
    "lines that end with CR CR LF": response(b"X-A: a\r"),
    "bare LF": response().replace(b"\r\n", b"\n"),
    "blank line in front": b"\r\n" + response(),
    "several blank lines in front": b"\n\r\n\n" + response(),
    "identity, with a length": response(b"Transfer-Encoding: identity"),
    "identity, without": response(b"Transfer-Encoding: identity", length=b""),
    "no transfer coding": response(b"Transfer-Encoding:", length=b""),
    "identity, chunked": chunked(CHUNKS, b"Transfer-Encoding: identity, chunked\r\n"),
    "chunked, identity": chunked(CHUNKS, b"Transfer-Encoding: chunked, identity\r\n"),
    "identity and chunked": chunked(CHUNKS, b"Transfer-Encoding: identity\r\n" + CHUNKED),
    "chunked with a parameter": chunked(CHUNKS, b"Transfer-Encoding: chunked;q=1\r\n"),
    "transfer coding that is none": response(b"Transfer-Encoding: utf-8"),
    "chunked and a length": chunked(CHUNKS, CHUNKED + b"Content-Length: 3\r\n"),
    "chunked and two lengths": chunked(CHUNKS, CHUNKED + b"Content-Length: 3\r\n" + LENGTH),
    "chunked in HTTP/1.0": chunked(CHUNKS, first=b"HTTP/1.0 200 OK"),
    "padded chunk sizes": chunked(CHUNKS.replace(b"5\r", b" 5  \r").replace(b"d\r", b"d\t\r")),
    "chunk extensions": chunked(CHUNKS.replace(b"5\r", b'5;a="b"\r').replace(b"0\r", b"0 ; a\r")),
    "chunk lines that end with LF": chunked(CHUNKS.replace(b"\r\n", b"\n")),
    "no end after the last chunk": chunked(CHUNKS[:-2]),
    "two equal lengths": response(length=LENGTH * 2),
    "list of equal lengths": response(length=LENGTH.rstrip() + b", %d\r\n" % len(BODY)),
    "empty length": response(length=b"Content-Length:\r\n"),
    "empty length and a length": response(length=b"Content-Length:\r\n" + LENGTH),
    "bytes after the body": response(body=BODY + b"<!-- x -->"),
    "bytes after the last chunk": chunked(CHUNKS + b"\r\n"),
    "ICY": response(first=b"ICY 200 OK", length=b""),
    "HTTP without a version": response(first=b"HTTP 200 OK"),
    "HTTP/2": response(first=b"HTTP/2 200"),
    "HTTP/1.2": response(first=b"HTTP/1.2 200 OK"),
    "HTTP/1.0": response(first=b"HTTP/1.0 200 OK"),
    "until the connection closes": response(length=b""),
}
"""Responses that are whole, but leave their connection in doubt."""

AMBIGUOUS = {
    "different lengths": response(length=LENGTH + b"Content-Length: 3\r\n"),
    "list of different lengths": response(length=LENGTH.rstrip() + b", 3\r\n"),
    "length with a sign": response(length=b"Content-Length: +%d\r\n" % len(BODY)),
    "negative length": response(length=b"Content-Length: -1\r\n"),
    "hexadecimal length": response(length=b"Content-Length: 0x12\r\n"),
    "length with a space in it": response(length=b"Content-Length: 1 8\r\n"),
    "length with an underscore": response(length=b"Content-Length: 1_8\r\n"),
    "length with a decimal point": response(length=b"Content-Length: 18.0\r\n"),
    "length in other digits": response(length="Content-Length: \u0661\u0668\r\n".encode()),
    "length with a vertical tab": response(length=b"Content-Length: \x0b18\r\n"),
    "length that is a word": response(length=b"Content-Length: abc\r\n"),
    "immense length": response(length=b"Content-Length: " + b"9" * 400 + b"\r\n"),
    "chunked twice": chunked(CHUNKS, CHUNKED * 2),
    "chunked, not last": chunked(CHUNKS, b"Transfer-Encoding: chunked, gzip\r\n"),
    "chunked, then an unknown coding": chunked(CHUNKS, b"Transfer-Encoding: chunked, x\r\n"),
    "unknown coding, then chunked": chunked(CHUNKS, b"Transfer-Encoding: x, chunked\r\n"),
    "compressed on the way": chunked(CHUNKS, b"Transfer-Encoding: gzip, chunked\r\n"),
    "compressed, not chunked": response(b"Transfer-Encoding: gzip"),
    "no HTTP": b"<title>t</title>\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "status of two digits": response(first=b"HTTP/1.1 20 OK"),
    "status of four digits": response(first=b"HTTP/1.1 2000 OK"),
    "switched protocols": response(first=b"HTTP/1.1 101 Switching Protocols"),
    "head over 256 kB": response(b"X-A: " + b"a" * MOST_HEAD),
    "head over 256 kB in many lines": response(*(b"X-%d: 1" % n for n in range(30_000))),
    "interim responses over 256 kB": b"HTTP/1.1 100 Continue\r\n\r\n" * 11_000 + response(),
    "blank lines over 256 kB": b"\r\n" * 140_000 + response(),
    "trailers over 256 kB": chunked(CHUNKS[:-2] + b"X: %b\r\n\r\n" % (b"a" * MOST_HEAD)),
    "head that ends early": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n",
}
"""Responses that fail: what is not HTTP, and what may end in more than one place."""

CUT = {
    "shorter than its length": response(body=BODY[:-1]),
    "no last chunk": chunked(CHUNKS[:-5]),
    "cut in a chunk": chunked(CHUNKS[:-9]),
    "cut in a chunk size": chunked(CHUNKS.replace(b"0\r\n\r\n", b"1")),
    "chunk size with 0x": chunked(CHUNKS.replace(b"5\r", b"0x5\r", 1)),
    "chunk size with a sign": chunked(CHUNKS.replace(b"5\r", b"+5\r", 1)),
    "negative chunk size": chunked(CHUNKS.replace(b"d\r", b"-d\r", 1)),
    "chunk size with an underscore": chunked(CHUNKS.replace(b"5\r", b"0_5\r", 1)),
    "no chunk size": chunked(CHUNKS.replace(b"d\r", b"\r", 1)),
    "extension without a size": chunked(CHUNKS.replace(b"d\r", b";a\r", 1)),
    "chunk longer than its size": chunked(CHUNKS.replace(b"5\r", b"4\r", 1)),
    "size line over 16 kB": chunked(CHUNKS.replace(b"5\r", b"5;" + b"a" * 20_000 + b"\r", 1)),
    "no chunks": chunked(BODY),
}
"""Responses whose body is not whole."""


def read(data, sizes=(), **options):
    """Return an answer that read these bytes in parts of these sizes, then the end."""
    answer, at = Reply(**options), 0
    for size in sizes:
        if answer.is_over:
            break
        answer.feed(data[at : at + size])
        at += size
    if not answer.is_over and data[at:]:
        answer.feed(data[at:])
    if not answer.is_over:
        answer.end()
    return answer


def told(answer):
    return (answer.status, answer.protocol, dict(answer.headers), bytes(answer.body), answer.flags)


@pytest.mark.parametrize("name", [*GOOD, *FAULTY, *CUT])
def test_it_does_not_matter_in_which_parts_a_response_arrives(name):
    data = {**GOOD, **FAULTY, **CUT}[name]
    whole = read(data)
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    draw = random.Random(seed)
    cuts = [[1] * min(len(data), 3_000)]
    cuts += [[draw.choice((1, 2, 3, 7, 50)) for _ in range(300)] for _ in range(20)]
    for sizes in cuts:
        answer = read(data, sizes)
        assert told(answer) == told(whole), sizes
        if answer.is_over and len(answer.body) == len(whole.body):
            # What follows a body is seen only if it has come.
            assert answer.is_reusable >= whole.is_reusable


def test_what_is_skipped_or_folded_in_a_head_leaves_the_other_fields_as_they_are():
    head = (
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nX Y: lost\r\n more\r\nset-cookie: b=2\r\n"
        b"X-Fold:  a\r\n   b\r\n\tc \r\nx-bare: a\rb\0c\r\n: no name\r\nConnection: Keep-Alive\r\n"
        b"Keep-Alive: 5\r\nContent-Length: 2, 2\r\nX-Empty:\r\n\r\nok"
    )
    assert dict(read(head).headers) == {
        b"Set-Cookie": [b"a=1", b"b=2"],
        b"X-Fold": [b"a b c"],
        b"X-Bare": [b"a b c"],
        b"X-Empty": [b""],
        b"Content-Length": [b"2"],
    }


@pytest.mark.parametrize(
    ("data", "has_body", "is_reusable"),
    [
        (response(), False, True),
        (chunked(b""), False, True),
        (response(first=b"HTTP/1.1 304 Not Modified", body=b""), True, True),
        (response(first=b"HTTP/1.1 204 No Content", body=b"", length=b""), True, True),
        (response(first=b"HTTP/1.1 204 No Content", body=b""), True, False),
        (chunked(b"", first=b"HTTP/1.1 204 No Content"), True, False),
        (chunked(b"", first=b"HTTP/1.1 304 Not Modified"), True, False),
    ],
)
def test_responses_that_have_no_body_end_with_their_head(data, has_body, is_reusable):
    answer = Reply(has_body=has_body)
    answer.feed(data.removesuffix(BODY))
    assert (answer.is_over, bytes(answer.body), answer.is_reusable) == (True, b"", is_reusable)


TOKENS = ["X-A", "Server", "etag", "Set-Cookie", "X_y.z", "!#$%&'*+-.^_`|~"]
VALUES = ["", "a", "a b\tc", "\u00e4\u00ff", 'W/"1"', "a, b;c=d", "x" * 3_000, " padded\t "]


def drawn(draw):
    """Return a response that is valid, or nearly, and whether it answers a HEAD."""
    method = draw.choice(("GET", "GET", "GET", "HEAD"))
    status = draw.choice((200, 200, 200, 204, 206, 301, 304, 404, 500, 599))
    version = draw.choice(("HTTP/1.1", "HTTP/1.1", "HTTP/1.0"))
    fields = [f"{draw.choice(TOKENS)}: {draw.choice(VALUES)}" for _ in range(draw.randrange(6))]
    if draw.random() < 0.3:
        fields.append(f"Connection: {draw.choice(('close', 'keep-alive', 'Close, x', 'x'))}")
    body = draw.randbytes(draw.choice((0, 1, 17, 300, 5_000)))
    kind = draw.choice(("length", "chunked", "close"))
    if kind == "length":
        fields.append(f"{draw.choice(('Content-Length', 'content-length'))}: {len(body)}")
        if draw.random() < 0.1:
            fields.append(f"Content-Length: {len(body) + draw.choice((0, 0, 1))}")
    elif kind == "chunked":
        fields.append(f"Transfer-Encoding: {draw.choice(('chunked', 'CHUNKED', 'chunked '))}")
    draw.shuffle(fields)
    sent, end = body, b""
    if kind == "chunked":
        at = sorted({0, len(body), *(draw.randrange(len(body) + 1) for _ in range(4))})
        sent = b"".join(
            f"{draw.choice(('', '0'))}{end - start:{draw.choice('xX')}}"
            f"{draw.choice(('', '', ';a=b'))}\r\n".encode()
            + body[start:end]
            + b"\r\n"
            for start, end in pairwise(at)
        )
        end = b"0\r\n" + draw.choice((b"", b"X-T: 1\r\n")) + b"\r\n"
        sent += end
    if draw.random() < 0.1:  # but not after the last chunk, of which h11 asks more than we do
        sent = sent[: draw.randrange(len(sent) - len(end) + 1)]
    if method == "HEAD" or status in (204, 304):
        sent = b""
    interim = draw.choice(("", "", "", "HTTP/1.1 103 Early Hints\r\nX-A: 1\r\n\r\n"))
    head = "\r\n".join([f"{version} {status} Said", *fields, "", ""])
    return (interim + head).encode("latin-1") + sent, method


def by_h11(data, method):
    """Return what h11 reads, and whether it would use the connection again; None: it is invalid."""
    judge = h11.Connection(h11.CLIENT, max_incomplete_event_size=100_000)
    judge.send(h11.Request(method=method, target="/", headers=[("Host", "a.test")]))
    judge.send(h11.EndOfMessage())
    status, headers, body, flags = 0, {}, b"", []
    judge.receive_data(data)
    try:
        while True:
            event = judge.next_event()
            if event is h11.NEED_DATA:
                judge.receive_data(b"")
            elif isinstance(event, h11.Response):
                status = event.status_code
                for name, value in event.headers:
                    headers.setdefault(name.title(), []).append(value)
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            elif isinstance(event, h11.ConnectionClosed):
                return None
    except h11.RemoteProtocolError:
        if not status:
            return None
        flags = ["dataloss"]
    is_reusable = not flags and judge.their_state is h11.DONE
    return status, headers, body, flags, is_reusable


OF_CONNECTION = (b"Content-Length", b"Transfer-Encoding", b"Connection")


def test_generated_responses_are_read_as_h11_reads_them():
    """Where both are sure: h11 refuses some that browsers read, and keeps HTTP/1.0 closed."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    draw = random.Random(seed)
    n_equal = n_reused = 0
    for _ in range(10_000):
        data, method = drawn(draw)
        judged = by_h11(data, method)
        if judged is None:
            continue
        status, headers, body, flags, is_reusable = judged
        sizes = [draw.randrange(1, 200) for _ in range(draw.choice((0, 0, 30)))]
        answer = read(data, sizes, has_body=method != "HEAD")
        for name in OF_CONNECTION:
            headers.pop(name, None)
            answer.headers.pop(name, None)
        found = [flag for flag in answer.flags if flag != "partial"]
        assert (answer.status, dict(answer.headers)) == (status, headers), data
        assert (bytes(answer.body), found) == (body, flags), data
        assert answer.is_reusable <= is_reusable or answer.protocol == "HTTP/1.0", data
        n_equal += 1
        n_reused += answer.is_reusable
    assert n_equal > 9_000
    assert n_reused > 3_000


class Server:
    """A server on 127.0.0.1 that calls `answer` with the path of each request.

    Returned bytes are sent. Unless `keeps`, the connection is then closed.
    """

    def __init__(self, answer, *, keeps=True, tls=None):
        self._answer, self._keeps, self._tls = answer, keeps, tls
        self.requests = []
        self.n_open = 0
        self.n_connections = 0

    def __enter__(self):
        async def start():
            return await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)

        self._server = _in_loop(start(), 30)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *_):
        _in_loop(_called(self._server.close), 30)

    async def _serve(self, reader, writer):
        self.n_connections += 1
        self.n_open += 1
        number = self.n_connections
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ")[1].decode()
                self.requests.append((number, path))
                self.head = head
                answer = self._answer(path)
                if answer is None:
                    await reader.read()
                    return
                writer.write(answer)
                await writer.drain()
                if not self._keeps:
                    return
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.n_open -= 1
            writer.close()


@contextmanager
def handler(settings=None, handler_class=HttpHandler):
    """Yield a function that fetches a URL with a handler, and returns response or exception."""

    def make():
        _reactor()
        crawler = get_crawler(Spider, settings)
        crawler.spider = crawler._create_spider("s")
        return handler_class.from_crawler(crawler)

    made = _in_loop(_called(make), 30)

    def fetch(url, seconds=60, **request):
        meta = {"download_timeout": seconds, **request.pop("meta", {})}

        async def download():
            try:
                return await made.download_request(Request(url, meta=meta, **request))
            except (Exception, StopDownload) as error:
                return error

        return _in_loop(download(), 90)

    fetch.handler = made
    fetch.crawler = made.crawler
    yield fetch
    _in_loop(made.close(), 30)


def until(condition):
    """Wait until a condition holds in the loop of the servers."""

    async def wait():
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.01)

    _in_loop(wait(), 40)


CLOSING = (
    *("identity, without", "no transfer coding", "empty length", "ICY"),
    *("until the connection closes", "no end after the last chunk"),
)
"""Responses that end with their connection."""


def test_whole_responses_reach_the_spider_over_a_connection_that_is_used_again_if_it_is_good():
    n_connections = {}
    for name, data in {**GOOD, **FAULTY}.items():
        answers = {"/": data, "/next": GOOD["plain"]}
        with Server(answers.get, keeps=name not in CLOSING) as server, handler() as fetch:
            found = [fetch(server.url + path) for path in answers]
        assert [each.body for each in found] == [BODY, BODY], name
        assert set(found[0].flags) <= ({"partial"} if name in FAULTY else set()), name
        assert {type(each).__name__ for each in found} == {"HtmlResponse"}, name
        assert {str(each.ip_address) for each in found} == {"127.0.0.1"}, name
        n_connections[name] = server.n_connections
    assert n_connections == {**dict.fromkeys(GOOD, 1), **dict.fromkeys(FAULTY, 2)}


SPLIT = {
    "second response": GOOD["plain"] + response(b"X-Evil: 1", body=b"<title>evil</title>"[:18]),
    "second response after a chunked one": GOOD["chunked"] + GOOD["plain"],
    "response after one without a body": response(
        first=b"HTTP/1.1 204 No Content", body=b"", length=b""
    )
    + response(b"X-Evil: 1"),
    "response after a length of 0": response(body=b"", length=b"Content-Length: 0\r\n")
    + response(b"X-Evil: 1"),
}


@pytest.mark.parametrize("name", SPLIT)
def test_no_page_gets_a_response_that_came_with_another(name):
    with Server({"/": SPLIT[name]}.get) as server, handler() as fetch:
        fetch(server.url + "/")
        server._answer = lambda path: response(body=b"own", length=b"Content-Length: 3\r\n")
        second = fetch(server.url + "/second")
    assert (second.body, second.headers.get("X-Evil")) == (b"own", None)
    assert server.requests == [(1, "/"), (2, "/second")]


def test_what_comes_unasked_on_a_waiting_connection_closes_it():
    with Server({"/": GOOD["plain"]}.get) as server, handler() as fetch:
        assert fetch(server.url + "/").body == BODY
        (idle,) = fetch.handler._idle.values()

        def send():
            (waiting,) = idle
            waiting.data_received(response(b"X-Evil: 1"))

        _in_loop(_called(send), 10)
        assert (len(idle), fetch(server.url + "/").body) == (0, BODY)
    assert [number for number, _ in server.requests] == [1, 2]


@pytest.mark.parametrize("name", [*AMBIGUOUS, *CUT])
def test_a_response_that_fails_takes_its_connection_with_it(name):
    bad = {**AMBIGUOUS, **CUT}[name]
    ends = name in CUT or "early" in name
    with Server({"/bad": bad}.get, keeps=not ends) as server, handler() as fetch:
        failure = fetch(server.url + "/bad")
        until(lambda: server.n_open == 0)
        kept = fetch(server.url + "/bad", meta={"download_fail_on_dataloss": False})
    expected = ResponseDataLossError if name in CUT else DownloadFailedError
    assert isinstance(failure, expected)
    assert getattr(kept, "flags", []) == (["dataloss"] if name in CUT else [])


def test_a_connection_that_the_server_closed_meanwhile_is_replaced_once():
    def answer(path):
        if len(server.requests) in (2, 4, 5):  # closes without an answer
            raise OSError
        return GOOD["plain"]

    with Server(answer) as server, handler() as fetch:
        assert fetch(server.url + "/1").body == BODY
        assert fetch(server.url + "/2").body == BODY
        assert isinstance(fetch(server.url + "/3"), DownloadFailedError)
    assert server.requests == [(1, "/1"), (1, "/2"), (2, "/2"), (2, "/3"), (3, "/3")]


def test_a_fetch_that_times_out_or_is_cancelled_closes_its_connection():
    with Server(lambda path: None) as server, handler() as fetch:
        assert isinstance(fetch(server.url + "/", seconds=0.3), DownloadTimeoutError)
        until(lambda: server.n_connections == 1 and server.n_open == 0)

        async def cancel():
            asking = asyncio.ensure_future(
                fetch.handler.download_request(
                    Request(server.url + "/", meta={"download_timeout": 60})
                )
            )
            while server.n_open == 0:
                await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.wait([asking])
            return asking.cancelled()

        assert _in_loop(cancel(), 30)
        until(lambda: server.n_connections == 2 and server.n_open == 0)


def test_connections_are_closed_with_the_handler():
    with Server(lambda path: GOOD["plain"]) as server:
        with handler() as fetch:
            assert fetch(server.url + "/").body == BODY
            assert server.n_open == 1
        until(lambda: server.n_open == 0)


def test_a_body_over_the_limit_is_given_up_before_it_has_come():
    endless = response(body=b"x" * 5_000, length=b"")
    said = response(body=b"x", length=b"Content-Length: 5000\r\n")
    chunks = chunked(b"1388\r\n" + b"x" * 5_000)
    answers = {"/endless": endless, "/said": said, "/chunks": chunks}
    with Server(answers.get) as server, handler({"DOWNLOAD_MAXSIZE": 4_999}) as fetch:
        for path in answers:
            assert isinstance(fetch(server.url + path), DownloadCancelledError), path
            until(lambda: server.n_open == 0)
        more = fetch(server.url + "/said", meta={"download_maxsize": 0}, seconds=0.3)
    assert isinstance(more, DownloadTimeoutError)


def test_receivers_of_signals_see_the_head_and_all_bytes_and_may_stop():
    data = chunked(CHUNKS)
    with Server({"/": data, "/stop": data, "/fail": data}.get) as server, handler() as fetch:
        seen = []

        def headers_received(headers, body_length, request, spider):
            seen.append((headers.get("Content-Type"), type(body_length).__name__))
            if request.url.endswith("/stop"):
                raise StopDownload(fail=False)

        def bytes_received(data, request, spider):
            seen.append(data)
            if request.url.endswith("/fail"):
                raise StopDownload

        fetch.crawler.signals.connect(headers_received, signals.headers_received)
        fetch.crawler.signals.connect(bytes_received, signals.bytes_received)
        whole, stopped, failed = (fetch(server.url + path) for path in ("/", "/stop", "/fail"))
    assert (whole.body, whole.flags) == (BODY, [])
    assert b"".join(each for each in seen[1:3]) == BODY
    assert (stopped.body, stopped.flags) == (b"", ["download_stopped"])
    assert isinstance(failed, StopDownload)
    assert failed.response.flags == ["download_stopped"]


def test_errors_of_connections_are_scrapys():
    with handler() as fetch:
        refused = fetch("http://127.0.0.1:9/")
        unknown = fetch("http://no-such-host.invalid/")
    assert isinstance(refused, DownloadConnectionRefusedError)
    assert isinstance(unknown, CannotResolveHostError)


class Rebinding(Names):
    """Answers with 127.0.0.1 first, and with an address where nobody listens from then on."""

    def resolveHostName(self, receiver, name, *others, **more):  # noqa: N802
        self._known = {name: ["127.0.0.2" if self.asked else "127.0.0.1"]}
        return super().resolveHostName(receiver, name, *others, **more)


def test_a_name_is_resolved_once_for_a_connection_which_goes_to_the_address_found():
    answers = Server(lambda path: GOOD["plain"])
    with answers as server, handler() as fetch, Rebinding({}) as resolver:
        pages = [fetch(f"http://a.test:{server.port}/{n}") for n in range(3)]
    assert [str(each.ip_address) for each in pages] == ["127.0.0.1"] * 3
    assert resolver.asked == ["a.test"]
    assert server.n_connections == 1


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A TLS context for a.test, self-signed, that notes the names that clients ask for."""
    file = tmp_path_factory.mktemp("tls") / "a.pem"
    line = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    line += ["-nodes", "-subj", "/CN=a.test", "-keyout", file, "-out", file]
    subprocess.run(line, check=True, capture_output=True)
    key = file.read_text()
    made = subprocess.run([*line[:-1], "/dev/stdout"], check=True, capture_output=True, text=True)
    file.write_text(file.read_text() + made.stdout if "PRIVATE" not in key else key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    context.names = []
    context.sni_callback = lambda _, name, __: context.names.append(name)
    return context


async def at_two_addresses(host):
    """Resolve a name to an address where nobody listens, and to the server's."""
    return ["127.0.0.2", "127.0.0.1"]


def test_https_names_the_host_and_is_verified_if_that_is_asked_for(certificate, monkeypatch):
    monkeypatch.setattr(http_handler, "resolved", at_two_addresses)
    with Server(lambda path: GOOD["plain"], tls=certificate) as server:
        with handler() as fetch:
            found = fetch(f"https://localhost:{server.port}/")
            again = fetch(f"https://localhost:{server.port}/")
        with handler({"DOWNLOAD_VERIFY_CERTIFICATES": True}) as fetch:
            refused = fetch(f"https://localhost:{server.port}/")
    assert (found.body, again.body) == (BODY, BODY)
    assert found.certificate.getSubject().commonName == b"a.test"
    assert isinstance(refused, DownloadFailedError)
    assert "certificate verify failed" in str(refused)
    assert certificate.names[0] == "localhost"
    assert server.requests == [(1, "/"), (1, "/")]


OTHERS = {
    "POST": {"method": "POST", "body": b"a"},
    "GET with a body": {"body": b"a"},
    "DELETE": {"method": "DELETE"},
    "own length": {"headers": {"Content-Length": "0"}},
    "own transfer coding": {"headers": {"Transfer-Encoding": "identity"}},
    "bind address": {"meta": {"bindaddress": ("127.0.0.1", 0)}},
    "line end in a value": {"headers": {"X-A": "a\r\nX-Evil: 1"}},
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_plain_request_goes_to_scrapys_handler(name, monkeypatch):
    left = []

    async def download_request(self, request):
        left.append(request.url)

    monkeypatch.setattr(HTTP11DownloadHandler, "download_request", download_request)
    with handler() as fetch:
        fetch("http://127.0.0.1:9/", **OTHERS[name])
    assert left == ["http://127.0.0.1:9/"]


def test_a_request_is_sent_with_its_own_headers_and_without_fragment():
    with Server(lambda path: GOOD["plain"]) as server, handler() as fetch:
        found = fetch(f"{server.url}/a?b=%20c#d", headers={"X-A": ["1", "2"], "user-agent": "x"})
    assert server.head.split(b"\r\n") == [
        b"GET /a?b=%20c HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}".encode(),
        b"X-A: 1",
        b"X-A: 2",
        b"User-Agent: x",
        b"",
        b"",
    ]
    assert found.url == f"{server.url}/a?b=%20c"


class Fetching(Spider):
    """Records which handler fetched its start page."""

    name = "fetching"

    def parse(self, response):
        handlers = self.crawler.engine.downloader.handlers
        yield {"handler": type(handlers._get_handler("http")).__name__}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (ADDON, "HTTP11DownloadHandler"),
        ({**ADDON, "CRAWLPRIO_LENIENT_HTTP": True}, "HttpHandler"),
        ({**BUNDLED, "CRAWLPRIO_LENIENT_HTTP": False}, "HTTP11DownloadHandler"),
        (BUNDLED, "HttpHandler"),
        (
            {
                **BUNDLED,
                "DOWNLOAD_HANDLERS": {
                    "http": "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"
                },
            },
            "HTTP11DownloadHandler",
        ),
    ],
)
def test_the_bundled_project_has_it_and_others_on_request(settings, name):
    with Server(lambda path: GOOD["plain"]) as server:
        run = run_spider(Fetching, settings, start_urls=[server.url])
    assert run.items == [{"handler": name}]
    assert run.messages(logging.ERROR) == []


def test_a_faulty_robots_txt_forbids_what_it_says_and_no_more():
    rules = b"User-agent: *\nDisallow: /no\n"
    length = b"Content-Length: %d\r\n" % len(rules)
    robots = {
        "name that is no token": response(b"X Y: a", body=rules, length=length),
        "long line": response(b"X-A: " + b"a" * 20_000, body=rules, length=length),
        "identity": response(b"Transfer-Encoding: identity", body=rules, length=length),
    }
    linking = b'<title>t</title><a href="/no">x</a><a href="/yes">x</a>'
    start = response(body=linking, length=b"Content-Length: %d\r\n" % len(linking))
    for name, answer in robots.items():
        answers = {"/robots.txt": answer.replace(b"text/html", b"text/plain"), "/": start}
        with Server(lambda path, answers=answers: answers.get(path, GOOD["plain"])) as server:
            run_spider(SiteSpider, {**BUNDLED, "ROBOTSTXT_OBEY": True}, seeds=server.url)
        assert [path for _, path in server.requests] == ["/robots.txt", "/", "/yes"], name


def test_the_archive_has_the_bytes_that_came_whichever_client_fetched_them(tmp_path):
    packed = gzip.compress(BODY, mtime=0)
    coded = (b"Content-Encoding: gzip", b"X-A: 1", b"Set-Cookie: a=1", b"set-cookie: b=2")
    answers = {
        "/robots.txt": response(first=b"HTTP/1.1 404 Not Found"),
        "/": response(*coded, body=packed, length=b"Content-Length: %d\r\n" % len(packed)),
        "/chunked": chunked(CHUNKS),
        # another body than /chunked: the second of the same bytes is a `revisit`
        "/close": response(body=BODY + b"!", length=b""),
        "/cut": response(body=BODY[:-1]),
    }
    found = {}
    with Server(answers.get, keeps=False) as server:
        for is_own in (False, True):
            folder = tmp_path / str(is_own)
            settings = {
                **BUNDLED,
                **job_in(folder / "job"),
                "CRAWLPRIO_WARC": str(folder / "warc"),
                "CRAWLPRIO_LENIENT_HTTP": is_own,
            }
            seeds = [server.url + path for path in answers if path != "/robots.txt"]
            run = run_spider(SiteSpider, settings, seeds=",".join(seeds))
            found[is_own] = sorted(
                (
                    record.kind,
                    record.url,
                    sorted(record.http.headers),
                    record.http.statusline,
                    record.body,
                    record.headers.get_header("WARC-Truncated"),
                    record.headers.get_header("WARC-IP-Address"),
                )
                for record in records(folder / "warc")
                if record.kind != "warcinfo" and record.http
            )
            assert run.stats["downloader/response_bytes"] > 0
    assert len(found[True]) == 2 * (len(answers) - 1)
    assert found[True] == found[False]
    assert packed in [body for kind, *_, body, _, _ in found[True] if kind == "response"]
