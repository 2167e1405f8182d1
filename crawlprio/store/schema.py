"""The schema of a crawl store, and the check that a file has it.

`docs/store.md` describes it for users who query a store.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import cache
from importlib.metadata import version
from pathlib import Path

from crawlprio.errors import StoreError, printable
from crawlprio.store.files import damaged
from crawlprio.web.urls import INDEX_FILES

SCHEMA_VERSION = 3
"""The value of `schema_version` in `meta`."""

PICKLED_VERSION = 2
"""The previous version, whose requests are pickles: readable, but not writable."""

OWN_FACTS = ("schema_version", "crawlprio_version", "created", "writer_pid", "ended_at")
"""Keys of `meta` that the store writes itself."""

CURRENT = "(SELECT max(seq) FROM visits WHERE page >= 0 GROUP BY page)"
"""The current version of each page: its last visit. All but the replay of a crawl read these."""

_SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE sites(id INTEGER PRIMARY KEY, host TEXT NOT NULL);
CREATE TABLE pages(
    id INTEGER PRIMARY KEY, url TEXT NOT NULL, key TEXT, site INTEGER NOT NULL,
    depth INTEGER NOT NULL, seed INTEGER NOT NULL DEFAULT 0);
CREATE TABLE aliases(id INTEGER PRIMARY KEY, key TEXT NOT NULL, page INTEGER NOT NULL);
CREATE TABLE visits(
    seq INTEGER PRIMARY KEY, page INTEGER NOT NULL, status INTEGER NOT NULL,
    fetched_at REAL NOT NULL, elapsed REAL NOT NULL, n_bytes INTEGER NOT NULL,
    content_hash INTEGER NOT NULL, targets TEXT NOT NULL, anchors TEXT, outside TEXT,
    title TEXT NOT NULL, text BLOB, error TEXT NOT NULL);
CREATE TABLE requests(id INTEGER PRIMARY KEY, page INTEGER NOT NULL, request TEXT NOT NULL);
CREATE TABLE unfiltered(page INTEGER PRIMARY KEY);
CREATE TABLE leased(page INTEGER PRIMARY KEY);
CREATE TABLE site_states(
    host TEXT PRIMARY KEY, crawl_delay REAL, refusals INTEGER NOT NULL, pause REAL NOT NULL,
    paused_until REAL NOT NULL);
CREATE INDEX requests_page ON requests(page);
CREATE VIEW link_urls(source_url, target_url, anchor) AS
    SELECT s.url, t.url, l.anchor FROM links l
    CROSS JOIN pages s ON s.id = l.source CROSS JOIN pages t ON t.id = l.target;
"""

_LATE_LINKS = """
CREATE TABLE IF NOT EXISTS late_links(
    source INTEGER NOT NULL, target INTEGER NOT NULL, anchor TEXT NOT NULL,
    PRIMARY KEY(source, target)) WITHOUT ROWID;
"""

# json_extract by position reuses SQLite's parsed copy of the anchors from one link to the next, and
# costs nothing if a query leaves anchors out; a join of two json_each would parse them per link.
_LINKS = f"""
CREATE VIEW links(source, target, anchor) AS
    SELECT v.page, t.value, ifnull(json_extract(v.anchors, '$[' || t.key || ']'), '')
    FROM visits v, json_each(v.targets) t WHERE v.seq IN {CURRENT}
    UNION ALL SELECT source, target, anchor FROM late_links;
"""

_OUTSIDE_LINKS = f"""
CREATE VIEW outside_links(source, url, anchor) AS
    SELECT v.page, json_extract(o.value, '$[0]'), json_extract(o.value, '$[1]')
    FROM visits v, json_each(v.outside) o WHERE v.seq IN {CURRENT};
"""

_INDEX_ALIASES = f"""
CREATE VIEW index_aliases(alias, page) AS
    SELECT DISTINCT i.id, f.id FROM pages i
    JOIN json_each('{json.dumps(INDEX_FILES)}') n
        ON substr(i.url, -1 - length(n.value)) = '/' || n.value
    CROSS JOIN pages f ON f.url = substr(i.url, 1, length(i.url) - length(n.value))
    CROSS JOIN visits vi ON vi.page = i.id AND vi.content_hash <> 0 AND vi.seq IN {CURRENT}
    CROSS JOIN visits vf ON vf.page = f.id AND vf.content_hash = vi.content_hash
        AND vf.seq IN {CURRENT};
"""

