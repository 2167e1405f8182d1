"""`crawlprio links export` writes what the crawl recorded, in each format, or says why not."""

import csv
import json
import os

import networkx
import pytest
from commands import refusal, run_command, run_scrapy_command
from stores import change, query, record_visits, table, visit

from crawlprio.commands.recorded import LinksCommand
from crawlprio.errors import StoreError
from crawlprio.graph.pages import NO_PAGE
from crawlprio.items import Directives
from crawlprio.store import Store
from crawlprio.store.graph_files import export_links

URLS = [
    "http://a.example/",
    "http://a.example/two?x=1&y=<2>",
    "http://b.example/ümlaut",
    "http://b.example/never-visited",
]
LINKS = [
    (URLS[0], URLS[2], 'said "so", &\nleft'),
    (URLS[0], URLS[1], ""),
    (URLS[2], URLS[3], "größer"),
    (URLS[2], URLS[0], "home"),
]


@pytest.fixture
def store(tmp_path):
    """A crawl in which page 2 was visited twice and page 3 never."""
    return record_visits(
        tmp_path / "crawl.sqlite",
        table(*URLS),
        visit(NO_PAGE, 0),
        visit(2, 1, anchors=("outdated",)),
        visit(0, 2, 1, anchors=(LINKS[0][2], "")),
        visit(2, 3, 0, anchors=("größer", "home")),
        visit(1),
    )


def scrapy_links(*args):
    """Run the command through scrapy's own command line, without looking for other commands."""
    return run_scrapy_command(LinksCommand, "links", *args)


def export(store, name):
    with Store.open(store, readonly=True) as opened:
        written = export_links(opened, store.with_name(name))
    assert (written.n_pages, written.n_visited, written.n_links) == (4, 3, 4)
    return written.files[0]


def test_csv_has_a_header_and_one_record_per_link(store):
    with export(store, "out.csv").open(newline="", encoding="utf-8") as file:
        rows = [tuple(row) for row in csv.reader(file)]
    assert rows == [("source", "target", "anchor"), *LINKS]


def test_jsonl_has_one_object_per_link(store):
    lines = export(store, "out.jsonl").read_text(encoding="utf-8").splitlines()
    keys = ("source", "target", "anchor")
    assert [json.loads(line) for line in lines] == [
        dict(zip(keys, link, strict=True)) for link in LINKS
    ]


def test_graphml_reads_back_with_urls_sites_and_anchors(store):
    graph = networkx.read_graphml(export(store, "out.graphml"), node_type=int)
    assert graph.is_directed()
    assert [graph.nodes[page]["url"] for page in range(4)] == URLS
    assert [graph.nodes[page]["site"] for page in (0, 3)] == ["a.example", "b.example"]
    assert [(s, t, d.get("anchor", "")) for s, t, d in graph.edges(data=True)] == [
        (0, 2, LINKS[0][2]),
        (0, 1, ""),
        (2, 3, "größer"),
        (2, 0, "home"),
    ]


def test_graphml_stays_readable_whatever_an_anchor_contains(tmp_path):
    anchor = "".join(map(chr, range(1, 32))) + "\ufffe]]>&<"
    shown = visit(0, 1, anchors=[anchor])
    store = record_visits(tmp_path / "crawl.sqlite", table(*URLS), shown)
    with Store.open(store, readonly=True) as opened:
        path = export_links(opened, tmp_path / "out.graphml").files[0]
    kept = "".join(c if c in "\t\n\r" or " " <= c <= "\ufffd" else "\ufffd" for c in anchor)
    assert networkx.read_graphml(path).edges["0", "1"]["anchor"] == kept


def test_an_export_during_a_crawl_is_a_consistent_snapshot(store):
    with Store.open(store) as crawl, Store.open(store, readonly=True) as opened:
        pages = crawl.load_pages()

        def recording(rows):
            for row in rows:
                new = pages.add(f"http://new.example/{len(pages)}", "http://new.example/", 0)
                crawl.record(visit(3, new), pages)
                yield row

        written = export_links(opened, store.with_name("out.csv"), recording)
        assert (written.n_pages, written.n_visited, written.n_links) == (4, 3, 4)


