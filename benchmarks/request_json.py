"""The cost of a request as JSON, compared with a pickle of Scrapy's own dict; about ten seconds.

    python benchmarks/request_json.py

Both run in turn, and the best of many turns counts. `to_dict` looks up the names of callbacks among
all members of the spider; the JSON code asks the callback for its name. SQLite's cost is not shown.
"""

from __future__ import annotations

import pickle
import timeit
from collections.abc import Callable, Sequence
from typing import Any

import scrapy
from scrapy import FormRequest, Request
from scrapy.utils.request import request_from_dict

from crawlprio.live.request_json import from_json, to_json

N, TURNS = 300, 40


class Shop(scrapy.Spider):
    """A spider with three callbacks."""

    name = "shop"

    def parse_list(self, response: Any) -> None: ...

    def parse_item(self, response: Any) -> None: ...

    def parse_form(self, response: Any) -> None: ...


def in_turn(functions: Sequence[Callable[[], object]]) -> list[float]:
    """Return the fewest microseconds that each function took."""
    best = [float("inf")] * len(functions)
    for _ in range(TURNS):
        for at, function in enumerate(functions):
            best[at] = min(best[at], timeit.timeit(function, number=N) / N * 1e6)
    return best


def main() -> None:
    spider = Shop()
    url = "http://shop.example/item/123?colour=blue"
    headers = {
        "User-Agent": "x" * 40,
        "Referer": url,
        "Accept": "text/html",
        "Accept-Language": "en",
    }
    fetched = {"download_slot": "shop.example", "download_latency": 0.123, "retry_times": 1}
    requests = {
        "a link": Request(url, meta={"depth": 2}),
        "a callback and a keyword": Request(
            url, spider.parse_item, cb_kwargs={"n": 3}, meta={"depth": 2}, priority=1
        ),
        "a retry": Request(url, spider.parse_item, headers=headers, meta={"depth": 2, **fetched}),
        "a form": FormRequest(
            url, callback=spider.parse_form, formdata={"q": "word" * 50}, headers=headers
        ),
    }
    for what, request in requests.items():
        written = to_json(request, spider)
        pickled = pickle.dumps(request.to_dict(spider=spider))
        write_json, write_pickle, read_json, read_pickle = in_turn(
            [
                lambda request=request: to_json(request, spider),
                lambda request=request: pickle.dumps(request.to_dict(spider=spider)),
                lambda written=written: from_json(written, spider),
                lambda pickled=pickled: request_from_dict(pickle.loads(pickled), spider=spider),
            ]
        )
        print(
            f"{what}: {len(written)} bytes, pickle {len(pickled)}; write {write_json:.1f} µs, "
            f"{write_json / write_pickle:.2f} of the pickle's; read {read_json:.1f} µs, "
            f"{read_json / read_pickle:.2f} of the pickle's"
        )


if __name__ == "__main__":
    main()
