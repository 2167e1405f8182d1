"""The spider, middlewares, pipeline and server that do what a plan of `spider_plans` says.

As a script it crawls a plan in a process of its own, which a test may kill:
`python planned_spider.py PLAN.json LOG JOBDIR HOST:PORT`.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from crawls import Answer, Site
from scrapy import Request, Spider, signals
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import DontCloseSpider, DropItem, IgnoreRequest
from scrapy.http import HtmlResponse
from spider_plans import Plan
from spiders import OfCrawler

NEVER_ANSWERED = 0.2
"""Seconds after which a request that is never answered fails."""


class Record(NamedTuple):
    """One event that reached the spider."""

    kind: str
    tag: int
    url: str = ""
    method: str = ""
    body: str = ""
    note: str = ""


class PlannedSite(Site):
    """Answers each request as the plan says for its tag, and the how manyth request that is.

    Parameters
    ----------
    unsteady
        draws how long each answer takes, and for how long it holds up the event loop that the
        crawls share with the server, so that much falls into one turn of it. None: neither.
    """

    def __init__(self, plan, unsteady=None):
        super().__init__({})
        self._plan = plan
        self._unsteady = unsteady
        self._asked = Counter()

    def answer_to(self, fetch):
        answer = self._planned_answer(fetch)
        if self._unsteady is None or answer.seconds:
            return answer
        time.sleep(self._unsteady.choice((0, 0, 0, 0.005, 0.05, 0.1)))
        return answer._replace(seconds=self._unsteady.choice((0, 0, 0.001, 0.01, 0.05, 0.1)))

    def _planned_answer(self, fetch):
        node = self._plan.nodes[int(fetch.headers["x-tag"])]
        # Each request has its own connection: Twisted itself repeats one that is cut off on a
        # reused connection.
        headers = {"Content-Type": "text/html", "Connection": "close"}
        if fetch.path.startswith(f"/moved/{node.tag}"):
            return Answer(f"moved {node.tag}", headers=headers)
        reply = node.replies[min(self._asked[node.tag], len(node.replies) - 1)]
        self._asked[node.tag] += 1
        if node.logs_in:
            headers["Set-Cookie"] = f"session={node.tag}; Path=/"
        if reply == "drop":
            return Answer(status=0)
        if reply == "never":
            return Answer(seconds=math.inf)
        if reply == "self":
            return Answer("", 302, {**headers, "Location": fetch.path})
        if reply == "moved":
            return Answer("", 302, {**headers, "Location": f"/moved/{node.tag}"})
        assert isinstance(reply, int)
        return Answer(f"page {node.tag}", reply, headers)

    def requests(self):
        """The requests received, with the session that each had."""
        return Counter(
            Record(
                "fetch",
                int(fetch.headers["x-tag"]),
                f"http://{fetch.host}{fetch.path}",
                fetch.method,
                fetch.body.decode(),
                fetch.headers.get("cookie", ""),
            )
            for fetch in self.fetches
        )


class PlannedSpider(Spider):
    """Makes the requests of a plan and writes down what reaches its callbacks and errbacks.

    Parameters
    ----------
    plan, write
        what to do, and where each `Record` goes.
    stop_after
        number of callbacks after which the crawl is stopped; None: never.
    """

    name = "planned"
    plan: Plan
    write: Callable[[Record], None]

    def __init__(self, plan, write, stop_after=None):
        super().__init__()
        self.plan, self.write, self._stop_after = plan, write, stop_after
        self._n_callbacks = 0
        self._events = {}
        self._is_stopping = False
        self._was_idle = False
        self._starting = {}

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.idle, signal=signals.spider_idle)
        crawler.signals.connect(spider.scheduled, signal=signals.request_scheduled)
        return spider

    async def start(self):
        for tag in self.plan.starts:
            request = self.request(tag)
            self._starting[request] = tag
            yield request
            if tag % 3 == 0:
                await asyncio.sleep(0.02)
            # Scrapy never closes a spider that is stopped while the pipelines hold a start item.
            if not self.plan.stops_after:
                yield {"start": tag}

    def scheduled(self, request):
        """Record a start request once it is scheduled; a stopped crawl never schedules it."""
        tag = self._starting.pop(request, None)
        if tag is not None:
            self.write(Record("start", tag))

    def idle(self):
        """Request some more pages, once per run."""
        if self._was_idle:
            return
        self._was_idle = True
        for tag in self.plan.when_idle:
            self.crawler.engine.crawl(self.request(tag))
        if self.plan.when_idle:
            raise DontCloseSpider

    def request(self, tag):
        """Return the request of a node."""
        node = self.plan.nodes[tag]
        meta = {}
        if node.jar is not None:
            meta["cookiejar"] = node.jar
        if "never" in node.replies:
            meta["download_timeout"] = NEVER_ANSWERED
        is_async = node.style in ("async generator", "coroutine")
        callbacks = {
            "generator": self.parse,
            "async generator": self.parse_async,
            "coroutine": self.parse_coroutine,
            "list": self.parse_list,
        }
        assert is_async or not (node.awaits or node.waits_for)
        return Request(
            f"http://{node.host}{node.path}",
            callback=callbacks[node.style],
            errback=None if node.on_failure is None else self.failed,
            method=node.method,
            body=node.body,
            headers={"X-Tag": str(tag)},
            meta=meta,
            cb_kwargs={"tag": tag, "polls": node.polls},
            priority=node.priority,
            dont_filter=node.dont_filter,
        )

    def parse(self, response, tag, polls):
        node = self._begin(response, tag)
        yield from self._outputs(node, response, polls)
        self._end(node)

    def parse_list(self, response, tag, polls):
        node = self._begin(response, tag)
        outputs = list(self._outputs(node, response, polls))
        self._end(node)
        return outputs

    async def parse_async(self, response, tag, polls):
        node = self._begin(response, tag)
        outputs = list(self._outputs(node, response, polls, raises=False))
        for output in outputs[:1]:
            yield output
        await self._pause(node)
        for n_before, output in enumerate(outputs):
            self._may_fail(node, n_before)
            if n_before:
                yield output
        self._may_fail(node, len(outputs))
        self._end(node)

    async def parse_coroutine(self, response, tag, polls):
        node = self._begin(response, tag)
        await self._pause(node)
        outputs = list(self._outputs(node, response, polls))
        self._end(node)
        return outputs

    def failed(self, failure):
        request = failure.request
        tag = request.cb_kwargs["tag"]
        self._note("errback", tag, request, failure.type.__name__)
        for child in self.plan.nodes[tag].on_failure or ():
            yield self.request(child)

    def _begin(self, response, tag):
        assert response.request is not None
        self._note("callback", tag, response.request, f"{response.status} {response.url}")
        self._n_callbacks += 1
        if self._n_callbacks == self._stop_after:
            self.write(Record("stop", tag))
            stopping = self.crawler.engine.close_spider_async(reason="stopped")
            self._stopping = asyncio.ensure_future(stopping)
        return self.plan.nodes[tag]

    def _end(self, node):
        if node.opens:
            self._event(node.opens).set()
        self.write(Record("end", node.tag))

    async def _pause(self, node):
        if node.awaits:
            await asyncio.sleep(node.awaits)
        if node.waits_for:
            await self._event(node.waits_for).wait()
        if node.inline is not None:
            try:
                response = await self.crawler.engine.download_async(self.request(node.inline))
            except Exception as error:
                self.write(Record("inline", node.inline, note=type(error).__name__))
            else:
                note = f"{response.status} {response.url}"
                self.write(Record("inline", node.inline, note=note))

    def _outputs(self, node, response, polls, *, raises=True):
        """Yield a callback's outputs; it blocks the event loop for as long as the plan says."""
        if node.blocks:
            time.sleep(node.blocks)
        request = response.request
        assert request is not None
        if node.retries:
            again = get_retry_request(
                request, spider=self, reason="again", max_retry_times=node.retries
            )
            if again is not None:
                yield again
                return
        if polls:
            yield request.replace(dont_filter=True, cb_kwargs={"tag": node.tag, "polls": polls - 1})
            return
        outputs = [{"tag": node.tag, "n": n} for n in range(node.n_items)]
        outputs += [self.request(child) for child in node.children]
        for n_before, output in enumerate(outputs):
            if raises:
                self._may_fail(node, n_before)
            yield output
        for child in node.pushed:
            self.crawler.engine.crawl(self.request(child))
        if raises:
            self._may_fail(node, len(outputs))

    def _may_fail(self, node, n_before):
        if node.raises_after is not None and n_before == min(
            node.raises_after, node.n_items + len(node.children)
        ):
            raise RuntimeError(f"callback of {node.tag} fails")

    def _note(self, kind, tag, request, note):
        self.write(Record(kind, tag, request.url, request.method, request.body.decode(), note))

    def _event(self, name):
        return self._events.setdefault(name, asyncio.Event())


