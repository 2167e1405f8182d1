"""The receipt of a crawl: made from its store alone, and true to what happened."""

import asyncio
import json
import math
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import stores
from commands import run_command
from crawls import ADDON, BREADTH_FIRST, Answer, Site, _in_loop, page, run_spider
from jsonschema import Draft202012Validator
from stores import record_visits, table

from crawlprio.errors import StoreError
from crawlprio.live.crawl_counters import CoverageSoFar, time_left
from crawlprio.measure import receipt_document
from crawlprio.measure.receipt_document import (
    check_receipt,
    duration,
    make_receipt,
    rows,
    sentences,
    short_share,
    text_of,
)
from crawlprio.measure.stored_crawl import SETTINGS_KEY
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store
from crawlprio.store.pending import WRITTEN_EVERY
from crawlprio.web.sitemaps import Named

SCHEMA = json.loads(Path(receipt_document.__file__).with_name("schema.json").read_text())
PAGES = {
    "/": page("/a", "/b1", "/b2", "/b3", "/gone", "/secret", "http://else.test/", "/x.zip"),
    "/a": page("/", "/b1", "/b4", "http://else.test/2", "http://else.test/3", "http://else.test/4"),
    "/robots.txt": Answer("User-agent: *\nDisallow: /secret"),
    **{f"/b{n}": page("/", "/a", "/b5") for n in range(1, 6)},
}


def crawl(folder, **settings):
    own = {"ROBOTSTXT_OBEY": True, "CRAWLPRIO_STORE": folder / "crawl.sqlite", **settings}
    return run_spider(SiteSpider, {**BREADTH_FIRST, **own}, site=PAGES, seeds="http://a.test/")


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """The folder of a finished crawl that a budget limited."""
    folder = tmp_path_factory.mktemp("crawled")
    run = crawl(folder, CRAWLPRIO_MAX_PAGES_PER_PATTERN=3, CRAWLPRIO_SKIP_EXTENSIONS=["zip"])
    assert run.reason == "finished"
    return folder


@pytest.fixture
def receipt(crawled):
    return json.loads((crawled / "receipt.json").read_text())


def store_of(folder, visits, seeds, *, sites=1):
    """Return a store of a crawl without an end, as a kill leaves it; each site has ten pages."""
    pages = table(*(f"http://s{site}.test/{n}" for site in range(sites) for n in range(10)))
    return record_visits(folder / "crawl.sqlite", pages, *visits, seeds=seeds)


def visit(page, *targets, **fields):
    given = {"status": 200, "fetched_at": 100.0 + page, "elapsed": 0.5, **fields}
    return stores.visit(page, *targets, **given)


def test_the_command_makes_the_receipt_of_a_crawl_again_byte_for_byte(crawled, capsys):
    beside = crawled / "receipt.json"
    before = beside.read_bytes()
    beside.unlink()
    status = run_command("receipt", str(crawled))
    assert (status, beside.read_bytes()) == (0, before)
    assert "by pattern-budget (CRAWLPRIO_MAX_PAGES_PER_PATTERN)" in unfolded(capsys)
    assert beside.stat().st_mode & 0o777 == 0o600


def test_a_receipt_that_cannot_be_written_is_shown(crawled, tmp_path, capsys):
    (tmp_path / "receipt.json").mkdir()
    shutil.copy(crawled / "crawl.sqlite", tmp_path)
    assert run_command("receipt", str(tmp_path)) == 2
    assert "by pattern-budget (CRAWLPRIO_MAX_PAGES_PER_PATTERN)" in unfolded(capsys)


def unfolded(capsys):
    """Return what was printed, with lines joined."""
    return " ".join(re.sub("[│┌┐└┘─]", " ", capsys.readouterr().out).split())


def test_it_has_what_was_asked_and_got(receipt):
    asked, got = receipt["asked"], receipt["got"]
    assert asked["seeds"] == ["http://a.test/"]
    assert asked["orderings"] == ["breadth-first"]
    assert asked["settings"]["CRAWLPRIO_MAX_PAGES_PER_PATTERN"] == 3
    assert (got["pages"], got["by_status"]) == (5, {"200": 5})
    assert (got["failed"], got["refused"], got["waiting"], got["known"]) == (1, 1, 0, 7)
    assert got["ended_because"] == "finished"
    assert receipt["failed"] == {"HTTP 404": 1}


