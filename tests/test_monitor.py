"""The live view shows a running crawl, and takes orders from its owner alone."""

import json
import socket
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from threading import Event
from time import monotonic, sleep

import pytest
from browsers import Tab, in_browser, running_browser
from crawls import Answer, Site, page, run_spider
from hostile import TITLES
from spiders import Follower
from waiting import MAX_SECONDS, until
from watched_crawls import Endless, Watched

from crawlprio.measure.receipt_document import NAME
from crawlprio.plugins.watch import monitor
from crawlprio.plugins.watch.monitor_server import MAX_CONNECTIONS
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store

SHARE = monitor.SHARE


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A crawl with a store, whose pages have hostile titles."""
    folder = tmp_path_factory.mktemp("watched")
    settings = {"CRAWLPRIO_STORE": folder / "crawl.sqlite", "DOWNLOAD_DELAY": 0.05}
    with Endless(TITLES) as site, Watched(site, **settings) as crawl:
        crawl.site = site
        until(lambda: len(site.fetches) > 15)
        yield crawl


class TestWhoMayAsk:
    def test_the_page_and_its_files_come_with_a_policy(self, watched):
        for path in ("/", "/monitor.css", "/monitor.js"):
            reply = watched.ask("GET", path)
            assert reply.status == 200
            assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
            assert "unsafe" not in reply.headers["Content-Security-Policy"]
            assert reply.headers["X-Content-Type-Options"] == "nosniff"
            assert watched.token not in reply.body

    @pytest.mark.parametrize("path", ["/", "/monitor.js", "/events", "/pause", "/no-such-page"])
    @pytest.mark.parametrize("host", ["evil.test", "127.0.0.1.evil.test", "[", "", "evil.test:80"])
    def test_another_name_of_the_host_is_refused(self, watched, path, host):
        method = "POST" if path == "/pause" else "GET"
        reply = watched.ask(method, path, Host=host, X_Crawlprio_Token=watched.token)
        assert reply.status in (400, 403)

    @pytest.mark.parametrize("origin", ["http://evil.test", "null", "http://127.0.0.1:1", ""])
    def test_a_page_of_another_site_may_neither_read_nor_change(self, watched, origin):
        json = {"Content_Type": "application/json", "X_Crawlprio_Token": watched.token}
        assert watched.ask("GET", "/events", Origin=origin).status == 403
        assert watched.ask("POST", "/pause", "{}", Origin=origin, **json).status == 403
        own = f"http://127.0.0.1:{watched.port}"
        assert watched.ask("POST", "/resume", "{}", Origin=own, **json).status == 200

    @pytest.mark.parametrize("path", ["/pause", "/resume", "/stop", "/first", "/explain"])
    def test_what_changes_something_needs_a_post_of_json_with_the_token(self, watched, path):
        json, token = {"Content_Type": "application/json"}, {"X_Crawlprio_Token": watched.token}
        assert watched.ask("GET", path, **json, **token).status == 405
        assert watched.ask("GET", f"{path}?token={watched.token}").status == 405
        for wrong in ({}, {"X_Crawlprio_Token": ""}, {"X_Crawlprio_Token": watched.token[:-1]}):
            assert watched.ask("POST", path, "{}", **json, **wrong).status == 403
        assert watched.ask("POST", path, "{}", **token).status == 415
        assert watched.ask("POST", path, "{}", Content_Type="text/plain", **token).status == 415
        for body in ("[]", "{", "[" * 5_000, b"\xff", "{}" + " " * 20_000):
            assert watched.ask("POST", path, body, **json, **token).status == 400
        assert watched.state()["state"] == "running"

    def test_events_are_for_a_few_clients_only(self, watched):

        def answers():
            with ExitStack() as clients:
                address = ("127.0.0.1", watched.port)
                opened = [
                    clients.enter_context(socket.create_connection(address)) for _ in range(9)
                ]
                for client in opened:
                    client.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                return sorted(client.recv(12) for client in opened)

        # The server may not have seen yet that an earlier client has gone.
        until(lambda: answers() == [b"HTTP/1.1 200"] * 8 + [b"HTTP/1.1 503"])
        until(lambda: watched.ask("GET", "/").status == 200)
        until(lambda: _can_read(watched))

    @pytest.mark.parametrize("maker", ["cross-site", "same-site"])
    def test_an_image_of_another_site_opens_no_stream(self, watched, maker):
        """A browser sends no `Origin` with it."""
        for path in ("/events", "/monitor.js"):
            assert watched.ask("GET", path, Sec_Fetch_Site=maker).status == 403
        assert watched.ask("GET", "/", Sec_Fetch_Site=maker).status == 200
        assert watched.ask("GET", "/monitor.js", Sec_Fetch_Site="same-origin").status == 200

    def test_idle_connections_beyond_a_few_are_closed_at_once(self, watched):
        """1,400 of any local user took all descriptors, and the crawl fetched nothing."""
        address = ("127.0.0.1", watched.port)
        idle = [socket.create_connection(address) for _ in range(MAX_CONNECTIONS)]
        try:
            for _ in range(50):
                with socket.create_connection(address) as beyond:
                    beyond.settimeout(30)
                    assert beyond.recv(1) == b""
        finally:
            for client in idle:
                client.close()
        until(lambda: _can_read(watched))

    def test_a_client_that_does_not_read_costs_no_memory(self, watched):
        with socket.create_connection(("127.0.0.1", watched.port)) as client:
            client.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert watched.state()["state"] == "running"


def _can_read(watched):
    try:
        return bool(watched.state())
    except (EOFError, OSError):
        return False


class TestWhatItShowsAndDoes:
    def test_the_figures_move_and_the_tables_have_rows(self, watched):
        before = int(watched.figure("Fetched"))
        seen = _seen(
            watched,
            lambda seen: (
                int(dict(seen["figures"])["Fetched"]) > before
                and len(seen["tables"]["next"]) == 20
                and seen["tables"]["causes"]
                and seen["rate"] > 0
            ),
        )
        assert [row[0] for row in seen["tables"]["causes"]] == ["HTTP 500"]
        assert {row[0] for row in seen["tables"]["failing"]} <= {"a.test", "b.test"}
        sites = [wait for wait in seen["waits"] if wait.startswith("Sites that")]
        assert len(sites) == 3

    def test_next_pages_come_next_and_say_why(self, watched):
        assert watched.post("/pause").status == 200
        try:
            seen = _settled(watched)
            rows = {row[0][1]: row for row in seen["tables"]["next"]}
            url, (_, key, why) = next(iter(rows.items()))
            assert float(key) > 0
            assert "fetched pages that link to it: " in why
            assert "found on http://" in why
            lines = watched.post("/explain", url=url).body["lines"]
            assert lines[0] == f"{url} waits."
            assert f"{float(key):.6g}" in "\n".join(lines)
        finally:
            watched.post("/resume")
        until(lambda: url in _fetched(watched))

    @pytest.mark.parametrize(
        ("url", "told"),
        [
            ("http://a.test/", "was fetched or refused already"),
            ("http://a.test/film.mp4", "follows no link to http://a.test/film.mp4 (extension)"),
            ("javascript:alert(1)", "That is not a URL"),
            ("x" * 9_000, "That is not a URL"),
            (None, "That is not a URL"),
            (["http://a.test/"], "That is not a URL"),
        ],
    )
    def test_a_page_that_cannot_come_first_is_refused_in_one_sentence(self, watched, url, told):
        reply = watched.post("/first", url=url)
        assert (reply.status, told in reply.body["error"]) == (409, True), reply.body


FORBIDDEN = [f"/secret/{n}" for n in range(30)]


def test_pages_that_robots_txt_forbids_are_not_next_and_are_explained(tmp_path):
    def answer(host, path):
        if path == "/robots.txt":
            return Answer("User-agent: *\nDisallow: /secret")
        return page(*FORBIDDEN, *(f"/{n}" for n in range(200)))._replace(seconds=0.2)

    settings = {"CRAWLPRIO_STORE": tmp_path / "crawl.sqlite", "ORDERING": "breadth-first"}
    with Site({}, answer) as site, Watched(site, **settings) as crawl:
        until(lambda: int(crawl.figure("Pages known")) > 200)
        crawl.post("/pause")
        seen = _settled(crawl)
        assert seen["of"] == "a.test"
        assert len(seen["tables"]["next"]) == 20
        assert not any("/secret/" in row[0][1] for row in seen["tables"]["next"])
        lines = crawl.post("/explain", url=f"http://a.test{FORBIDDEN[-1]}").body["lines"]
        assert "refused: forbidden by robots.txt (ROBOTSTXT_OBEY)" in lines[0]
        assert not any("Its turn could come" in line for line in lines)
        lines = crawl.post("/explain", url="http://a.test/secret/unknown").body["lines"]
        assert lines[-1] == "It would be refused: forbidden by robots.txt (ROBOTSTXT_OBEY)."


def test_what_an_action_changed_is_shown_however_long_the_next_document_would_take():
    with Endless() as site, Watched(site, DOWNLOAD_DELAY=0.05) as crawl:
        monitor.SECONDS = 3600.0
        with closing(HTTPConnection("127.0.0.1", crawl.port, timeout=MAX_SECONDS)) as connection:
            connection.request("GET", "/events")
            reply = connection.getresponse()
            states = (json.loads(each[6:])["state"] for each in reply if each[:6] == b"data: ")
            assert next(states) == "running"
            crawl.post("/pause")
            assert next(states) == "paused"
            crawl.post("/resume")
            assert next(states) == "running"


def test_a_busy_machine_does_not_make_documents_rarer(monkeypatch):
    """Their pace is of the processor time that they take; by the clock they were 35 s apart."""
    make = monitor.Snapshots.make

    def make_late(snapshots):
        Event().wait(0.2)  # as if other processes had the processor
        return make(snapshots)

    monkeypatch.setattr(monitor.Snapshots, "make", make_late)
    with Endless() as site, Watched(site, DOWNLOAD_DELAY=0.05) as crawl:
        monitor.SHARE = SHARE
        with closing(HTTPConnection("127.0.0.1", crawl.port, timeout=MAX_SECONDS)) as connection:
            connection.request("GET", "/events")
            told = (each for each in connection.getresponse() if each[:6] == b"data: ")
            begun = monotonic()
            for _ in range(3):
                next(told)
        assert monotonic() - begun < 60


def _settled(watched):
    """Return the state once no page is in flight."""
    return _seen(watched, lambda seen: seen["state"] == "paused" and not seen["tables"]["flight"])


def _seen(watched, is_so):
    """Return the first state of which something is so."""
    found = []

    def comes():
        found.append(watched.state())
        return is_so(found[-1])

    until(comes)
    return found[-1]


def _rests(site):
    """Return whether no fetch ends for a second; each takes a hundredth."""
    n_before = len(site.fetches)
    sleep(1.0)
    return len(site.fetches) == n_before


def _fetched(watched):
    fetches = sorted(watched.site.fetches, key=lambda fetch: fetch.start)
    return [f"http://{each.host}{each.path}" for each in fetches if each.path != "/robots.txt"]


class TestHowItEnds:
    def test_a_stop_ends_the_crawl_with_its_receipt(self, path, tmp_path):
        with Endless() as site, Watched(site, CRAWLPRIO_STORE=path) as crawl:
            until(lambda: len(site.fetches) > 5)
            crawl.post("/pause")
            events = socket.create_connection(("127.0.0.1", crawl.port))
            asked = b"GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            with events, events.makefile() as lines:
                events.sendall(asked)
                assert "200" in lines.readline()
                assert crawl.post("/stop").status == 200
                run = crawl.join()
                told = lines.read()
        assert run.reason == "stopped_in_live_view"
        assert run.messages() == []
        assert (tmp_path / NAME).is_file()
        assert 'event: ended\ndata: {"reason": "stopped_in_live_view", "said": ["At least' in told
        with Store.open(path, readonly=True) as recorded:
            assert recorded.n_pages > 5

    def test_a_port_in_use_is_one_sentence(self):
        with socket.create_server(("127.0.0.1", 0)) as taken, Endless() as site:
            port = taken.getsockname()[1]
            settings = {"ADDONS": {"crawlprio.Addon": 500}, "CRAWLPRIO_MONITOR": port}
            run = run_spider(SiteSpider, settings, site=site, seeds="http://a.test/")
        (message,) = run.messages()
        assert message == (
            f"CRAWLPRIO_MONITOR is {port}, but nothing can listen there (Address already in use); "
            "name another port, or 0 for any free one."
        )
        assert len(site.fetches) <= 1


@pytest.mark.parametrize("package", ["crawlprio.schedulers", "scrapy.core.scheduler"])
def test_it_works_for_other_spiders_and_schedulers(package):
    scheduler = f"{package}.Scheduler"
    with Endless() as site, Watched(site, Follower, SCHEDULER=scheduler) as crawl:
        until(lambda: int(crawl.figure("Fetched")) > 5)
        assert crawl.post("/pause").status == 200
        until(lambda: _rests(site))
        n_before = len(site.fetches)
        assert crawl.post("/first", url="http://b.test/77").status == 200
        assert _rests(site)
        assert len(site.fetches) == n_before
        crawl.post("/resume")
        until(lambda: "/77" in [fetch.path for fetch in site.fetches])
        assert "keeps no store" in crawl.post("/explain", url="http://b.test/77").body["error"]
    assert crawl.join().messages() == []


@pytest.fixture(scope="module")
def browser(watched):
    """The browser, which needs a loop of its own, so the reactor's must run before."""
    with running_browser() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def tab(browser, watched):
    opened = Tab(browser)
    opened.page.goto(watched.address)
    opened.page.wait_for_selector("#state[data-state=running]")
    return opened


