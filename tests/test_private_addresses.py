"""A crawl of the public web fetches nothing private, however it is led there."""

import errno
import ipaddress
import logging
import sys
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

import pytest
from crawls import ADDON, Answer, Site, _reactor, job_in, page, run_spider
from hostile import BUNDLED, crawl, refused
from names import Names
from scrapy import Request, Spider, signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.http import TextResponse
from scrapy.http.request import NO_CALLBACK
from shared_crawls import coordinator_of

from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store
from crawlprio.web.addresses import (
    PrivateAddresses,
    address_of,
    is_private,
    normal_host,
    private_of,
)
from crawlprio.web.urls import normalise_url

LITERALS = [
    *("127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
    *("0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.0.1"),
    *("0x7f000001", "2130706433", "017700000001", "0x7f.1", "127.1", "10.66051", "0", "127.0.0.1."),
    *("%31%32%37.0.0.1", "\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021"),
    *("[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[fd12:3456::1]", "[ff02::1]"),
    "[::ffff:10.0.0.1]",
    *("[::ffff:7f00:1]", "[64:ff9b::a00:1]", "[2002:a00:1::]", "[2001:db8::1]", "[0:0::0:1]"),
]
NAMES = ["localhost", "LOCALHOST.", "x.localhost", "printer.local", "db.internal", "nas.home.arpa"]
PUBLIC = ["8.8.8.8", "1.2.3", "134744072", "[2606:4700::1]", "[::ffff:8.8.8.8]", "a.test", "b.org"]


def test_every_form_of_a_private_host_is_private_and_no_public_one_is():
    private = PrivateAddresses()
    assert [host for host in LITERALS + NAMES + PUBLIC if private.allows_host(host)] == PUBLIC
    assert [str(address_of(host)) for host in ("0x7f.1", "[::ffff:10.0.0.1]", "a.test")] == [
        "127.0.0.1",
        "10.0.0.1",
        "None",
    ]
    assert normal_host("B\u00fccher.Test.") == "xn--bcher-kva.test"
    assert [normal_host(host) for host in ("0xf.", "0xf..", ".", "..")] == [
        "0.0.0.15",
        "0xf..",
        ".",
        "..",
    ]


def test_only_addresses_that_are_globally_reachable_are_public():
    for text in ("8.8.8.8", "2606:4700::1", "64:ff9b::808:808", "2a00::1"):
        assert not is_private(ipaddress.ip_address(text)), text
    for text in (
        *("239.1.1.1", "2002:7f00:1::", "::ffff:192.168.0.1", "2001:0:1::", "fec0::1"),
        *("::127.0.0.1", "::8.8.8.8", "64:ff9b:1::808:808", "::ffff:0:10.0.0.1"),
        *("100::1", "4000::1", "5f00::1", "64:ff9b::10.0.0.1", "255.255.255.255", "0.0.0.0"),
    ):
        assert is_private(ipaddress.ip_address(text)), text


@pytest.mark.parametrize(
    ("seed", "resolved", "opened", "closed"),
    [
        ("127.0.0.1", [], ["127.0.0.1", "0x7f.1", "localhost"], ["127.1.1.1", "[::1]", "x.local"]),
        ("10.0.0.5", [], ["10.0.0.5"], ["10.0.0.6", "127.0.0.1", "169.254.169.254"]),
        ("169.254.1.1", [], ["169.254.1.1"], ["169.254.169.254", "10.0.0.1"]),
        ("wiki.local", ["10.0.0.7"], ["wiki.local", "10.0.0.7"], ["git.local", "10.0.0.8"]),
        ("localhost", ["127.0.0.1", "::1"], ["localhost", "127.0.0.1", "[::1]"], ["127.0.0.2"]),
        ("a.test", ["8.8.8.8"], [], LITERALS + NAMES),
        ("8.8.8.8", [], [], LITERALS + NAMES),
    ],
)
def test_a_seed_opens_its_own_addresses_and_no_others(seed, resolved, opened, closed):
    private = PrivateAddresses()
    private.add_seed(seed, private_of(seed, resolved))
    assert [host for host in opened + closed if private.allows_host(host)] == opened


def test_a_seeds_name_opens_no_link_local_address():
    """Whoever owns the name could otherwise read a cloud's metadata service."""
    answer = ["10.0.0.1", "8.8.8.8", "169.254.169.254", "fe80::1%eth0", "64:ff9b::a9fe:a9fe"]
    answer += ["::ffff:169.254.169.254", "2002:a9fe:a9fe::1", "::1", "10.0.0.1"]
    assert private_of("inside.test", answer) == ["10.0.0.1", "::1"]
    private = PrivateAddresses()
    private.add_seed("inside.test", private_of("inside.test", answer))
    assert private.allowed_of("link.test", answer) == ["10.0.0.1", "8.8.8.8", "::1", "10.0.0.1"]


@pytest.mark.parametrize("mode", ["seeds", "refuse"])
def test_networks_addresses_and_names_can_be_granted(mode):
    private = PrivateAddresses(mode, ["10.0.0.0/8", "::1", "git.local", "api.test"])
    hosts = ["10.9.9.9", "[::1]", "git.local", "192.168.0.1", "x.local", "127.0.0.1"]
    assert [host for host in hosts if private.allows_host(host)] == hosts[:3]
    assert private.allowed_of("api.test", ["127.0.0.1"]) == ["127.0.0.1"]
    assert private.allowed_of("b.test", ["127.0.0.1", "10.1.1.1"]) == ["10.1.1.1"]


@pytest.mark.parametrize("obeys", [False, True])
def test_a_public_page_leads_to_no_private_host_by_link_or_redirect(obeys):
    links = [f"http://{host}/" for host in LITERALS + NAMES if host.isascii()]

    def answer(host, path):
        if host == "a.test" and path == "/":
            return page(*links, *(f"/to/{n}" for n in range(len(links))))
        if path.startswith("/to/"):
            return Answer(status=302, headers={"Location": links[int(path[4:])]})
        return page()

    run = crawl(({}, answer), {"ROBOTSTXT_OBEY": obeys}, follow="web")
    assert run.reason == "finished"
    assert {fetch.host for fetch in run.site.fetches} == {"a.test"}
    assert len(run.site.paths()) == 1 + len(links)
    n_linked = len({normal_host(url.split("/")[2]) for url in links})
    n_redirected = len(set(map(normalise_url, links)) - {None})
    assert refused(run)["refused/private-address"] >= n_linked + n_redirected


def test_a_robots_txt_that_redirects_to_a_private_host_is_not_read_and_closes_its_site():
    moved = Answer(status=301, headers={"Location": "http://169.254.169.254/latest"})
    run = crawl({"/": page(), "/robots.txt": moved}, {"ROBOTSTXT_OBEY": True})
    assert [(fetch.host, fetch.path) for fetch in run.site.fetches] == [("a.test", "/robots.txt")]
    assert run.reason == "finished"
    assert refused(run) == {"refused/private-address": 1, "refused/robots-unreachable": 1}


@pytest.mark.parametrize(
    ("mode", "fetched"),
    [("allow", ["127.0.0.1", "a.test"]), ("seeds", ["a.test"]), ("refuse", ["a.test"])],
)
def test_the_setting_decides(mode, fetched):
    with Site({}, lambda host, path: page("http://127.0.0.1/")) as site:
        crawl(site, {"CRAWLPRIO_PRIVATE_ADDRESSES": mode}, follow="web")
    assert sorted({fetch.host for fetch in site.fetches}) == fetched


class Follower(Spider):
    """A spider that does not use crawlprio and follows everything it is shown."""

    name = "follower"
    first: tuple[str, dict[str, Any]] = ("http://a.test/", {})

    async def start(self):
        yield Request(self.first[0], meta=self.first[1])

    def parse(self, response):
        if isinstance(response, TextResponse):
            for url in response.css("a::attr(href)").getall():
                yield response.follow(url)


GUARDED = {**ADDON, "CRAWLPRIO_PRIVATE_ADDRESSES": "seeds"}
STOCK = {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}


@pytest.mark.parametrize("others", [{}, STOCK], ids=["crawlprio", "scrapy"])
def test_what_a_callback_yields_counts_as_the_pages_unless_it_says_otherwise(others):
    class Inline(Follower):
        async def parse(self, response):
            request = Request("http://10.0.0.9/downloaded", callback=NO_CALLBACK)
            await self.crawler.engine.download_async(request)
            allowed = {"allow_private_address": True}
            yield Request("http://0x7f.1/", callback=self.done)
            yield Request("http://10.0.0.9/said", callback=self.done, meta=allowed)
            yield Request("http://10.0.0.9/linked", callback=self.done)
            yield Request("http://a.test/to", callback=self.done, meta=allowed)
            yield Request("http://b.test/", callback=self.done)

        def done(self, response):
            pass

    moved = Answer(status=302, headers={"Location": "http://10.0.0.9/redirected"})
    with Site({"a.test/to": moved}, lambda host, path: None if path == "/to" else page()) as site:
        run = run_spider(Inline, {**GUARDED, **others}, site=site)
    assert sorted(fetch.host + fetch.path for fetch in site.fetches) == [
        *("10.0.0.9/downloaded", "10.0.0.9/said", "a.test/", "a.test/to", "b.test/")
    ]
    assert refused(run) == {"refused/private-address": 3}


class Login(Follower):
    """Logs in before its first request, and crawls one more page once it is idle."""

    first = ("http://10.0.0.9/", {})

    async def start(self):
        login = Request("http://10.0.0.8/login", callback=NO_CALLBACK)
        token = await self.crawler.engine.download_async(login)
        assert token.status == 200
        self.crawler.signals.connect(self.idle, signal=signals.spider_idle)
        async for request in super().start():
            yield request

    def idle(self):
        self.crawler.signals.disconnect(self.idle, signal=signals.spider_idle)
        self.crawler.engine.crawl(Request("http://10.0.0.7/idle", callback=self.parse))
        raise DontCloseSpider

    def parse(self, response):
        yield {"url": response.url}
        yield from super().parse(response)


@pytest.mark.parametrize("mode", [None, "seeds"])
@pytest.mark.parametrize("others", [{}, STOCK], ids=["crawlprio", "scrapy"])
def test_a_projects_own_requests_are_never_refused(mode, others):
    """Both once ended as `finished` without an item: the start request, and what came when idle."""
    settings = {**ADDON, **others} | ({} if mode is None else {"CRAWLPRIO_PRIVATE_ADDRESSES": mode})
    moved = Answer(status=302, headers={"Location": "/welcome"})
    pages = {
        "10.0.0.8/login": moved,
        "10.0.0.8/welcome": page(),
        "10.0.0.9/": page("/more", "http://10.0.0.1/"),
    }
    with Site(pages, lambda host, path: page() if host != "10.0.0.8" else None) as site:
        pages["10.0.0.9/more"] = pages["10.0.0.1/"] = page()
        site._answer = lambda host, path: None
        pages["10.0.0.7/idle"] = page()
        run = run_spider(Login, settings, site=site)
    found = ["http://10.0.0.7/idle", "http://10.0.0.9/", "http://10.0.0.9/more"]
    if mode is None:
        found.insert(0, "http://10.0.0.1/")
    assert sorted(item["url"] for item in run.items) == found
    assert refused(run) == ({} if mode is None else {"refused/private-address": 1})


class Persistent(Follower):
    """Asks again, in its errback, for what was refused or could not be fetched."""

    def parse(self, response):
        for request in super().parse(response):
            yield request.replace(errback=self.failed)

    def failed(self, failure):
        yield Request(failure.request.url, callback=self.done, dont_filter=True)
        yield Request("http://10.0.0.9/said", self.done, meta={"allow_private_address": True})

    def done(self, response):
        pass


class PersistentLater(Persistent):
    """Does so asynchronously."""

    async def failed(self, failure):
        for request in super().failed(failure):
            yield request


@pytest.mark.parametrize("spider", [Persistent, PersistentLater])
@pytest.mark.parametrize("others", [{}, STOCK], ids=["crawlprio", "scrapy"])
def test_what_an_errback_yields_counts_as_the_pages_too(others, spider):
    """It once asked for a refused address a second time, and got it."""
    pages = {"a.test/": page("http://127.0.0.1/"), "127.0.0.1/": page(), "/said": page()}
    run = run_spider(spider, {**GUARDED, **others}, site=pages)
    assert [fetch.host + fetch.path for fetch in run.site.fetches] == ["a.test/", "10.0.0.9/said"]
    assert refused(run) == {"refused/private-address": 2}


class UsesApi(Login):
    """Asks for a private address when it is idle, after a page has linked to it."""

    first = ("http://a.test/", {})

    async def start(self):
        self.crawler.signals.connect(self.idle, signal=signals.spider_idle)
        yield Request(self.first[0])


@pytest.mark.parametrize("unreachable", ["forbid", "allow"])
def test_a_pages_link_closes_no_site_of_the_project(unreachable):
    """The refusal was once the result for the site's robots.txt, for the project's requests too."""
    robots = {"ROBOTSTXT_OBEY": True, "CRAWLPRIO_ROBOTS_UNREACHABLE": unreachable}
    pages = {
        "a.test/": page("http://10.0.0.7/1", "http://10.0.0.7/2"),
        "10.0.0.7/robots.txt": Answer("User-agent: *\nDisallow: /secret"),
        "10.0.0.7/idle": page("http://10.0.0.7/3", "/4"),
    }
    run = run_spider(UsesApi, {**GUARDED, **robots}, site=pages)
    assert [fetch.host + fetch.path for fetch in run.site.fetches] == [
        *("a.test/robots.txt", "a.test/", "10.0.0.7/robots.txt", "10.0.0.7/idle")
    ]
    assert [item["url"] for item in run.items] == ["http://a.test/", "http://10.0.0.7/idle"]


@pytest.mark.parametrize("scheme", ["file", "data"])
def test_a_start_page_may_be_a_file_or_data(scheme, tmp_path):
    body = '<a href="http://127.0.0.1/x">x</a>'
    saved = tmp_path / "start.html"
    saved.write_text(body)

    class Local(Follower):
        first = (saved.as_uri() if scheme == "file" else f"data:text/html,{quote(body)}", {})

    with Site({"/x": page()}) as site:
        run = run_spider(Local, ADDON, site=site)
        assert (site.paths(), refused(run)) == (["/x"], {})
        run = run_spider(Local, GUARDED, site=site)
        assert (site.paths(), refused(run)) == (["/x"], {"refused/private-address": 1})


def test_without_links_middleware_the_guard_does_not_start():
    """It could not tell what comes from a page."""
    none = {"SPIDER_MIDDLEWARES": {"crawlprio.middlewares.LinksMiddleware": None}}
    run = run_spider(Follower, {**GUARDED, **STOCK, **none}, site={})
    assert (run.site.paths(), run.messages(logging.ERROR)) == (
        [],
        [
            "CRAWLPRIO_PRIVATE_ADDRESSES is on, which needs LinksMiddleware to know what comes "
            "from a page; set ADDONS = {'crawlprio.Addon': 500}, or add LinksMiddleware to "
            "SPIDER_MIDDLEWARES."
        ],
    )


def crawl_by_name(mode, addresses, *, is_seed=False):
    """Crawl from a page, fetched by proxy, to a name; return hosts fetched, refusals, lookups."""
    with Site({}, lambda host, path: None) as site, Names({"b.test": list(addresses)}) as names:
        url = f"http://b.test:{site.address.rpartition(':')[2]}/"
        site._pages = {"a.test/": page(url), "b.test/": page()}

        class ByProxy(Follower):
            first = (
                (url, {}) if is_seed else ("http://a.test/", {"proxy": f"http://{site.address}"})
            )

            def parse(self, response):
                if "a.test" in response.url:
                    yield Request(url)

        settings = {**ADDON, "CRAWLPRIO_PRIVATE_ADDRESSES": mode, "RETRY_ENABLED": True}
        run = run_spider(ByProxy, settings)
        assert run.reason == "finished"
        return [fetch.host for fetch in site.fetches], refused(run), names.asked


def test_a_public_name_with_a_private_address_is_not_connected_to():
    hosts, refusals, asked = crawl_by_name("seeds", ["127.0.0.1", "::1"])
    assert (hosts, refusals) == (["a.test"], {"refused/private-address": 1})
    assert asked == ["a.test", "b.test"]


def test_if_private_addresses_are_allowed_the_same_name_is_fetched():
    """So the address was reachable, and only the check kept the crawl from it."""
    assert crawl_by_name("allow", ["127.0.0.1"]) == (["a.test", "b.test"], {}, ["b.test"])


def test_a_seed_may_be_a_name_with_a_private_address():
    hosts, refusals, _ = crawl_by_name("seeds", ["127.0.0.1"], is_seed=True)
    assert (hosts, refusals) == (["b.test"], {})
    hosts, refusals, _ = crawl_by_name("refuse", ["127.0.0.1"], is_seed=True)
    assert (hosts, refusals) == ([], {"refused/private-address": 1})


class NotYet:
    """A downloader middleware that refuses everything."""

    def process_request(self, request):
        raise IgnoreRequest("not yet")


def test_what_a_seeds_name_resolved_to_first_stays_for_the_whole_crawl(tmp_path):
    """Otherwise a public seed's owner could open the crawler's network before the next run."""

    def connected(inside, outside, **others):
        names = {"inside.test": [inside, "169.254.1.1"], "outside.test": [outside]}
        with Names(names), Sockets() as sockets:
            run = run_spider(SiteSpider, {**settings, **others}, seeds=seeds)
        return sorted(sockets.connected), refused(run).get("refused/private-address", 0)

    seeds = ["http://inside.test/", "http://outside.test/"]
    settings = {**BUNDLED, **job_in(tmp_path)}
    # Pages that one run refuses wait for the next.
    assert connected("10.0.0.2", "8.8.8.8", DOWNLOADER_MIDDLEWARES={NotYet: 100}) == ([], 0)
    assert connected("10.0.0.3", "10.0.0.4") == ([], 2)
    assert connected("10.0.0.2", "8.8.4.4") == (["10.0.0.2", "8.8.4.4"], 0)


class SlowNames(Names):
    """Answers a second later."""

    def resolveHostName(self, receiver, name, *others):  # noqa: N802
        _reactor().callLater(1.0, super().resolveHostName, receiver, name, *others)
        return self


def test_no_page_leaves_before_the_seeds_names_are_resolved(tmp_path):
    """A page that waited for a resume would be refused, though its seed opens its address."""
    settings = {**BUNDLED, **job_in(tmp_path)}
    seeds = "http://inside.test/"
    with Names({}):
        none = {"DOWNLOADER_MIDDLEWARES": {NotYet: 100}}
        run_spider(SiteSpider, {**settings, **none}, seeds=seeds)
    with SlowNames({"inside.test": ["10.0.0.2"]}), Sockets() as sockets:
        run = run_spider(SiteSpider, settings, seeds=seeds)
    assert (sockets.connected, refused(run)) == (["10.0.0.2"], {})


class Again(Follower):
    """Asks for its start page in each run, and, as a page would, once more when that fails."""

    async def start(self):
        yield Request("http://inside.test/", dont_filter=True, errback=self.failed)

    def failed(self, failure):
        yield Request("http://inside.test/", dont_filter=True)


def test_all_workers_of_a_crawl_in_redis_use_what_the_first_resolved(redis_server, tmp_path):
    def connected(inside):
        coordinator = coordinator_of(tmp_path, Again.name, settings, Again)
        with Names({"inside.test": [inside]}), Sockets(redis_port) as sockets, coordinator:
            run = run_spider(Again, {**settings, "CRAWLPRIO_COORDINATOR": "never"})
        return sockets.connected, refused(run).get("refused/private-address", 0)

    redis_port = urlsplit(redis_server.url).port
    shared = {"CRAWLPRIO_FRONTIER": "redis", "REDIS_URL": redis_server.url}
    settings = {**GUARDED, **shared, "SCHEDULER_PERSIST": True}
    assert connected("10.0.0.2") == (["10.0.0.2", "10.0.0.2"], 0)
    assert connected("10.0.0.3") == (["10.0.0.3"], 1)
    assert connected("10.0.0.2") == (["10.0.0.2", "10.0.0.2"], 0)
    assert redis_server.client().hgetall("crawlprio:{follower:0}:seeds") == {
        b"inside.test": b"10.0.0.2"
    }


def test_a_record_of_seeds_that_was_tampered_with_is_damage(tmp_path):
    with Site({"/": page()}) as site:
        settings = {**job_in(tmp_path)}
        crawl(site, settings)
        with Store.open(tmp_path / "crawl.sqlite") as store:
            store.set_meta("seed_addresses b.test", "169.254.169.254")
        run = crawl(site, settings)
    assert run.messages(logging.ERROR) == [
        f"{tmp_path / 'crawl.sqlite'}: the file is damaged (addresses of its seeds); restore a "
        "backup."
    ]


TRICKS = [
    *("http://{} #a", "http://{}\t", "http://{}\x0c", "http://{}#@b.test/", "http://b.test@{}/"),
    *(
        "http://b.test\\@{}/",
        "http://{}\\@b.test/",
        "http://b.test#@{}/",
        "//{}",
        "///{}/",
        "/\\{}/",
    ),
    *("http:{}/", "http:/{}/", "http:///{}/", "http://{}.", "http://{}%20/", "http://{}%00/"),
    *("http://{}%2f@b.test/", "http://{}?@b.test", "http://b.test:80@{}/", "http://[{}]/"),
    *("http://%00{}/", "http://{}:80:80/", "http://{};b.test/", "http://{}\xad/", "hTTp://{}/"),
    *("\x01http://{}/", " http://{} ", "http://{}:/", "http://b.test;@{}/", "http://@{}/"),
]


class Sockets:
    """Records what any socket of this process connects to; allows a proxy on loopback alone."""

    active: ClassVar[list["Sockets"]] = []

    def __init__(self, *through):
        self._through = through
        self.connected = []

    def __enter__(self):
        self.active.append(self)
        return self

    def __exit__(self, *_):
        self.active.remove(self)

    def connect(self, host, port, *_):
        if port not in self._through:
            self.connected.append(host)
            raise ConnectionRefusedError(errno.ECONNREFUSED, "not in a test")


def _audit(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        for sockets in Sockets.active:
            sockets.connect(*arguments[1])


sys.addaudithook(_audit)  # which cannot be removed


def by_proxy(site, *urls):
    """Return a spider that fetches its start page, and pages of the same host, by a site."""

    class ByProxy(Follower):
        first = ("http://a.test/", {"proxy": f"http://{site.address}"})

        def parse(self, response):
            for url in urls:
                yield Request(url, meta={"proxy": self.first[1]["proxy"]})

    return ByProxy


class WithoutProxy:
    """A downloader middleware that removes the proxy from a redirect's target."""

    def process_request(self, request):
        if "redirect_urls" in request.meta:
            request.meta.pop("proxy", None)


# If a name has a user in front, Twisted looks up the whole text, which does not exist.
@pytest.mark.parametrize(
    ("host", "n_refused"), [("10.0.0.1", 8), ("169.254.169.254", 8), ("inside.test", 3)]
)
def test_no_way_of_writing_a_redirect_connects_to_a_private_address(host, n_refused):
    """Once, the host that was checked was not the one connected to."""

    def answer(name, path):
        if path == "/":
            return page(*(f"/to/{n}" for n in range(len(TRICKS))))
        location = TRICKS[int(path[4:])].format(host)
        return Answer(status=302, headers={"Location": location})

    with Site({}, answer) as site, Names({"inside.test": ["10.0.0.2"], "b.test": ["8.8.8.8"]}):
        spider = by_proxy(site, *(f"http://a.test/to/{n}" for n in range(len(TRICKS))))
        settings = {
            **GUARDED,
            "RETRY_ENABLED": False,
            "DOWNLOAD_TIMEOUT": 3,
            "DOWNLOADER_MIDDLEWARES": {WithoutProxy: 984},
        }
        with Sockets(int(site.address.rpartition(":")[2])) as sockets:
            run = run_spider(spider, settings)
    assert run.reason == "finished"
    assert len(site.paths()) >= 1 + len(TRICKS)
    assert set(sockets.connected) <= {"8.8.8.8"}
    assert refused(run)["refused/private-address"] == n_refused


def test_a_refusal_depends_on_what_its_own_fetch_resolved():
    """A lookup of the same name without an address once cancelled the refusals of other fetches."""

    def answer(name, path):
        if path == "/":
            return page(*(f"/to/{n}" for n in range(20)))
        dot = "." if int(path[4:]) % 2 else ""
        return Answer(status=302, headers={"Location": f"http://inside.test{dot}{path}"})

    with Site({}, answer) as site, Names({"inside.test": ["10.0.0.2"]}) as names:
        spider = by_proxy(site, *(f"http://a.test/to/{n}" for n in range(20)))
        settings = {**GUARDED, "DOWNLOADER_MIDDLEWARES": {WithoutProxy: 984}}
        with Sockets(int(site.address.rpartition(":")[2])) as sockets:
            run = run_spider(spider, settings)
    assert sockets.connected == []
    assert sorted(names.asked) == ["a.test"] + ["inside.test"] * 10 + ["inside.test."] * 10
    assert refused(run) == {"refused/private-address": 10}
    assert set(run.stats["crawlprio/failed_because"].split(", ")) == {
        "name not resolved: 10",
        "refused: 10",
    }


def test_a_page_gains_nothing_from_a_connection_that_the_project_opened():
    """A name used by the project's own code is on a private address; a page links to it."""
    with Site({}, lambda host, path: page()) as site, Names({"api.test": ["127.0.0.1"]}):
        port = site.address.rpartition(":")[2]
        url = f"http://api.test:{port}/"

        class Asking(Follower):
            first = ("http://a.test/", {"proxy": f"http://{site.address}"})

            async def parse(self, response):
                if "a.test" in response.url:
                    request = Request(f"{url}own", callback=NO_CALLBACK)
                    answer = await self.crawler.engine.download_async(request)
                    assert answer.status == 200
                    yield Request(f"{url}linked")

        run = run_spider(Asking, {**GUARDED, "RETRY_ENABLED": False})
    assert site.paths() == ["/", "/own"]
    assert refused(run) == {"refused/private-address": 1}


def test_invalid_networks_are_refused_in_one_sentence():
    run = crawl({}, {"CRAWLPRIO_PRIVATE_NETWORKS": "10.0.0.0/8,10.0.0.0/99"})
    assert run.messages(logging.ERROR) == [
        "CRAWLPRIO_PRIVATE_NETWORKS is '10.0.0.0/8,10.0.0.0/99', in which '10.0.0.0/99' is not a "
        "network, address or name; give a list of networks, addresses or names, comma-separated "
        "on the command line, or None for no others."
    ]