_VIEWS = {"outside_links": _OUTSIDE_LINKS, "links": _LINKS, "index_aliases": _INDEX_ALIASES}

ADD_INDEX = "CREATE INDEX IF NOT EXISTS visits_page ON visits(page)"
DROP_INDEX = "DROP INDEX IF EXISTS visits_page"
"""An index on the visits of a page, for queries once the crawl has ended. During the crawl nothing
needs it, and each visit would rewrite one more random page of the file."""


def create_schema(db: sqlite3.Connection) -> None:
    """Create the schema in an empty database, in one transaction, and switch it to WAL mode."""
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {_LATE_LINKS} {' '.join(_VIEWS.values())}")
    own = {"schema_version": str(SCHEMA_VERSION), "crawlprio_version": version("crawlprio")}
    db.executemany("INSERT INTO meta VALUES(?, ?)", own.items())
    db.execute("INSERT INTO meta VALUES('created', strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))")
    db.execute("COMMIT")


def add_newer_parts(cursor: sqlite3.Cursor) -> None:
    """Add the table `late_links` and newer views to an older store, inside a transaction."""
    cursor.execute(_LATE_LINKS)
    for name, sql in _VIEWS.items():
        found = cursor.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
        if found is None or found[0] != sql.strip().rstrip(";"):
            cursor.execute(f"DROP VIEW IF EXISTS {name}")
            cursor.execute(sql)


def check_schema(path: Path, db: sqlite3.Connection, *, writes: bool) -> None:
    """Refuse a database that is not a crawl store, or whose version cannot be read or written.

    A view, virtual table or computed column in place of a table would run what the author of the
    file put there, and so would a trigger. All tables must therefore have exactly the definitions
    above. Further tables, views and indexes are allowed.
    """
    tables = dict(db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall())
    found = {}
    if tables.get("meta") == _tables(SCHEMA_VERSION)["meta"]:
        found = dict(db.execute("SELECT key, value FROM meta").fetchall())
        if not all(isinstance(each, str) for fact in found.items() for each in fact):
            raise TypeError("a fact of its table meta is not text")
    if "schema_version" not in found:
        raise StoreError(f"{path}: an SQLite database, but not a crawl store; check the name.")
    stored = found["schema_version"]
    writer = printable(found.get("crawlprio_version", "of unknown version"), 20)
    ours = f"crawlprio {version('crawlprio')}"
    wrote = f"schema version {printable(stored, 20)}, written by crawlprio {writer}"
    if stored not in (str(SCHEMA_VERSION), str(PICKLED_VERSION)):
        raise StoreError(
            f"{path}: {wrote}; {ours} reads version {SCHEMA_VERSION}: use the crawlprio that "
            "wrote it, or start a new crawl."
        )
    for name, sql in _tables(int(stored)).items():
        if tables.get(name) != sql:
            raise damaged(path, f"its table {name} is not as crawlprio creates it")
    if not writes:
        return
    if stored == str(PICKLED_VERSION):
        (n,) = db.execute("SELECT count(page) FROM requests").fetchone()
        raise StoreError(
            f"{path}: {wrote}, keeps {n} waiting requests as pickles, which can run code; "
            f"{ours} reads its visits, but does not resume it: use the crawlprio that wrote it, "
            "or start a new crawl."
        )
    if db.execute("SELECT 1 FROM sqlite_schema WHERE type = 'trigger'").fetchone():
        raise StoreError(
            f"{path}: it has triggers, which would run with every visit; drop them (DROP TRIGGER)."
        )


@cache
def _tables(schema_version: int) -> dict[str, str]:
    """Return the definition of each table, as SQLite stores it."""
    schema = _SCHEMA
    if schema_version == PICKLED_VERSION:
        schema = schema.replace("request TEXT", "request BLOB")
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema)
        return dict(db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'"))
