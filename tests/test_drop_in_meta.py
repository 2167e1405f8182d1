"""Request meta and request settings have the same effect with the add-on.

Redirects, retries, statuses, cookies, depths, domains, headers, robots.txt.
"""

import contextlib
from typing import Any, ClassVar

import pytest
from crawls import Answer
from drop_in import ROOT, SpiderCase, assert_alike, html, kinds
from scrapy import Request, Spider

RETRIES = {"RETRY_ENABLED": True, "CRAWLPRIO_MAX_BACK_OFF": 0.05}


def to(location, status=302, **headers):
    return Answer("", status, {"Location": location, **headers})


class Asking(SpiderCase, Spider):
    """Makes the requests of `asks`, and yields the outcome of each.

    Attributes
    ----------
    asks
        keyword arguments of a request, with a path for its URL.
    """

    asks: ClassVar[list[dict[str, Any]]] = []

    async def start(self):
        for number, ask in enumerate(self.asks):
            url = ask["url"] if "://" in ask["url"] else f"{ROOT}{ask['url']}"
            arguments = {**ask, "url": url, "cb_kwargs": {"number": number}}
            yield Request(errback=self.failed, **arguments)

    def parse(self, response, number):
        yield {"n": number, "url": response.url, "status": response.status, **self.more(response)}

    def more(self, response):
        """Return further results to compare."""
        return {}

    def failed(self, failure):
        yield {"n": failure.request.cb_kwargs["number"], "failed": failure.type.__name__}


class Redirects(Asking):
    """Chains, loops, redirects to itself and to other hosts, methods and statuses."""

    pages = {
        "/a": to("/b", 301),
        "/b": to("/c", 307),
        "/c": html("end"),
        "/relative/x": to("../c"),
        "/circle": to("/circle2"),
        "/circle2": to("/circle"),
        "/self": to("/self"),
        "/cookie": [to("/cookie", **{"Set-Cookie": "a=1"}), html("cookie")],
        "/away": to("http://other.test/there"),
        "other.test/there": html("there"),
        "/post": to("/c", 303),
        "/post307": to("/c", 307),
        "/nowhere": Answer("", 302),
        "/file": to("file:///etc/hosts"),
        "/fragment": to("/c#part"),
    }
    unlike = {"downloader/request_bytes": "requests made after the cookie came are longer"}
    asks = [
        {"url": "/a"},
        {"url": "/relative/x", "dont_filter": True},
        {"url": "/circle"},
        {"url": "/self"},
        {"url": "/self?again", "dont_filter": True},
        {"url": "/cookie"},
        {"url": "/away"},
        {"url": "/post", "method": "POST", "body": b"x", "dont_filter": True},
        {"url": "/post307", "method": "POST", "body": b"y"},
        {"url": "/nowhere"},
        {"url": "/file"},
    ]

    def more(self, response):
        keys = ("redirect_urls", "redirect_times", "redirect_reasons")
        return {key: response.meta.get(key) for key in keys}


class Retries(Asking):
    """Busy servers, the settings of single requests, and requests that are never retried."""

    pages = {
        "/once": [Answer("", 503), html("once")],
        "/twice": [Answer("", 502), Answer("", 504), html("twice")],
        "/always": Answer("", 500),
        "/never": [Answer("", 503), html("never")],
        "/more": [Answer("", 503)] * 4 + [html("more")],
        "/moved": [Answer("", 503), to("/there"), html("moved")],
        "/there": [Answer("", 503), html("there")],
        "/drop": [Answer(status=0), html("drop")],
        "/too-many": [Answer("", 429), html("enough")],
    }
    options = RETRIES
    asks = [
        {"url": "/once"},
        {"url": "/twice", "priority": 2},
        {"url": "/always"},
        {"url": "/never", "meta": {"dont_retry": True}},
        {"url": "/more", "meta": {"max_retry_times": 5}},
        {"url": "/moved"},
        {"url": "/drop"},
        {"url": "/too-many"},
        {"url": "/once?post", "method": "POST", "body": b"p"},
    ]

    def more(self, response):
        return {"retry_times": response.meta.get("retry_times")}


