"""Files made to exhaust memory, crash the interpreter or write to a terminal are refused."""

import gzip
import io
import sys
import zipfile

import numpy as np
import pytest
from forked import run_to_end
from linkgraphs import refusal_of

from crawlprio.demo import recordings
from crawlprio.demo.recordings import WarcWeb
from crawlprio.errors import CrawlprioError, GraphError, StoreError
from crawlprio.graph import npz
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.measure.crawl_models import pagerank_seen
from crawlprio.orderings.historical import read_scores
from crawlprio.ranking.pagerank import pagerank, partial_pagerank, round_significant
from crawlprio.store.graph_files import read_graph


@pytest.mark.parametrize(
    ("properties", "what"),
    [
        ("nodes=103\narcs=10600\n", "too few for the 10600 links"),
        ("nodes=1" + "0" * 5_000 + "\narcs=3\n", "nodes is '1000"),
        ("nodes=-1\narcs=3\n", "nodes is '-1'"),
        ("nodes=900\narcs=3\n", "too few for 900 pages"),
    ],
)
def test_a_webgraph_that_claims_more_than_it_holds_is_refused(tmp_path, properties, what):
    (tmp_path / "a.graph").write_bytes(bytes(12) + b"x")
    (tmp_path / "a.properties").write_text(properties)
    with pytest.raises(GraphError, match=what):
        read_graph(tmp_path / "a.graph")


def test_any_webgraph_stream_under_any_properties_is_read_or_refused(tmp_path):
    """Runs in its own process, so that a read out of bounds would show."""
    script = """
import random, sys
from pathlib import Path
from crawlprio.errors import GraphError
from crawlprio import read_graph
from crawlprio.plugins.papers.webgraph import CODE_NAMES
from crawlprio.plugins.papers.webgraph import COMPONENTS
source = random.Random(0)
path = Path(sys.argv[1]) / "a.graph"
n_read = 0
for _ in range(1_200):
    path.write_bytes(source.randbytes(source.randrange(1, 400)))
    n_pages = source.choice([1, 3, 20, 100])
    flags = "|".join(f"{name}_{source.choice(CODE_NAMES)}" for name in COMPONENTS)
    path.with_suffix(".properties").write_text(
        f"nodes={n_pages}\\narcs={source.randrange(n_pages ** 2 + 1)}\\n"
        f"windowsize={source.choice([0, 1, 7, 2**31 - 1])}\\n"
        f"minintervallength={source.choice([0, 1, 4, 2**31 - 1])}\\n"
        f"zetak={source.choice([1, 3, 30])}\\ncompressionflags={flags}\\n"
    )
    try:
        n_read += read_graph(path).n_pages > 0
    except GraphError as error:
        assert str(error).isprintable()
print("survived")
"""
    run = run_to_end([sys.executable, "-c", script, tmp_path])
    assert (run.returncode, run.stdout) == (0, "survived\n"), run.stderr


BAD_ROWS = [
    ([0, 5, 2, 3], [0, 1, 2], "indptr falls from 5 to 2 at page 1"),
    ([0, 2**40, 3], [0, 1, 1], "indptr falls from 1099511627776 to 3"),
    ([0, 1, 2], [0, 2], r"indices\[1\] is 2; give 0 or more, below 2"),
    ([0, 1, 2], [0, -1], r"indices\[1\] is -1; give 0 or more, below 2"),
    ([0, 1], [2**32], r"indices\[0\] is 4294967296; give 0 or more, below 1"),
    ([], [], "indptr is empty"),
    ([0.0, 1.0], [0], "indptr holds float64"),
    ([[0, 1]], [0], "indptr has 2 dimensions; it must have one"),
]


@pytest.mark.parametrize(("indptr", "indices", "what"), BAD_ROWS)
def test_pagerank_of_an_invalid_graph_is_refused(indptr, indices, what):
    """A decreasing indptr crashed the interpreter."""
    with pytest.raises(GraphError, match=what):
        pagerank(np.array(indptr), np.array(indices))


