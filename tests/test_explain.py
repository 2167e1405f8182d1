"""`crawlprio explain`: what comes next, and what became of a page, told from a store alone."""

import json

import pytest
from commands import run_command
from crawls import ADDON, Answer, job_in, page, run_spider
from driver import WebPages
from graphs import power_law_web
from ordering_cases import with_urls
from stores import change, query

from crawlprio.frontier.struct_layouts import WAITING
from crawlprio.measure.explanations import Policy, ReplayedCrawl, explain_head, explain_url
from crawlprio.orderings import Ordering, Part, make_ordering
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import SiteState, Store

PAGES = {
    "/": page("/a", "/b1", "/b2", "/b3", "/gone", "/secret", "http://else.test/", "/x.zip"),
    "/a": page("/", "/b1", "/c", "/d", "http://else.test/"),
    "/robots.txt": Answer("User-agent: *\nDisallow: /secret"),
    "/nf": Answer('<a href="/hidden" rel=nofollow>no</a>', headers={"Content-Type": "text/html"}),
    **{f"/b{n}": page("/", "/a", "/b4", "/nf") for n in range(1, 4)},
    **{f"/{name}": page("/") for name in "cd"},
}
SETTINGS = {
    **ADDON,
    "ROBOTSTXT_OBEY": True,
    "CONCURRENT_REQUESTS": 1,
    "CRAWLPRIO_SKIP_EXTENSIONS": ["zip"],
    "CRAWLPRIO_MAX_PAGES_PER_PATTERN": 3,
}


def crawl(folder, n_pages, ordering):
    """Crawl in a folder; return the paths fetched."""
    settings = {
        **SETTINGS,
        "ORDERING": ordering,
        **job_in(folder),
        "CLOSESPIDER_PAGECOUNT": n_pages,
    }
    run = run_spider(SiteSpider, settings, site=PAGES, seeds="http://a.test/")
    return run.site.paths()


def stored(path, n_visits, ordering="opic", n_pages=120):
    """Write the store of a crawl of a random web that fetches in order of discovery."""
    pages = WebPages(with_urls(power_law_web(n_pages, seed=5)))
    with Store.create(path) as store:
        store.record_pages(pages, pages.seeds([0, 5, 9]).targets.tolist())
        store.add_ordering(ordering)
        for number in range(n_visits):
            visit = pages.visit(number)
            store.record(visit._replace(status=200, fetched_at=50.0 + number, elapsed=0.5), pages)
    return path


def last_url(path):
    with Store.open(path, readonly=True) as store:
        return list(store.page_urls())[-1]


def policy(name="opic", **options):
    return Policy(lambda ruled: make_ordering(name, options))


def said(capsys, *words):
    """Return status and output of the command."""
    status = run_command("explain", *words, "-s", "CRAWLPRIO_SKIP_EXTENSIONS=zip")
    return status, "".join(capsys.readouterr())


def adds_up(part):
    """Return whether the parts of an explanation in JSON add up."""
    if "parts" not in part:
        return True
    total = 0.0
    for inner in part["parts"]:
        total += inner["amount"]
    return part["amount"] == total * part["factor"] and all(map(adds_up, part["parts"]))


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """The folder of a crawl that a limit stopped early."""
    folder = tmp_path_factory.mktemp("crawled") / "job"
    assert crawl(folder, 4, "opic") == ["/", "/a", "/b1"]
    return folder


def test_the_head_of_the_frontier_is_what_a_resumed_crawl_fetches(tmp_path):
    folder = tmp_path / "job"
    crawl(folder, 3, "breadth-first")
    head = explain_head(folder / "crawl.sqlite", policy("breadth-first"))
    expected = [row["url"].removeprefix("http://a.test") for row in head["head"]]
    resumed = crawl(folder, 100, "breadth-first")
    assert expected == ["/b1", "/b2", "/b3", "/gone", "/c", "/d"]
    assert [path for path in resumed if path in expected] == expected


