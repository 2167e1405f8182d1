"""The table of settings: what reads it, what is generated from it, and what it refuses."""

import ast
import importlib.util
import logging
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from crawls import ADDON, ROOT, Answer, Site, page, run_spider, scrapy
from scrapy.settings import BaseSettings, Settings, default_settings
from spiders import Plain
from twisted.internet.defer import Deferred

from crawlprio.errors import ConfigError
from crawlprio.live.replay_server import plot_path
from crawlprio.middlewares import RefusalMiddleware
from crawlprio.plugins import ADDED, load, shared
from crawlprio.settings_table import config
from crawlprio.settings_table.config import (
    CrawlConfig,
    invalid_stock_settings,
    misspelt_names,
    read_setting,
)
from crawlprio.settings_table.table import INTERNAL, PLOT_SUFFIXES, SECTIONS, SETTINGS
from crawlprio.show import figures
from crawlprio.web.scope import SKIP_EXTENSIONS

OURS = [setting for setting in SETTINGS.values() if setting.is_ours]


def bundled():
    settings = Settings()
    settings.setmodule("crawlprio.settings", "project")
    return settings


def refusal(**values):
    """Return the error when a crawl starts with these settings."""
    with pytest.raises(ConfigError) as caught:
        CrawlConfig.from_settings(Settings(values))
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


# What is generated from the table.


