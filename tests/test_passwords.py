"""No message tells a password, and no key that others can read is used."""

import logging
import subprocess

import pytest
from crawls import Site, page, run_spider
from forked import run_forked
from scrapy import Spider

from crawlprio.errors import ConfigError
from crawlprio.plugins.signing.signatures import read_key

pytest.importorskip("redis")

from crawlprio.plugins.shared.connection import check_server, connect, shown_url

URLS = (
    *("redis://:hush@127.0.0.1:1/0", "redis://me:hush@127.0.0.1:1x/0"),
    *("redis://me:hu/sh@127.0.0.1:1/0", "redis://me:hush#hush@127.0.0.1:1/0"),
    *("redis://me:hush?hush@127.0.0.1:1/0", "redis://me:hush\nhush@127.0.0.1:1/0"),
    *("redis:/me:hush@127.0.0.1:1/0", "redis:me:hush@127.0.0.1:1/0", "redis://:hush"),
    *("redis://127.0.0.1:hush/0", "me:hush@127.0.0.1:1/0", "redis://127.0.0.1:1/0?password=hush"),
    *("redis://127.0.0.1:1/0?db=hush", "redis+sentinel://:hush@127.0.0.1:1/main"),
    "redis+sentinel://me:hush@127.0.0.1:1,me:hush@127.0.0.1:2/main/0",
    *("redis+sentinel://me:hush@127.0.0.1:1", "redis+sentinel://127.0.0.1:hush/main"),
    *("redis+cluster://:hush@127.0.0.1:1", "redis+cluster://me:hush@127.0.0.1:1,127.0.0.1:2"),
    *("redis+cluster://127.0.0.1:1,127.0.0.1:hush", "redis+cluster://me:hush@127.0.0.1:1/7"),
    "rediss://me:hush@[::1:1/0",
)


@pytest.mark.parametrize("url", URLS)
def test_no_message_about_a_redis_server_tells_its_password(url):
    with pytest.raises(ConfigError) as error:
        check_server(connect(url, {"password": "hush", "socket_timeout": 0.2}), url)
    for text in (str(error.value), repr(error.value)):
        assert "hush" not in text
        assert "sh@" not in text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("redis://me:hush@[::1]:6379/0", "redis://[::1]:6379/0"),
        ("redis+sentinel://a:1,b:2/main/0", "redis+sentinel://a:1,b:2/main/0"),
    ],
)
def test_the_rest_of_the_url_is_shown(url, shown):
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    "given",
    ['{"password": "hush",}', "{password: hush}", "hush", '["hush"]', '{"passwort": "hush"}'],
)
def test_no_message_quotes_redis_params(given, tmp_path):
    words = ["frontier", "-s", f"REDIS_PARAMS={given}", "-s", "REDIS_URL=redis://127.0.0.1:1/0"]
    done = run_forked("crawlprio", words, tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "REDIS_" in done.stderr
    assert "hush" not in done.stdout + done.stderr


class Visitor(Spider):
    name = "visitor"

    async def start(self):
        yield self.request()

    def request(self):
        from scrapy import Request

        return Request(f"http://me:hush@{self.address}/", errback=lambda failure: None)

    def parse(self, response):
        return None


def test_a_robots_txt_that_cannot_be_read_is_named_without_its_password(caplog):
    from crawls import Answer

    settings = {"ADDONS": {"crawlprio.Addon": 500}, "ROBOTSTXT_OBEY": True, "RETRY_ENABLED": False}
    with Site({"/": page(), "/robots.txt": Answer("", 0)}) as site, caplog.at_level(logging.INFO):
        run_spider(Visitor, settings, site=site, address=site.address)
    told = [record.getMessage() for record in caplog.records if record.name == "crawlprio"]
    (line,) = [text for text in told if "robots.txt could not be read" in text]
    assert line.startswith(f"http://{site.address}/robots.txt could not be read")
    assert not [text for text in told if "hush" in text]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o606, 0o644])
def test_a_signing_key_that_others_may_read_or_write_is_refused(tmp_path, mode):
    key = tmp_path / "key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    key.chmod(0o600)
    assert read_key(key)
    key.chmod(mode)
    with pytest.raises(ConfigError, match=f"others.*chmod 600|other users.*chmod 600 {key}"):
        read_key(key)


REDIS, WEB = "redis://:hush@127.0.0.1:1/0", "http://me:hush@a.test/"


@pytest.mark.parametrize(
    "words",
    [
        *(["frontier", "status", "--redis", REDIS], ["frontier", f"--redis={REDIS}"], [REDIS]),
        *(["frontier", "show", REDIS, REDIS], ["crawl", REDIS], ["score", WEB], ["receipt", WEB]),
        *(["resume", WEB], ["crawl", WEB, "--delay", WEB], ["crawl", WEB, "--follow", REDIS]),
    ],
)
def test_no_wrong_word_of_a_command_is_quoted_with_its_password(words, tmp_path):
    done = run_forked("crawlprio", words, tmp_path)
    assert done.returncode == 2
    assert "hush" not in done.stdout + done.stderr
    assert "127.0.0.1:1" in done.stderr or "a.test" in done.stderr or "--" in done.stderr


def test_an_error_keeps_what_is_no_password():
    for text in ("me@a.test", "http://a.test/@x:y@z", "http://a.test/?q=a:b@c", "a: b @ c"):
        assert str(ConfigError(text)) == text


@pytest.mark.parametrize("user", ["bob:hush", ":hush", "bob:hu@hush", "bob:hush@hush"])
def test_no_log_line_of_a_failed_fetch_or_a_traceback_tells_a_password(user, caplog):
    url = f"http://{user}@a.test/@x?y=1"
    log = logging.getLogger("crawlprio")
    with caplog.at_level(logging.DEBUG):
        log.warning("%s: %s", url, "ValueError")
        try:
            raise ValueError(url)
        except ValueError:
            log.exception("%s could not be read.", url)
    assert "hush" not in caplog.text
    assert caplog.text.count("http://a.test/@x?y=1") == 3
