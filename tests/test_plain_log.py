"""Nothing in a page, a header or a URL affects the terminal that shows the log."""

import io
import logging
import re

import pytest
from crawls import ADDON, Answer, run_spider
from scrapy import Request, Spider

from crawlprio.live.crawl_report import PlainLog, keep_log_plain, plain

ACTED_UPON = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066]")
RESET, COLOUR, REVERSE = "\x1bc", "\x9b31m", "\u202e"


@pytest.fixture
def shown():
    """What a handler of the root logger writes, at DEBUG."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logging.root.addHandler(handler)
    levels = {name: logging.getLogger(name).level for name in ("scrapy", "crawlprio", "hostile")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield stream
    logging.root.removeHandler(handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def logged(shown, name, message, *arguments, **more):
    """Log one line under the filter and return what was written."""
    keep_log_plain()
    logging.getLogger(name).error(message, *arguments, **more)
    return shown.getvalue()


def test_each_control_character_is_written_as_an_escape():
    assert plain(f"a{RESET}b{COLOUR}c{REVERSE}d\r\x00") == "a\\x1bcb\\x9b31mc\\u202ed\\r\\x00"
    assert plain("two\n\tlines, B\u00fccher, \u4e2d\u6587") == (
        "two\n\tlines, B\u00fccher, \u4e2d\u6587"
    )


@pytest.mark.parametrize("argument", [f"a{RESET}", Exception(f"a{RESET}"), {"url": f"a{RESET}"}])
def test_an_argument_of_any_kind_is_rewritten(shown, argument):
    named = isinstance(argument, dict)
    message = "%(url)s, 1" if named else "%s, %d"
    given = (argument,) if named else (argument, 1)
    assert logged(shown, "hostile", message, *given) == "hostile: a\\x1bc, 1\n"


def test_the_colours_of_a_projects_own_messages_remain(shown):
    assert logged(shown, "hostile", "\x1b[1m%s\x1b[0m", RESET) == "hostile: \x1b[1m\\x1bc\x1b[0m\n"


def test_the_text_of_an_exception_is_rewritten(shown):
    try:
        raise ValueError(f"no host {RESET}")
    except ValueError:
        written = logged(shown, "scrapy.core", "failed", exc_info=True)
    assert written.endswith("ValueError: no host \\x1bc\n")
    assert written.count("Traceback") == 1


def test_a_message_that_cannot_be_formatted_is_left_to_its_handler(shown):
    record = logging.LogRecord("scrapy", logging.INFO, "x.py", 1, "%d", ("a",), None)
    assert PlainLog().filter(record)
    assert (record.msg, record.args) == ("%d", ("a",))


class Hostile(Spider):
    """Follows everything it is shown, unchanged, and logs it."""

    name = "hostile"
    start_urls = ("http://a.test/",)

    def parse(self, response):
        self.logger.info("seen %s", response.url)
        for url in response.text.split("|"):
            yield Request(url, headers={"Referer": f"http://b{RESET}.test/"})


@pytest.mark.parametrize("obeys", [False, True])
def test_no_log_line_of_a_crawl_has_a_control_character(shown, obeys):
    urls = [
        *(f"http://a{evil}.test/" for evil in (RESET, COLOUR, REVERSE, "\x00")),
        *(f"http://a.test/{evil}" for evil in (RESET, COLOUR, REVERSE, "\r")),
        f"http://a.test:{RESET}80/",
        *(f"http://a.test/to/{n}" for n in range(3)),
    ]
    locations = [f"http://b{RESET}.test/", f"/x{COLOUR}", f"gopher{RESET}://x/"]

    def answer(host, path):
        cookie = {"Set-Cookie": f"a=b{COLOUR}; Domain=b{RESET}.test", "Content-Type": f"x{RESET}"}
        if path == "/robots.txt":
            return Answer(f"User-agent: *\nCrawl-delay: {RESET}\nDisallow: /{RESET}\n")
        if path.startswith("/to/"):
            return Answer(status=302, headers={"Location": locations[int(path[4:])], **cookie})
        if host == "a.test" and path == "/":
            return Answer("|".join(urls), headers={"Content-Type": "text/plain; charset=utf-8"})
        return Answer(RESET, headers=cookie)

    settings = {
        **ADDON,
        "ROBOTSTXT_OBEY": obeys,
        "COOKIES_DEBUG": True,
        "DUPEFILTER_DEBUG": True,
        "RETRY_ENABLED": True,
        "DOWNLOAD_TIMEOUT": 2,
    }
    run = run_spider(Hostile, settings, site=({}, answer))
    assert run.reason == "finished"
    written = shown.getvalue()
    assert "a\\x1bc.test" in written
    assert "seen http://a.test/" in written
    assert [line for line in written.splitlines() if ACTED_UPON.search(line)] == []
