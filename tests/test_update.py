"""An update fetches the pages of a crawl again, records what is new, and leaves the rest alone."""

import csv
import hashlib
import io
import json
import re
import signal
from collections import Counter
from datetime import datetime

import pytest
import scrapy
from commands import refusal, run_command
from crawls import ADDON, ONE_AT_A_TIME, Answer, Site, run_spider, signalled
from forked import run_forked
from replays import stopped_clock
from stores import query

from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store

ROOT = "http://paper.test"


WORDS = "bread milk eggs salt oats rice corn figs plums tea jam nuts".split()  # noqa: SIM905


def html(title, text, *links):
    anchors = "".join(f'<li><a href="{link}">to {link}</a>' for link in links)
    return f"<title>{title}</title><h1>{title}</h1><p>{text}</p><ul>{anchors}</ul>"


class ChangingSite(Site):
    """A site whose pages may be replaced between two crawls; it knows ETags."""

    def __init__(self, pages, **others):
        self.now = dict(pages)
        self.etags = True
        super().__init__({}, **others)

    def answer_to(self, fetch):
        found = self.now.get(fetch.path)
        if isinstance(found, Answer):
            return found
        if found is None:
            return Answer("nothing here", 404)
        headers = {"Content-Type": "text/html; charset=utf-8"}
        if self.etags:
            headers["ETag"] = f'"{hashlib.sha1(found.encode()).hexdigest()}"'
            if fetch.headers.get("if-none-match") == headers["ETag"]:
                return Answer("", 304, headers)
        return Answer(found, 200, headers)

    def statuses(self):
        """Return path and status of all answers since the last call; all had to be pages."""
        fetches, self.fetches = self.fetches, []
        conditional = Counter("if-none-match" in each.headers for each in fetches)
        return [each.path for each in fetches if each.path != "/robots.txt"], conditional[True]


PAGES = {
    "/": html("Home", "Welcome.", "/a", "/b", "/d"),
    "/a": html("A", "About a.", "/b", "/d"),
    "/b": html("B", "About b.", "/"),
    "/d": html("D", "About d.", "/"),
}


@pytest.fixture
def site():
    with ChangingSite(PAGES) as served:
        yield served


def crawl(site, job, update="changed", spider=SiteSpider, **settings):
    """Crawl the site, or update the crawl, under the add-on."""
    arguments = {"seeds": f"{ROOT}/"} if spider is SiteSpider else {}
    return run_spider(
        spider,
        {
            **ADDON,
            **ONE_AT_A_TIME,
            "JOBDIR": str(job),
            "CRAWLPRIO_STORE": "crawl.sqlite",
            "CRAWLPRIO_UPDATE": update,
            **settings,
        },
        site=site,
        **arguments,
    )


def versions(job):
    sql = "SELECT url, status FROM visits JOIN pages ON pages.id = page ORDER BY seq"
    return [(url.removeprefix(ROOT), status) for url, status in query(job / "crawl.sqlite", sql)]


def test_pages_that_did_not_change_cost_a_304_and_leave_no_visit(site, tmp_path):
    crawl(site, tmp_path)
    assert site.statuses() == (["/", "/a", "/b", "/d"], 0)
    before = versions(tmp_path)
    run = crawl(site, tmp_path)
    paths, n_conditional = site.statuses()
    assert (sorted(paths), n_conditional) == (["/", "/a", "/b", "/d"], 4)
    assert run.stats["downloader/response_status_count/304"] == 4
    assert run.stats["crawlprio/pages_per_second"] > 0
    assert versions(tmp_path) == before
    assert run.reason == "finished"