def test_the_head_in_words(crawled, capsys):
    status, text = said(capsys, str(crawled))
    assert status == 0
    assert text.splitlines()[:5] == [
        "7 pages wait after 3 visits. By opic, the next are, if no site has to wait:",
        "  1  1.48611      http://a.test/nf",
        "     fetched pages that link to it: 1; found on http://a.test/b1",
        "  2  1.29167      http://a.test/c",
        "     fetched pages that link to it: 1; found on http://a.test/a",
    ]


def test_a_waiting_page_in_words(crawled, capsys):
    """The delay of the site is 2 s, a fetch takes no time, and three pages come before it."""
    with Store.open(crawled / "crawl.sqlite") as store:
        store.keep_site_state(SiteState("a.test", 2.0, 3, 10.0, 5.0))
    status, text = said(capsys, str(crawled), "http://a.test/b2")
    assert status == 0
    assert text.splitlines() == [
        "http://a.test/b2 waits.",
        "  It was found on http://a.test/.",
        "  Fetched pages that link to it: 1",
        "    http://a.test/",
        "  It is number 4 of 7 waiting pages. By opic, it has the key:",
        "    1.16667      cash",
        "      1            the cash of a new page",
        "      0.166667     its cash, over 6 links: http://a.test/",
        "  On a.test, 3 pages were fetched and 7 wait, 3 before it; 2 s between fetches, of which "
        "robots.txt asks for 2.",
        "  The site asked for a pause 3 times in a row; 0 s of it are left.",
        text.splitlines()[-1],
    ]
    assert "could come in" in text.splitlines()[-1]


def test_a_fetched_page_in_words(crawled, capsys):
    status, text = said(capsys, str(crawled), "http://a.test/b1")
    lines = text.splitlines()
    assert status == 0
    assert lines[0] == "http://a.test/b1 was fetched."
    assert lines[1].startswith("  Visit 3 at 20")
    assert ": status 200, " in lines[1]
    assert lines[2:] == [
        "  Links in it: 3, to new pages: 1.",
        "  It was found on http://a.test/.",
        "  Fetched pages that linked to it before it was fetched: 2",
        "    http://a.test/",
        "    http://a.test/a",
        "  It was number 1 of 7 waiting pages. By opic, it had the key:",
        "    1.45833      cash",
        "      1            the cash of a new page",
        "      0.291667     its cash, over 4 links: http://a.test/a",
        "      0.166667     its cash, over 6 links: http://a.test/",
    ]


@pytest.mark.parametrize(
    ("url", "n_linking", "why"),
    [
        ("http://else.test/", 2, "was refused: out-of-scope (follow, allow, deny)"),
        ("http://a.test/x.zip", 1, "was refused: extension (CRAWLPRIO_SKIP_EXTENSIONS)"),
        ("http://a.test/b4", 1, "was refused: pattern-budget (CRAWLPRIO_MAX_PAGES_PER_PATTERN)"),
        ("http://b.test/", 0, "would be refused: out-of-scope (follow, allow, deny)"),
        ("http://a.test/cgi-bin/x", 0, "would be refused: cgi-bin (CRAWLPRIO_HEURISTICS)"),
        ("http://a.test/b77", 0, "would be refused: pattern-budget"),
        ("http://a.test/new", 0, "No rule of this crawl refuses it"),
    ],
)
def test_a_page_that_is_not_known_in_words(crawled, capsys, url, n_linking, why):
    status, text = said(capsys, str(crawled), url)
    assert status == 0
    assert text.startswith(f"{url} is not known")
    assert why in text
    assert f"not followed: {n_linking}" in text or not n_linking