def test_every_refusal_has_its_rule_its_setting_and_at_most_three_examples(receipt):
    refused = receipt["refused"]
    assert list(refused) == [
        "extension",
        "forbidden by robots.txt",
        "out-of-scope",
        "pattern-budget",
    ]
    assert refused["out-of-scope"] == {
        "links": 4,
        "setting": "follow, allow, deny",
        "examples": ["http://else.test/", "http://else.test/2", "http://else.test/3"],
    }
    assert refused["forbidden by robots.txt"]["examples"] == ["http://a.test/secret"]
    assert refused["pattern-budget"]["setting"] == "CRAWLPRIO_MAX_PAGES_PER_PATTERN"
    assert refused["pattern-budget"]["examples"] == ["http://a.test/b4", "http://a.test/b5"]


def test_a_page_that_failed_or_was_forbidden_is_missing_and_not_fetched(receipt):
    missing = [(entry["url"], entry["because"]) for entry in receipt["missing"]]
    assert missing == [
        ("http://a.test/gone", "HTTP 404"),
        ("http://a.test/secret", "forbidden by robots.txt"),
    ]
    coverage = receipt["coverage"]
    lost = sum(entry["share"] for entry in receipt["missing"])
    assert coverage["at_least"] == pytest.approx(1 - lost, abs=2e-4)


def test_receipts_have_the_form_of_the_schema(receipt, tmp_path):
    Draft202012Validator.check_schema(SCHEMA)
    empty = make_receipt(store_of(tmp_path, [], []))
    for found in (receipt, empty):
        assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(found)] == []


def test_the_end_table_closes_with_its_sentences(tmp_path):
    run = crawl(tmp_path, CRAWLPRIO_MAX_PAGES_PER_PATTERN=3)
    assert run.stats["crawlprio/receipt"] == "\n".join(
        sentences(json.loads((tmp_path / "receipt.json").read_text()))
    )


def test_no_receipt_is_written_if_the_setting_says_so(tmp_path):
    run = crawl(tmp_path, CRAWLPRIO_RECEIPT=False)
    assert [path.name for path in tmp_path.iterdir()] == ["crawl.sqlite"]
    assert "crawlprio/receipt" not in run.stats


def test_a_crawl_that_was_killed_has_a_receipt_that_does_not_say_why_it_ended(tmp_path):
    found = make_receipt(store_of(tmp_path, [visit(0, 1, 2)], [0]))
    assert found["got"]["ended_because"] is None
    found["got"]["ended_because"] = "pages_reached"
    assert dict(rows(found))["ended because"].startswith("as many pages as asked for")
    assert (found["got"]["pages"], found["got"]["waiting"]) == (1, 9)


def test_a_crawl_whose_only_seed_failed_got_nothing(tmp_path):
    found = make_receipt(store_of(tmp_path, [visit(0, status=500)], [0]))
    assert found["coverage"]["at_least"] == found["coverage"]["likely"] == 0
    assert sentences(found)[0] == (
        "At least 0% of the importance of this site, counted from the seeds, was fetched."
    )


def test_a_page_that_was_got_after_it_failed_counts_with_its_links(tmp_path):
    visits = [visit(0, 1), visit(1, status=0, error="timed out"), visit(1, 2, status=200)]
    found = make_receipt(store_of(tmp_path, visits, [0]))
    assert (found["failed"], found["got"]["pages"]) == ({}, 2)
    assert [entry["url"] for entry in found["missing"]] == ["http://s0.test/2"]


def test_more_pages_take_as_long_as_the_slowest_site_needs(tmp_path):
    """Seven pages wait on one site and one on another; fetches take 0.5 s."""
    path = store_of(tmp_path, [visit(0, *range(3, 10), 10), visit(1), visit(2)], [0, 1, 2], sites=2)
    with Store.open(path) as store:
        store.set_meta(SETTINGS_KEY, json.dumps({"DOWNLOAD_DELAY": 2.0}))
    steps = make_receipt(path)["more"]
    assert [(step["pages"], step["seconds"]) for step in steps] == [(17, 10 * 2.5)]