@pytest.mark.parametrize(
    ("start", "length", "what"),
    [
        ([0, -1], [1, 1], "the row of page 1"),
        ([0, 1], [1, 2], "the row of page 1"),
        ([0, 2**62], [1, 1], "the row of page 1"),
        ([0, 1], [-1, 1], "the row of page 0"),
        ([0, 1], [1], "row_length has 1 elements"),
        ([0, 1], [1, 1, 1], "row_length has 3 elements"),
    ],
)
def test_rows_outside_the_links_are_refused(start, length, what):
    with pytest.raises(GraphError, match=what):
        partial_pagerank(np.array(start), np.array(length), np.array([0, 1]))


def test_other_functions_that_reach_compiled_code_check_their_arguments():
    graph = LinkGraph(np.array([0, 1, 1]), np.array([1]))
    for fetched in ([5], [-1], [2**40]):
        with pytest.raises(GraphError, match=r"fetched\[0\] is"):
            pagerank_seen(graph, np.array(fetched))
    assert round_significant(np.array([3])).tolist() == [3.0]


def edge_list(path):
    path = path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"#" + b" " * 30_000_000 + b"\n0 1\n"))
    return path


def url_list(path):
    np.savez(path / "a.npz", indptr=np.array([0, 1, 1]), indices=np.array([1]))
    (path / "a.urls.gz").write_bytes(gzip.compress(b"x" * 30_000_000 + b"\ny\n"))
    return path / "a.npz"


def deflated_npz(path):
    np.savez_compressed(path / "a.npz", indptr=np.zeros(4_000_000, np.int64), indices=np.array([]))
    return path / "a.npz"


@pytest.mark.parametrize("write", [edge_list, url_list, deflated_npz])
def test_a_graph_file_unpacks_only_as_far_as_its_size_allows(tmp_path, write, monkeypatch):
    """2.9 MB became 3 to 6 GB."""
    monkeypatch.setattr(npz, "FREE_BYTES", 1_000_000)
    path = write(tmp_path)
    with pytest.raises(GraphError, match=r"unpacks to more than .* CRAWLPRIO_MAX_UNPACKED_BYTES"):
        read_graph(path)
    assert "unpacks to more" not in refusal_of(path, 10**9)


def npz_that_asks_for(shape, path, name):
    """An archive whose array claims to have another shape."""
    buffer = io.BytesIO()
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    buffer.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    buffer.write(bytes(80))
    with zipfile.ZipFile(path / "a.npz", "w") as archive:
        archive.writestr(f"{name}.npy", buffer.getvalue())
    return path / "a.npz"


@pytest.mark.parametrize(
    "shape", ["(15000000000,)", "(100000, 150000)", "(-3,)", "(10**3,)", "(3,), ("]
)
def test_an_array_that_claims_112_gib_is_one_sentence(tmp_path, shape):
    for name, read in (("indptr", read_graph), ("scores", read_scores)):
        path = npz_that_asks_for(shape, tmp_path, name)
        with pytest.raises(CrawlprioError) as caught:
            read(path)
        assert str(caught.value).isprintable()


def warc(path, *bodies, headers=b""):
    records = b""
    for number, body in enumerate(bodies):
        packed = gzip.compress(body)
        http = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n"
            b"%sContent-Length: %d\r\n\r\n%s" % (headers, len(packed), packed)
        )
        record = (
            b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.test/%d\r\n"
            b"WARC-Record-ID: <urn:uuid:%d>\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
            b"Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n"
            b"%s\r\n\r\n" % (number, number, len(http), http)
        )
        records += gzip.compress(record)
    (path / "a.warc.gz").write_bytes(records)
    return path / "a.warc.gz"


def test_a_recorded_body_is_served_only_up_to_a_bound(tmp_path, monkeypatch):
    """2.9 MB became 5.9 GB in a replay."""
    monkeypatch.setattr(recordings, "MAX_BODY", 2_000_000)
    web = WarcWeb(warc(tmp_path, b"x" * 50_000_000, b"<a href=/0>"))
    assert [len(web.response(page).body) for page in range(2)] == [2_000_000, 11]
    web.close()


@pytest.mark.parametrize(
    "headers", [b"X: " + b"y" * 5_000_000 + b"\r\n", b"X: y\r\n" * 300_000], ids=["line", "lines"]
)
def test_an_endless_recorded_header_counts_as_damage(tmp_path, headers, caplog):
    with pytest.raises(StoreError, match="damaged in its first record"):
        WarcWeb(warc(tmp_path, b"x", headers=headers))
