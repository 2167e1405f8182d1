"""`crawlprio score --report`: one page that needs no network, opened in a real browser."""

import re
from html import unescape

import numpy as np
import pytest
from browsers import Tab, in_browser, running_browser
from commands import refusal, run_command
from hostile import TITLES
from stores import record_visits, table, visit
from waiting import until

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.npz import write_npz
from crawlprio.graph.pages import PageTable
from crawlprio.show import report_page, report_parts
from crawlprio.store import Store

PATHS = {8: "?<svg/onload=window.hacked=8>", 9: "\"onmouseover='window.hacked=9'", 10: "%00\u202e"}
HOST = "<img src=x onerror='window.hacked=11'>\u202e" + "h" * 1_000_000
N_PAGES, N_SITES = 60, 6


def store_of(path, titles=TITLES, skipped=50):
    """Write a crawl of sites that try to break out of a report, with faults of all kinds."""
    pages = PageTable()
    for number in range(N_PAGES):
        host = f"s{number % N_SITES}.test"
        url = f"http://{host}/{PATHS.get(number, number)}"
        pages.add(url, url, pages.site(host), 0)
    pages.add("javascript:window.hacked=10", "javascript:window.hacked=10", pages.site(HOST), 1)
    with Store.create(path) as store:
        store.set_meta("ordering", "opic")
        store.record_pages(pages, [0])
        for number in range(skipped):
            targets = {(number * step + 1) % N_PAGES for step in (1, 2, 3, 7)}
            targets = (targets | {60, *TITLES, *PATHS}) - {number}
            fields = {
                "status": {20: 404, 21: 500, 22: 301, 23: 301}.get(number, 200),
                "title": titles.get(number, f"Page {number % 40}"),
                "content_hash": 1 + number % 45,
                "n_bytes": 1_000,
                "elapsed": 0.1 + (number == 30) * 4.0,
                "fetched_at": 1.7e9 + 2.0 * number,
            }
            if number in (22, 23):
                targets = {number + 1}
            store.record(visit(number, *sorted(targets), **fields), pages)
    return path


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    store = store_of(folder / "crawl.sqlite")
    measures = ["--importance", "pagerank", "--importance", "backlinks"]
    assert run_command("score", store, *measures, "--report", folder / "report.html") == 0
    return folder / "report.html"