def test_what_changed_is_a_visit_and_is_listed(site, tmp_path, capsys):
    crawl(site, tmp_path)
    site.now["/"] = html("Home", "Welcome.", "/b", "/c", "/d")
    site.now["/c"] = html("=C", "A new page.", "/")
    site.now["/b"] = html("B", "Something else about b.", "/")
    del site.now["/a"]
    crawl(site, tmp_path)
    assert sorted(versions(tmp_path)[4:]) == [("/", 200), ("/a", 404), ("/b", 200), ("/c", 200)]
    assert run_command("changes", tmp_path, "--format", "json") == 0
    changes = json.loads(capsys.readouterr().out)
    assert sorted((each["change"], each["url"], each["what"]) for each in changes) == [
        ("changed", f"{ROOT}/", ["text", "links"]),
        ("changed", f"{ROOT}/b", ["text"]),
        ("gone", f"{ROOT}/a", ["HTTP 404"]),
        ("new", f"{ROOT}/c", []),
    ]
    assert [*changes[0]] == ["url", "change", "seen_at", "what", "title", "importance"]
    assert all(datetime.fromisoformat(each["seen_at"]).tzinfo for each in changes)
    assert run_command("changes", tmp_path, "--format", "csv") == 0
    rows = [*csv.DictReader(io.StringIO(capsys.readouterr().out))]
    assert [(row["url"], row["what"]) for row in rows] == [
        (each["url"], ", ".join(each["what"])) for each in changes
    ]
    for options, title in (
        (["json", "--spreadsheet"], '"=C"'),
        (["csv", "--spreadsheet"], ",'=C,"),
    ):
        assert run_command("changes", tmp_path, "--format", *options) == 0
        assert title in capsys.readouterr().out


def figures_of_all_readers(job, folder, capsys):
    """Return what each command says of a crawl, by command, without the times of the command."""
    store, said = job / "crawl.sqlite", {}
    for name, words in {
        "receipt.json": ("receipt", store, "--json", folder / "receipt.json"),
        "score": ("score", store),
        "audit": ("audit", store),
        "simulate": ("simulate", store, "--ordering", "breadth-first"),
        "texts.jsonl": ("texts", "export", store, folder / "texts.jsonl"),
        "links.csv": ("links", "export", store, folder / "links.csv"),
    }.items():
        assert run_command(*words) == 0
        out = " ".join(capsys.readouterr().out.replace("\n", "").split())
        out = re.sub(r"(breadth-first \d+) [\d,.]+", r"\1", out)  # pages a second
        said[name] = (folder / name).read_bytes() if "." in name else out
    for view in ("links", "outside_links", "index_aliases"):
        said[view] = query(store, f"SELECT * FROM {view}")
    return said


@pytest.mark.parametrize("has_etags", [True, False])
def test_a_pass_that_found_nothing_leaves_what_every_command_says(
    site, tmp_path, capsys, has_etags
):
    site.etags = has_etags
    job = tmp_path / "job"
    crawl(site, job, CRAWLPRIO_KEEP_TEXT=True)
    before = figures_of_all_readers(job, tmp_path, capsys)
    crawl(site, job, CRAWLPRIO_KEEP_TEXT=True)
    assert figures_of_all_readers(job, tmp_path, capsys) == before


def test_every_command_agrees_on_what_a_page_is_after_a_change_a_404_a_304_and_a_new_page(
    site, tmp_path, capsys
):
    job = tmp_path / "job"
    crawl(site, job, CRAWLPRIO_KEEP_TEXT=True)
    site.now["/"] = html("Home two", "Welcome back.", "/b", "/c")
    site.now["/c"] = html("C", "A new page.", "/")
    del site.now["/a"]
    crawl(site, job, CRAWLPRIO_KEEP_TEXT=True)
    said = figures_of_all_readers(job, tmp_path, capsys)
    got = json.loads(said["receipt.json"])["got"]
    assert (got["pages"], got["by_status"], got["failed"]) == (4, {"200": 4}, 1)
    assert "gain:4;failed:1;" in said["score"].replace(" ", "")  # wherever its lines end
    assert "HTTP 304" not in said["audit"]
    assert "paper.test/a" not in said["links.csv"].decode()
    texts = [json.loads(line) for line in said["texts.jsonl"].decode().splitlines()]
    assert sorted(each["title"] for each in texts) == ["B", "C", "D", "Home two"]
    urls = dict(query(job / "crawl.sqlite", "SELECT id, url FROM pages"))
    links = sorted(
        (urls[source].removeprefix(ROOT), urls[target].removeprefix(ROOT))
        for source, target, _ in said["links"]
    )
    assert links == [("/", "/b"), ("/", "/c"), ("/b", "/"), ("/c", "/"), ("/d", "/")]
    with Store.open(job / "crawl.sqlite", readonly=True) as store:
        assert store.link_graph().n_links == len(links)
        assert Counter(visit.status for visit in store.visits()) == {200: 4, 404: 1}