class Robots(Asking):
    """robots.txt of two hosts, one of which has none."""

    pages = {
        "shop.test/robots.txt": Answer("User-agent: *\nDisallow: /private\n"),
        "/open": html("open"),
        "/private": html("private"),
    }
    options = {"ROBOTSTXT_OBEY": True}
    asks = [
        {"url": "/open"},
        {"url": "/private"},
        {"url": "/private?meta", "meta": {"dont_obey_robotstxt": True}},
        {"url": "http://other.test/private"},
    ]


class Domains(Asking):
    """Requests beyond the allowed domains, and the two ways around that."""

    allowed_domains = ("shop.test",)
    pages = {"/": html("home"), "other.test/": html("other"), "www.shop.test/": html("www")}
    asks = [
        {"url": "/"},
        {"url": "http://other.test/"},
        {"url": "http://other.test/?meta", "meta": {"allow_offsite": True}},
        {"url": "http://other.test/?again", "dont_filter": True},
        {"url": "http://www.shop.test/"},
    ]


class Depths(SpiderCase, Spider):
    pages = {f"/{n}": html(str(n), f"/{n + 1}") for n in range(6)}
    options = {"DEPTH_LIMIT": 3, "DEPTH_STATS_VERBOSE": True}
    start_urls = (f"{ROOT}/0",)

    def parse(self, response):
        yield {"url": response.url, "depth": response.meta["depth"]}
        yield from response.follow_all(css="a")


class Cookies(Asking):
    """Cookies sent, received, merged and not merged, in two jars."""

    pages = {"/": html("home")._replace(headers={"Set-Cookie": "from=server"}), "/b": html("b")}
    options = {"CONCURRENT_REQUESTS": 1}
    asks = [
        {"url": "/", "priority": 9, "cookies": {"own": "1"}},
        {"url": "/b"},
        {"url": "/b?jar", "meta": {"cookiejar": 5}},
        {"url": "/b?none", "meta": {"dont_merge_cookies": True}, "cookies": {"x": "y"}},
        {"url": "/b?list", "cookies": [{"name": "n", "value": "v"}]},
    ]

    def more(self, response):
        cookie = response.request.headers.get("Cookie", b"").decode()
        return {"cookies": sorted(cookie.split("; "))}


class Slots(Asking):
    pages = {f"/{n}": html(str(n)) for n in range(6)}
    options = {"DOWNLOAD_SLOTS": {"slow": {"concurrency": 1, "delay": 0.05, "jitter": 0.0}}}
    asks = [
        {"url": f"/{n}", "meta": {"download_slot": "slow" if n % 2 else "fast"}} for n in range(6)
    ]

    def more(self, response):
        return {"slot": response.meta["download_slot"], "has": "download_latency" in response.meta}


class Priorities(SpiderCase, Spider):
    """One at a time, requests leave by priority; the order of equal ones is crawlprio's."""

    pages = {"/": html("home"), **{f"/{n}": html(str(n)) for n in range(-3, 6)}}
    options = {"CONCURRENT_REQUESTS": 1}
    start_urls = (f"{ROOT}/",)

    def parse(self, response):
        for priority in (2, -3, 5, 0, 1, -1, 4):
            yield response.follow(f"/{priority}", self.leaf, priority=priority)

    def leaf(self, response):
        order = self.__dict__.setdefault("order", [])
        order.append(response.url)
        yield {"n": len(order), "url": response.url}


class Proxied(Asking):
    pages = {"/": html("home")}
    asks = [{"url": "/", "meta": {"proxy": "http://proxy.test:3128"}}]

    def more(self, response):
        return {"proxy": response.meta.get("proxy")}


@pytest.mark.parametrize("kind", kinds(vars()))
def test_it_is_obeyed_the_same_as_with_scrapy_alone(kind, tmp_path):
    with contextlib.chdir(tmp_path):
        assert_alike(kind, tmp_path)
