"""The crawl store keeps what it is given, exposes it in SQL, and fails in one sentence."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from examples import examples
from forked import running
from hypothesis import given, settings
from hypothesis import strategies as st
from stores import change, letters, query, table, visit

from crawlprio.errors import StoreError
from crawlprio.graph.pages import NO_PAGE
from crawlprio.store import MAX_TEXT, SCHEMA_VERSION, Store, StoreInUse, keep_existing
from crawlprio.store.pending import MAX_RULES

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)


def plain(one):
    """The fields of a visit as Python values that compare with ==."""
    values = one._asdict()
    values["targets"] = one.targets.tolist()
    values["anchors"] = list(one.anchors)
    values["outside"] = [tuple(pair) for pair in one.outside]
    return values


def as_stored(text):
    """Return the text as a store keeps it, defined character by character."""
    return "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)


@pytest.fixture
def child(path):
    """Start a process that records visits to `path` forever and prints each seq once committed."""
    code = (
        "import itertools, sys\n"
        "import numpy as np\n"
        "from crawlprio.graph.pages import PageTable, Visit\n"
        "from crawlprio.store import Store\n"
        "pages, store = PageTable(), Store.create(sys.argv[1])\n"
        "site = pages.site('a.example')\n"
        "for page in itertools.count():\n"
        "    pages.add(f'http://a.example/{page}', f'http://a.example/{page}', site)\n"
        "    targets = np.arange(max(0, page - 5), page, dtype=np.int32)\n"
        "    print(store.record(Visit(page, targets, title='t' * 500), pages), flush=True)\n"
    )
    line = [sys.executable, "-c", code, str(path)]
    with running(line, stdout=subprocess.PIPE) as process:
        yield process


FULL = {
    "anchors": ["first", "", "größer ☃"],
    "status": 203,
    "title": "Title",
    "text": "visible text",
    "outside": [("http://other.example/", "away"), ("http://other.example/2", "")],
    "fetched_at": 1.7e9 + 0.25,
    "elapsed": 0.125,
    "n_bytes": 4321,
    "content_hash": -(2**63),
    "error": "a word",
}


class TestRecording:
    def test_a_visit_is_restored_equal_in_every_field(self, path):
        put_in = visit(1, 3, 0, 2, **FULL)
        with Store.create(path) as store:
            store.record(put_in, letters(4))
        with Store.open(path) as store:
            (came_out,) = store.visits()
        assert plain(came_out) == plain(put_in)
        assert came_out.targets.dtype == np.int32

    @pytest.mark.parametrize(
        "new",
        [
            [("http://site0.example/a", 1), ("http://site1.example/b", 1)],
            [("http://site0.example/a", 1), ("http://site1.example/b", 2)],
            [('http://site0.example/"a"', 1), ("http://site0.example/b", 1)],
            [("http://site0.example/a\\u0041", 1), ("http://site0.example/{b,c}:3", 1)],
            [("http://site0.example/\x1f\x7f\n", 1), ("http://site0.example/ä\u2028", 1)],
            [("", 1), ("http://site0.example/b", 1)],
            [("http://new.example/a", 70_000), ("http://new.example/b", 70_000)],
            [(f"http://site{n % 3}.example/new/{n}", 4) for n in range(3_000)],
        ],
    )
    def test_pages_that_a_visit_discovers_are_restored_whatever_their_urls(self, path, new):
        with Store.create(path) as store:
            store.record(visit(0, 1, 2), letters(3))
        with Store.open(path) as store:
            pages = store.stored_pages()
            for url, depth in new:
                pages.add(url, url, pages.site(url.partition("//")[2].split("/")[0]), depth)
            ids = list(range(3, 3 + len(new)))
            store.record(visit(1, *ids), pages)
            expected = (pages.urls(range(len(pages))), pages.sites.tolist(), pages.depths.tolist())
            for back in (store.load_pages(), store.stored_pages()):
                assert (back.urls(range(len(back))), back.sites.tolist(), back.depths.tolist()) == (
                    expected
                )
            assert [one.targets.tolist() for one in store.visits()] == [[1, 2], ids]
            assert store.stored_pages().find_all([url for url, _ in new]) == ids

    def test_nothing_is_recorded_inside_a_snapshot(self, path):
        pages = letters(2)
        with Store.create(path) as store:
            store.record(visit(0, 1), pages)
            with store.snapshot(), pytest.raises(StoreError, match="within a transaction"):
                store.record(visit(1, 0), pages)
            assert [one.page for one in store.visits()] == [0]
            assert store.record(visit(1), pages) == 2

    def test_a_visit_and_its_pages_are_one_transaction(self, path):
        pages = letters(2)
        with Store.create(path) as store:
            store.record(visit(0, 1), pages)
            pages.add("http://site0.example/2", "http://site0.example/2", 0)
            change(
                path,
                "CREATE TRIGGER full BEFORE INSERT ON visits WHEN NEW.page = 1"
                " BEGIN SELECT RAISE(ABORT, 'no room'); END",
            )
            with pytest.raises(StoreError, match="no room"):
                store.record(visit(1, 2), pages)
            assert query(path, "SELECT count(*) FROM pages") == [(2,)]
            change(path, "DROP TRIGGER full")
            assert store.record(visit(1, 2), pages) == 2
            assert store.load_pages().urls(range(3)) == pages.urls(range(3))

    def test_deferred_visits_are_written_all_at_once(self, path):
        pages = letters(2)
        with Store.create(path) as store:
            assert store.record(visit(0, 1), pages, commits=False) == 1
            new = pages.add("http://new.example/", "http://new.example/", pages.site("new"), 3)
            assert store.record(visit(1, new), pages, commits=False) == 2
            assert query(path, "SELECT count(*) FROM pages") == [(0,)]
            assert query(path, "SELECT count(*) FROM visits") == [(0,)]
            store.commit()
            assert [one.page for one in store.visits()] == [0, 1]
            assert store.load_pages().urls(range(3)) == pages.urls(range(3))
            store.commit()
            assert store.record(visit(new), pages) == 3

    def test_deferred_visits_come_before_everything_else_that_is_recorded(self, path):
        pages = letters(4)
        with Store.create(path) as store:
            store.record(visit(0), pages, commits=False)
            store.record_pages(pages)
            assert query(path, "SELECT page FROM visits") == [(0,)]
            store.record(visit(1), pages, commits=False)
            store.record(visit(2), pages)
            assert query(path, "SELECT page FROM visits") == [(0,), (1,), (2,)]
            store.record(visit(3), pages, commits=False)
            store.end_run(5.0)
            assert query(path, "SELECT count(*) FROM visits") == [(4,)]
            store.record(visit(0), pages, commits=False)
        assert query(path, "SELECT page FROM visits ORDER BY seq")[-1] == (0,)

    def test_if_one_of_several_visits_is_refused_none_is_kept(self, path):
        pages = letters(2)
        with Store.create(path) as store:
            store.record(visit(0, 1), pages)
            pages.add("http://site0.example/2", "http://site0.example/2", 0)
            store.record(visit(1, 2), pages, commits=False)
            store.record(visit(2, content_hash=2**63), pages, commits=False)
            with pytest.raises(OverflowError):
                store.commit()
            assert query(path, "SELECT count(*) FROM pages") == [(2,)]
            assert store.record(visit(1, 2), pages) == 2
            assert store.load_pages().urls(range(3)) == pages.urls(range(3))

    def test_requests_and_marks_recorded_together_keep_their_order(self, path):
        pages = letters(4)
        with Store.create(path) as store:
            store.pending.put_request(1, 1, b"first")
            store.record_pages(pages)
            for page in (1, 2, 3):
                store.pending.leased.set(page)
            store.record(visit(1), pages, ended=1, commits=False)
            store.record(visit(2), pages, commits=False)
            store.pending.put_request(2, 1, b"again")
            store.pending.put_request(3, 0, b"new")
            store.pending.leased.set(1)
            store.record(visit(0), pages, ended=3)
            assert list(store.requests()) == [(2, 1, b"again")]
            assert query(path, "SELECT page FROM leased ORDER BY page") == [(1,), (3,)]
        with Store.open(path) as store:
            store.record(visit(1), pages, ended=2)
            assert list(store.requests()) == []
            store.record(visit(2), pages, commits=False)
            store.pending.put_request(3, 0, b"new")
            store.record(visit(0), pages, ended=3)
            assert list(store.requests()) == []
            store.pending.leased.set(1)
            store.pending.leased.set(3)
            store.record(visit(0), pages)
        with Store.open(path) as store:
            assert store.leased() == [1, 3]
            store.record(visit(3), pages)
            assert query(path, "SELECT page FROM leased") == [(1,)]

    def test_text_is_truncated_at_its_limit(self, path):
        with Store.create(path) as store:
            store.record(visit(0, text="ä" * MAX_TEXT + "end"), letters(1))
            (one,) = store.visits()
        assert one.text == "ä" * MAX_TEXT

    @given(
        title=ANY_TEXT,
        text=ANY_TEXT,
        error=ANY_TEXT,
        anchors=st.lists(ANY_TEXT, min_size=3, max_size=3),
        outside=st.lists(st.tuples(ANY_TEXT, ANY_TEXT), max_size=2),
        url=ANY_TEXT,
    )
    @settings(max_examples=examples(60), deadline=None)
    def test_no_text_is_refused_and_characters_outside_utf8_are_replaced(
        self, title, text, error, anchors, outside, url
    ):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "crawl.sqlite")
            pages = letters(4)
            pages.add(url, url, pages.site(url))
            given_in = visit(
                4, 2, 0, 1, title=title, text=text, error=error, anchors=anchors, outside=outside
            )
            with Store.create(path) as store:
                store.record(given_in, pages)
                (one,) = store.visits()
                assert store.load_pages().url(4) == as_stored(url)
                linked = query(path, "SELECT source, target, anchor FROM links")
                away = query(path, "SELECT source, url, anchor FROM outside_links")
        assert [one.title, one.text, one.error] == [as_stored(t) for t in (title, text, error)]
        assert list(one.anchors) == ([as_stored(a) for a in anchors] if any(anchors) else [])
        assert list(one.outside) == [(as_stored(u), as_stored(a)) for u, a in outside]
        assert linked == [(4, t, as_stored(a)) for t, a in zip((2, 0, 1), anchors, strict=True)]
        assert away == [(4, as_stored(u), as_stored(a)) for u, a in outside]

    def test_a_table_that_lacks_stored_pages_is_refused(self, path):
        with Store.create(path) as store:
            store.record_pages(letters(3))
            with pytest.raises(ValueError, match=r"2 pages and the store 3.*load_pages"):
                store.record(visit(0), letters(2))
            assert store.record(visit(0), letters(3)) == 1

    def test_visits_are_read_without_texts_or_anchors_if_nobody_needs_them(self, path):
        put_in = visit(1, 3, 0, 2, **FULL)
        with Store.create(path) as store:
            store.record(put_in, letters(4))
            (bare,) = store.visits(texts=False, anchors=False)
            (anchored,) = store.visits(texts=False)
        left_out = {"title": "", "text": "", "outside": []}
        assert plain(bare) == {**plain(put_in), **left_out, "anchors": []}
        assert plain(anchored) == {**plain(put_in), **left_out}

    def test_visits_recorded_while_reading_are_not_read(self, path):
        pages = letters(5)
        with Store.create(path) as store:
            store.record(visit(0), pages)
            store.record(visit(1), pages)
            seen = []
            for one in store.visits():
                seen.append(one.page)
                store.record(visit(4), pages)
            assert seen == [0, 1]
            assert [one.page for one in store.visits(history=True)] == [0, 1, 4, 4]
            assert [one.page for one in store.visits()] == [0, 1, 4]


class TestPages:
    def test_the_page_table_is_restored_with_ids_sites_depths_and_identities(self, path):
        pages = letters(3)
        pages.add("POST a=1 http://site1.example/form", "http://site1.example/form", 1, 4)
        pages.alias("http://SITE0.example/0", 0)
        with Store.create(path) as store:
            store.record_pages(pages)
            last = pages.add("http://late.example/", "http://late.example/?x", pages.site("late"))
            pages.alias("http://late.example/?y", last)
            store.record(visit(4), pages)
        with Store.open(path) as store:
            back = store.load_pages()
        assert back.urls(range(len(back))) == pages.urls(range(len(pages)))
        assert back.sites.tolist() == pages.sites.tolist()
        assert back.depths.tolist() == pages.depths.tolist() == [0, 0, 0, 4, 0]
        assert [back.host(site) for site in range(back.n_sites)] == [
            pages.host(site) for site in range(pages.n_sites)
        ]
        assert back._ids == pages._ids

    def test_seeds_are_marked_by_record_pages_and_by_the_visit_of_no_page(self, path):
        pages = letters(5)
        with Store.create(path) as store:
            store.record_pages(pages, seeds=[3])
            assert store.seeds() == [3]
            store.record(visit(NO_PAGE, 4, 1), pages)
            assert store.seeds() == [1, 3, 4]
            assert [plain(one) for one in store.visits()] == [plain(visit(NO_PAGE, 4, 1))]
            assert store.n_visits == 0
        assert query(path, "SELECT * FROM links") == []

    def test_facts_about_the_crawl_are_restored_and_the_stores_own_cannot_be_set(self, path):
        with Store.create(path) as store:
            store.set_meta("ordering", "opic")
            store.set_meta("ordering", "breadth-first")
            with pytest.raises(ValueError, match="'created' is the store's own"):
                store.set_meta("created", "never")
        with Store.open(path, readonly=True) as store:
            assert store.get_meta("ordering") == "breadth-first"
            assert store.get_meta("topic", "none") == "none"
            assert store.get_meta("schema_version") == str(SCHEMA_VERSION)


class TestRequests:
    def test_a_request_is_deleted_with_the_visit_that_completes_it(self, path):
        pages = letters(3)
        with Store.create(path) as store:
            assert store.last_request == 0
            for number, page, request in ((1, 1, b"a"), (2, 2, b"b"), (3, 1, b"c")):
                store.pending.put_request(number, page, request)
            store.record_pages(pages)
            store.record(visit(1), pages)
            assert store.requests_of(1) == [(1, 1, b"a"), (3, 1, b"c")]
            store.pending.put_request(7, 0, b"d")
            store.record(visit(1), pages, ended=1)
        with Store.open(path) as store:
            assert list(store.requests()) == [(2, 2, b"b"), (3, 1, b"c"), (7, 0, b"d")]
            assert (store.last_request, store.request(7)) == (7, b"d")
            pages = store.stored_pages()
            store.record(visit(1), pages, ended=3)
            assert [store.requests_of(page) for page in range(3)] == [
                [(7, 0, b"d")],
                [],
                [(2, 2, b"b")],
            ]
            with pytest.raises(StoreError, match="request 3 is missing"):
                store.request(3)

    @given(st.text(st.characters(codec="utf-8"), max_size=20))
    @settings(max_examples=examples(50), deadline=None)
    def test_a_request_is_restored_byte_by_byte_and_is_json_to_sqlite(self, text):
        request = json.dumps({"url": text}, ensure_ascii=False).encode()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "crawl.sqlite")
            with Store.create(path) as store:
                store.pending.put_request(1, 0, request)
                store.record_pages(letters(1))
                assert store.request(1) == request
            rows = query(path, "SELECT typeof(request), json_valid(request) FROM requests")
        assert rows == [("text", 1)]


class TestViews:
    def test_the_links_view_lists_the_pairs_in_page_order(self, path):
        with Store.create(path) as store:
            store.record(visit(1, 3, 0, anchors=["three", ""]), letters(4))
            store.record(visit(0, 2, 1, 3), letters(4))
        assert query(path, "SELECT source, target, anchor FROM links") == [
            (1, 3, "three"),
            (1, 0, ""),
            (0, 2, ""),
            (0, 1, ""),
            (0, 3, ""),
        ]

    def test_the_links_of_a_page_are_found_by_an_index_once_the_crawl_has_ended(self, path):
        plan = "EXPLAIN QUERY PLAN SELECT target FROM links WHERE source = 7"
        links = "SELECT target FROM links WHERE source = 0"
        found = []
        for seq in (1, 2):
            with Store.create(path) if seq == 1 else Store.open(path) as store:
                assert store.record(visit(0, seq), letters(3)) == seq
                found.append(("visits_page" in str(query(path, plan)), query(path, links)))
                store.end_run(1.7e9)
            found.append(("visits_page" in str(query(path, plan)), query(path, links)))
        assert found == [
            (False, [(1,)]),
            (True, [(1,)]),
            (False, [(2,)]),
            (True, [(2,)]),
        ]

    def test_the_queries_in_the_documentation_return_rows(self, path):
        pages = table("https://example.org/", "http://b.example/", "http://c.example/")
        with Store.create(path) as store:
            store.record(visit(1, 0, 2, anchors=["Example", "C"]), pages)
            store.record(visit(0, 2, status=500, error="server"), pages)
        text = Path(__file__).parents[1].joinpath("docs", "store.md").read_text(encoding="utf-8")
        assert [query(path, sql) for sql in re.findall(r"```sql\n(.*?)```", text, re.DOTALL)] == [
            [("http://c.example/", 2)],
            [("example.org", 500, "server", 1)],
        ]

    def test_the_link_graph_has_the_row_of_the_last_visit_in_page_order(self, path):
        with Store.create(path) as store:
            store.record(visit(NO_PAGE, 2), letters(4))
            store.record(visit(2, 3, 1), letters(4))
            store.record(visit(0, 1), letters(4))
            store.record(visit(0, 3, 2, 1), letters(4))
            graph = store.link_graph()
        assert graph.indptr.tolist() == [0, 3, 3, 5, 5]
        assert graph.indices.tolist() == [3, 2, 1, 3, 1]
        assert graph.site.tolist() == [0, 1, 2, 0]
        assert graph.urls == letters(4).urls(range(4))
        assert graph.hosts == ["site0.example", "site1.example", "site2.example"]

    def test_an_empty_store_is_an_empty_graph(self, path):
        with Store.create(path) as store:
            assert (store.link_graph().n_pages, list(store.visits()), store.seeds()) == (0, [], [])


class TestBadFiles:
    @pytest.mark.parametrize("readonly", [True, False])
    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            (b"not SQLite" * 100, "not a crawl store, nor any other SQLite database"),
            (b"", "an SQLite database, but not a crawl store"),
        ],
    )
    def test_a_file_that_is_not_a_store_is_refused(self, path, content, sentence, readonly):
        path.write_bytes(content)
        with pytest.raises(StoreError, match=sentence):
            Store.open(path, readonly=readonly)
        assert path.read_bytes() == content
        assert os.listdir(path.parent) == [path.name]

    def test_an_sqlite_file_of_another_program_is_refused(self, path):
        change(path, "CREATE TABLE meta(name)")
        with pytest.raises(StoreError, match="an SQLite database, but not a crawl store"):
            Store.open(path)

    def test_a_store_of_another_schema_version_is_refused_with_both_versions(self, path):
        Store.create(path).close()
        change(path, "UPDATE meta SET value = '99' WHERE key = 'schema_version'")
        with pytest.raises(StoreError, match=r"schema version 99.* reads version 3: use"):
            Store.open(path)

    def test_a_missing_store_and_a_folder_are_refused(self, tmp_path):
        with pytest.raises(StoreError, match="no such crawl store"):
            Store.open(tmp_path / "none.sqlite", readonly=True)
        with pytest.raises(StoreError, match="this is a folder"):
            Store.open(tmp_path, readonly=True)
        with pytest.raises(StoreError, match="no such crawl store"):
            Store.open(tmp_path / "none.sqlite")
        assert os.listdir(tmp_path) == []

    def test_a_lock_file_of_another_program_is_named(self, path):
        path.with_name("crawl.sqlite-lock").write_bytes(b"something else" * 100)
        with pytest.raises(StoreError, match=r"crawl\.sqlite-lock: not a crawl store"):
            Store.create(path)

    def test_an_impossible_folder_is_refused(self, tmp_path):
        (tmp_path / "file").touch()
        for folder in ("file", "none"):
            for make in (Store.create, Store.create_numbered, Store.open, keep_existing):
                with pytest.raises(
                    StoreError,
                    match=r"crawl.*sqlite: (there is no|it cannot be opened|no such crawl store)",
                ):
                    make(tmp_path / folder / "crawl.sqlite")

    def test_a_store_opened_for_reading_refuses_to_write(self, path):
        Store.create(path).close()
        with (
            Store.open(path, readonly=True) as store,
            pytest.raises(StoreError, match="for reading only"),
        ):
            store.record(visit(0), letters(1))

    @pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions")
    def test_a_folder_without_write_permission_can_be_read_but_not_written(self):
        folder = Path(tempfile.mkdtemp())
        try:
            with Store.create(folder / "crawl.sqlite") as store:
                store.record(visit(0, 1), letters(2))
            folder.chmod(0o555)
            # Shared on purpose: a new store is private to its user.
            Path(folder, "crawl.sqlite").chmod(0o644)
            code = (
                "import os, sys\n"
                "from crawlprio.store import Store\n"
                "from crawlprio.errors import StoreError\n"
                "if os.geteuid() == 0: os.setuid(65534)\n"
                "print(Store.open(sys.argv[1], readonly=True).n_visits)\n"
                "for make in Store.open, Store.create_numbered:\n"
                "    try: make(sys.argv[1])\n"
                "    except StoreError as error: print(error)\n"
            )
            args = [sys.executable, "-c", code, str(folder / "crawl.sqlite")]
            printed = subprocess.run(args, capture_output=True, text=True, check=True).stdout
        finally:
            folder.chmod(0o755)
            shutil.rmtree(folder)
        lines = printed.splitlines()
        assert lines[0] == "1"
        assert [line.split(": ")[1] for line in lines[1:]] == [
            "it cannot be opened; check the permissions of the file and folder."
        ] * 2


class TestWriters:
    def test_a_second_writer_is_told_the_process_of_the_first(self, path, child):
        child.stdout.readline()
        for make in (Store.open, Store.create, keep_existing):
            with pytest.raises(StoreInUse, match=f"process {child.pid} is writing") as caught:
                make(path)
            assert caught.value.pid == child.pid

    def test_no_two_processes_ever_hold_the_lock_of_one_store(self, path):
        code = (
            "import os, sys\n"
            "from pathlib import Path\n"
            "from crawlprio.store.files import StoreInUse, WriterLock\n"
            "path, n_held = Path(sys.argv[1]), 0\n"
            "while n_held < 200:\n"
            "    try: lock = WriterLock(path)\n"
            "    except StoreInUse: continue\n"
            "    os.close(os.open(f'{path}-held', os.O_CREAT | os.O_EXCL))\n"
            "    os.unlink(f'{path}-held')\n"
            "    lock.close()\n"
            "    n_held += 1\n"
        )
        args = [sys.executable, "-c", code, str(path)]
        processes = [subprocess.Popen(args) for _ in range(3)]
        assert [process.wait() for process in processes] == [0, 0, 0]
        assert os.listdir(path.parent) == []

    def test_a_concurrent_reader_sees_what_is_committed(self, path):
        pages = letters(1)
        with Store.create(path) as store, Store.open(path, readonly=True) as reader:
            pages.add("http://b.example/", "http://b.example/", pages.site("b.example"))
            store.record(visit(0, 1), pages)
            assert [one.targets.tolist() for one in reader.visits()] == [[1]]
            assert reader.link_graph().indices.tolist() == [1]
            assert (reader.n_pages, reader.n_visits) == (2, 1)


class TestNumberedNames:
    def test_an_existing_store_is_kept_under_the_next_free_number(self, path):
        for n in range(3):
            assert keep_existing(path) == (path.with_name(f"crawl.{n}.sqlite") if n else None)
            with Store.create(path) as store:
                store.set_meta("n", str(n))
        kept = {}
        for name in ("crawl.1.sqlite", "crawl.2.sqlite", "crawl.sqlite"):
            with Store.open(path.with_name(name), readonly=True) as store:
                kept[name] = store.get_meta("n")
        assert kept == {"crawl.1.sqlite": "0", "crawl.2.sqlite": "1", "crawl.sqlite": "2"}
        assert sorted(os.listdir(path.parent)) == sorted(kept)

    def test_a_file_that_is_not_a_store_is_kept_unchanged(self, path):
        path.write_bytes(b"mine")
        kept = keep_existing(path)
        assert (kept.name, kept.read_bytes()) == ("crawl.1.sqlite", b"mine")

    def test_a_log_without_its_store_never_mixes_with_the_next_store(self, path):
        wal = path.with_name("crawl.sqlite-wal")
        wal.write_bytes(b"left behind")
        with pytest.raises(StoreError, match="a file of this name exists"):
            Store.create(path)
        keep_existing(path)
        Store.create(path).close()
        assert path.with_name("crawl.1.sqlite-wal").read_bytes() == b"left behind"

    def test_a_name_without_an_extension_is_numbered_at_its_end(self, tmp_path):
        (tmp_path / "crawl").write_bytes(b"mine")
        assert keep_existing(tmp_path / "crawl") == tmp_path / "crawl.1"


def test_what_a_running_callback_yielded_is_recognised_once_for_each_time_after_a_kill(path):
    pages, source, request = letters(1), (0, 7), b'{"url": "http://site0.example/0"}'
    with Store.create(path) as store:
        store.record_pages(pages)
        store.pending.yielded.add(source, request)
        store.pending.yielded.add(source, request)
        store.keep_items([(0, "{}")])
        store.record_pages(pages)
    with Store.open(path) as store:
        again = [store.pending.yielded.recognises(source, request) for _ in range(3)]
        assert again == [True, True, False]
        store.pending.yielded.end(source)
        store.record(visit(0), pages)
    with Store.open(path) as store:
        assert not store.pending.yielded.recognises(source, request)


def test_rules_of_a_robots_txt_are_kept_up_to_their_limit(path):
    """Subdomains without end, each with such a file, filled the disk: 70 kB a site."""
    short = "User-agent: *\n" + "Disallow: /q*\n" * 10
    long = "User-agent: *\n" + "Disallow: /q*\n" * MAX_RULES
    pages = letters(1)
    with Store.create(path) as store:
        for number, (site, rules) in enumerate([("h", short), ("i", long), ("h", long), ("h", "")]):
            store.pending.keep_robots(site, rules)
            store.record(visit(0), pages)
            kept = store.robots("h"), store.robots("i")
            assert kept == [(short, None), (short, None), (None, None), ("", None)][number]