def test_sitemaps_say_how_many_pages_there_are(tmp_path):
    path = store_of(tmp_path, [visit(0, 1)], [0])
    assert make_receipt(path)["outside"] == {}
    with Store.open(path) as store:
        (sitemap,) = store.sitemaps().add(["http://s0.test/map"], "s0.test", "robots", 0)
        urls = [f"http://s0.test/{name}" for name in ("0", "1", "new", "newer")]
        store.sitemaps().add_urls(sitemap.number, list(map(Named, urls)))
    found = make_receipt(path)
    assert found["outside"] == {"sitemaps": {"pages": 4, "known": 2, "fetched": 1}}
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(found)] == []


def test_refusals_are_counted_over_all_runs(tmp_path):
    path = store_of(tmp_path, [visit(0)], [0])
    for run in range(2):
        with Store.open(path) as store:
            store.pending.refusals.add("depth", 2, [f"http://s0.test/{run}", "http://s0.test/x"])
            store.record_pages(store.load_pages())
    refused = make_receipt(path)["refused"]["depth"]
    assert (refused["links"], refused["setting"]) == (4, "DEPTH_LIMIT")
    assert refused["examples"] == ["http://s0.test/0", "http://s0.test/x", "http://s0.test/1"]


def test_a_kill_loses_the_refusals_of_the_last_few_visits_at_most(tmp_path):
    path = store_of(tmp_path, [], [0])
    store, on_disk = Store.open(path), []
    pages = store.load_pages()
    for n in range(2 * WRITTEN_EVERY + 1):
        store.pending.refusals.add("depth", 1, [f"http://s0.test/{n}"])
        store.record(visit(n % 10), pages)
        with Store.open(path, readonly=True) as killed_now:
            on_disk.append(sum(refusal.links for refusal in killed_now.refusals().values()))
    begun, waited = [0] * (WRITTEN_EVERY - 1), [WRITTEN_EVERY] * WRITTEN_EVERY
    assert on_disk == [*begun, *waited, 2 * WRITTEN_EVERY, 2 * WRITTEN_EVERY]
    store.end_run(1.0)
    store.close()
    assert make_receipt(path)["refused"]["depth"]["links"] == 2 * WRITTEN_EVERY + 1


def test_refusals_that_nothing_was_recorded_with_are_not_on_disk(tmp_path):
    path = store_of(tmp_path, [visit(0)], [0])
    with Store.open(path) as store:
        store.pending.refusals.add("depth", 1, [])
    assert make_receipt(path)["refused"] == {}


@pytest.mark.parametrize(
    "damage",
    [
        "CREATE VIEW refusals AS SELECT 'depth' AS rule, 1 AS links, '[]' AS examples",
        "CREATE TABLE refusals(rule TEXT PRIMARY KEY, links INTEGER NOT NULL, examples TEXT NOT "
        "NULL); INSERT INTO refusals VALUES('depth', 'many', '[]')",
        "CREATE TABLE refusals(rule TEXT PRIMARY KEY, links INTEGER NOT NULL, examples TEXT NOT "
        "NULL); INSERT INTO refusals VALUES('depth', 1, '[1]')",
    ],
)
def test_refusals_of_another_make_are_reported_as_damage(tmp_path, damage):
    path = store_of(tmp_path, [visit(0)], [0])
    with closing(sqlite3.connect(path)) as db:
        db.executescript(damage)
    for use in (make_receipt, Store.open):
        with pytest.raises(StoreError, match="is damaged"):
            use(path)


def checked(receipt, store, capsys):
    """Yield exit status and output of the check."""
    status = run_command("receipt", str(store), "--check", "--json", str(receipt))
    yield status
    yield capsys.readouterr().out


def test_a_receipt_belongs_to_the_store_it_was_made_from(tmp_path, capsys):
    path = store_of(tmp_path, [visit(0, 1)], [0])
    file = tmp_path / "kept.json"
    file.write_text(text_of(make_receipt(path)))
    status, said = checked(file, path, capsys)
    assert (status, said) == (0, f"{file} is the receipt of the crawl in {path}.\n")

    changed = make_receipt(path)
    changed["got"]["pages"] += 1
    file.write_text(text_of(changed))
    status, said = checked(file, path, capsys)
    assert (status, said) == (1, f"{file} was changed: got is not what {path} says.\n")


