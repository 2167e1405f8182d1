"""`crawlprio certify` fetches what random walks ask for, and keeps what they prove in the store."""

import json
import shutil
from pathlib import Path
from random import Random

import pytest
from crawls import Answer, Site, page
from forked import run_forked
from oracles.coverage import trusted_pagerank
from stores import change, query, visited_urls

from crawlprio.measure.walk_verification import WalkAnswer as Answered
from crawlprio.measure.walk_verification import WalkEvidence
from crawlprio.store import Store

N_PAGES = 120


def links_of(number):
    """The links of a page: to the next ones, to a few others, and often home."""
    random = Random(number)
    near = range(number + 1, min(number + 4, N_PAGES))
    others = random.sample(range(N_PAGES), random.randrange(3))
    return [other for other in {*near, *others, *([0] if number % 3 else [])} if other != number]


WEB = {number: links_of(number) for number in range(N_PAGES)}


class Served(Site):
    """The web: page 7 redirects to page 8, page 9 is gone, and robots.txt forbids page 11."""

    is_down = False

    def answer(self, host, path):
        if path == "/robots.txt":
            return Answer("User-agent: *\nDisallow: /p/11$\n")
        number = int(path.rpartition("/")[2] or 0)
        if number == 7:
            return Answer("", 301, {"Location": "/p/8"})
        if number == 9:
            return Answer("", 404)
        if self.is_down:
            return Answer("", 500)
        return page(*(f"/p/{other}" if other else "/" for other in WEB[number]))


def true_share(got):
    web = {**WEB, 7: [8], 9: [], 11: []}
    ranks = trusted_pagerank(web, [0])
    return sum(ranks[number] for number in got)


def certify(folder, *words):
    given = ["certify", "job", "--delay", "0", *words]
    done = run_forked("crawlprio", given, folder)
    return done.returncode, done.stdout, done.stderr


def crawl(site, folder, n_pages):
    given = ["crawl", f"http://{site.address}/", "--folder", "job", "--delay", "0"]
    run_forked("crawlprio", [*given, "--pages", str(n_pages)], folder, check=True)


def got(folder):
    """The pages that the crawl got; a redirect that was followed counts."""
    urls = visited_urls(folder / "job" / "crawl.sqlite", "status BETWEEN 200 AND 399")
    return [int(url.rpartition("/")[2] or 0) for url in dict.fromkeys(urls)]


def receipt(folder):
    return json.loads((folder / "job" / "receipt.json").read_text())