def _shown(page):
    """Return the URLs of the pages that come next, as the browser shows them."""
    rows = "[...document.querySelectorAll('#next tbody tr')]"
    return page.evaluate(f"{rows}.map((row) => row.dataset.url)")


class TestInABrowser:
    pytestmark = in_browser

    def test_numbers_move_and_nothing_is_asked_of_others(self, tab, watched):
        page = tab.page
        before = page.inner_text("#figures")
        until(lambda: page.inner_text("#figures") != before)
        until(lambda: page.evaluate("document.querySelector('polyline').points.length") > 1)
        until(lambda: page.locator("#next tbody tr").count() == 20)
        assert tab.errors == []
        assert {url.rpartition("/")[0] for url in tab.requests if not url.startswith("data:")} == {
            f"http://127.0.0.1:{watched.port}"
        }
        assert watched.token not in page.url

    def test_the_page_may_ask_no_other_server(self, browser, watched):
        asking = Tab(browser)  # of its own: the browser logs the refusal at any later time
        asking.page.goto(watched.address)
        refused = "fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => error.name)"
        assert asking.page.evaluate(refused) == "TypeError"
        asking.context.close()

    def test_hostile_titles_show_as_text(self, tab):
        page = tab.page
        seen = set()

        def has_seen_all():
            seen.update(page.locator("#latest td:nth-child(2)").all_inner_texts())
            return {TITLES[1], TITLES[2], TITLES[4], TITLES[7], "gnp.exe ?"} <= seen

        until(has_seen_all)
        assert max(map(len, seen)) <= 303
        assert page.evaluate("window.hacked") is None
        assert (
            page.evaluate("document.querySelectorAll('main img, iframe, main script').length") == 0
        )

    def test_pause_why_first_and_resume_work_by_keyboard(self, tab, watched):
        page = tab.page
        page.focus("#pause")
        page.keyboard.press("Enter")
        page.wait_for_selector("#state[data-state=paused]")
        # The crawl's document can arrive before the answer to what was asked.
        until(lambda: "Paused" in page.inner_text("#said"))
        _settled(watched)
        n_before = len(_fetched(watched))
        until(lambda: _shown(page) == [row[0][1] for row in watched.state()["tables"]["next"]])
        page.locator("#next tbody tr:nth-child(3) button", has_text="Why?").press("Enter")
        page.wait_for_selector("#why[open]")
        assert "It is number" in page.inner_text("#lines")
        assert tab.violations() == []
        page.keyboard.press("Escape")
        page.wait_for_selector("#why:not([open])", state="attached")
        url = page.locator("#next tbody tr:nth-child(3)").get_attribute("data-url")
        page.locator("#next tbody tr:nth-child(3) button", has_text="First").press("Space")
        until(lambda: "comes first" in page.inner_text("#said"))
        page.fill("#url", "http://b.test/4711")
        page.press("#url", "Enter")
        until(lambda: "4711" in page.inner_text("#said"))
        assert len(_fetched(watched)) == n_before
        page.focus("#resume")
        page.keyboard.press("Enter")
        page.wait_for_selector("#state[data-state=running]")
        until(lambda: {url, "http://b.test/4711"} <= set(_fetched(watched)[n_before:]))
        assert tab.errors == []

    @pytest.mark.parametrize(("scheme", "only"), [("light", None), ("dark", ["color-contrast"])])
    def test_it_is_accessible(self, tab, scheme, only):
        tab.page.emulate_media(color_scheme=scheme)
        assert tab.violations(only) == []
        tab.page.emulate_media(color_scheme="light")

    def test_a_phone_scrolls_it_in_one_direction_only(self, tab):
        tab.page.set_viewport_size({"width": 375, "height": 700})
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 375
        # Each table scrolls by itself; the page was 5,000 pixels long.
        length = tab.page.evaluate("document.documentElement.scrollHeight")
        print("length of the page:", length)
        assert length < 3_000
        tab.page.set_viewport_size({"width": 1200, "height": 900})

    def test_without_the_token_it_can_only_be_read(self, browser, watched):
        reader = Tab(browser)
        reader.page.goto(f"http://localhost:{watched.port}/")
        reader.page.wait_for_selector("#state[data-state=running]")
        assert reader.page.is_visible("#readonly")
        assert not reader.page.is_visible("#controls")
        assert reader.page.locator("#next button").count() == 0
        reader.context.close()

    def test_a_stop_is_confirmed_and_the_page_says_how_it_ended(self, browser):
        with Endless() as site, Watched(site) as crawl:
            shown = Tab(browser)
            shown.page.goto(crawl.address)
            shown.page.wait_for_selector("#state[data-state=running]")
            shown.page.click("#stop")
            shown.page.click("#sure >> text=Go on")
            assert crawl.state()["state"] == "running"
            shown.page.click("#stop")
            shown.page.click("#sure button[value=stop]")
            shown.page.wait_for_selector("#state[data-state=ended]")
            until(lambda: "stopped_in_live_view" in shown.page.inner_text("#said"))
            crawl.join()
            assert shown.errors == []
            shown.context.close()
