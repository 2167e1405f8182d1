"""The loopback server and its process, over real sockets, and the handler, in the real engine."""

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from crawls import run_spider
from forked import run_to_end, running
from spiders import Follower

from crawlprio.demo.server import LoopbackServer
from crawlprio.demo.web import DemoWeb

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at the process as Linux shows it")

PAGES, SITES, SEED = 1_500, 20, 5


@pytest.fixture(scope="module")
def web():
    return DemoWeb(PAGES, SITES, SEED)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("server") / "fetches.jsonl"


@pytest.fixture(scope="module")
def server(log):
    with LoopbackServer(pages=PAGES, sites=SITES, seed=SEED, log=log) as running:
        yield running


@pytest.fixture
def connection(server):
    opened = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    yield opened
    opened.close()


def ask(connection, url, method="GET"):
    """Request a URL as the handler does, with https in clear text."""
    scheme, _, rest = url.partition("://")
    connection.request(method, f"http://{rest}", headers={"X-Forwarded-Proto": scheme})
    response = connection.getresponse()
    return response.status, response.headers, response.read()


def command(**asked):
    small = {"pages": 10, "sites": 1, "seed": 0, "recording": None, "log": None, "port": 0}
    return [sys.executable, "-m", "crawlprio.demo.server", json.dumps({**small, **asked})]


def test_the_server_answers_with_the_pages_of_its_web_over_one_connection(web, connection):
    sockets = set()
    for page in [p for p in range(PAGES) if not web.slow[p]][::7]:
        wanted = web.answer(web.url(page))
        status, headers, body = ask(connection, web.url(page))
        assert (status, body) == (wanted.status, wanted.body)
        assert headers["Content-Length"] == str(len(body))
        assert {name: headers[name] for name in wanted.headers} == dict(wanted.headers)
        sockets.add(connection.sock.getsockname())
    assert len(sockets) == 1