def test_walks_prove_what_the_crawl_has_and_fetch_no_page_twice(tmp_path):
    with Served({}) as site:
        crawl(site, tmp_path, 25)
        n_before = len(site.paths())
        status, shown, told = certify(tmp_path, "--walks", "300", "--json")
        walked = site.paths()[n_before:]
        again = certify(tmp_path, "--walks", "300")
        assert site.paths()[n_before:] == walked
    assert (status, told) == (0, "")
    found = json.loads(shown)
    assert len(set(walked)) == len(walked)
    assert "/p/11" not in walked
    pages = got(tmp_path)
    truth = true_share(pages)
    assert receipt(tmp_path)["certificate"] == found
    certain = receipt(tmp_path)["coverage"]["at_least"]
    assert certain < found["at_least"] <= found["at_most"]
    # The seed is drawn anew each time; a sound proof is out by this much once in 1,000,000 draws.
    assert found["at_least"] - 0.06 <= truth <= found["at_most"] + 0.06
    assert found["unfinished"] == 0
    assert again[0] == 0
    least, most = int(100 * found["at_least"]), -int(-100 * found["at_most"] // 1)
    assert again[1] == (
        f"At least {least}% and at most {most}% of the importance, counted from the seeds, was "
        "fetched after "
        f"{found['visits']} visits; 300 random walks prove each bound with 95% confidence.\n"
        f"0 of {found['walked_pages']} pages that walks came to had no links, and 0 of "
        f"{found['crawled_pages']} that the crawl fetched.\n"
    )
    shown = run_forked("crawlprio", ["receipt", "job", "--check"], tmp_path).stdout
    assert "is the receipt of the crawl" in shown


def test_a_killed_run_loses_no_page_and_a_limit_counts_against_the_crawl(tmp_path):
    with Served({}) as site:
        crawl(site, tmp_path, 25)
        n_before = len(site.paths())
        assert certify(tmp_path, "--pages", "8")[0] == 0
        first = site.paths()[n_before:]
        limited = receipt(tmp_path)["certificate"]
        whole = tmp_path / "whole"
        shutil.copytree(tmp_path / "job", whole / "job")
        (whole / "job" / "crawl.walks.jsonl").unlink()
        evidence = tmp_path / "job" / "crawl.walks.jsonl"
        with evidence.open("a") as file:
            file.write('{"url": "http://cut-sh')  # as a crash leaves it
        assert certify(tmp_path)[0] == 0
        rest = site.paths()[n_before + len(first) :]
        assert certify(whole)[0] == 0
    assert not set(first) & set(rest)
    finished = receipt(tmp_path)["certificate"]
    assert limited["unfinished"] > finished["unfinished"] == 0
    assert limited["at_least"] <= finished["at_least"] <= finished["at_most"] <= limited["at_most"]
    again = receipt(whole)["certificate"]
    assert again.pop("seed") == finished["seed"] == limited["seed"]
    assert [again[name] for name in PROVED] == [finished[name] for name in PROVED]


PROVED = ("at_least", "at_most", "walks", "ended_at_pages_got", "unfinished")


def test_the_seed_of_the_draw_is_in_the_receipt_and_cannot_be_known_before(tmp_path):
    with Served({}) as site:
        crawl(site, tmp_path, 15)
        (tmp_path / "other").mkdir()
        shutil.copytree(tmp_path / "job", tmp_path / "other" / "job")
        assert certify(tmp_path, "--walks", "5")[0] == 0
        assert certify(tmp_path / "other", "--walks", "5")[0] == 0
    seeds = [receipt(folder)["certificate"]["seed"] for folder in (tmp_path, tmp_path / "other")]
    assert [len(bytes.fromhex(seed)) for seed in seeds] == [16, 16]
    assert seeds[0] != seeds[1]


class Hostile(Served):
    """The same web; one page has a link on which a backtracking pattern takes for ever."""

    def answer(self, host, path):
        if path.endswith("a"):
            return Answer("", 404)
        found = super().answer(host, path)
        return found._replace(body=f'{found.body}<a href="/{"a" * 60}">a</a>')


@pytest.mark.parametrize("words", [["certify", "job"], ["explain", "job", "/x/" + "a" * 60]])
def test_a_stored_pattern_that_backtracks_ends_in_one_sentence(words, tmp_path):
    with Hostile({}) as site:
        crawl(site, tmp_path, 10)
        given = json.loads(store_meta(tmp_path, "given"))
        given["arguments"]["deny"] = "(a+)+$(?!/)x"
        statement = "UPDATE meta SET value = '{}' WHERE key = 'given'"
        change(tmp_path / "job" / "crawl.sqlite", statement.format(json.dumps(given)))
        words = [f"http://{site.address}{word}" if word[0] == "/" else word for word in words]
        done = run_forked("crawlprio", words, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("deny is '(a+)+$(?!/)x', which takes more than 1 s to match ")
    assert done.stderr.count("\n") == 1


def test_an_outage_proves_nothing_and_the_store_stays_as_it_ended(tmp_path):
    with Served({}) as site:
        crawl(site, tmp_path, 25)
        ended = store_meta(tmp_path, "ended_at")
        site.is_down = True
        assert certify(tmp_path, "-s", "RETRY_ENABLED=False", "--pages", "20")[0] == 0
        during = receipt(tmp_path)["certificate"]
        site.is_down = False
        assert certify(tmp_path)[0] == 0
    after = receipt(tmp_path)["certificate"]
    assert during["unfinished"] > 100
    assert during["at_least"] < after["at_least"]
    assert after["unfinished"] == 0
    assert ended == store_meta(tmp_path, "ended_at") != ""


def test_a_store_that_is_in_use_is_refused_before_anything_is_fetched(tmp_path):
    with Served({}) as site:
        crawl(site, tmp_path, 15)
        n_before, before = len(site.paths()), receipt(tmp_path)
        with Store.open(tmp_path / "job" / "crawl.sqlite"):
            status, shown, told = certify(tmp_path)
        assert site.paths()[n_before:] == []
    assert (status, shown, told.count("\n")) == (2, "", 1)
    assert "crawl.sqlite: " in told
    assert receipt(tmp_path) == before


class Spoiling(Served):
    """The same web; after `is_armed`, its first answer spoils a store for writing."""

    is_armed = False
    store: Path

    def answer(self, host, path):
        if self.is_armed:
            self.is_armed = False
            change(self.store, "CREATE TRIGGER t AFTER INSERT ON meta BEGIN SELECT 1; END")
        return super().answer(host, path)


def test_what_was_fetched_is_kept_if_the_store_cannot_take_the_certificate(tmp_path):
    with Spoiling({}) as site:
        crawl(site, tmp_path, 25)
        site.store = tmp_path / "job" / "crawl.sqlite"
        site.is_armed = True
        status, shown, told = certify(tmp_path)
        assert (status, shown) == (1, "")
        assert "it has triggers" in told
        assert receipt(tmp_path)["certificate"] is None
        change(site.store, "DROP TRIGGER t")
        n_before = len(site.paths())
        assert certify(tmp_path)[0] == 0
        assert site.paths()[n_before:] == []
    assert receipt(tmp_path)["certificate"]["unfinished"] == 0


def store_meta(folder, key):
    found = query(folder / "job" / "crawl.sqlite", "SELECT value FROM meta WHERE key = ?", key)
    return str(found[0][0]) if found else ""


def test_a_crawl_that_has_everything_needs_no_walk(tmp_path):
    with Site({"/": page("/a"), "/a": page("/")}) as site:
        crawl(site, tmp_path, 10)
        status, shown, told = certify(tmp_path)
    assert (status, shown) == (1, "")
    assert told.endswith("no page is left to walk to, so there is nothing to prove.\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["certify"], "certify takes one STORE or FOLDER and was given none"),
        (["certify", "nowhere.sqlite"], "nowhere.sqlite: no such crawl store"),
        (["certify", "job", "--walks", "0"], "--walks is"),
    ],
)
def test_bad_input_is_one_sentence(words, told, tmp_path):
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "crawl.sqlite").write_bytes(b"")
    done = run_forked("crawlprio", words, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "damage",
    [
        {"url": 1},
        {"url": "p/1"},
        {"links": "http://a.test/"},
        {"links": [None]},
        {"status": "200"},
        {"content_hash": 2**64},
        {"more": 1},
        '{"url": [], "links": []}',
        '{"url": "http://127.0.0.1/1", "links": ["http://["]}',
        "[1]",
        "null",
        "[" * 100_000,
    ],
    ids=lambda damage: str(damage)[:20],
)
def test_kept_answers_are_read_up_to_the_first_damaged_one(damage, tmp_path):
    path = tmp_path / "crawl.walks.jsonl"
    answers = [
        Answered(f"http://a.test/{number}", ["http://a.test/"], [], 200, number)
        for number in range(3)
    ]
    found = [answer._asdict() for answer in answers]
    line = damage if isinstance(damage, str) else json.dumps(found[1] | damage)
    lines = [json.dumps({"store": "x"}), json.dumps(found[0]), line, json.dumps(found[2])]
    path.write_text("\n".join(lines))
    for _ in range(2):
        evidence = WalkEvidence(path, "x")
        evidence.close()
        assert evidence.found == answers[:1]
    WalkEvidence(path, "another").close()
    assert path.read_text() == '{"store": "another"}\n'
