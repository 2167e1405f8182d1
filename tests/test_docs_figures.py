"""What README and docs state is what is recorded, set or there: figures, defaults, names."""

import json
import re
import sqlite3
from functools import cache
from importlib.util import find_spec
from statistics import fmean

import pytest
from crawls import ROOT

from crawlprio.commands import certify, planning
from crawlprio.live import state_keeper
from crawlprio.middlewares import permission
from crawlprio.orderings import ORDERINGS
from crawlprio.plugins import ADDED
from crawlprio.plugins.archive import requisite_fetches
from crawlprio.settings_table.table import SETTINGS
from crawlprio.store import files, transactions
from crawlprio.store.graph_files import FORMATS
from crawlprio.store.schema import create_schema
from crawlprio.store.side_tables import SideTable
from crawlprio.web import budgets, html, html_splitter, robots_txt, sitemaps, urls

DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("[be]*s/*.md"))
    if page.parent.name not in ("reproduction", "_build")
)
RESULTS = (ROOT / "benchmarks" / "results.txt").read_text("utf-8")


def words_of(name):
    """Return the text of a page, in one line."""
    return " ".join((ROOT / name).read_text("utf-8").split())


def numbers_in(text):
    """Return the numbers of a text, in order."""
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


# What is set.


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_number_behind_the_name_of_a_setting_is_its_default(page):
    text = " ".join(page.read_text("utf-8").split())
    wrong = []
    for name, number in re.findall(r"`(CRAWLPRIO_[A-Z_]+)`,? (?:\()?(\d[\d,]*(?: [GMk]B)?)", text):
        amount, _, unit = number.partition(" ")
        factor = {"": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}[unit]
        if int(amount.replace(",", "")) * factor != SETTINGS[name].default:
            wrong.append((name, number))
    assert wrong == []


def defaults(*names):
    """Return the defaults of settings, whose names are given without their prefix."""
    return [SETTINGS[f"CRAWLPRIO_{name}"].default for name in names]