def test_a_receipt_of_an_earlier_state_or_another_crawl_is_told_apart(tmp_path):
    path = store_of(tmp_path, [visit(0, 1)], [0])
    file = tmp_path / "receipt.json"
    before = make_receipt(path)
    file.write_text(text_of(before))
    with Store.open(path) as store:
        store.record(visit(1), store.load_pages())
    assert "was made after 1 visits" in check_receipt(file, path)
    before["store"]["created"] = "2020-01-01T00:00:00Z"
    file.write_text(text_of(before))
    assert "receipt of another crawl" in check_receipt(file, path)
    file.write_text("[")
    assert "not JSON" in check_receipt(file, path)
    file.write_text("[]")
    assert "not a receipt of version 1" in check_receipt(file, path)


@pytest.mark.parametrize(
    ("visits", "looks"),
    [
        ([visit(0, n_bytes=90)], "links made by script, a login form and what is not HTML look"),
        ([visit(0)], "an empty body looks like that"),
        ([visit(0, 1, status=302), visit(1, title="Log in", n_bytes=9)], "a redirect to a login"),
        ([visit(0, title="Out", n_bytes=9), visit(1, status=404)], "links made by script"),
    ],
)
def test_no_share_is_said_where_no_page_has_a_link(tmp_path, visits, looks):
    found = make_receipt(store_of(tmp_path, visits, [0]))
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(found)] == []
    shares = [found["coverage"][name] for name in ("at_least", "likely", "interval")]
    assert (shares, found["missing"], found["more"]) == ([None] * 3, [], [])
    said = [*sentences(found), *(value for _, value in rows(found)), short_share(found["coverage"])]
    assert looks in said[0]
    assert not [text for text in said if "%" in text]


def test_a_share_of_what_rules_left_names_the_rules_and_their_links(tmp_path):
    path = store_of(tmp_path, [visit(0, 1), visit(1, 0)], [0])
    with Store.open(path) as store:
        store.pending.refusals.add("out-of-scope", 9, ["http://else.test/"])
        store.pending.refusals.add("private-address", 3, ["http://localhost/"])
        store.record_pages(store.load_pages())
    assert sentences(make_receipt(path))[0] == (
        "At least 100% of the importance of this site, counted from the seeds, was fetched."
    )
    with Store.open(path) as store:
        store.pending.refusals.add("extension", 1, ["http://s0.test/x.zip"])
        store.pending.refusals.add("depth", 680, ["http://s0.test/x"])
        store.record_pages(store.load_pages())
    found = make_receipt(path)
    said = (
        "At least 100% of the importance of what the crawl's rules allow of this site, counted "
        "from the seeds, was fetched. The crawl's rules refused 680 links by depth (DEPTH_LIMIT), "
        "1 link by extension (CRAWLPRIO_SKIP_EXTENSIONS)."
    )
    assert sentences(found)[0] == dict(rows(found))["importance fetched"] == said
    assert short_share(found["coverage"]) == "100 to 100% of what the rules allow"


@pytest.mark.parametrize("follow", ["site", "web"])
def test_links_to_private_hosts_change_no_share_and_ask_for_no_setting(follow, tmp_path):
    hosts = ("localhost", "127.0.0.1:8000", "10.1.1.1", "printer.local")
    settings = {
        **ADDON,
        "CRAWLPRIO_STORE": tmp_path / "crawl.sqlite",
        "CRAWLPRIO_PRIVATE_ADDRESSES": "seeds",
    }
    with Site({"/": page("/1", *(f"http://{host}/" for host in hosts)), "/1": page("/")}) as site:
        run_spider(SiteSpider, settings, site=site, seeds="http://a.test/", follow=follow)
    assert {fetch.host for fetch in site.fetches} == {"a.test"}
    found = make_receipt(tmp_path / "crawl.sqlite")
    refused = "out-of-scope" if follow == "site" else "private-address"
    assert found["refused"][refused]["links"] == len(hosts)
    assert found["coverage"]["left_out"] == {}
    assert sentences(found)[0].startswith("At least 100% of the importance of this site, counted")


def test_links_that_allow_or_deny_refused_are_named(tmp_path):
    path = store_of(tmp_path, [visit(0, 1), visit(1, 0)], [0])
    with Store.open(path) as store:
        store.set_meta("given", json.dumps({"arguments": {"deny": "/private"}}))
        store.pending.refusals.add("out-of-scope", 9, ["http://s0.test/private"])
        store.record_pages(store.load_pages())
    assert (
        "refused 9 links by out-of-scope (follow, allow, deny)" in sentences(make_receipt(path))[0]
    )