def test_a_report_is_one_small_file_that_names_no_other(report):
    html = report.read_text(encoding="utf-8")
    assert len(html.encode()) < 5_000_000
    own, _, library = html.partition('<script type="application/json"')
    assert not re.search(r"<(?:link|img|iframe|script)\b", own)
    assert re.findall(r"<script[^>]*>", library) == ["<script>", "<script>"]
    assert "default-src 'none'" in unescape(own)
    assert "M" * 301 not in html
    assert "h" * 301 not in html


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["graph.npz", "--report", "a.html"], "--report needs a crawl, and graph.npz is"),
        (["crawl.sqlite", "--report", "crawl.sqlite"], "is also the file of STORE"),
        (["crawl.sqlite", "--report", "no/a.html"], "no/a.html cannot be written"),
    ],
)
def test_bad_input_is_one_sentence(words, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    store_of(tmp_path / "crawl.sqlite")
    write_npz(LinkGraph(np.array([0, 1, 1]), np.array([1], dtype=np.int32)), "graph.npz")
    assert told in refusal(capsys, "score", *words)


def test_a_missing_package_is_named_with_the_remedy(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(report_page, "NEEDED", ("lacking",))
    assert (
        run_command("score", store_of(tmp_path / "crawl.sqlite"), "--report", tmp_path / "a.html")
        == 2
    )
    assert capsys.readouterr().err == (
        "--report needs lacking, which is not installed; run pip install 'crawlprio[report]'.\n"
    )


@pytest.mark.parametrize("n_visits", [0, 1])
def test_a_crawl_without_results_has_a_report_too(n_visits, tmp_path):
    store = store_of(tmp_path / "crawl.sqlite", skipped=n_visits)
    assert run_command("score", store, "--report", tmp_path / "a.html") == 0
    assert "What the crawl fetched" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_texts_of_the_crawl_are_cut_and_only_web_addresses_are_links():
    assert len(report_parts.text("x" * 10**6).text) == report_parts.MAX_TEXT + 3
    assert report_parts.text("a\u202eb\x00").text == "a?b?"
    assert report_parts.page("http://a.test/<b>").url == "http://a.test/<b>"
    for url in ("javascript:alert(1)", "data:text/html,x", f"http://a.test/{'x' * 3_000}"):
        assert report_parts.page(url).url == ""


def test_a_crawl_of_one_site_is_drawn_by_its_sections(tmp_path):
    paths = ["", "docs/a", "docs/b", "shop/c?d=/e/", "shop/<i>/f", "%00", "docs/unlinked"]
    pages = table(*(f"http://a.test/{path}" for path in paths))
    visits = visit(0, 1, 3, 5), visit(1, 2, 3, 4), visit(3, 1)
    store = record_visits(tmp_path / "crawl.sqlite", pages, *visits, seeds=[0])
    assert run_command("score", store, "--report", tmp_path / "a.html") == 0
    html = (tmp_path / "a.html").read_text(encoding="utf-8")
    (shown,) = re.findall("<caption>All sections of the site.*?</table>", html, re.DOTALL)
    cells = [unescape(cell) for cell in re.findall("<td[^>]*><bdi>(.*?)</bdi>", shown)]
    assert list(zip(*[iter(cells)] * 3, strict=True)) == [
        ("/docs/", "/shop/", "2"),
        ("/", "/docs/", "1"),
        ("/", "/shop/", "1"),
        ("/shop/", "/docs/", "1"),
    ]
    assert "1 page cannot be reached from a seed by recorded links." in html


def test_two_crawls_are_told_apart(tmp_path, capsys):
    one = store_of(tmp_path / "a.sqlite", skipped=40)
    two = store_of(tmp_path / "b.sqlite", {**TITLES, 12: "<b>New</b>", 13: "Newer"}, skipped=45)
    with Store.open(two) as store:
        pages = store.load_pages()
        pages.add("http://new.test/", "http://new.test/", pages.site("new.test"), 1)
        for number, fields in ((61, {"title": "Found"}), (14, {"status": 410, "title": "x"})):
            last = visit(number, 0, **fields)
            store.record(last._replace(fetched_at=1.7e9, content_hash=77), pages)
    assert run_command("score", one, two, "--report", tmp_path / "r.html") == 0
    assert capsys.readouterr().out == (
        "Pages fetched by A alone: 1; by B alone: 6.\n"
        "Pages visited by both: 40; of these, with another status: 1, title: 2, body: 1.\n"
    )
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    texts = [unescape(re.sub("<[^>]*>", " ", part)) for part in html.split("<h2")[2:4]]
    shown = [" ".join(text.split()) for text in texts]
    assert "http://new.test/ Found unknown" in shown[0]
    for told in ("HTTP 200", "HTTP 410", "Page 12", "<b>New</b>", "Newer"):
        assert told in shown[1]
    assert "<b>New" not in html


def test_options_that_are_about_one_crawl_are_refused_for_two(tmp_path, capsys):
    stores = [store_of(tmp_path / name) for name in ("a.sqlite", "b.sqlite")]
    assert (
        run_command("score", *stores, "--report", tmp_path / "r.html", "--csv", tmp_path / "x.csv")
        == 2
    )
    assert capsys.readouterr().err == (
        "--csv works with one crawl, and two are given; leave it out.\n"
    )


class Opened(Tab):
    """A report in the browser."""

    def __init__(self, browser, path, *, scheme="light"):
        super().__init__(browser, scheme=scheme)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("body[data-drawn=yes]", timeout=120_000)

    def column(self, caption, number):
        """Return the texts of a column of the table whose caption begins so."""
        return self.page.evaluate(
            "([caption, column]) => Array.from([...document.querySelectorAll('table')]"
            ".find((t) => t.caption.textContent.startsWith(caption)).tBodies[0].rows,"
            " (row) => row.cells[column].textContent.trim())",
            [caption, number],
        )


@pytest.fixture(scope="module")
def browser():
    with running_browser() as chromium:
        yield chromium


@pytest.fixture(scope="module")
def opened(browser, report):
    return Opened(browser, report)


class TestInABrowser:
    pytestmark = in_browser

    def test_it_says_no_error_and_asks_for_nothing(self, opened, report):
        assert opened.errors == []
        assert opened.requests == [report.as_uri()]
        refused = "fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => error.name)"
        assert opened.page.evaluate(refused) == "TypeError"
        assert opened.requests == [report.as_uri()]
        opened.errors.clear()

    def test_every_chart_is_painted_and_the_curves_are_those_of_four_orders(self, opened):
        painted = """() => {
            const canvases = (root) => [...root.querySelectorAll("*")].flatMap((element) =>
                element.tagName === "CANVAS" ? [element]
                : element.shadowRoot ? canvases(element.shadowRoot) : []);
            const isPainted = (canvas) => canvas.getContext("2d")
                .getImageData(0, 0, canvas.width, canvas.height).data.some((byte) => byte > 0);
            return [...document.querySelectorAll(".chart")]
                .map((chart) => [chart.id, canvases(chart).some(isPainted)]);
        }"""
        charts = ("coverage-0", "coverage-1", "site-sizes", "graph", "over-time", "depth")
        expected = [[f"chart-{name}", True] for name in charts]
        until(lambda: opened.page.evaluate(painted) == expected)
        names = opened.page.evaluate("""() => [...Bokeh.documents[0].all_models]
            .filter((model) => model.type === "GlyphRenderer").map((model) => model.name)""")
        assert names == ["opic (this crawl)", "breadth-first", "random", "upper-bound"]

    def test_tables_are_sorted_by_a_click_or_a_key_and_say_so(self, opened):
        caption = "Sites by pagerank"
        headings = opened.page.locator("table", has_text=caption).locator("thead th")
        site, known = headings.nth(0), headings.nth(1)
        pages = list(map(int, opened.column(caption, 1)))
        known.locator("button").click()
        assert known.get_attribute("aria-sort") == "descending"
        assert list(map(int, opened.column(caption, 1))) == sorted(pages, reverse=True)
        known.locator("button").press("Enter")
        assert known.get_attribute("aria-sort") == "ascending"
        assert list(map(int, opened.column(caption, 1))) == sorted(pages)
        site.locator("button").press("Space")
        assert [site.get_attribute("aria-sort"), known.get_attribute("aria-sort")] == [
            "ascending",
            None,
        ]
        assert (hosts := opened.column(caption, 0)) == sorted(hosts)

    def test_hostile_titles_and_urls_show_as_text(self, opened):
        titles = opened.column("The most important pages by pagerank", 3)
        for hostile in (1, 2, 4, 6, 7):
            assert TITLES[hostile] in titles
        assert "?gnp.exe ??" in titles
        assert max(map(len, titles)) <= report_parts.MAX_TEXT + 3
        assert any(host.startswith("<img src=x") for host in opened.column("Sites by pagerank", 0))
        assert opened.page.evaluate("window.hacked") is None
        inserted = (
            "document.querySelectorAll('main img, main svg, main iframe, main script').length"
        )
        assert opened.page.evaluate(inserted) == 0
        links = opened.page.evaluate("Array.from(document.links, (link) => link.protocol)")
        assert set(links) == {"http:", "file:"}

    def test_the_faults_of_the_sites_are_in_it(self, opened):
        assert sorted(opened.column("Pages that could not be", 1)) == ["HTTP 404", "HTTP 500"]
        assert opened.column("Redirects that lead to further", 1) == ["2 redirects, then HTTP 200"]
        assert opened.column("Pages that took over", 1) == ["4.1 s"]

    @pytest.mark.parametrize(("scheme", "only"), [("light", None), ("dark", ["color-contrast"])])
    def test_it_is_accessible(self, browser, opened, report, scheme, only):
        shown = opened if scheme == "light" else Opened(browser, report, scheme=scheme)
        assert shown.violations(only) == []
        assert len(shown.requests) == 1

    def test_a_phone_scrolls_it_in_one_direction_only(self, opened):
        opened.page.set_viewport_size({"width": 375, "height": 700})
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= 375
        opened.page.set_viewport_size({"width": 1200, "height": 900})

    def test_charts_take_the_colours_of_a_dark_page(self, opened):
        ink = """() => [...Bokeh.documents[0].all_models]
            .find((model) => model.type === "LinearAxis").major_label_text_color"""
        colours = []
        for scheme in ("light", "dark", "light"):
            opened.page.emulate_media(color_scheme=scheme)
            opened.page.wait_for_selector(f"body[data-scheme={scheme}]")
            colours.append(opened.page.evaluate(ink))
        assert colours[0] == colours[2] != colours[1]
