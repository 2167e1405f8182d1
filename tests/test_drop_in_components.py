"""A project's settings, middlewares, pipelines and extensions work the same with the add-on."""

import contextlib
import json
from collections import Counter

import pytest
from crawls import Answer
from drop_in import ROOT, WEB, SpiderCase, Web, assert_alike, html, kinds
from scrapy import Request, Spider
from scrapy.pipelines.files import FilesPipeline


class Feeds(Web):
    """Three feeds written to files."""

    pages = WEB

    @classmethod
    def settings(cls, folder):
        return {
            "FEEDS": {
                str(folder / name): {"format": name, "overwrite": True}
                for name in ("json", "jsonlines", "csv", "xml")
            }
        }

    @classmethod
    def crawl(cls, folder, settings):
        brought = super().crawl(folder, settings)
        written = sorted(item["url"] for item in json.loads((folder / "json").read_text()))
        n_lines = {name: len((folder / name).read_text().splitlines()) for name in ("csv",)}
        return brought._replace(notes=[written, n_lines])


class Files(SpiderCase, Spider):
    """Files fetched by the pipeline: one is missing, one is requested twice."""

    pages = {"/": html("files"), "/a.txt": Answer("aaa"), "/b.txt": Answer("bbb")}
    start_urls = (f"{ROOT}/",)

    @classmethod
    def settings(cls, folder):
        return {"ITEM_PIPELINES": {FilesPipeline: 1}, "FILES_STORE": str(folder / "files")}

    def parse(self, response):
        names = ("a.txt", "b.txt", "c.txt", "a.txt")
        yield {"file_urls": [response.urljoin(name) for name in names]}
        yield {"file_urls": [response.urljoin("b.txt")]}


class OutputMiddleware:
    """A spider middleware that adds, drops and recovers."""

    async def process_spider_output(self, response, result):
        async for output in result:
            if isinstance(output, Request) and output.url.endswith("/5"):
                continue
            yield output
        yield Request(f"{response.url}?more", callback=None, meta={"more": True})

    def process_spider_exception(self, response, exception):
        return [{"recovered": response.url}, Request(f"{ROOT}/9")]

    async def process_start(self, start):
        async for output in start:
            yield output
        yield Request(f"{ROOT}/8")
        yield {"start": "done"}


class SpiderMiddlewares(Web):
    pages = WEB
    options = {"SPIDER_MIDDLEWARES": {OutputMiddleware: 543}}

    def parse(self, response):
        if "more" in response.meta:
            return
        yield {"url": response.url}
        yield from response.follow_all(css="a")
        if response.url.endswith("/2"):
            raise ValueError("callback fails")


class InputMiddleware:
    """A spider middleware that refuses a response before its callback."""

    def process_spider_input(self, response):
        if response.url.endswith("/4"):
            raise ValueError("not parsed")


class RefusedResponse(Web):
    pages = WEB
    options = {"SPIDER_MIDDLEWARES": {InputMiddleware: 543}}


class HttpCache(Web):
    """A second crawl from the cache of the first."""

    pages = WEB

    @classmethod
    def settings(cls, folder):
        return {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(folder / "cache")}

    @classmethod
    def crawl(cls, folder, settings):
        first = super().crawl(folder, settings)
        second = super().crawl(folder, settings)
        return second._replace(notes=[sorted(first.asked_for)])


class ItemCount(Web):
    """Closed by a limit with one fetch at a time; Scrapy alone may have one more page in flight."""

    pages = {f"/{n}": html(f"page {n}", f"/{n + 1}") for n in range(30)}
    options = {"CLOSESPIDER_ITEMCOUNT": 3, "CONCURRENT_REQUESTS": 1}

    @classmethod
    def brought(cls, run, site):
        found = super().brought(run, site)
        notes = [run.reason]
        return found._replace(items=Counter(), asked_for=Counter(), stats={}, notes=notes)


class PageCount(ItemCount):
    pages = ItemCount.pages
    options = {"CLOSESPIDER_PAGECOUNT": 5, "CONCURRENT_REQUESTS": 1}


class TimedOut(SpiderCase, Spider):
    """Closed after a time without items, while a page is slow."""

    pages = {"/": html("slow")._replace(seconds=2.5)}
    start_urls = (f"{ROOT}/",)
    options = {"CLOSESPIDER_TIMEOUT": 1}

    def parse(self, response):
        yield {"url": response.url}


@pytest.mark.parametrize("kind", kinds(vars()))
def test_it_works_the_same_as_with_scrapy_alone(kind, tmp_path):
    with contextlib.chdir(tmp_path):
        assert_alike(kind, tmp_path)
