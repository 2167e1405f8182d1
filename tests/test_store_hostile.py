"""A malicious store is refused in one sentence, in bounded time and memory."""

import json
import pickle
import sqlite3
import struct
import tracemalloc
import zlib
from contextlib import closing

import pytest
from stores import change, letters, query, read_all, visit, write_full

from crawlprio.errors import StoreError
from crawlprio.graph.pages import PageTable
from crawlprio.plugins.archive import requisite_fetches
from crawlprio.plugins.value.kept_texts import kept_texts
from crawlprio.store import (
    MAX_TEXT,
    Store,
    pending,
    reader,
    side_tables,
    sitemap_rows,
)
from crawlprio.store.files import STEPS, STEPS_PER_BYTE, connect
from crawlprio.store.side_tables import SideTable

TABLES = [
    *("meta", "sites", "pages", "aliases", "visits", "requests", "unfiltered", "leased"),
    "site_states",
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "crawl.sqlite"
    write_full(path)
    return path


def refused(path):
    """Return the sentence with which a store is refused to a reader and to a writer."""
    sentences = []
    for readonly in (True, False):
        with pytest.raises(StoreError) as caught:
            Store.open(path, readonly=readonly)
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]
    assert sentences[0].isprintable()
    assert sentences[0].startswith(f"{path}: ")
    return sentences[0].removeprefix(f"{path}: ")