class PlannedDownloads(OfCrawler):
    """A downloader middleware that ignores, answers or replaces some requests itself."""

    def process_request(self, request):
        tag = int(request.headers["X-Tag"])
        does = self.crawler.spider.plan.nodes[tag].middleware
        if does == "ignore":
            raise IgnoreRequest(f"{tag} is not wanted")
        if does == "answer":
            return HtmlResponse(request.url, body=b"from a cache", request=request)
        if does == "replace" and "replaced" not in request.meta:
            meta = {**request.meta, "replaced": True}
            return request.replace(url=f"{request.url}/replaced/{tag}", meta=meta)
        return None


class PlannedOutput(OfCrawler):
    """A spider middleware that yields the recovery request of a failed callback."""

    def process_spider_exception(self, response, exception):
        spider = self.crawler.spider
        request = response.request
        if request is None or not isinstance(exception, RuntimeError):
            return None
        recovery = spider.plan.nodes[request.cb_kwargs["tag"]].recovery
        return None if recovery is None else [spider.request(recovery)]


class PlannedItems(OfCrawler):
    """A pipeline that takes a while for some items, drops some and fails on others."""

    async def process_item(self, item):
        number = item.get("tag") or item["start"]
        if takes_a_while(number):
            await asyncio.sleep(0.05)
        if number % 11 == 0:
            raise DropItem("not wanted")
        if number % 13 == 0:
            raise ValueError("pipeline fails")
        kind = "item" if "tag" in item else "start item"
        self.crawler.spider.write(Record(kind, number, note=str(item.get("n", ""))))
        return item