class Paper(scrapy.Spider):
    """Asks for pages with more than links: callbacks, arguments, a form."""

    name = "paper"

    async def start(self):
        yield scrapy.Request(f"{ROOT}/", callback=self.parse_front)

    def parse_front(self, response):
        for n, link in enumerate(response.css("a::attr(href)").getall()):
            yield response.follow(link, self.parse_article, cb_kwargs={"n": n}, errback=self.lost)

    def parse_article(self, response, n):
        yield {"title": response.css("title::text").get(), "n": n}

    def lost(self, failure):
        yield {"lost": failure.request.url}


def test_a_spiders_own_pages_are_asked_again_with_callback_and_arguments(site, tmp_path):
    first = crawl(site, tmp_path, spider=Paper)
    assert [(each["title"], each["n"]) for each in first.items] == [("A", 0), ("B", 1), ("D", 2)]
    site.now["/b"] = html("B", "Something else about b.", "/")
    again = crawl(site, tmp_path, spider=Paper)
    assert again.items == [{"title": "B", "n": 1}]
    assert versions(tmp_path)[4:] == [("/b", 200)]


def test_pages_bounds_all_fetches_of_a_pass_and_the_next_goes_on(site, tmp_path, monkeypatch):
    clock = stopped_clock(monkeypatch, 1.7e9)
    crawl(site, tmp_path)
    site.statuses()
    del site.now["/d"]
    asked = []
    for n_pages, days in ((1, 1.0), (2, 0.1), (1, 0.1)):
        clock[0] += days * 86_400.0
        run = crawl(site, tmp_path, CRAWLPRIO_MAX_PAGES=n_pages)
        paths, _ = site.statuses()
        assert (run.reason, len(paths)) == ("pages_reached", n_pages)
        asked += paths
    assert sorted(asked) == ["/", "/a", "/b", "/d"]


def test_an_update_for_new_pages_asks_only_those_again_that_led_to_others(site, tmp_path):
    crawl(site, tmp_path)
    site.statuses()
    site.now["/"] = html("Home", "Welcome.", "/a", "/b", "/d", "/new")
    site.now["/new"] = html("New", "News.", "/")
    crawl(site, tmp_path, "new")
    assert site.statuses()[0] == ["/", "/new"]


def test_a_failure_that_may_pass_is_no_visit_until_the_third_and_the_page_keeps_its_links(
    site, tmp_path
):
    crawl(site, tmp_path)
    site.now["/a"] = Answer("overloaded", 503)
    seen = []
    for _ in range(4):
        crawl(site, tmp_path)
        seen.append(versions(tmp_path)[4:])
    assert seen == [[], [], [("/a", 503)], [("/a", 503)]]
    site.now["/a"] = PAGES["/a"]
    crawl(site, tmp_path)
    assert versions(tmp_path)[5:] == [("/a", 200)]