def test_pages_that_failed_or_were_refused_and_nofollow_links(tmp_path, capsys):
    folder = tmp_path / "job"
    crawl(folder, 100, "breadth-first")
    _, text = said(capsys, str(folder), "http://a.test/gone")
    assert text.startswith("http://a.test/gone could not be fetched: HTTP 404.")
    _, text = said(capsys, str(folder), "http://a.test/secret")
    assert "was refused: forbidden by robots.txt (ROBOTSTXT_OBEY). It waits" in text
    _, text = said(capsys, str(folder), "http://a.test/hidden")
    assert "not followed: 1\n  http://a.test/nf (no)\n" in text
    assert "It was refused: nofollow (CRAWLPRIO_FOLLOW_NOFOLLOW)." in text
    _, text = said(capsys, str(folder))
    assert "/secret" not in text
    assert text.endswith("Pages before them that robots.txt forbids, left out: 1\n")


def test_a_store_alone_refuses_what_robots_txt_forbids(tmp_path, capsys):
    folder = tmp_path / "job"
    assert crawl(folder, 1, "breadth-first") == ["/"]
    url = "http://a.test/secret"
    _, text = said(capsys, str(folder), url)
    refusal = "would be refused: forbidden by robots.txt (ROBOTSTXT_OBEY)."
    assert text.startswith(f"{url} waits, but {refusal}\n")
    assert "Its turn could come" not in text
    _, text = said(capsys, str(folder), f"{url}s")
    assert f"It {refusal}" in text
    for allowed in ("c", "nf"):
        _, text = said(capsys, str(folder), f"http://a.test/{allowed}")
        assert "robots.txt" not in text
    _, text = said(capsys, str(folder))
    rows = [line.split()[-1] for line in text.splitlines() if line[:3].strip().isdigit()]
    assert rows == [f"http://a.test/{name}" for name in ("a", "b1", "b2", "b3", "gone")]
    assert text.endswith("Pages before them that robots.txt forbids, left out: 1\n")
    _, text = said(capsys, str(folder), url, "-s", "ROBOTSTXT_OBEY=False")
    assert text.startswith(f"{url} waits.\n")
    rules = "User-agent: *\nDisallow: /secret"
    assert query(folder / "crawl.sqlite", "SELECT * FROM robots") == [("a.test", rules)]
    change(folder / "crawl.sqlite", "UPDATE robots SET rules = ?", b"\xff")
    status, text = said(capsys, str(folder), url)
    assert (status, text.count("\n")) == (2, 1)


def test_json_has_the_same_and_its_parts_add_up(crawled, capsys):
    status, text = said(capsys, str(crawled), "http://a.test/b1", "--json")
    found = json.loads(text)
    assert (status, found["state"], found["visits"][0]["status"]) == (0, "fetched", 200)
    then = found["then"]
    assert then["key"] == then["explanation"]["amount"]
    assert adds_up(then["explanation"])
    assert [part.get("page") for part in then["explanation"]["parts"]][1:] == found["linking"]
    status, text = said(capsys, str(crawled), "--json")
    assert [row["url"] for row in json.loads(text)["head"]][:1] == ["http://a.test/nf"]


def test_a_running_crawl_is_explained_without_being_touched(tmp_path):
    path = stored(tmp_path / "crawl.sqlite", 30)
    with Store.open(path) as writer:
        pages = writer.load_pages()
        writer.pending.leased.set(41)
        writer.record_pages(pages)
        before = path.read_bytes()
        head = explain_head(path, policy())
        leased = explain_url(path, policy(), pages.url(41))
        assert path.read_bytes() == before
        assert head["head"][0]["in_flight"]
        assert head["head"][0]["url"] == leased["url"]
        assert (leased["state"], leased["place"]["n_before"]) == ("in-flight", 0)


def test_a_page_that_was_dropped_names_the_setting(tmp_path):
    path = stored(tmp_path / "crawl.sqlite", 30)
    bounded = Policy(lambda ruled: make_ordering("opic"), max_waiting=10)
    with Store.open(path, readonly=True) as store:
        urls = list(store.page_urls())
    found = [explain_url(path, bounded, url) for url in urls[30::5]]
    dropped = [each for each in found if each["state"] == "dropped"]
    assert {each["setting"] for each in dropped} == {"CRAWLPRIO_MAX_WAITING"}