def test_no_estimate_is_given_where_it_would_be_wider_than_half_of_everything(tmp_path):
    """Both sites wait as a whole: nothing is known of what their seeds lead to."""
    path = store_of(tmp_path, [visit(0, 1), visit(1, 0)], [0, 10, 20], sites=3)
    found = make_receipt(path)
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(found)] == []
    coverage = found["coverage"]
    assert 0.3 < coverage["at_least"] < 0.34
    assert (coverage["likely"], coverage["interval"]) == (None, None)
    assert "cannot be estimated, but crawlprio certify" in sentences(found)[0]


def test_sentences_say_how_sure_they_are():
    receipt = {
        "got": {"pages": 300, "waiting": 1_204, "sites_known": 2},
        "coverage": {
            "at_least": 0.7199,
            "likely": 0.85,
            "interval": [0.8312, 0.8749],
            "left_out": {},
        },
        "certificate": None,
        "missing": [
            {"url": "http://a.test/w", "share": 0.2, "because": "waiting"},
            {"url": "http://a.test/f", "share": 0.03, "because": "HTTP 404"},
            {"url": "http://a.test/g", "share": 0.01, "because": "HTTP 500"},
        ],
        "refused": {},
        "more": [
            {"pages": 100, "share": 0.004, "seconds": 50},
            {"pages": 1_000, "share": 0.021, "seconds": 5_400},
        ],
    }
    assert sentences(receipt) == [
        "At least 71% of the importance of these sites, counted from the seeds, was "
        "fetched (likely 83 to 88%, in nine of ten crawls).",
        "Pages that could not be fetched hold about 4%, such as http://a.test/f (HTTP 404).",
        "1,204 known pages were not fetched yet.",
        "Another 1,000 pages would add about 2%, counted from the seeds, in 1.5 h or more.",
    ]
    assert not any("hold" in said for said in sentences({**receipt, "missing": []}))
    got, more = {**receipt["got"], "waiting": 1}, [{"pages": 1, "share": 0.004, "seconds": 50}]
    assert sentences({**receipt, "got": got, "more": more})[2:] == [
        "1 known page was not fetched yet.",
        "Another page would add about 0.4%, counted from the seeds, in 50 s or more.",
    ]
    coverage = {**receipt["coverage"], "likely": None, "interval": None}
    assert sentences({**receipt, "coverage": coverage})[0] == (
        "At least 71% of the importance of these sites, counted from the seeds, was fetched; how "
        "much more cannot be estimated, but crawlprio certify can prove it."
    )
    assert short_share(coverage) == "at least 71%"
    shares = {"confidence": 0.95, "at_least": 0.8001, "at_most": 0.86, "unfinished": 0}
    receipt["certificate"] = {**shares, "walks": 1_000, "visits": 2_000}
    assert sentences(receipt)[:2] == [
        "At least 71% of the importance of these sites, counted from the seeds, was fetched.",
        "At least 80% and at most 86% of the importance, counted from the seeds, was fetched "
        "after 2,000 visits; 1,000 "
        "random walks prove each bound with 95% confidence.",
    ]


def test_durations_are_in_the_unit_that_people_use():
    seconds = (0, 89, 90, 5_399, 5_400, 129_599, 129_600, 8_640_000)
    shown = ["0 s", "89 s", "1.5 min", "90 min", "1.5 h", "36 h", "1.5 days", "100 days"]
    assert list(map(duration, seconds)) == shown


def test_the_progress_line_shows_an_estimate_of_the_running_crawl(tmp_path):
    path = store_of(tmp_path, [visit(0, 1)], [0])
    share = short_share(make_receipt(path)["coverage"])

    async def shown():
        so_far = CoverageSoFar(path)
        texts = [so_far.text(99), so_far.text(100)]
        while not so_far.text(101):
            await asyncio.sleep(0.01)
        return [*texts, so_far.text(102)]

    assert _in_loop(shown(), 60.0) == ["", "", f"importance from the seeds {share}"]


def test_the_progress_line_shows_the_time_to_the_page_limit():
    assert time_left(600, 10.0) == "60 s"
    assert [time_left(0, 10.0), time_left(math.inf, 10.0), time_left(600, 0.0)] == [""] * 3
