"""Runs commands in this process, as `crawlprio` and as `scrapy`, without a new Python for each."""

import pytest
from scrapy import cmdline
from scrapy.settings import Settings

from crawlprio.commands.cli import main


def run_command(*words):
    """Run a command of `crawlprio`; return its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def refusal(capsys, *words):
    """Return the line with which a command of `crawlprio` refuses, with status 2 and no output."""
    capsys.readouterr()
    status = run_command(*words)
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1), err
    return err


def run_scrapy_command(command, *words):
    """Run a command, named by the first word, by Scrapy's command line; return its exit status."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cmdline, "_get_commands_dict", lambda *_: {str(words[0]): command()})
        with pytest.raises(SystemExit) as ended:
            cmdline.execute(["scrapy", *map(str, words)], settings=Settings())
    assert isinstance(ended.value.code, int)
    return ended.value.code


CRAWL = """
import sys
import crawlprio
from pathlib import Path
from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess

assert Path(crawlprio.__file__).is_relative_to(sys.argv[1]), crawlprio.__file__
for folder in (Path(crawlprio.__file__).parent, Path.home(), Path.cwd()):
    try:
        Path(folder, "written").touch()
    except PermissionError:
        continue
    sys.exit(f"{folder} can be written")

class Pages(Spider):
    name = "pages"
    start_urls = [f"data:text/html,<title>{n}</title>" for n in range(3)]

    def parse(self, response):
        yield {"title": response.css("title::text").get()}

process = AsyncCrawlerProcess({
    "ADDONS": {"crawlprio.Addon": 500},
    "CRAWLPRIO_COMPILE": sys.argv[2] == "compiled",
    "CRAWLPRIO_PRINT": False,
    "LOG_LEVEL": "WARNING",
    "ORDERING": "opic",
    "TELNETCONSOLE_ENABLED": False,
})
crawler = process.create_crawler(Pages)
process.crawl(crawler)
process.start()
stats = crawler.stats
print(stats.get_value("finish_reason"), stats.get_value("item_scraped_count"))
"""
"""A program that crawls a site of its own."""