@pytest.mark.parametrize(
    ("page", "sentence", "bounds"),
    [
        ("README.md", "takes at most {:,} pages per site", defaults("MAX_PAGES_PER_SITE")),
        (
            "docs/crawl.md",
            "a crawl takes at most {:,} pages per site, at most {:,} of them with URLs that differ "
            "only in numbers. It follows links {} deep",
            defaults("MAX_PAGES_PER_SITE", "MAX_PAGES_PER_PATTERN", "MAX_STATIC_DEPTH"),
        ),
        (
            "docs/crawl.md",
            "pages beyond {:,} per site or {:,} per registered domain",
            defaults("MAX_PAGES_PER_SITE", "MAX_PAGES_PER_DOMAIN"),
        ),
        (
            "docs/broad.md",
            "{:,} pages per site, {:,} per registered domain, {:,} per URL pattern",
            defaults("MAX_PAGES_PER_SITE", "MAX_PAGES_PER_DOMAIN", "MAX_PAGES_PER_PATTERN"),
        ),
        (
            "docs/broad.md",
            "{} fetches in flight at first, and one for each registered domain beyond that, up to "
            "{} (",
            [SETTINGS["CONCURRENT_REQUESTS"].default, *defaults("MAX_CONCURRENT_REQUESTS")],
        ),
        (
            "docs/reliability.md",
            "the first {:,} links, {:,} characters of URLs, {:,} of anchor text",
            (urls.MAX_LINKS, urls.MAX_LINK_CHARACTERS, html.MAX_ANCHOR_CHARACTERS),
        ),
        (
            "docs/reliability.md",
            "{:,} new sites per page, a quarter of all sites per domain, of which at most {:,} ",
            (
                budgets.MAX_NEW_SITES,
                SETTINGS["CRAWLPRIO_MAX_SITES"].default // budgets.SILENT_SHARE,
            ),
        ),
        (
            "docs/reliability.md",
            "up to {:,} tags; reading stops at a tag with more than {:,} ",
            (html_splitter.MAX_TAGS, html_splitter.MAX_ATTRIBUTES),
        ),
        (
            "docs/reliability.md",
            "the first {} kB are read; {} redirects",
            (robots_txt.MAX_BYTES // 1024, permission.MAX_REDIRECTS),
        ),
        (
            "docs/reliability.md",
            "{:,} lines, {:,} rules of at most {:,} characters and {:,} `*` and `$`",
            (
                robots_txt.MAX_LINES,
                robots_txt.MAX_RULES,
                urls.MAX_URL_LENGTH,
                robots_txt.MAX_WILDCARDS,
            ),
        ),
        ("docs/reliability.md", "take at most {} MB", (permission.MAX_BYTES_KEPT // 2**20,)),
        ("docs/reliability.md", "{:,} characters per page are recorded", (budgets.REFUSED_TEXT,)),
        ("docs/crawl.md", "Up to {:,} URLs of a site's sitemaps", (planning.N_JUDGED,)),
        ("docs/store.md", "after every {:,} visits", (state_keeper.LEAST_VISITS,)),
        (
            "docs/store.md",
            "every {:,} visits or {} MiB",
            (transactions.VISITS, transactions.LOG_BYTES // 2**20),
        ),
        (
            "docs/store.md",
            "{} million, plus {} per byte",
            (files.STEPS // 10**6, files.STEPS_PER_BYTE),
        ),
        ("docs/coverage.md", "draws walks ({} by default)", (certify.N_WALKS,)),
        (
            "docs/archive.md",
            "{:,} characters, and {:,} strings, functions and the like; {:,} URLs",
            (
                requisite_fetches.MAX_STYLE,
                requisite_fetches.MAX_TOKENS,
                requisite_fetches.MAX_NAMES,
            ),
        ),
        ("docs/sitemaps.md", "| {:,}, as the standard says of URLs |", (sitemaps.MAX_URLS,)),
        ("docs/stats.md", "none: {:,} characters", (urls.MAX_URL_LENGTH,)),
    ],
)
def test_a_limit_that_a_page_states_is_the_default_or_in_the_code(page, sentence, bounds):
    assert sentence.format(*bounds) in words_of(page)


# What is recorded.


def recorded(command, row, pattern=r"([\d.]+) times"):
    """Return a figure of `benchmarks/results.txt`: in the row of a command's output."""
    part = RESULTS.partition(f"$ python benchmarks/{command}\n")[2].partition("\n$ ")[0]
    (line,) = [line for line in part.splitlines() if line.lstrip().startswith(row)]
    return float(re.search(pattern, line)[1].replace(",", ""))


BUNDLED = "sibling-sampling (default)"
ENGINE = ("engine.py --sites 100", "engine.py --sites 50000 --pages 6000 --rounds 2")
SPEEDS = {
    "100 sites": [(ENGINE[0], BUNDLED), (ENGINE[0], "opic")],
    "50,000 sites": [(ENGINE[1], BUNDLED), (ENGINE[1], "opic")],
    "over HTTP on loopback": [
        ("loopback.py --rounds 2", "crawlprio"),
        ("loopback.py --rounds 2 --web demo", "crawlprio"),
    ],
    "documentation pages behind nginx": [
        ("real_pages.py --pages 1000 --rounds 3", "crawlprio "),
        ("real_pages.py --pages 1000 --rounds 3", "crawlprio, opic"),
    ],
    "small pages that cost nothing": [
        ("spiders.py --pages 1500 --rounds 2", "follow with add-on"),
        ("spiders.py --pages 1500 --rounds 2", "rules with add-on"),
        ("spiders.py --pages 1500 --rounds 2", "starts with add-on"),
    ],
}
"""Rows of docs/speed.md, by words of each, and the recorded figures that they state."""


@pytest.mark.parametrize("words", SPEEDS)
def test_the_page_on_speed_has_the_recorded_figures(words):
    """To a tenth, by which they differ from run to run."""
    page = (DOCS / "speed.md").read_text("utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("|") and words in line]
    found = [recorded(*place) for place in SPEEDS[words]]
    assert numbers_in(row.split("|")[2]) == pytest.approx(found, rel=0.1), found


@pytest.mark.parametrize("page", ["docs/crawl.md", "docs/broad.md"])
def test_the_memory_of_a_waiting_page_is_the_recorded_one(page):
    sentence = re.search(r"takes (?:some )?(\d+) bytes[^.]*among 100,000", words_of(page))
    many = re.search(r"(\d+) among a million", words_of(page))
    bytes_a_page = r"([\d,]+) bytes a page"
    rows = [f"{n}  crawlprio" for n in ("100,000 pages", "1,000,000 pages")]
    found = [recorded("memory.py", row, bytes_a_page) for row in rows]
    assert [float(sentence[1]), float(many[1])] == pytest.approx(found, rel=0.1)


def every_web(table):
    """Return the columns and rows of a table of docs/reproduction/every_web.json."""
    found = json.loads((DOCS / "reproduction" / "every_web.json").read_text("utf-8"))
    return found["tables"][table]["columns"], found["tables"][table]["rows"]


def mean_of(table, ordering):
    columns, rows = every_web(table)
    cells = [row[columns.index(ordering)].split()[0] for row in rows]
    return sum(map(float, cells)) / len(cells)


def test_the_front_page_has_the_recorded_means_of_the_real_webs():
    shares = [mean_of("at-20", name) for name in ("sibling-sampling", "breadth-first", "random")]
    n_webs = len(every_web("at-20")[1])
    sentence = (
        f"On [{n_webs} recorded webs](reproduction/every_web.md) it is {shares[0]:.0%} on average, "
        f"breadth-first {shares[1]:.0%}, at random {shares[2]:.0%}."
    )
    assert sentence.replace("%", " %") in words_of("docs/index.md")


def test_the_orderings_between_those_that_the_summary_names_have_their_recorded_means():
    scout, partial = (f"{mean_of('averages', name):.3f}" for name in ("scout", "partial-pagerank"))
    sentence = f"`scout` has {scout}, `partial-pagerank` {partial}."
    assert sentence in words_of("docs/orderings.md")


def test_a_figure_that_stands_on_several_pages_is_the_same_on_all():
    for page in ("README.md", "docs/index.md"):
        assert "57 to 60 % of the web's PageRank" in words_of(page)
    receipt = "At least 42% of the importance of this site, counted from the seeds, was fetched"
    for page in ("README.md", "docs/coverage.md"):
        assert f"{receipt} (likely 61 to 81%, in nine of ten crawls)." in words_of(page)
        assert "300 of the 1,169 pages" in words_of(page)
    for ordering in ("opic", "rankmass", "sibling-sampling", "breadth-first"):
        named = (
            f"(?:`{ordering}`|the default)" if ordering == "sibling-sampling" else f"`{ordering}`"
        )
        pages = ("docs/reliability.md", "docs/orderings/sibling-sampling.md")
        soak = [re.search(rf"(\d[\d,]*) under {named}", words_of(page))[1] for page in pages]
        assert soak[0] == soak[1], ordering


def test_the_readme_has_the_recorded_shares_by_kind_of_web():
    columns, rows = every_web("webs")
    kind_of = {row[0]: row[columns.index("kind")] for row in rows}
    columns, rows = every_web("at-20")
    text = (ROOT / "README.md").read_text("utf-8")
    table = re.findall(r"^\| ([a-z, ]+) \((\d+)\) \| (\d+) % \| (\d+) % \| (\d+) % \|$", text, re.M)
    assert sum(int(n) for _, n, *_ in table) == len(rows)
    for kinds, n, *shares in table:
        of_kind = [row for row in rows if kind_of[row[0]] in kinds.replace("and ", "").split(", ")]
        assert len(of_kind) == int(n), kinds
        for name, share in zip(
            ("sibling-sampling", "breadth-first", "random"), shares, strict=True
        ):
            mean = fmean(float(row[columns.index(name)]) for row in of_kind)
            assert int(share) / 100 == pytest.approx(mean, abs=0.005001), (kinds, name)


REPEATED = [
    ("docs/guarantees.md", r"The coordinator took .*? growing\)", "`redis_frontier.py`"),
    ("docs/guarantees.md", r"which a visit takes [\d.]+ to [\d.]+ ms", "`redis_frontier.py`"),
    ("docs/distributed.md", r"two workers got [\d.]+ to [\d.]+ times", "`workers.py`"),
    (
        "docs/store.md",
        r"a million visits that takes [\d.]+ s of processor time instead of \d+",
        "`resume.py`",
    ),
    ("docs/explain.md", r"takes [\d.]+ s and the head of the frontier [\d.]+ s", "explain of"),
    ("docs/monitor.md", r"it took [\d.]+ to [\d.]+ % [^%]*%", "live view, watched"),
    ("docs/reliability.md", r"made [\d,]+ requests", "manners of the bundled"),
    ("docs/add-on.md", r"\d+ to \d+ MiB more", "add-on on documentation"),
    (
        "docs/study.md",
        r"[\d.]+ million pages a second breadth-first and [\d.]+",
        "simulator, order",
    ),
    ("docs/report.md", r"pages takes [^(]*", "report of"),
    ("docs/archive.md", r"takes [\d.]+ kB of disk", "`--warc x/warc`"),
    ("docs/topic.md", r"\d+ MiB for a manual; the texts are stored: [\d.]+ kB", "`--topic"),
    ("docs/crawl.md", r"[\d.]+ with `--keep-text`", "`--keep-text`"),
    ("docs/crawl.md", r"[\d.]+ with `--topic`", "`--topic"),
]
"""Sentences of pages, and how the row of benchmarks/README.md that has their figures begins."""


@pytest.mark.parametrize(("page", "sentence", "row"), REPEATED)
def test_figures_that_a_page_repeats_are_in_their_record(page, sentence, row):
    """To a hundredth."""
    record = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    (recorded_row,) = [x for x in record.splitlines() if x.startswith(f"| {row}")]
    found = re.search(sentence, words_of(page))
    assert found, sentence
    there = numbers_in(recorded_row.partition("|")[2].partition("|")[2])
    for number in numbers_in(found[0]):
        assert number == pytest.approx(min(there, key=lambda x: abs(x - number)), rel=0.01)


def test_the_page_on_value_models_has_the_recorded_means():
    record = (ROOT / "benchmarks" / "value.md").read_text("utf-8")
    cells = r" \| \.(\d+) \([.\d]+\) \| \.(\d+) \([.\d]+\) \| \.(\d+) \([.\d]+\) \|"
    means = {
        name: re.search(rf"^\| {name}{cells}", record, re.M).groups()
        for name in ("`value`", "`--topic`", "`parent-quality`")
    }
    said = words_of("docs/value.md")
    a, b, c = means["`value`"]
    assert f"`value` found {a}, {b} and {c} % of all value" in said
    for name in ("`--topic`", "`parent-quality`"):
        a, b, c = means[name]
        assert f"{name} {a}, {b} and {c} %" in said
    rows = [line.split("|") for line in record.partition("## Where")[0].splitlines()]
    columns = next([x.strip() for x in row] for row in rows if len(row) > 9 and "web" in row[1])
    topics = [row for row in rows if len(row) == len(columns) and row[3].strip()[:1] == "0"]
    assert len(topics) == 21
    for name, shares in means.items():
        mean = fmean(float(row[columns.index(name.strip("`"))]) for row in topics)
        assert int(shares[1]) / 100 == pytest.approx(mean, abs=0.0051), name


def test_the_pages_on_novelty_and_coverage_repeat_what_was_measured():
    measured = (ROOT / "benchmarks" / "novelty.md").read_text("utf-8")
    saved = re.findall(r"^\| [^|]+ \| \d+ % \| (\d+) % \|", measured, re.MULTILINE)
    saved = f"| {min(saved, key=int)} to {max(saved, key=int)} %"
    assert saved in words_of("docs/novelty.md")
    measured = (ROOT / "experiments" / "coverage.md").read_text("utf-8")
    row = r"^\| (\d+)% \| (\d+)% \| (\d+)% \| \d+% \| ([\d.]+) \| [\d.]+ \| ([\d.]+)"
    rows = re.findall(row, measured, re.MULTILINE)
    assert len(rows) == 4
    for pages, said, holds, *rest in rows:
        shown = f"| {pages} % | {said} % | {holds} % | {' | '.join(rest)} |"
        assert shown in words_of("docs/coverage.md")


# What is there.


def test_the_store_has_the_tables_that_its_page_describes():
    text = (DOCS / "store.md").read_text("utf-8") + (DOCS / "archive.md").read_text("utf-8")
    db = sqlite3.connect(":memory:")
    create_schema(db)
    for table in side_tables():
        table.create(db.cursor())
    named = re.findall(r"\*\*(\w+)\*\*\(([^)]*)\)", text)
    assert len(named) > 20
    for name, columns in named:
        there = [row[1] for row in db.execute(f"PRAGMA table_info({name})")]
        assert re.findall(r"`(\w+)`", columns) == there, name
    own = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert own <= set(re.findall(r"\*\*(\w+)\*\*", text))


def test_every_ordering_has_its_row_and_every_graph_format_its_name_on_their_pages():
    rows = re.findall(r"^\| `([\w-]+)`", (DOCS / "orderings.md").read_text("utf-8"), re.MULTILINE)
    assert set(rows) == {"ORDERING", *ORDERINGS, *ADDED["orderings by value"]}
    graphs = re.search(r"A graph is (.*?)\. `crawlprio", words_of("docs/study.md"))
    assert set(re.findall(r"`(\.[\w.]+)`", graphs[1])) == set(FORMATS)


def side_tables():
    """Return every `SideTable` that a module of the package declares."""
    from crawlprio.plugins.archive import requisite_fetches
    from crawlprio.plugins.update import updating
    from crawlprio.store import pending, side_tables, sitemap_rows, state_reader

    of_store = [pending, state_reader, sitemap_rows, side_tables]
    modules = [*of_store, requisite_fetches, updating]
    if find_spec("playwright"):
        from crawlprio.plugins.render import rendering

        modules.append(rendering)
    return {
        value.name: value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, SideTable) and value.name != "page_copies"  # which is only sent
    }.values()


@cache
def names_of_tests():
    """Return the names of all files and functions of tests but Scrapy's."""
    tests = [path for path in (ROOT / "tests").rglob("*.py") if "upstream" not in path.parts]
    functions = {name for path in tests for name in re.findall(r"def (test_\w+)", path.read_text())}
    return functions | {path.name for path in tests}


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "compatibility.md"],  # which names Scrapy's tests
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_test_and_file_that_a_page_names_exists(page):
    text = re.sub(r"`[^`\n]*NAME[^`\n]*`", "", page.read_text("utf-8"))  # placeholders
    tests = re.findall(r"`(?:tests/)?(?:test_\w+\.py::)?(test_[a-z]\w*(?:\.py)?)", text)
    assert set(tests) - names_of_tests() == set()
    folders = r"`((?:crawlprio|tests|benchmarks|experiments|docs)/[\w/]+\w\.(?:py|md|txt|json))"
    assert [path for path in re.findall(folders, text) if not (ROOT / path).exists()] == []