def test_a_page_that_moves_is_a_visit_with_one_link_and_its_validators_stay_behind(
    site, tmp_path, capsys
):
    crawl(site, tmp_path)
    site.now["/a"] = Answer("", 301, {"Location": "/moved"})
    site.now["/moved"] = PAGES["/a"]
    site.statuses()
    crawl(site, tmp_path)
    asked = {each.path: "if-none-match" in each.headers for each in site.fetches}
    assert asked == {"/": True, "/a": True, "/b": True, "/d": True, "/moved": False}
    assert sorted(versions(tmp_path)[4:]) == [("/a", 301), ("/moved", 200)]
    run_command("changes", tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1 new, 0 changed, 1 moved, 0 gone."
    assert any(
        line.startswith("moved") and line.endswith("/a -> " + ROOT + "/moved") for line in lines
    )
    crawl(site, tmp_path)
    assert len(versions(tmp_path)) == 6
    site.now["/b"] = html("B", "A link to another name of it.", "/old")
    site.now["/old"] = site.now["/a"]  # a redirect that was never a page
    crawl(site, tmp_path)
    run_command("changes", tmp_path)
    assert capsys.readouterr().out.splitlines()[-1] == "1 new, 1 changed, 0 moved, 0 gone."


def test_what_stands_on_all_pages_is_no_change_and_an_own_number_is(tmp_path):
    def page(n, build, price):
        own = "".join(f"<p>Paragraph {n} of {k}.</p>" for k in "abc")
        word = WORDS[n % 12]
        foot = f"<footer>Built on 2026-01-{build:02}</footer>"
        links = "".join(f'<a href="/{k}"></a>' for k in range(12))
        return f"<title>{n}</title>{own}<p>The {word} costs {price}</p>{links}{foot}"

    with ChangingSite({f"/{n}": page(n, 1, 5) for n in range(12)}) as site:
        site.now["/"] = page(99, 1, 5)
        crawl(site, tmp_path)
        site.now = {path: text.replace("01-01", "01-02") for path, text in site.now.items()}
        site.now["/3"] = page(3, 2, 7)
        crawl(site, tmp_path)
        assert versions(tmp_path)[13:] == [("/3", 200)]
        assert query(tmp_path / "crawl.sqlite", "SELECT what FROM revisions") == [("text",)]


@pytest.mark.parametrize(
    ("keeps_text", "found"),
    [(False, [("/a", "body"), ("/b", "body")]), (True, [("/b", "text")])],
)
def test_a_crawl_begun_without_updates_is_compared_by_kept_texts_or_else_by_bodies(
    site, tmp_path, capsys, keeps_text, found
):
    crawl(site, tmp_path, update=None, CRAWLPRIO_KEEP_TEXT=keeps_text)
    site.now["/a"] = site.now["/a"].replace("<h1>", "<h1 id=token-7>")
    site.now["/b"] = html("B", "Something else about b.", "/")
    site.statuses()
    crawl(site, tmp_path, CRAWLPRIO_KEEP_TEXT=keeps_text)
    assert site.statuses()[1] == 0
    assert sorted(versions(tmp_path)[4:]) == [(path, 200) for path, _ in found]
    sql = "SELECT url, what FROM revisions r JOIN pages ON pages.id = r.page"
    assert sorted(query(tmp_path / "crawl.sqlite", sql)) == [(ROOT + p, what) for p, what in found]
    assert run_command("changes", tmp_path) == 0
    assert ("2 may differ by bytes alone" in capsys.readouterr().out) != keeps_text
    crawl(site, tmp_path, CRAWLPRIO_KEEP_TEXT=keeps_text)
    assert site.statuses()[1] == 4


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("changes", "JOB", "--since", "9"), "--since is '9'; give a pass from 1 to 1, or a date"),
        (("changes", "JOB", "--format", "xml"), "--format is 'xml'; known formats: table, csv"),
        (("changes", "nowhere"), "nowhere"),
        (("update", "nowhere"), "nowhere has no crawl to resume"),
        (("update",), "crawlprio update takes one FOLDER and was given none."),
    ],
)
def test_invalid_input_gets_one_sentence(site, tmp_path, capsys, monkeypatch, words, sentence):
    monkeypatch.chdir(tmp_path)
    crawl(site, tmp_path / "job", update=None)
    words = [tmp_path / "job" if word == "JOB" else word for word in words]
    assert sentence in refusal(capsys, *words)