def takes_a_while(tag):
    """Return whether the pipeline awaits for the items of a request."""
    return tag % 4 == 0


def components():
    """Return the settings that install the middlewares and the pipeline."""
    return {
        "DOWNLOADER_MIDDLEWARES": {PlannedDownloads: 320},
        "SPIDER_MIDDLEWARES": {PlannedOutput: 120},
        "ITEM_PIPELINES": {PlannedItems: 300},
    }


def main(plan_file, log, jobdir, address):
    """Crawl a plan with the add-on; append each record to a log that survives a kill."""
    from scrapy.crawler import AsyncCrawlerProcess

    plan = Plan.from_json(json.loads(Path(plan_file).read_text()))
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    handler = "crawlprio.demo.handler.LoopbackHandler"
    process = AsyncCrawlerProcess(
        {
            **plan.settings,
            **components(),
            "ADDONS": {"crawlprio.Addon": 500},
            "CRAWLPRIO_PRINT": False,
            "CRAWLPRIO_LOOPBACK": address,
            "DOWNLOAD_HANDLERS": {"http": handler, "https": handler},
            "JOBDIR": jobdir,
            "LOG_LEVEL": "ERROR",
            "TELNETCONSOLE_ENABLED": False,
        }
    )

    def write(record):
        os.write(file, (json.dumps(record) + "\n").encode())

    process.crawl(PlannedSpider, plan=plan, write=write)
    process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