def test_a_failed_export_leaves_the_earlier_file_and_nothing_else(store):
    out = store.with_name("out.csv")
    out.write_text("earlier")

    def failing(rows):
        yield next(rows)
        raise OSError(28, "No space left on device")

    with (
        Store.open(store, readonly=True) as opened,
        pytest.raises(StoreError, match=r"out\.csv cannot be written: No space left"),
    ):
        export_links(opened, out, failing)
    assert out.read_text() == "earlier"
    assert sorted(os.listdir(store.parent)) == ["crawl.sqlite", "out.csv"]


def test_the_command_writes_the_file_and_the_counts(store, monkeypatch, capsys):
    monkeypatch.chdir(store.parent)
    assert scrapy_links("export", "crawl.sqlite", "out.npz", "--json", "counts.json") == 0
    assert capsys.readouterr() == (
        "out.npz, out.urls.gz and out.seeds.txt: 4 links of 3 visited pages, 4 pages in all\n",
        "",
    )
    assert json.loads(store.with_name("counts.json").read_text()) == {
        "files": ["out.npz", "out.urls.gz", "out.seeds.txt"],
        "pages": 4,
        "visited": 3,
        "links": 4,
    }


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["crawl.sqlite"], "links: found crawl.sqlite; expected: scrapy links export"),
        (["export", "none.sqlite", "out.csv"], "none.sqlite: no such crawl store"),
        (["export", "crawl.sqlite", "out.xls"], "out.xls: the extension names the format"),
        (["export", "crawl.sqlite", "none/out.csv"], "none/out.csv: there is no folder none"),
        (["export", "crawl.sqlite", "folder.csv"], "folder.csv: this is a folder"),
        (["export", "not.sqlite", "out.csv"], "not.sqlite: not a crawl store"),
        (["export", "same.csv", "same.csv"], "same.csv: this is the crawl store itself"),
        (
            ["export", "crawl.sqlite", "out.csv", "--json", "none/counts.json"],
            "--json none/counts.json could not be written",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(store, args, sentence, monkeypatch, capsys):
    store.with_name("folder.csv").mkdir()
    store.with_name("not.sqlite").write_bytes(b"something else" * 100)
    store.with_name("same.csv").write_bytes(store.read_bytes())
    monkeypatch.chdir(store.parent)
    assert scrapy_links(*args) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(sentence)
    assert printed.count("\n") == 1


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.npz", "out.graphml", "out.txt.gz"])
def test_simulate_starts_an_export_where_the_crawl_started(name, tmp_path, monkeypatch, capsys):
    """Page 2 reaches so little that nobody would guess it as the start."""
    pages = table(*(f"http://a.test/{number}" for number in range(4)))
    visits = visit(2, 3), visit(3), visit(0, 1, 2, 3), visit(1, 0)
    path = record_visits(tmp_path / "crawl.sqlite", pages, *visits, seeds=[2])
    with Store.open(path, readonly=True) as opened:
        export_links(opened, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    orders = []
    for source in (str(path), name):
        line = ["simulate", source, "--ordering", "breadth-first", "--order", "order.txt"]
        assert run_command(*line) == 0
        orders.append((tmp_path / "order.txt").read_text().split())
    assert len(orders[0]) == len(orders[1]) == 2
    assert "Started where the crawl did, according to out.seeds.txt." in capsys.readouterr().err
    (tmp_path / "out.seeds.txt").unlink()
    run_command("simulate", name, "--ordering", "breadth-first")
    told = f"{name} does not say where a crawl started; started at http://a.test/"
    assert (told in capsys.readouterr().err) is (name != "out.txt.gz")


def write_part(path, seed, visits, extras=(), **fields):
    """Write the store of a crawl from a seed: `visits` are times, pages and pages linked to."""
    pages = table(seed)
    with Store.create(path) as store:
        store.record_pages(pages, [0])
        for at, url, *targets in visits:
            source = pages.find(url)
            links = []
            for target in targets:
                if pages.find(target) == NO_PAGE:
                    pages.add(target, target, pages.site(target.split("/")[2]), 1)
                links.append(pages.find(target))
            known = {"bodies": (path.name.encode(),), **dict(extras)}
            about = {"text": path.name, "extras": known, "fetched_at": float(at)}
            items = [json.dumps([path.name, url])]
            store.record(visit(source, *links, **about, **fields), pages, items=items)
        store.set_meta("ended_because", "finished")
        store.set_meta("settings", json.dumps({"CRAWLPRIO_MAX_PAGES": 50}))
        store.end_run(9.0, pages)


A, B, C, D, NEVER = (f"http://{name}.example/" for name in ("a", "b", "c", "d", "never"))
ONE = [(1, A, B, C), (4, C, A), (6, B, D)]
TWO = [(2, D, C, NEVER), (3, C, D, B)]


@pytest.fixture
def parts(tmp_path):
    noindex = {"extras": {"directives": Directives("noindex")}}
    write_part(tmp_path / "one", A, ONE, **noindex)
    write_part(tmp_path / "two", D, TWO)
    return tmp_path / "one", tmp_path / "two"


def test_joined_stores_are_that_of_one_crawl_with_the_first_visits_of_each_page(
    parts, tmp_path, capsys
):
    path = tmp_path / "whole"
    assert run_command("links", "collect", *parts, path) == 0
    assert capsys.readouterr().out == f"{path}: 4 visits and 5 pages of 2 stores\n"
    visits = query(path, "SELECT url, fetched_at, text FROM visits JOIN pages ON id = page")
    assert [(url, at) for url, at, _ in visits] == [(A, 1), (D, 2), (C, 3), (B, 6)]
    pairs = [(A, B), (A, C), (D, C), (D, NEVER), (C, D), (C, B), (B, D)]
    assert {*query(path, "SELECT source_url, target_url FROM link_urls")} == {*pairs}
    assert {url for (url,) in query(path, "SELECT url FROM pages WHERE seed")} == {A, D}
    with Store.open(path, readonly=True) as store:
        whose = {A: "one", D: "two", C: "two", B: "one"}
        table_of = store.load_pages()
        kept = {table_of.url(page): json.loads(item) for page, item in store.kept_items()}
        assert kept == {url: [name, url] for url, name in whose.items()}
        assert json.loads(store.get_meta("settings"))["CRAWLPRIO_MAX_PAGES"] == 100
    of_one = query(path, "SELECT url FROM directives JOIN pages ON id = page ORDER BY seq")
    assert of_one == [(A,), (B,)]
    assert query(path, "SELECT count(*) FROM bodies") == [(4,)]
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    assert receipt["got"]["pages"] == 4


def test_a_link_to_what_only_the_other_crawl_followed_is_one_in_the_joined_store(tmp_path):
    """A crawl of one site only notes that a link leads outside."""
    write_part(tmp_path / "one", A, [(1, A)], outside=[(D, "to d")])
    write_part(tmp_path / "two", D, [(2, D)])
    one, two, both = (tmp_path / name for name in ("one", "two", "both"))
    assert run_command("links", "collect", one, two, both) == 0
    assert query(both, "SELECT source_url, target_url FROM link_urls") == [(A, D)]


def test_stores_that_cannot_be_joined_are_one_sentence_and_leave_no_file(parts, tmp_path, capsys):
    whole = tmp_path / "whole"
    said = refusal(capsys, "links", "collect", *parts, parts[0])
    assert said == f"{parts[0]}: the file exists; name a new one.\n"
    assert "missing: " in refusal(capsys, "links", "collect", parts[0], tmp_path / "missing", whole)
    change(parts[1], "UPDATE visits SET status = 'x' WHERE seq = 2")
    assert "the file is damaged" in refusal(capsys, "links", "collect", *parts, whole)
    assert not whole.exists()