def test_the_server_opens_no_tunnel(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock:
        sock.sendall(b"CONNECT www.site0.example:443 HTTP/1.1\r\nHost: www.site0.example\r\n\r\n")
        assert sock.makefile("rb").readline() == b"HTTP/1.1 405 Method Not Allowed\r\n"


@linux
def test_the_server_listens_only_on_loopback(server):
    listening = [
        line.split()[1]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{server.port:04X}")
    ]
    assert listening == [f"0100007F:{server.port:04X}"]


def test_a_slow_page_does_not_delay_others(server, web, log, connection):
    slow = web.url(int(web.slow.nonzero()[0][0]))
    fast = web.seeds[0]
    waiting = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    waiting.request("GET", slow, headers={"X-Forwarded-Proto": slow.partition(":")[0]})
    assert ask(connection, fast)[0] == 200
    assert waiting.getresponse().read() == web.answer(slow).body
    waiting.close()
    first, second = [json.loads(line) for line in log.read_text().splitlines()][-2:]
    assert (first["url"], second["url"]) == (fast, slow)
    assert second["end"] - second["start"] >= web.answer(slow).delay
    assert first["end"] < second["end"]


def test_each_request_is_one_line_of_the_log(web, log, connection):
    urls = [web.url(page) for page in range(50) if not web.slow[page]]
    for url in urls:
        ask(connection, url)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    tail = lines[-len(urls) :]
    assert [line["url"] for line in tail] == urls
    assert [line["host"] for line in tail] == [web.hosts[0]] * len(urls)
    assert [line["status"] for line in tail] == [web.answer(url).status for url in urls]
    assert [line["bytes"] for line in tail] == [len(web.answer(url).body) for url in urls]
    times = [time for line in tail for time in (line["start"], line["end"])]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"pages": 3, "sites": 200}, "A demo web of 3 pages on 200 sites cannot be made"),
        ({"recording": "none.warc"}, "none.warc: No such file or directory"),
        ({"log": "no/such/folder/log"}, "no/such/folder/log cannot be written"),
    ],
)
def test_bad_input_exits_with_status_2_and_one_sentence(asked, sentence, tmp_path):
    ran = run_to_end(command(**asked), tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith(sentence)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_the_server_ends_cleanly_on_a_signal(sent):
    # A shell makes its background processes ignore SIGINT, these tests included.
    heeds = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with running(command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, **heeds) as process:
        assert json.loads(process.stdout.readline())["pages"] == 10
        process.send_signal(sent)
        assert process.wait(60) == 0


@linux
@pytest.mark.parametrize("stdin_stays_open", [True, False])
def test_the_server_does_not_outlive_a_killed_parent(stdin_stays_open):
    script = (
        "import os, time\n"
        "from crawlprio.demo.server import LoopbackServer\n"
        "server = LoopbackServer(pages=10, sites=1).start()\n"
        f"sleeper = {stdin_stays_open} and os.fork() == 0\n"
        "sleeper or print(server.pid, flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        watched = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    assert select.select([watched], [], [], 30)[0] == [watched]
    os.close(watched)


def test_the_server_imports_what_its_parent_can():
    script = (
        "import sys\n"
        "from crawlprio.demo.server import LoopbackServer\n"
        "sys.executable = sys._base_executable  # outside the virtual environment\n"
        "with LoopbackServer(pages=10, sites=1) as server:\n"
        "    print(server.n_pages)"
    )
    assert subprocess.check_output([sys.executable, "-c", script]) == b"10\n"


CRAWL = """
import json, sys
import scrapy
from scrapy.crawler import CrawlerProcess

connected = []
sys.addaudithook(lambda event, args: event == "socket.connect" and connected.append(list(args[1])))
looked_up = []
sys.addaudithook(lambda event, args: event == "socket.getaddrinfo" and looked_up.append(args[0]))

address, urls = sys.argv[1], json.loads(sys.argv[2])
answers = []


class AddressCheck(scrapy.Spider):
    name = "asker"

    async def start(self):
        for url in urls:
            yield scrapy.Request(url, dont_filter=True, meta={"asked": url, "proxy": "http://192.0.2.1:9"})

    def parse(self, response):
        meta = response.request.meta
        answers.append([meta["asked"], response.url, response.request.url, response.status,
                        response.text, meta["proxy"], meta["download_latency"] > 0])


process = CrawlerProcess({
    "DOWNLOAD_HANDLERS": dict.fromkeys(("http", "https"), "crawlprio.demo.handler.LoopbackHandler"),
    "CRAWLPRIO_LOOPBACK": address, "CONCURRENT_REQUESTS": 12, "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
    "DOWNLOAD_DELAY": 0, "REDIRECT_ENABLED": False, "RETRY_ENABLED": False,
    "HTTPERROR_ALLOW_ALL": True, "TELNETCONSOLE_ENABLED": False, "LOG_LEVEL": "ERROR",
})
crawler = process.create_crawler(AddressCheck)
process.crawl(crawler)
process.start()
print(json.dumps({"answers": answers, "connected": connected, "looked_up": looked_up}))
"""


def crawl(address, urls):
    """Fetch URLs with Scrapy in a new process; return what it printed and logged."""
    ran = run_to_end([sys.executable, "-c", CRAWL, address, json.dumps(urls)], check=True)
    said = json.loads(ran.stdout)
    return said, ran.stderr


def test_scrapy_gets_every_page_through_loopback_under_its_own_url(server, web):
    urls = [web.url(page) for page in range(0, PAGES, 3) if not web.slow[page]]
    assert len({url.partition(":")[0] for url in urls}) == 2
    urls += ["http://www.elsewhere.test/", "https://www.elsewhere.test:8443/x?y=1"]
    said, _ = crawl(server.address, urls)
    wanted = {url: web.answer(url) for url in urls}
    assert sorted(said["answers"]) == sorted(
        [url, url, url, wanted[url].status, wanted[url].body.decode(), "http://192.0.2.1:9", True]
        for url in urls
    )
    assert {tuple(peer) for peer in said["connected"]} == {("127.0.0.1", server.port)}
    # Twisted tries each connection twice; most responses arrived over kept-alive connections.
    assert len(said["connected"]) < len(urls) / 5
    assert set(said["looked_up"]) <= {"127.0.0.1"}


@pytest.mark.parametrize("address", ["192.0.2.1:80", "127.0.0.1", "", "127.0.0.1:80:80"])
def test_the_handler_refuses_any_address_but_loopback(address):
    handlers = dict.fromkeys(("http", "https"), "crawlprio.demo.handler.LoopbackHandler")
    settings = {"DOWNLOAD_HANDLERS": handlers, "CRAWLPRIO_LOOPBACK": address}
    run = run_spider(Follower, settings)
    told = [str(record.exc_info[1]) for record in run.log if record.exc_info]
    sentence = f"CRAWLPRIO_LOOPBACK is {address or None!r}; it must be the address of a loopback"
    assert any(text.startswith(sentence) for text in told)
    assert run.items == []


def test_requests_under_a_rebound_name_are_refused(connection, web):
    """DNS rebinding: a page's own name, with this machine's address."""
    statuses = {}
    for host in ("evil.test", f"evil.test:{connection.port}", "127.0.0.1", web.hosts[0]):
        connection.request("GET", "/", headers={"Host": host})
        response = connection.getresponse()
        response.read()
        statuses[host] = response.status
    assert list(statuses.values()) == [421, 421, 404, 200]


@pytest.mark.parametrize("path", ["/{0}", "//{0}", "/://{0}", "/x?u=http://{0}", "*", "ws://{0}"])
def test_a_browser_cannot_pass_for_a_proxy_client(connection, web, path):
    """`/://HOST/` was once taken for a proxied request, and so passed under any Host."""
    target = path.format(f"{web.hosts[0]}/")
    headers = {"Host": "evil.test", "X-Forwarded-Proto": "https"}
    connection.request("GET", target, headers=headers)
    response = connection.getresponse()
    response.read()
    assert response.status == 421
