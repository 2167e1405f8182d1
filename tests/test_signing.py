"""Signed requests, verified by another implementation of HTTP message signatures."""

import json
import subprocess
from base64 import urlsafe_b64decode
from types import SimpleNamespace

import pytest
from crawls import ADDON, PROJECT, Answer, page, run_spider
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import (
    HTTPMessageVerifier,
    HTTPSignatureKeyResolver,
    InvalidSignature,
    algorithms,
)
from scrapy.settings import BaseSettings

from crawlprio import __version__
from crawlprio.errors import ConfigError
from crawlprio.live.crawl_context import without_parts_elsewhere
from crawlprio.plugins.signing.signatures import key_directory, thumbprint
from crawlprio.settings_table.setting_types import checked
from crawlprio.settings_table.table import SETTINGS
from crawlprio.spiders.site import SiteSpider

AGENT = "https://bot.example"


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    path = tmp_path_factory.mktemp("key") / "key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path], check=True)
    return path


class Published(HTTPSignatureKeyResolver):
    """The keys of a directory, by what names them in a signature."""

    def __init__(self, directory):
        self._keys = {key["kid"]: key["x"] for key in json.loads(directory)["keys"]}

    def resolve_public_key(self, key_id):
        return Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(self._keys[key_id] + "="))


def verified(fetch, key, host=""):
    """Verify a request as its server saw it; return what was signed."""
    verifier = HTTPMessageVerifier(
        signature_algorithm=algorithms.ED25519, key_resolver=Published(key_directory(key))
    )
    message = SimpleNamespace(
        method="GET", url=f"http://{host or fetch.host}{fetch.path}", headers=dict(fetch.headers)
    )
    (result,) = verifier.verify(message)
    return result


def crawl(web, **settings):
    every = {**PROJECT, "RETRY_ENABLED": True, **settings}
    run = run_spider(SiteSpider, every, site=web, seeds="http://a.test/", follow="web")
    return run, run.site.fetches


def test_every_request_is_signed_for_its_host(key):
    web = {
        "/": page("/moved", "http://b.test/1", "http://c.test:8080/1"),
        "/moved": Answer("", 302, {"Location": "http://b.test/2"}),
        "/1": page(),
        "/2": page(),
    }
    _, fetches = crawl(web, CRAWLPRIO_SIGNING_KEY=str(key), CRAWLPRIO_SIGNATURE_AGENT=AGENT)
    assert len(fetches) == 8  # three robots.txt among them
    nonces = set()
    for fetch in fetches:
        result = verified(fetch, key, "c.test:8080" if fetch.host == "c.test" else "")
        assert list(result.covered_components.values())[:2] == [
            "c.test:8080" if fetch.host == "c.test" else fetch.host,
            f'"{AGENT}"',
        ]
        assert result.parameters["tag"] == "web-bot-auth"
        assert result.parameters["expires"] - result.parameters["created"] == 600
        nonces.add(result.parameters["nonce"])
    assert len(nonces) == len(fetches)


@pytest.mark.parametrize("which", ["is_in_workers", "is_in_dry_runs"])
def test_workers_and_dry_runs_sign_too(which):
    settings = {"CRAWLPRIO_SIGNING_KEY": "key.pem", "CRAWLPRIO_SIGNATURE_AGENT": AGENT}
    assert not settings.keys() & without_parts_elsewhere(BaseSettings(settings), which).keys()


def test_a_signature_is_not_valid_for_another_host(key):
    settings = {"CRAWLPRIO_SIGNING_KEY": str(key), "CRAWLPRIO_SIGNATURE_AGENT": AGENT}
    _, fetches = crawl({"/": page()}, **settings)
    with pytest.raises(InvalidSignature):
        verified(fetches[0], key, "impostor.test")


def test_without_the_settings_nothing_is_signed():
    _, fetches = crawl({"/": page()})
    assert not any("signature" in name for fetch in fetches for name in fetch.headers)


def test_a_key_is_named_by_its_thumbprint():
    """The example of RFC 8037, appendix A.3."""
    jwk = {"crv": "Ed25519", "kty": "OKP", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    assert thumbprint(jwk) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "No such file or directory; check the file."),
        ("no key", "openssl genpkey -algorithm ed25519 -out FILE."),
    ],
)
def test_a_bad_key_is_refused_in_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "key.pem"
    if text is not None:
        path.write_text(text)
    run, fetches = crawl({}, CRAWLPRIO_SIGNING_KEY=str(path), CRAWLPRIO_SIGNATURE_AGENT=AGENT)
    assert run.messages()[0].endswith(sentence)
    assert fetches == []


def test_one_setting_without_the_other_is_refused(key):
    run, fetches = crawl({}, CRAWLPRIO_SIGNING_KEY=str(key))
    assert run.messages()[0].endswith("only one of them is set; set both, or none.")
    assert fetches == []


OURS = f"crawlprio/{__version__}"


def agents(settings):
    """Return the user agents and the paths that a crawled of three pages sent."""
    rules = "User-agent: scrapy\nDisallow: /\nUser-agent: example\nDisallow: /no\n"
    web = {"/": page("/yes", "/no"), "/yes": page(), "/no": page(), "/robots.txt": Answer(rules)}
    every = {**settings, "ROBOTSTXT_OBEY": True}
    run = run_spider(SiteSpider, every, site=web, seeds="http://a.test/")
    seen = dict.fromkeys(fetch.headers["user-agent"] for fetch in run.site.fetches)
    return list(seen), sorted(run.site.paths())


@pytest.mark.parametrize(
    ("settings", "agent"),
    [
        ({"CRAWLPRIO_CONTACT": "me@example.org"}, f"{OURS} (me@example.org)"),
        ({"CRAWLPRIO_CONTACT": "https://example.org/bot"}, f"{OURS} (+https://example.org/bot)"),
        (
            {"CRAWLPRIO_CONTACT": "me@example.org", "USER_AGENT": f"{OURS} (you@a.test)"},
            f"{OURS} (you@a.test)",
        ),
        ({"CRAWLPRIO_CONTACT": "me@example.org", "USER_AGENT": "own/1"}, "own/1"),
    ],
)
def test_the_contact_is_named_unless_the_user_agent_names_another(settings, agent):
    assert agents({**PROJECT, **settings})[0] == [agent]


def test_no_word_of_the_contact_names_a_robot():
    _, paths = agents({**PROJECT, "CRAWLPRIO_CONTACT": "me@example.org"})
    assert paths == ["/", "/no", "/yes"]


def test_a_project_of_its_own_keeps_its_user_agent():
    seen, _ = agents({**ADDON, "CRAWLPRIO_CONTACT": "me@example.org", "USER_AGENT": "own/1"})
    assert seen == ["own/1"]


@pytest.mark.parametrize("value", ["me", "me@", "@a.test", "ftp://a.test", "a@b@c", "a b@c", 7])
def test_what_is_no_contact_is_refused(value):
    with pytest.raises(ConfigError, match=r"CRAWLPRIO_CONTACT is .*; give a mail address or a URL"):
        checked("CRAWLPRIO_CONTACT", SETTINGS["CRAWLPRIO_CONTACT"].kind, value)
