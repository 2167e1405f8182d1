"""The user agent names whom the owners of a site can reach, and only that."""

import pytest
from crawls import ADDON, Answer, page, run_spider

from crawlprio import __version__
from crawlprio.commands.crawl import bundled_settings
from crawlprio.errors import ConfigError
from crawlprio.settings_table.setting_types import checked
from crawlprio.settings_table.table import SETTINGS
from crawlprio.spiders.site import SiteSpider

OURS = f"crawlprio/{__version__}"
BUNDLED = {**bundled_settings(), "CRAWLPRIO_STORE": None, "CRAWLPRIO_PRINT": False}


def agents(settings):
    """Return the user agents and the paths that a crawl of three pages sent."""
    rules = "User-agent: scrapy\nDisallow: /\nUser-agent: example\nDisallow: /no\n"
    web = {"/": page("/yes", "/no"), "/yes": page(), "/no": page(), "/robots.txt": Answer(rules)}
    every = {**settings, "DOWNLOAD_DELAY": 0, "ROBOTSTXT_OBEY": True}
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
    assert agents({**BUNDLED, **settings})[0] == [agent]


def test_no_word_of_the_contact_names_a_robot():
    _, paths = agents({**BUNDLED, "CRAWLPRIO_CONTACT": "me@example.org"})
    assert paths == ["/", "/no", "/yes"]


def test_a_project_of_its_own_keeps_its_user_agent():
    seen, _ = agents({**ADDON, "CRAWLPRIO_CONTACT": "me@example.org", "USER_AGENT": "own/1"})
    assert seen == ["own/1"]


@pytest.mark.parametrize("value", ["me", "me@", "@a.test", "ftp://a.test", "a@b@c", "a b@c", 7])
def test_what_is_no_contact_is_refused(value):
    with pytest.raises(ConfigError, match=r"CRAWLPRIO_CONTACT is .*; give a mail address or a URL"):
        checked("CRAWLPRIO_CONTACT", SETTINGS["CRAWLPRIO_CONTACT"].kind, value)
