"""Notices before a crawl: that code is being compiled, and where an earlier store went."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from crawls import ADDON, Site, page, run_spider
from scrapy import Spider
from scrapy.http import Response

import crawlprio
from crawlprio.store import Store

COMPILE = """
from crawlprio.live.compiling import compile_frontier
compile_frontier(with_ranks=False)
"""


def test_compiling_is_announced_once_and_not_when_it_is_done_already(tmp_path: Path) -> None:
    # A package in which nothing is compiled, as after `pip install`.
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(crawlprio.__file__).parent, tmp_path / "crawlprio", ignore=ignored)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", COMPILE],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        said.append(done.stderr)
    first, second = said
    assert first.startswith("crawlprio: Compiling what runs often")
    assert len(first.splitlines()) == 1
    assert second == ""


def test_an_earlier_crawls_store_is_kept_and_the_log_names_it(
    tmp_path: Path,
) -> None:
    class Once(Spider):
        name = "once"
        start_urls = ("http://a.test/",)

        def parse(self, response: Response) -> Any:
            yield {"url": response.url}

    path = tmp_path / "crawl.sqlite"
    settings = {**ADDON, "CRAWLPRIO_STORE": str(path)}
    with Site({"/": page()}) as site:
        first, second = (run_spider(Once, settings, site=site) for _ in range(2))
    assert [text for text in first.messages(logging.INFO) if "it was renamed to" in text] == []
    (text,) = (text for text in second.messages(logging.INFO) if "it was renamed to" in text)
    (kept,) = (file for file in tmp_path.glob("crawl*.sqlite") if file != path)
    assert text == f"{path} already existed; it was renamed to {kept}."
    for file in (path, kept):
        with Store.open(file) as store:
            assert store.n_pages == 1