@pytest.mark.parametrize("page", ["settings", "options", "commands"])
def test_the_page_matches_the_table(page):
    spec = importlib.util.spec_from_file_location("writer", ROOT / f"docs/write_{page}.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.PAGE.read_text("utf-8") == getattr(writer, f"{page}_page")()


def test_both_defaults_are_what_a_crawl_gets():
    project, guest, bare = bundled(), Settings(), BaseSettings()
    for name, setting in SETTINGS.items():
        default = setting.kind.parse(setting.guest_default)
        assert read_setting(project, name) == setting.kind.parse(setting.default)
        assert name == "USER_AGENT" or read_setting(guest, name) == default
        assert read_setting(bare, name) == default


def test_for_scrapys_settings_the_add_on_default_is_scrapys():
    without = {"CONCURRENT_REQUESTS_PER_IP", "USER_AGENT"}  # deprecated; with Scrapy's version
    redis = {setting.name for setting in shared.SECTION.settings}  # of scrapy-redis
    scrapys = [name for name, one in SETTINGS.items() if not one.is_ours and name not in redis]
    for name in set(scrapys) - without:
        assert getattr(default_settings, name) == SETTINGS[name].guest_default


def test_every_setting_is_in_one_section_and_described_in_a_sentence_or_two():
    names = [setting.name for section in SECTIONS for setting in section.settings]
    assert len(names) == len(set(names))
    for setting in SETTINGS.values():
        assert setting.meaning.endswith(".")
        assert setting.meaning.count(". ") <= 1


def test_a_plugin_has_the_settings_that_its_rows_name():
    for name in ADDED["sections"]:
        assert name in {setting.name for setting in load("sections", name).settings}


def test_the_table_and_a_plugins_settings_load_nothing_slow_whichever_comes_first():
    slow = {"scrapy", "twisted", "numpy", "numba", "redis", "playwright", "cryptography"}
    for first in ("crawlprio.settings_table.table", "crawlprio.plugins.shared"):
        code = f"import sys, {first}, crawlprio.settings_table.table; print(*sys.modules)"
        line = [sys.executable, "-c", code]
        loaded = subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()
        assert "crawlprio.plugins.value" in loaded
        assert slow & set(loaded) == set()


# Who reads settings.

READS = {
    *("get", "getbool", "getint", "getfloat", "getlist", "getdict", "getdictorlist"),
    *("getwithbase", "getpriority", "get_component_priority_dict_with_base", "pop", "items"),
}
MAY_READ = {"settings_table/config.py"}


def sources():
    """Yield each module and its syntax tree, of which none is kept: every crawl would search it."""
    for file in sorted((ROOT / "crawlprio").rglob("*.py")):
        yield file.relative_to(ROOT / "crawlprio").as_posix(), ast.parse(file.read_text("utf-8"))


def reads_of(tree):
    """Return where a module reads settings other than through `read_setting`."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value, attribute) if attribute in READS and _is_settings(value):
                yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Subscript(value, _, ast.Load()) if _is_settings(value):
                yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Compare(_, [ast.In() | ast.NotIn()], [value]) if _is_settings(value):
                yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Call(ast.Attribute(_, attribute), [ast.Constant(name), *_]) if (
                attribute in READS and name in SETTINGS
            ):
                yield f"{node.lineno}: {ast.unparse(node)}"
            case ast.Call(ast.Name("job_dir")):
                yield f"{node.lineno}: {ast.unparse(node)}"


def _is_settings(node):
    return (isinstance(node, ast.Name) and node.id == "settings") or (
        isinstance(node, ast.Attribute) and node.attr in ("settings", "_settings")
    )


def test_settings_are_read_only_through_the_table():
    found = {file: list(reads_of(tree)) for file, tree in sources()}
    assert {file: reads for file, reads in found.items() if reads}.keys() == MAY_READ


def test_the_search_for_reads_finds_them():
    code = """
settings.getbool("A"); crawler.settings["B"]; "C" in self._settings; settings.get("D")
job_dir(crawler.settings); alias.getint("CONCURRENT_REQUESTS")
settings["E"] = 1; settings.set("F", 1); other["G"]; other.get("H")
"""
    assert len(list(reads_of(ast.parse(code)))) == 6


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_no_text_names_a_setting_that_does_not_exist():
    known = SETTINGS.keys() | {"CRAWLPRIO_MAX_PAGES_PER", "CRAWLPRIO_TEST_DRAWS"}  # "..._PER_*"
    known |= {"CRAWLPRIO_REDIS_SHARDS", "CRAWLPRIO_BRAIN"}  # which have gone
    texts = [(file, file.read_text("utf-8")) for file in DOCUMENTS]
    for file, tree in sources():
        constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        texts += [(file, value) for value in constants if isinstance(value, str)]
    for file, text in texts:
        assert set(re.findall(r"CRAWLPRIO_[A-Z][A-Z_]*[A-Z]", text)) <= known, file


# What is refused.

BAD = {
    "ORDERING": "opick",
    "ORDERING_OPTIONS": "seed_cash=1",
    "TOPIC": " , ",
    "TOPIC_OPTIONS": "far",
    "CRAWLPRIO_PRIVATE_ADDRESSES": "deny",
    "CRAWLPRIO_SKIP_EXTENSIONS": "*.pdf",
    "CRAWLPRIO_PLOT": "x.xyz",
    "CRAWLPRIO_STORE": 5,
    "CRAWLPRIO_SERVER_LOG": "no/such/folder/log",
    "CRAWLPRIO_REPLAY": 5,
    "CRAWLPRIO_WARC": 5,
    "CRAWLPRIO_BROWSER": 5,
    "CRAWLPRIO_SIGNING_KEY": 5,
    "CRAWLPRIO_REDIS_CRAWL": "a{b}",
    "CRAWLPRIO_KEPT_HEADERS": "X-A: 1",
    "CRAWLPRIO_WARC_SECRET_HEADERS": "X-A: 1",
}


@pytest.mark.parametrize(
    "setting", [s for s in OURS if s.name != "CRAWLPRIO_LOOPBACK"], ids=lambda one: one.name
)
def test_every_setting_refuses_a_bad_value_by_its_name(setting):
    bad = BAD.get(setting.name, "certainly not")
    sentence = refusal(**{setting.name: bad})
    assert setting.name in sentence
    assert repr(bad) in sentence


@pytest.mark.parametrize(
    "setting", [s for s in OURS if s not in INTERNAL.settings], ids=lambda one: one.name
)
def test_none_is_refused_where_it_has_no_meaning(setting):
    if setting.kind.none:
        assert read_setting(Settings({setting.name: None}), setting.name) is None
        assert read_setting(Settings({setting.name: "None"}), setting.name) is None
    elif setting.name not in ("TOPIC", "ORDERING_OPTIONS", "TOPIC_OPTIONS"):
        assert f"{setting.name} is None; give" in refusal(**{setting.name: None})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("DOWNLOAD_DELAY", "-1", "; give a number of 0 or more."),
        ("DOWNLOAD_DELAY", "inf", "; give a number of 0 or more."),
        ("CONCURRENT_REQUESTS", 1.5, "; give a whole number of 0 or more."),
        ("CRAWLPRIO_MAX_WAITING", "0", "; give a whole number of 1 or more, or None for no limit."),
        ("CRAWLPRIO_DEMO_PORT", "70000", "; give a whole number from 0 to 65535."),
        ("CRAWLPRIO_PLOT", "no/such/x.png", ", whose folder does not exist; give a file name that "
         "ends in .png, .svg or .pdf, or None for no plot."),
    ],
)  # fmt: skip
def test_a_bad_value_is_named_with_what_is_allowed(name, value, said):
    assert refusal(**{name: value}) == f"{name} is {value!r}{said}"


@pytest.mark.parametrize("value", ["False", "true", "0", 1])
def test_a_switch_of_scrapy_may_be_a_text_even_if_its_default_is_a_number(value):
    assert list(invalid_stock_settings(Settings({"TELNETCONSOLE_ENABLED": value}))) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("pdf, .DOC,png", ("pdf", "doc", "png")),
        (["ZIP", ".zip"], ("zip",)),
        ("", ()),
        ([], ()),
        ("\n    a\n    b\n", ("a", "b")),
    ],
)
def test_extensions_are_a_list_or_a_text_in_any_case_with_or_without_dots(value, expected):
    name = "CRAWLPRIO_SKIP_EXTENSIONS"
    assert read_setting(Settings({name: value}), name) == expected
    assert read_setting(bundled(), name) == SKIP_EXTENSIONS


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("accept-language, X-Token", {b"Accept-Language", b"X-Token"}),
        (["COOKIE"], {b"Cookie"}),
        ("", set()),
        ((), set()),
        ("None", None),
        (None, None),
    ],
)
def test_an_empty_list_of_kept_headers_keeps_none_rather_than_all(value, expected):
    name = "CRAWLPRIO_KEPT_HEADERS"
    assert read_setting(Settings({name: value}), name) == expected


# Misspelt names.


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("CRAWLPRIO_MAX_PAGE_PER_SITE", "CRAWLPRIO_MAX_PAGES_PER_SITE"),
        ("CRAWLPRIO_PRIVATE_ADRESSES", "CRAWLPRIO_PRIVATE_ADDRESSES"),
        ("crawlprio_store", "CRAWLPRIO_STORE"),
    ],
)
def test_an_unknown_crawlprio_setting_stops_the_crawl(name, nearest):
    sentence = f"{name} is not a setting of crawlprio; the nearest is {nearest}."
    assert refusal(**{name: 5}) == sentence
    run = run_spider(Plain, {**ADDON, name: 5}, site={})
    assert run.site.fetches == []
    assert run.messages() == [sentence]


def test_the_refusal_of_an_unknown_setting_names_the_plugins_that_are_missing(monkeypatch):
    monkeypatch.setattr(config, "missing", lambda kind: {"CRAWLPRIO_RENDER": "render"})
    assert refusal(CRAWLPRIO_RENDER_WHERE="all") == (
        "CRAWLPRIO_RENDER_WHERE is not a setting of this copy of crawlprio, which lacks plugins "
        "(render); the nearest is CRAWLPRIO_RENDER."
    )


def test_shards_that_are_set_are_refused_and_one_is_what_every_crawl_is():
    sentence = refusal(CRAWLPRIO_REDIS_SHARDS=4)
    assert sentence.startswith("CRAWLPRIO_REDIS_SHARDS is 4, but crawls are not spread over shards")
    assert "'crawlprio links collect'" in sentence
    for value in (1, "1", None):
        with Site({"a.test/": page()}) as site:
            run = run_spider(Plain, {**ADDON, "CRAWLPRIO_REDIS_SHARDS": value}, site=site)
        assert run.messages() == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("ORDERNG", "ORDERING"), ("ODRERING", "ORDERING"), ("ordering", "ORDERING")),
        *(("ORDERING_OPTION", "ORDERING_OPTIONS"), ("TOPICC", "TOPIC")),
        *(("TOPIC_OPTONS", "TOPIC_OPTIONS"), ("CRAWLPRO_STORE", "CRAWLPRIO_STORE")),
        *(("CLOSESPIDER_PAGECOUT", "CLOSESPIDER_PAGECOUNT"), ("JOB_DIR", "JOBDIR")),
        *(("RETRY_TIME", "RETRY_TIMES"), ("HTTPCACHE_ENABLE", "HTTPCACHE_ENABLED")),
        *(("LOG_LEVLE", "LOG_LEVEL"), ("LOG_FIEL", "LOG_FILE")),
    ],
)
def test_a_name_close_to_a_setting_causes_a_warning(name, meant):
    (sentence,) = misspelt_names(Settings({name: "x"}))
    assert sentence == (
        f"{name} is set, but neither Scrapy nor crawlprio reads it; if you mean {meant}, set that."
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("DOWNLOAD_DELY", "DOWNLOAD_DELAY"), ("download_delay", "DOWNLOAD_DELAY")),
        *(("ROBOTS_OBEY", "ROBOTSTXT_OBEY"), ("USERAGENT", "USER_AGENT")),
        ("CONCURENT_REQUESTS_PER_DOMAIN", "CONCURRENT_REQUESTS_PER_DOMAIN"),
    ],
)
@pytest.mark.parametrize("priority", ["cmdline", "spider", "project"])
def test_a_name_close_to_a_setting_that_keeps_a_crawl_polite_stops_it(name, meant, priority):
    settings = Settings()
    settings.set(name, "5", priority)
    with pytest.raises(ConfigError) as caught:
        CrawlConfig.from_settings(settings)
    assert str(caught.value) == (
        f"{name} is not a setting of Scrapy or crawlprio; the nearest is {meant}."
    )


def test_a_list_is_not_meant_for_a_setting_that_is_no_list():
    assert misspelt_names(Settings({"USER_AGENTS": ["a", "b"]})) == []


def test_the_warning_comes_once_and_the_crawl_continues():
    run = run_spider(Plain, {**ADDON, "ORDERNG": "random"}, site={"/": page()})
    assert run.reason == "finished"
    assert [message for message in run.messages() if "ORDERNG" in message] == run.messages()
    assert len(run.messages()) == 1


def test_other_peoples_names_are_not_misspelt():
    others = ("ORDERS_URL", "ORDER", "TOPOLOGY", "REDIS_URL", "SPLASH_URL", "CRAWLERA_ENABLED")
    others = (*others, "_JOBDIR", "_USER_AGENT", "USER_AGENTS")
    assert misspelt_names(Settings(dict.fromkeys(others, "x"))) == []
    assert misspelt_names(bundled()) == []


# Safety.


def test_a_guard_on_its_own_refuses_to_start_with_an_invalid_setting():
    settings = {
        "DOWNLOADER_MIDDLEWARES": {RefusalMiddleware: 985},
        "CRAWLPRIO_PRIVATE_ADDRESSES": "deny",
    }
    run = run_spider(Plain, settings, site={"/": page()})
    assert run.site.fetches == []
    assert run.messages(logging.ERROR) == [
        'CRAWLPRIO_PRIVATE_ADDRESSES is \'deny\'; give "allow", "refuse" or "seeds".'
    ]


def test_in_the_shell_a_person_may_request_any_address(tmp_path):
    with Site({"/": page()}) as site:
        line = ["shell", f"http://{site.address}/", "-c", "response.status"]
        done = scrapy(line, tmp_path)
    assert done.stdout.split() == ["200"], done.stderr


# Files and folders.


def test_picture_formats_are_those_that_are_drawn_and_that_matplotlib_knows():
    from matplotlib.backend_bases import FigureCanvasBase

    assert PLOT_SUFFIXES == figures.PLOT_SUFFIXES
    known = FigureCanvasBase.get_supported_filetypes()
    assert [suffix for suffix in PLOT_SUFFIXES if suffix[1:] not in known] == []


@pytest.fixture
def unwritable():
    """A folder that this process can read but not write."""
    folder = Path(tempfile.mkdtemp())
    (folder / "below").mkdir()
    (folder / "below").chmod(0o555)
    folder.chmod(0o755)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65_534)
    try:
        yield folder / "below"
    finally:
        os.seteuid(user)
        (folder / "below").rmdir()
        folder.rmdir()


def test_a_job_directory_that_cannot_be_written_is_one_sentence(unwritable):
    allowed = (
        "give a writable folder, or one that can be created, or None for a crawl that cannot be "
        "resumed."
    )
    assert refusal(JOBDIR=str(unwritable)) == (
        f"JOBDIR is {str(unwritable)!r}, which is not writable; {allowed}"
    )
    new = str(unwritable / "new")
    assert refusal(JOBDIR=new) == (
        f"JOBDIR is {new!r}, which cannot be created (Permission denied); {allowed}"
    )


def test_the_plot_of_a_crawl_in_a_folder_lies_there():
    settings = Settings({"CRAWLPRIO_PLOT": "x.png", "JOBDIR": "job"})
    assert plot_path(settings) == Path("job") / "x.png"


def test_a_picture_that_cannot_be_written_is_refused_only_if_it_is_drawn(unwritable):
    plot = str(unwritable / "x.png")
    settings = Settings({"CRAWLPRIO_PLOT": plot})
    CrawlConfig.from_settings(settings)
    with pytest.raises(ConfigError) as caught:
        plot_path(settings)
    assert str(caught.value) == (
        f"CRAWLPRIO_PLOT is {plot!r}, which is not writable; name a file in a writable folder, or "
        "None for no plot."
    )


# What 0 means.


@pytest.mark.parametrize("in_all", [0, 9999])
def test_zero_concurrency_means_no_limit_as_in_scrapy(in_all):
    gathered = Deferred()
    asked = set()

    def answer(host, path):
        """Answer no page before all of them are being fetched."""
        if path in ("/", "/robots.txt"):
            return None
        asked.add(path)
        if len(asked) == 30:
            gathered.callback(None)
        return Answer("<p>", headers={"Content-Type": "text/html"}, after=gathered)

    settings = {**ADDON, "CONCURRENT_REQUESTS": in_all, "CONCURRENT_REQUESTS_PER_DOMAIN": 0}
    run = run_spider(Plain, settings, site=({"/": page(*(f"/{n}" for n in range(30)))}, answer))
    assert run.reason == "finished"
    assert len(asked) == 30
