"""However a page spells a private host, a spider with the guard on does not reach it."""

from contextlib import ExitStack
from functools import partial
from typing import Any, ClassVar

import pytest
from browsers import served_by
from crawls import ADDON, Answer, Site, page, run_spider
from hostile import crawl as crawl_site
from hostile import urls_in
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

HTML = {"Content-Type": "text/html"}
HOST = "127.0.0.2:{port}"


def link(href):
    return f'<a href="{href}/reached">x</a>'.encode()


def coded(codec):
    """Return a page in another encoding, in which its links cannot be read byte by byte."""
    text = f"<html><body>{link(f'http://{HOST}').decode()}</body></html>"
    return text.encode(codec), {"Content-Type": f"text/html; charset={codec}"}


def moved(location):
    return b"", {"Location": location}


PAYLOADS = {
    "plain": link(f"http://{HOST}"),
    "tab": link("http://127.0\t.0.2:{port}"),
    "carriage return": link("http://127.0\r.0.2:{port}"),
    "newline": link("http://127.0\n.0.2:{port}"),
    "number": link("http://2130706434:{port}"),
    "number with tab": link("http://21307\t06434:{port}"),
    "octal": link("http://0177.0.0.2:{port}"),
    "hexadecimal": link("http://0x7f.2:{port}"),
    "full-width digits": link("http://\uff11\uff12\uff17.0.0.2:{port}"),
    "ideographic stops": link("http://127\u30020\u30020\u30022:{port}"),
    "percent": link("http://%31%32%37.0.0.2:{port}"),
    "entities": link("http://&#49;&#x32;7&period;0.0.2:{port}"),
    "base": f'<base href="http://{HOST}/"><a href="reached">x</a>'.encode(),
    "no scheme": link(f"//{HOST}"),
    "backslashes": link(f"http:\\\\{HOST}"),
    "user": link(f"http://public.test@{HOST}"),
    "mapped": link("http://[::ffff:7f00:2]:{port}"),
    "UTF-16": coded("utf-16"),
    "EBCDIC": coded("cp037"),
    "file": link("file://"),
    "redirect to a file": moved("file:///reached"),
    "redirect": moved(f"http://{HOST}/reached"),
    "refresh": f'<meta http-equiv="refresh" content="0;url=http://{HOST}/reached">'.encode(),
}


class Web:
    """A server on 127.0.0.1 with one page for each payload, and one on 127.0.0.2 to be reached."""

    def __enter__(self):
        self.requested = []
        self._served = ExitStack()
        serve = self._served.enter_context
        private = serve(served_by(partial(self._answer, "127.0.0.2"), "127.0.0.2"))
        self._port = private.rpartition(":")[2].strip("/")
        self.seed = serve(served_by(partial(self._answer, "127.0.0.1")))
        return self

    def __exit__(self, *_):
        self._served.close()

    def _answer(self, address, path):
        self.requested.append(f"{address}{path}")
        body, headers = self.answer(path) if address == "127.0.0.1" else (b"", HTML)
        return headers, body

    def answer(self, path):
        """Return body and headers of a page."""
        if path == "/":
            links = (f'<a href="/{number}">x</a>' for number in range(len(PAYLOADS)))
            return "".join(links).encode(), HTML
        if not path[1:].isdigit():
            return b"", HTML
        found = [*PAYLOADS.values()][int(path[1:])]
        body, headers = (found, HTML) if isinstance(found, bytes) else found
        port, located = self._port, dict(headers)
        reached = f"reached{path[1:]}"
        for codec in ("ascii", "utf-16-le", "cp037"):
            body = body.replace("{port}".encode(codec), port.encode(codec))
            body = body.replace("reached".encode(codec), reached.encode(codec))
        if "Location" in located:
            located["Location"] = located["Location"].format(port=port).replace("reached", reached)
        return body, located


class Everything(CrawlSpider):
    """Follows every link, as its link extractor reads it."""

    name = "everything"
    rules: ClassVar[Any] = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def parse_page(self, response):
        yield {"url": response.url}


def crawl(web, settings):
    return run_spider(Everything, {**ADDON, **settings}, start_urls=[web.seed])


GUARDED = {"CRAWLPRIO_PRIVATE_ADDRESSES": "seeds"}


@pytest.mark.parametrize(
    "others",
    [{}, {"ROBOTSTXT_OBEY": True}, {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}],
    ids=["crawlprio", "robots", "scrapy"],
)
def test_no_spelling_of_a_private_host_reaches_it(others):
    with Web() as web:
        run = crawl(web, {**GUARDED, **others})
    pages = {f"127.0.0.1/{number}" for number in range(len(PAYLOADS))}
    assert run.reason == "finished"
    assert [path for path in web.requested if path.startswith("127.0.0.2")] == []
    assert pages <= set(web.requested)
    assert run.stats["crawlprio/refused/private-address"] >= 2


def test_without_the_guard_most_of_the_same_spellings_reach_it():
    """So the addresses were reachable, and only the guard kept the spider from them."""
    with Web() as web:
        crawl(web, {})
    assert len({path for path in web.requested if path.startswith("127.0.0.2/reached")}) >= 15


class Reader(Everything):
    def parse_page(self, response):
        yield {"text": response.text}


@pytest.mark.parametrize(("settings", "n_read"), [({}, 1), (GUARDED, 0)], ids=["off", "on"])
def test_a_projects_spider_reads_linked_files_unless_the_guard_is_on(tmp_path, settings, n_read):
    """As in Scrapy, which the add-on does not change; docs/security.md says so."""
    secret = tmp_path / "secret.html"
    secret.write_text("<p>secret</p>")
    with Site({"/": page(secret.as_uri())}) as site:
        run = run_spider(Reader, {**ADDON, **settings}, site=site, start_urls=["http://a.test/"])
    assert [item["text"] for item in run.items] == ["<p>secret</p>"] * n_read


def test_the_site_spider_follows_no_link_to_a_file(path, tmp_path):
    secret = tmp_path / "secret.html"
    secret.write_text("<p>secret</p>")
    uri = secret.as_uri()
    links = page(uri, uri.upper(), uri.replace("file://", "file:"), uri.replace("file:", "FILE:"))
    based = Answer(f'<base href="{tmp_path.as_uri()}/"><a href="secret.html">x</a>')
    moved_to = Answer(status=302, headers={"Location": uri})
    run = crawl_site(
        {"/": links, "/based": based, "/moved": moved_to},
        {"CRAWLPRIO_STORE": str(path), "CRAWLPRIO_PRIVATE_ADDRESSES": "allow"},
        seeds="http://a.test/,http://a.test/based,http://a.test/moved",
        follow="web",
    )
    assert run.reason == "finished"
    assert sorted(run.site.paths()) == ["/", "/based", "/moved"]
    assert [url for url in urls_in(path) if not url.startswith("http:")] == []