def change_definition(path, name, change_sql):
    """Write another definition of a table into the schema, as only a file's author would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema = ON")
        ((sql,),) = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchall()
        db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (change_sql(sql), name))


class TestSchema:
    @pytest.mark.parametrize("table", TABLES)
    def test_a_view_with_the_name_of_a_table_is_not_queried(self, path, table):
        """A query on it would never end."""
        with closing(sqlite3.connect(path)) as db:
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        change(path, f"ALTER TABLE {table} RENAME TO hidden")
        change(
            path,
            f"CREATE VIEW {table}({', '.join(columns)}) AS WITH RECURSIVE n(i) AS"
            f" (VALUES(0) UNION ALL SELECT i + 1 FROM n) SELECT {', '.join('i' for _ in columns)}"
            " FROM n",
        )
        expected = (
            "an SQLite database, but not a crawl store; check the name."
            if table == "meta"
            else f"the file is damaged (its table {table} is not as crawlprio creates it); restore "
            "a backup."
        )
        assert refused(path) == expected

    @pytest.mark.parametrize(
        ("table", "read"),
        [
            ("page_values", lambda store: list(store.visits())),
            ("fingerprints", lambda store: list(store.visits())),
            ("text_notes", lambda store: list(kept_texts(store))),
            ("directives", lambda store: list(kept_texts(store))),
            ("bodies", lambda store: list(store.bodies())),
            ("items", lambda store: list(store.kept_items())),
            ("refusals", lambda store: store.refusals()),
            ("archive_files", lambda store: store.is_archived),
            ("sitemaps", lambda store: store.sitemaps()),
            ("sitemap_urls", lambda store: store.sitemaps()),
            ("yielded", lambda store: Store.open(store.path)),
        ],
    )
    def test_a_view_with_the_name_of_a_side_table_is_not_queried(self, path, table, read):
        change(
            path,
            f"CREATE VIEW {table} AS WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL"
            " SELECT i + 1 FROM n) SELECT i AS seq, i AS value FROM n",
        )
        named = f"its table {table} is not as crawlprio creates it"
        with Store.open(path, readonly=True) as store, pytest.raises(StoreError, match=named):
            read(store)

    @pytest.mark.parametrize("table", TABLES)
    def test_a_virtual_or_missing_table_is_not_queried_either(self, path, table):
        change(path, f"ALTER TABLE {table} RENAME TO hidden")
        assert "not" in refused(path)
        change(path, f"CREATE VIRTUAL TABLE {table} USING fts5(key, value)")
        assert "not" in refused(path)

    @pytest.mark.parametrize(
        ("table", "old", "new"),
        [
            ("pages", "url TEXT NOT NULL", "url TEXT AS (hex(zeroblob(400000000)))"),
            ("visits", "title TEXT NOT NULL", "title TEXT CHECK(length(hex(zeroblob(1e9))))"),
            ("pages", "id INTEGER PRIMARY KEY", "id INTEGER"),
            ("requests", "request TEXT", "request BLOB"),
            ("sites", "host TEXT NOT NULL", "host TEXT NOT NULL COLLATE NOCASE"),
        ],
    )
    def test_a_table_with_computed_columns_or_without_a_key_is_refused(self, path, table, old, new):
        change_definition(path, table, lambda sql: sql.replace(old, new, 1))
        assert f"its table {table} is not as crawlprio creates it" in refused(path)

    def test_triggers_do_not_run(self, path):
        change(path, "CREATE TRIGGER t AFTER INSERT ON visits BEGIN DELETE FROM pages; END")
        read_all(path)
        with pytest.raises(StoreError, match=r"it has triggers, which would run .* \(DROP TRIG"):
            Store.open(path)

    def test_the_users_own_view_may_stay(self, path):
        change(path, "CREATE VIEW titles AS SELECT title FROM visits")
        change(path, "CREATE TABLE notes(page, note)")
        change(path, "CREATE INDEX by_title ON visits(title)")
        with Store.open(path) as store:
            assert store.record(visit(0), store.load_pages()) == 7

    def test_a_function_of_the_program_does_not_run_in_what_a_file_defines(self, path):
        change(path, "CREATE VIEW v AS SELECT run('rm')")
        ran = []
        with closing(connect(path, "rw")) as db:
            db.create_function("run", 1, ran.append)
            with pytest.raises(sqlite3.OperationalError, match=r"unsafe use of run\(\)"):
                db.execute("SELECT * FROM v").fetchall()
        assert ran == []

    def test_a_files_own_texts_do_not_affect_a_terminal(self, path):
        for key in ("schema_version", "crawlprio_version"):
            change(path, f"UPDATE meta SET value = char(27) || '[2J' || value WHERE key = '{key}'")
        sentence = refused(path)
        assert "schema version ?[2J3, written by crawlprio ?[2J" in sentence

    def test_a_store_with_pickled_requests_can_be_read_but_not_resumed(self, path):
        change_definition(path, "requests", lambda sql: sql.replace("request TEXT", "request BLOB"))
        change(path, "UPDATE meta SET value = '2' WHERE key = 'schema_version'")
        bomb = pickle.dumps({"url": "http://a.example/"})
        change(path, "UPDATE requests SET request = ?", bomb)
        with Store.open(path, readonly=True) as store:
            assert store.n_visits == len(list(store.visits())) == 6
            assert store.link_graph().n_pages == 8
            with pytest.raises(StoreError, match="the request of page 0 is not text"):
                list(store.requests())
        with pytest.raises(
            StoreError,
            match=r"schema version 2, written by crawlprio \S+, keeps 6 waiting requests as "
            r"pickles, which can run code; .* does not resume it: use the crawlprio that wrote it,",
        ):
            Store.open(path)
        assert query(path, "SELECT DISTINCT request FROM requests") == [(bomb,)]


class TestEndlessTables:
    """Pages of a file that name one page 300 times, four levels deep: 10**10 rows in 40 kB."""

    @pytest.mark.parametrize("table", [*TABLES[1:-1]])
    def test_an_endless_table_is_refused(self, path, table):
        make_endless(path, table)
        with pytest.raises(StoreError, match=r"crawl\.sqlite: .*damaged"):
            read_all(path)

    def test_an_endless_table_of_facts_is_refused_too(self, path):
        make_endless(path, "meta")
        with pytest.raises(StoreError, match=r"damaged|not a crawl store"):
            read_all(path)

    def test_a_query_proportional_to_the_file_is_not_stopped(self, path):
        """The most expensive query of crawlprio takes a sixth of the steps allowed at most."""
        pages = PageTable()
        for n in range(20_000):
            pages.add(str(n), str(n), pages.site(str(n % 50)))
        store_path = path.with_name("large.sqlite")
        with Store.create(store_path) as store:
            store.record_pages(pages, range(20_000))
            for page in range(10_000):
                store.record(visit(page, page + 1, status=302), pages, commits=False)
                store.pending.leased.set(page)
            store.commit()
        size = store_path.stat().st_size
        with Store.open(store_path) as store:
            taken = [0]

            def count():
                taken[0] += 1
                return False

            store._db.set_progress_handler(count, 1000)
            for read in (
                *(store.load_pages, store.stored_pages, store.seeds, store.redirected_seeds),
                *(store.link_graph, store.last_fetches, store.leased, store._count),
                *(lambda: list(store.visits()), lambda: list(store.link_rows())),
            ):
                taken[0] = 0
                read()
                assert taken[0] * 1000 < (STEPS + STEPS_PER_BYTE * size) / 6


def make_endless(path, table, depth=4, fan=300):
    """Put `depth` levels of inner pages, each with `fan` children, on top of a table."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("CREATE TABLE IF NOT EXISTS filler(x)")
        ((root,),) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,))
        ((n_rows,),) = db.execute(f"SELECT count(*) FROM {table}")
        if n_rows == 0:
            values = {"unfiltered": "(1)", "leased": "(1)"}[table]
            db.execute(f"INSERT INTO {table} VALUES {values}")
        ((n_pages,),) = db.execute("PRAGMA page_count")
        ((size,),) = db.execute("PRAGMA page_size")
        db.execute("INSERT INTO filler VALUES(zeroblob(?))", ((depth + 2) * size,))
        ((n_after,),) = db.execute("PRAGMA page_count")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    free = list(range(n_pages + 1, n_after + 1))
    data = bytearray(path.read_bytes())

    def put(page, content):
        data[(page - 1) * size : page * size] = content

    leaf = free.pop()
    put(leaf, bytes(data[(root - 1) * size : root * size]))
    below = leaf
    for level in range(depth):
        page = root if level == depth - 1 else free.pop()
        cell = struct.pack(">I", below) + b"\x7f"
        at = size - fan * len(cell)
        pointers = b"".join(struct.pack(">H", at + n * len(cell)) for n in range(fan))
        head = struct.pack(">BHHHBI", 5, 0, fan, at, 0, below)
        body = head + pointers
        put(page, body + bytes(at - len(body)) + cell * fan)
        below = page
    path.write_bytes(data)


