"""What needs a package that is not installed is refused before anything is created."""

import pytest
from commands import refusal
from crawls import ADDON, page, run_spider
from scrapy.settings import Settings

from crawlprio import extras
from crawlprio.settings_table.config import require_extras
from crawlprio.spiders.site import SiteSpider

START = "http://a.test/"


@pytest.fixture(autouse=True)
def _bare(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "find_spec", lambda module: None)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--keep-text"], "CRAWLPRIO_KEEP_TEXT needs py3langid"),
        (["--novelty", "near"], "CRAWLPRIO_NOVELTY 'near' needs rensa"),
        (["--value", "language:en"], "CRAWLPRIO_VALUE 'language:en' needs py3langid"),
        (["--value", "fasttext:m.bin:hq"], "needs fasttext"),
        (["-s", "CRAWLPRIO_BODIES=True"], "CRAWLPRIO_BODIES needs zstandard"),
        (["-s", "CRAWLPRIO_FRONTIER=redis"], "CRAWLPRIO_FRONTIER 'redis' needs redis"),
        (["--plan", "-s", "CRAWLPRIO_FRONTIER=redis"], "CRAWLPRIO_FRONTIER 'redis' needs redis"),
        (["--plan", "--value", "language:en"], "CRAWLPRIO_VALUE 'language:en' needs py3langid"),
    ],
)
def test_a_command_names_the_extra_and_leaves_nothing_behind(options, told, capsys, tmp_path):
    err = refusal(capsys, "crawl", START, "--folder", "job", *options)
    assert told in err
    assert ", which is not installed; run pip install 'crawlprio[" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("setting", [{"CRAWLPRIO_BODIES": True}, {"CRAWLPRIO_FRONTIER": "redis"}])
def test_a_project_gets_the_same_sentence_and_no_store(setting, tmp_path):
    settings = {**ADDON, **setting, "CRAWLPRIO_STORE": "crawl.sqlite"}
    run = run_spider(SiteSpider, settings, site={"/": page()}, seeds=START)
    assert run.site.fetches == []
    (sentence,) = run.messages()
    assert ", which is not installed; run pip install 'crawlprio[" in sentence
    assert list(tmp_path.iterdir()) == []


def test_settings_that_are_off_need_nothing():
    names = ("CRAWLPRIO_BODIES", "CRAWLPRIO_KEEP_TEXT", "CRAWLPRIO_WARC", "CRAWLPRIO_VALUE")
    for off in ("None", "", None):
        require_extras(Settings(dict.fromkeys(names, off)))
    require_extras(Settings({"CRAWLPRIO_BODIES": "False", "CRAWLPRIO_NOVELTY": "exact"}))