def test_a_page_is_explained_under_the_ordering_that_ruled_when_it_was_fetched(tmp_path):
    path = stored(tmp_path / "crawl.sqlite", 20, "backlink-count")
    with Store.open(path) as store:
        store.add_ordering("opic")
        urls = list(store.page_urls())
    rules = Policy(lambda ruled: make_ordering(ruled or "opic"))
    fetched, waiting = (explain_url(path, rules, urls[at]) for at in (12, -1))
    assert fetched["then"]["ordering"] == "backlink-count"
    assert fetched["then"]["key"] == fetched["linked_by"]
    assert waiting["ordering"] == "opic"
    assert waiting["key"] == explain_url(path, policy(), urls[-1])["key"]


class Mine(Ordering):
    """An ordering of a user's own."""


def test_an_ordering_of_a_users_own_must_be_named_again(tmp_path, capsys):
    path = stored(tmp_path / "crawl.sqlite", 5, "test_explain.Mine")
    status, text = said(capsys, str(path))
    assert (status, text.count("\n")) == (2, 1)
    assert "used test_explain.Mine, and a store must not choose code to run" in text
    status, text = said(capsys, str(path), last_url(path), "-s", "ORDERING=test_explain.Mine")
    assert (status, "its key" in text) == (0, True)


class Wrong(Ordering):
    """An ordering whose explanation does not add up."""

    def explain(self, page):
        return Part("a guess", 77.0)


def test_an_explanation_that_does_not_add_up_is_not_shown(tmp_path):
    path = stored(tmp_path / "crawl.sqlite", 5)
    found = explain_url(path, Policy(lambda ruled: Wrong()), last_url(path))
    assert found["explanation"] == {"what": "its key", "amount": found["key"]}


def test_what_cannot_be_explained_is_one_sentence(crawled, tmp_path, capsys):
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes((crawled / "crawl.sqlite").read_bytes()[:5_000])
    empty = tmp_path / "empty.sqlite"
    Store.create(empty).close()
    omniscient = stored(tmp_path / "omniscient.sqlite", 5, "omniscient")
    for words, what in [
        ([], "takes a STORE or FOLDER"),
        ([str(crawled), "http://a.test/", "more"], "takes a STORE or FOLDER"),
        ([str(tmp_path / "none.sqlite")], "no such"),
        ([str(tmp_path)], "has no crawl.sqlite"),
        ([str(damaged)], "damaged"),
        ([str(empty)], "has no crawl"),
        ([str(crawled), "foo"], "'foo' is not a URL"),
        ([str(crawled), "http://a.test/", "--nothing"], "no option --nothing"),
        ([str(omniscient)], "needs the PageRank of the whole graph"),
    ]:
        status, text = said(capsys, *words)
        assert (status, text.count("\n")) == (2, 1), (words, text)
        assert what in text


@pytest.mark.parametrize("n_visits", [0, 1, 60])
@pytest.mark.parametrize("name", ["opic", "sibling-sampling", "breadth-first"])
def test_places_are_those_of_the_order_in_which_pages_leave(tmp_path, name, n_visits):
    path = stored(tmp_path / "crawl.sqlite", n_visits)
    with Store.open(path, readonly=True) as store, store.snapshot():
        past = ReplayedCrawl(store, policy(name))
        past.replay(until_fetched=False)
        n_waiting = len(past.queue)
        waiting = [at for at in range(0, len(past.pages), 7) if past.queue.state(at) == WAITING]
        places = {at: past.place(at) for at in waiting}
        order = list(past.head())
    assert len(order) == n_waiting
    for at, place in places.items():
        assert (order.index(at), n_waiting) == (place.n_before, place.n_waiting)
        on_site = [other for other in order if past.pages.sites[other] == past.pages.sites[at]]
        assert (on_site.index(at), len(on_site)) == place[2:]
