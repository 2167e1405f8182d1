"""Invalid rows of a store are reported in one sentence to every reader, and never crash."""

import contextlib
import sqlite3
import tempfile
from pathlib import Path

import pytest
from crawls import Site, page
from examples import examples
from forked import run_forked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stores import change, read_all, write_full

from crawlprio.errors import CrawlprioError, StoreError
from crawlprio.store import Store

COLUMNS = {
    "meta": ["key", "value"],
    "sites": ["id", "host"],
    "pages": ["id", "url", "key", "site", "depth", "seed"],
    "aliases": ["key", "page"],
    "visits": [
        *("seq", "page", "status", "fetched_at", "elapsed", "n_bytes", "content_hash", "targets"),
        *("anchors", "outside", "title", "text", "error"),
    ],
    "requests": ["page", "request"],
    "unfiltered": ["page"],
    "leased": ["page"],
    "site_states": ["host", "crawl_delay", "refusals", "pause", "paused_until"],
}

VALUES = st.one_of(
    st.none(),
    st.integers(-3, 12),
    st.sampled_from([2**31 - 1, 2**31, -(2**31) - 1, 2**62, -(2**63)]),
    st.floats(),
    st.binary(max_size=8),
    st.text(max_size=8),
    st.sampled_from(["[0, 1", "[1, 99]", "[-1]", '["1"]', "[1.5]", "[[1]]", "{}", "null", "7", ""]),
    st.sampled_from(["[9223372036854775807]", "[1e400]", "[true]", '[{"a": 1}]', "[null]"]),
)

DAMAGE = st.sampled_from([(table, column) for table in COLUMNS for column in COLUMNS[table]])


def damaged(path, table, column, value, *, one_row):
    """Put a value into a column; return False if SQLite itself refuses it."""
    where = f" WHERE rowid = (SELECT max(rowid) FROM {table})" if one_row else ""
    with contextlib.closing(sqlite3.connect(path)) as db:
        try:
            db.execute(f"UPDATE {table} SET {column} = ?{where}", (value,))
            db.commit()
        except (sqlite3.Error, UnicodeEncodeError):
            return False
    return True


@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(damage=DAMAGE, value=VALUES, one_row=st.booleans())
def test_a_damaged_row_is_read_as_something_or_refused_in_one_sentence(damage, value, one_row):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "crawl.sqlite"
        write_full(path)
        if not damaged(path, *damage, value, one_row=one_row):
            return
        with contextlib.suppress(CrawlprioError):
            read_all(path)


@pytest.mark.parametrize(
    ("table", "damage"),
    [
        pytest.param("aliases", {**dict.fromkeys(range(-9, 6), 255), 9: 153}, id="a huge length"),
        pytest.param("pages", dict.fromkeys(range(-9, 0), 255), id="no text"),
    ],
)
def test_a_damaged_schema_is_named_as_such(path, table, damage):
    """SQLite may report a lack of memory for one, and undecodable text for the other."""
    write_full(path)
    whole = bytearray(path.read_bytes())
    at = whole.index(f"table{table}".encode())
    for offset, byte in damage.items():
        whole[at + offset] = byte
    path.write_bytes(whole)
    with pytest.raises(StoreError, match=r"crawl\.sqlite: the file is damaged; "):
        Store.open(path, readonly=True)
    assert path.read_bytes() == whole


DAMAGES = {
    "half a character in the arguments": (
        'UPDATE meta SET value = \'{"arguments": {"seeds": [], "follow": "\\ud800"},'
        " \"settings\": {}}' WHERE key = 'given'"
    ),
    "a time without end": "UPDATE visits SET fetched_at = 1e308",
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_no_command_ends_in_a_traceback(tmp_path, damage):
    """What random damage found, in meta and in visits."""
    with Site({"/": page("/1", "/2"), "/1": page("/2"), "/2": page()}) as site:
        words = f"crawl http://{site.address}/ --folder job --delay 0 --pages 3 --keep-text"
        assert run_forked("crawlprio", words.split(), tmp_path).returncode == 0
    assert change(tmp_path / "job" / "crawl.sqlite", DAMAGES[damage])
    for command in (
        "receipt job",
        "explain job",
        "audit job/crawl.sqlite",
        "texts export job/crawl.sqlite a.jsonl",
        "texts export job/crawl.sqlite a.parquet",
    ):
        done = run_forked("crawlprio", command.split(), tmp_path)
        assert done.returncode in (0, 2)
        assert "Traceback" not in done.stderr
        assert (done.returncode == 2) <= (len(done.stderr.splitlines()) == 1)