def test_an_update_without_a_job_is_refused(site, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = crawl(site, tmp_path, JOBDIR=None)
    assert "CRAWLPRIO_UPDATE is 'changed', but there is no crawl to update" in str(run.messages())
    assert site.paths() == []


def command(folder, *words):
    """Run a command of `crawlprio` in another process; return what it said."""
    done = run_forked("crawlprio", words, folder, check=True)
    return done.stdout + done.stderr


def own_pages(n_pages, version=1):
    """Return pages that differ in their texts, and form a tree with further links."""
    return {
        f"/{n or ''}": html(
            f"Page {n}",
            f"{WORDS[n % 12]} {n} {version}",
            *(f"/{k}" for k in (n + 1, 2 * n + 1, 2 * n + 2) if k < n_pages),
        )
        for n in range(n_pages)
    }


@pytest.mark.slow
@pytest.mark.parametrize("n_kills", [3, pytest.param(10, marks=pytest.mark.long)])
def test_a_pass_that_is_killed_goes_on_and_loses_no_change(tmp_path, n_kills):
    n_pages = 20 * n_kills
    with ChangingSite(own_pages(n_pages)) as site:
        job, delay = tmp_path / "job", ("--delay", "0.02")
        command(
            tmp_path,
            "crawl",
            f"http://{site.address}/",
            "--folder",
            job,
            "--delay",
            "0",
            "-s",
            "CRAWLPRIO_UPDATE=changed",
        )
        changed = own_pages(n_pages, version=2)
        site.now |= {f"/{n}": changed[f"/{n}"] for n in range(1, n_pages, 2)}
        site.statuses()
        for _ in range(n_kills):
            n_before = len(site.fetches)
            signalled(
                "crawlprio",
                ("update", job, *delay),
                tmp_path,
                signal.SIGKILL,
                lambda said, n=n_before: len(site.fetches) >= n + 12,
            )
        command(tmp_path, "update", job, *delay)
    url = f"http://{site.address}/"
    visits = query(
        job / "crawl.sqlite",
        "SELECT url, count(*) FROM visits JOIN pages ON pages.id = page GROUP BY url",
    )
    assert dict(visits) == {f"{url}{n or ''}": 1 + n % 2 for n in range(n_pages)}
    asked = Counter(site.paths())
    assert set(asked) >= {f"/{n or ''}" for n in range(n_pages)}
    # Each kill may cost the fetches in flight, and those that were not committed yet.
    assert asked.total() <= n_pages + 3 + 5 * n_kills
    passes = json.loads(dict(query(job / "crawl.sqlite", "SELECT * FROM meta"))["passes"])
    assert [each[2] for each in passes] == ["crawl", "changed"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["workers", "redis"])
def test_workers_update_as_one_process_does(tmp_path, how, request):
    options = ["--delay", "0", "-s", "CRAWLPRIO_UPDATE=changed"]
    if how == "workers":
        options += ["--workers", "2"]
    else:
        url = request.getfixturevalue("redis_server").url
        options += ["-s", "CRAWLPRIO_FRONTIER=redis", "-s", f"REDIS_URL={url}"]
    with ChangingSite(own_pages(12)) as site:
        crawl_command = ("crawl", f"http://{site.address}/", "--folder", tmp_path / "job", *options)
        command(tmp_path, *crawl_command)
        site.now["/5"] = html("Page 5", "Something else.", "/6", "/11", "/new")
        site.now["/new"] = html("New", "News.", "/")
        site.statuses()
        command(tmp_path, *crawl_command)
        paths, n_conditional = site.statuses()
    assert {f"/{n or ''}" for n in range(12)} | {"/new"} <= set(paths)
    assert n_conditional == 12
    sql = "SELECT url, status FROM visits JOIN pages ON pages.id = page ORDER BY seq"
    store = next((tmp_path / "job").glob("*.sqlite"))
    urls = [url.rpartition("/")[2] for url, _ in query(store, sql)]
    assert sorted(urls[12:]) == ["5", "new"]


def test_a_page_that_the_sitemap_calls_changed_is_fetched_first(site, tmp_path):
    def sitemap(**lastmods):
        rows = "".join(
            f"<url><loc>{ROOT}/{path}</loc><lastmod>{day}</lastmod></url>"
            for path, day in lastmods.items()
        )
        return Answer(f"<urlset>{rows}</urlset>", 200, {"Content-Type": "application/xml"})

    days = {"a": "2026-01-01", "b": "2026-01-01", "d": "2026-01-01"}
    settings = {"CRAWLPRIO_SITEMAPS": f"{ROOT}/sitemap.xml"}
    site.now["/sitemap.xml"] = sitemap(**days)
    crawl(site, tmp_path, **settings)
    crawl(site, tmp_path, **settings)
    site.now["/sitemap.xml"] = sitemap(**days | {"b": "2026-01-02"})
    site.now["/b"] = html("B", "Something else about b.", "/")
    site.statuses()
    crawl(site, tmp_path, **settings, CRAWLPRIO_MAX_PAGES=1)
    assert site.statuses()[0] == ["/sitemap.xml", "/b"]
    rows = query(tmp_path / "crawl.sqlite", "SELECT url, n_checks, n_told, n_true, lastmod"
                 " FROM revisits JOIN pages ON page = id ORDER BY id")  # fmt: skip
    assert [row[1:] for row in rows] == [
        (1, 0, 0, ""),
        (1, 0, 0, "2026-01-01"),
        (2, 1, 1, "2026-01-02"),
        (1, 0, 0, "2026-01-01"),
    ]