SURROGATE = json.dumps(["\ud800", "x"])


class TestRows:
    @pytest.mark.parametrize(
        ("table", "column", "value"),
        [
            ("visits", "targets", "[" * 100_000 + "]" * 100_000),
            ("visits", "anchors", "[" * 100_000 + "]" * 100_000),
            ("visits", "outside", "[" * 100_000 + "]" * 100_000),
            ("visits", "targets", "{}"),
            ("visits", "targets", "7"),
            ("visits", "targets", "[true]"),
            ("visits", "targets", "[1.0]"),
            ("visits", "targets", f"[{'9' * 5000}]"),
            ("visits", "targets", "[9223372036854775807]"),
            ("visits", "anchors", "[1, 2]"),
            ("visits", "anchors", '["only one"]'),
            ("visits", "anchors", '{"six": 1, "seven": 2}'),
            ("visits", "anchors", SURROGATE),
            ("visits", "outside", "[[1, 2]]"),
            ("visits", "outside", '[["url"]]'),
            ("visits", "outside", f"[{SURROGATE}]"),
            ("visits", "outside", "null"),
            ("visits", "text", b"not zlib"),
            ("visits", "text", "text"),
            ("visits", "text", zlib.compress(b"cut off" * 99)[:-9]),
            ("visits", "text", zlib.compress(b"\xff\xfe")),
            ("visits", "title", b"bytes"),
            ("visits", "error", b"bytes"),
            ("visits", "status", "many"),
            ("visits", "n_bytes", "many"),
            ("visits", "elapsed", float("inf")),
            ("visits", "fetched_at", "yesterday"),
            ("visits", "page", 2**62),
            ("visits", "page", "page"),
            ("visits", "seq", 2**63 - 1),
            ("pages", "url", b"bytes"),
            ("pages", "key", b"bytes"),
            ("pages", "site", "site"),
            ("pages", "site", 2**62),
            ("pages", "depth", "deep"),
            ("pages", "id", 2**62),
            ("pages", "seed", "yes"),
            ("pages", "seed", 0.5),
            ("meta", "value", b"bytes"),
            ("meta", "key", b"bytes"),
            ("sites", "host", b"\x1b[2J"),
            ("aliases", "key", b"bytes"),
            ("aliases", "page", "page"),
            ("requests", "page", 99),
            ("requests", "page", "page"),
            ("requests", "request", b"\x80\x04pickle"),
            ("requests", "id", 2**63 - 1),
            ("requests", "id", -5),
            ("site_states", "host", b"bytes"),
            ("site_states", "pause", float("inf")),
            ("site_states", "pause", "long"),
            ("site_states", "crawl_delay", -1.0),
            ("site_states", "refusals", "many"),
            ("leased", "page", 99),
            ("unfiltered", "page", -1),
            ("aliases", "page", 99),
        ],
        ids=lambda value: repr(value)[:24],
    )
    def test_an_invalid_row_is_one_sentence(self, path, table, column, value):
        set_last(path, table, column, value)
        with pytest.raises(StoreError, match=r"crawl\.sqlite: the file is damaged \(") as caught:
            read_all(path)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 500

    def test_two_sites_with_one_host_are_named(self, path):
        change(path, "UPDATE sites SET host = 'site0.example'")
        with pytest.raises(StoreError, match=r"site 1 has the host of another, 'site0\.example'"):
            read_all(path)

    def test_a_text_that_unpacks_to_more_than_is_ever_stored_takes_no_memory(self, path):
        bomb = zlib.compress(b"x" * 50_000_000)
        set_last(path, "visits", "text", bomb)
        tracemalloc.start()
        try:
            with (
                Store.open(path, readonly=True) as store,
                pytest.raises(StoreError, match=f"a text of more than {MAX_TEXT} characters"),
            ):
                list(store.visits())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 5_000_000

    def test_circular_and_mass_redirects_end(self, path):
        """Mass redirects: each of many visits of a seed leads somewhere else."""
        pages = letters(8)
        with Store.open(path) as store:
            for n in range(300):
                store.record(visit(n % 8, (n + 1 + n // 8) % 8, status=301), pages, commits=False)
            store.commit()
            store.redirected_seeds()


def declared():
    """Return all tables that parts of a crawl declare, by name."""
    modules = pending, reader, sitemap_rows, side_tables, requisite_fetches
    found = [each for module in modules for each in vars(module).values()]
    return {each.name: each for each in found if isinstance(each, SideTable)}


VALUES = {"INTEGER": 1, "REAL": 0.5, "TEXT": "text", "BLOB": b"bytes", "NULL": None}


class TestTypes:
    """SQLite keeps a value of any type in any column."""

    @pytest.mark.parametrize("table", declared().values(), ids=declared())
    def test_a_value_of_another_type_than_its_column_is_named(self, table):
        with closing(sqlite3.connect(":memory:")) as db:
            table.check(db)
            table.create(db)
            columns = db.execute(f"PRAGMA table_info({table.name})").fetchall()
            table.put(db.cursor(), [[VALUES[kind] for _, _, kind, *_ in columns]])
            table.check(db)
            assert len(list(table.rows(db, "*", "rowid"))) == 1
            n_refused = 0
            for _, name, kind, *_ in columns:
                for value in VALUES.values():
                    db.execute("SAVEPOINT s")
                    try:
                        db.execute(f"UPDATE {table.name} SET {name} = ?", (value,))
                        ((stored,),) = db.execute(f"SELECT typeof({name}) FROM {table.name}")
                    except sqlite3.Error:
                        stored = kind.lower()  # SQLite itself refuses it
                    if stored not in (kind.lower(), "null"):
                        n_refused += 1
                        named = f"{name} of row 1 of its table {table.name} has another type"
                        with pytest.raises(TypeError, match=named):
                            table.check(db)
                        with pytest.raises(TypeError, match=named):
                            table.rows(db, "*", "rowid")
                    db.execute("ROLLBACK TO s")
            assert n_refused >= len(columns) - 1

    @pytest.mark.parametrize(
        ("table", "rows", "read"),
        [
            ("items", [(None, 0, b"item")], lambda store: list(store.kept_items())),
            ("refusals", [("depth", "many", "[]")], lambda store: store.refusals()),
            ("refusals", [("depth", 1, "{}")], lambda store: store.refusals()),
            ("yielded", [(0, "text", 1)], lambda store: Store.open(store.path)),
            ("sitemaps", [(1, "u", "h", "n", 0, "then", 0, "")], lambda store: store.sitemaps()),
        ],
    )
    def test_a_store_with_one_is_refused_where_it_is_read(self, path, table, rows, read):
        tables = declared()
        with closing(sqlite3.connect(path)) as db, db:
            for each in [table, *(["sitemap_urls"] if table == "sitemaps" else [])]:
                tables[each].create(db)
            tables[table].put(db.cursor(), rows)
        with Store.open(path, readonly=True) as store, pytest.raises(StoreError) as caught:
            read(store)
        assert str(caught.value).startswith(f"{path}: the file is damaged (")


def set_last(path, table, column, value):
    last = f"WHERE rowid = (SELECT max(rowid) FROM {table})"
    change(path, f"UPDATE {table} SET {column} = ? {last}", value)
