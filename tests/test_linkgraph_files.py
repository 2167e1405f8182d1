"""Tables, GraphML and npz as graphs: what is read, and what is refused with which line."""

import gzip
import json
import random
import sys
import zipfile
from functools import partial

import igraph
import networkx
import numpy as np
import pyarrow
import pytest
from examples import examples
from forked import run_to_end
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from linkgraphs import facts, refusal_of
from pyarrow import parquet

from crawlprio.errors import GraphError
from crawlprio.graph.convert import to_igraph, to_networkx
from crawlprio.graph.linkgraph import LinkGraph, Urls
from crawlprio.graph.npz import write_npz
from crawlprio.graph.pages import PageTable, Visit
from crawlprio.store import Store
from crawlprio.store.graph_files import WRITTEN, export_links, read_graph

A, B, C = "http://a.example/", "http://b.example/ü,\n", "http://a.example/<&>?'"


def links_by_url(graph):
    """Return every link by source and target, with their hosts, in order of sources."""
    assert graph.urls is not None
    hosts = graph.hosts or ["" for _ in range(graph.n_sites)]
    named = [(url, hosts[site]) for url, site in zip(graph.urls, graph.site, strict=True)]
    pairs = [
        (*named[page], *named[target])
        for page in range(graph.n_pages)
        for target in graph.out_links(page).tolist()
    ]
    return sorted(pairs, key=lambda pair: pair[0])


@pytest.fixture
def store(tmp_path):
    """A crawl store of 40 pages on 6 hosts, visited in random order."""
    rng = random.Random(5)
    pages = PageTable()
    urls = [f"http://h{rng.randrange(6)}.example/ü?{page}&x=<>\"'," for page in range(40)]
    for url in urls:
        pages.add(url, url, pages.site(url.split("/")[2]))
    with Store.create(tmp_path / "crawl.sqlite") as recorder:
        for page in rng.sample(range(40), 30):
            row = [t for t in rng.sample(range(40), rng.randrange(9)) if t != page]
            anchors = [rng.choice(["", 'a "b",\n\r', "ä\t<&>"]) for _ in row]
            recorder.record(Visit(page, np.array(row, dtype=np.int32), anchors=anchors), pages)
    return tmp_path / "crawl.sqlite"


def export(store, suffix):
    with Store.open(store, readonly=True) as opened:
        return export_links(opened, store.with_name(f"out{suffix}")).files[0]


@pytest.mark.parametrize("suffix", WRITTEN)
def test_every_format_that_is_written_reads_back_link_by_link(store, suffix):
    original, again = read_graph(store), read_graph(export(store, suffix))
    if again.urls is None:
        assert facts(again)[0] == facts(original)[0]
    elif again.hosts is None:
        assert facts(again) == [*facts(original)[:3], None]
    else:
        assert links_by_url(again) == links_by_url(original)
    assert again.n_dropped == 0


def test_graphml_keeps_pages_that_nothing_links_to(store):
    assert facts(read_graph(export(store, ".graphml"))) == facts(read_graph(store))


def written(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def assert_refused(path, complaint):
    """Assert that a file is refused in one sentence, which begins with its name and a complaint."""
    with pytest.raises(GraphError) as error:
        read_graph(path)
    assert str(error.value).startswith(f"{path}{complaint}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        f'source,target,anchor\r\n{A},{C},x\r\n"{B}",{A},"y\n"\r\n{A},"{B}",\r\n',
        f'\ufeffAnchor, Target ,Source\n\nx,{C},{A}\n"y\n",{A},"{B}"\n,"{B}",{A}',
        f'source,source_url,target_url,target\n1,{A},{C},x\n1,"{B}",{A},x\n1,{A},"{B}",x\n',
    ],
)
def test_a_csv_of_urls_numbers_pages_in_order_of_first_mention(tmp_path, text):
    assert facts(read_graph(written(tmp_path / "web.csv", text))) == [
        [[1, 2], [], [0]],
        [0, 0, 1],
        [A, C, B],
        ["a.example", "b.example"],
    ]


def test_csv_and_jsonl_of_page_ids_are_edge_lists(tmp_path):
    csv = written(tmp_path / "web.csv", "source,target\n0,3\n0,1\n3,0\n0,3\n")
    jsonl = "".join(
        json.dumps({"source": s, "target": t}) + "\n\n" for s, t in [(0, 3), (0, 1), (3, 0), (0, 3)]
    )
    for path in (csv, written(tmp_path / "web.jsonl", jsonl)):
        graph = read_graph(path)
        assert facts(graph) == [[[3, 1], [], [], [0]], [0, 0, 0, 0], None, None]
        assert graph.n_dropped == 1


def test_names_that_are_not_urls_are_all_on_one_site(tmp_path):
    path = written(tmp_path / "web.csv", "source,target\nanna,7\n7,http://[\n")
    assert facts(read_graph(path)) == [[[1], [2], []], [0, 0, 0], ["anna", "7", "http://["], None]


@pytest.mark.parametrize("name", ["web.csv", "web.jsonl", "web.graphml", "web.txt"])
def test_a_graph_without_links_is_a_graph(tmp_path, name):
    texts = {"web.csv": "source,target\n", "web.graphml": "<graphml><graph/></graphml>"}
    assert facts(read_graph(written(tmp_path / name, texts.get(name, "")))) == [[], [], None, None]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        *(
            (
                "w.txt",
                text,
                f":{line}: expected two page ids from 0 to 2147483646; found '{found}'.",
            )
            for text, line, found in (
                ("0 1\n1\n", 2, "1"),
                ("0 1\n1 2 3\n", 2, "1 2 3"),
                ("\n#\n-1 2", 3, "-1 2"),
                ("0 1\nx 2", 2, "x 2"),
                ("0 1.5\n", 1, "0 1.5"),
                ("0,1\n", 1, "0,1"),
                ("0 1\n1 99999999999\n2 3", 2, "1 99999999999"),
                ("0 1\n5 0x", 2, "5 0x"),
            )
        ),
        ("w.txt", "0 2000000000\n", ": the largest page id is 2000000000, but there are only 1"),
        ("w.csv", "", ":1: expected a header with source and target"),
        ("w.csv", "from,to\n1,2\n", ":1: expected a header with source and target"),
        ("w.csv", 'source,target\na,"b\nc"\nd\n', ":4: expected 2 fields, as in the header"),
        ("w.csv", "source,target\na,b\nc,\n", ":3: expected source and target; found an empty"),
        ("w.csv", "source,target\n1,2\n3,x\n", ":3: the lines before have page ids and this one"),
        ("w.csv", "source,target\n1,2147483647\n", ":2: expected two page ids from 0 to 21474"),
        ("w.csv", 'source,target\na,"b', ":2: not valid CSV"),
        ("w.csv", 'source,target\na,"b"c\n', ":2: not valid CSV"),
        ("w.csv", b"source,target\na,b\n\xff,c\n", ":3: not valid UTF-8"),
        ("w.csv", "source,target\n0,1\n9,2000000000\n", ": the largest page id is 2000000000"),
        ("w.jsonl", '{"source": "a", "target": "b"}\n{"source"', ":2: this line is not JSON"),
        ("w.jsonl", "\n[1, 2]\n", ":2: expected a JSON object"),
        ("w.jsonl", "[" * 100_000, ":1: this line is not JSON"),
        ("w.jsonl", '{"source": "a"}', ":1: expected source and target, two strings or whole"),
        ("w.jsonl", '{"source": true, "target": 1}', ":1: expected source and target, two"),
        ("w.jsonl", '{"source": "", "target": "a"}', ":1: expected source and target; found an"),
        ("w.jsonl", '{"source": -1, "target": 0}', ":1: expected two page ids from 0 to"),
        (
            "w.jsonl",
            '{"source": 1, "target": 0}\n{"source": "a", "target": "b"}',
            ":2: the lines before have page ids and this one has names",
        ),
        (
            "w.jsonl",
            '{"source": "a", "target": "b"}\n{"source": 1, "target": 0}',
            ":2: the lines before have page ids and this one has names, or the other way round",
        ),
    ],
)
def test_a_table_line_that_is_not_a_link_is_named(tmp_path, name, text, complaint):
    assert_refused(written(tmp_path / name, text), complaint)


def test_graphml_of_networkx_reads_back(tmp_path):
    graph = LinkGraph(
        np.array([0, 2, 3, 3]), np.array([2, 1, 0]), np.array([1, 0, 1]), [A, B, C], ["x", "y"]
    )
    networkx.write_graphml(to_networkx(graph), tmp_path / "web.graphml")
    hosts = [[[2, 1], [0], []], [0, 1, 0], [A, B, C], ["y", "x"]]
    assert facts(read_graph(tmp_path / "web.graphml")) == hosts
    plain = LinkGraph(graph.indptr, graph.indices, graph.site)
    networkx.write_graphml(to_networkx(plain), tmp_path / "web.graphml")
    assert facts(read_graph(tmp_path / "web.graphml")) == facts(plain)
    named = networkx.relabel_nodes(networkx.DiGraph([(0, 1)]), {0: A, 1: C})
    networkx.write_graphml(named, tmp_path / "web.graphml")
    assert facts(read_graph(tmp_path / "web.graphml")) == [[[1], []], [0, 0], [A, C], ["a.example"]]


def test_graphml_of_igraph_reads_back(tmp_path):
    graph = LinkGraph(np.array([0, 2, 3, 3]), np.array([2, 1, 0]), np.array([1, 0, 1]), [A, "b", C])
    path = tmp_path / "web.graphml"
    to_igraph(graph).write_graphml(str(path))
    assert facts(read_graph(path)) == facts(graph)
    plain = LinkGraph(graph.indptr, graph.indices)
    to_igraph(plain).write_graphml(str(path))
    assert facts(read_graph(path)) == facts(plain)
    igraph.Graph.TupleList([(A, C), (C, "b")], directed=True).write_graphml(str(path))
    assert facts(read_graph(path)) == [[[1], [2], []], [0, 0, 1], [A, C, "b"], ["a.example", ""]]


def test_graphml_may_declare_nodes_after_their_edges_and_prefix_its_names(tmp_path):
    text = """<?xml version="1.0" encoding="ISO-8859-1"?>
    <g:graphml xmlns:g="x"><g:key id="u" for="node" attr.name="url" attr.type="string"/>
    <g:key id="w" for="edge" attr.name="url" attr.type="string"/>
    <g:graph edgedefault="directed"><g:edge source="b" target="a"><g:data key="w">no</g:data>
    </g:edge><g:node id="a"><g:data key="u">h<!-- -->\xe4</g:data><g:port name="p"/></g:node>
    <g:node id="b"><g:data key="u"><![CDATA[&amp;]]></g:data></g:node>
    </g:graph></g:graphml>"""
    path = written(tmp_path / "web.graphml", text.encode("latin-1"))
    assert facts(read_graph(path)) == [[[1], []], [0, 0], ["&amp;", "hä"], None]


BOMB = '<!DOCTYPE g [\n<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>\n<graphml><graph/></graphml>'
KEYS = (
    '<graphml>\n<key id="s" for="node" attr.name="site" attr.type="int"/>'
    '<key id="u" for="node" attr.name="url"/><graph>\n'
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", ":1: not a complete XML file (no element found)"),
        ("<graphml>\n<graph>", ":2: not a complete XML file (no element found)"),
        ("<graphml>\n<graph></graphml>", ":2: not a complete XML file (mismatched tag)"),
        ("<graphml/>", " has no graph; expected"),
        ("<html><graph/></html>", ":1: the file begins with <html>; expected <graphml>"),
        (BOMB, ":2: an entity is declared"),
        ('<?xml version="1.0" encoding="klingon"?><graphml/>', ":1: "),
        ('<graphml><graph edgedefault="undirected"/></graphml>', ":1: the graph is undirected"),
        ("<graphml><graph/>\n<graph/></graphml>", ":2: there is a second graph"),
        ("<graphml><graph>\n<hyperedge/></graph></graphml>", ":2: there is a hyperedge"),
        ("<graphml><graph>\n<node/></graph></graphml>", ":2: a node has no id"),
        (KEYS + '<node id="a"/>\n<node id="a"/>', ":4: node 'a' is declared a second time"),
        (KEYS + '<node id="a"/>\n<edge source="a"/>', ":4: an edge has no source or no target"),
        (
            KEYS + '<node id="a"/><node id="b"/><edge source="a" directed="false" target="b"/>',
            ":3: an edge is undirected",
        ),
        (
            KEYS + '<node id="a"/>\n<edge source="a" target="z"/>\n</graph></graphml>',
            ":4: an edge refers to node 'z', which the file does not declare",
        ),
        (KEYS + '<node id="a"><data key="s">x</data></node>', ":3: site is 'x'; its key declares"),
        (
            KEYS + '<node id="a"><data key="s">0.5</data></node></graph></graphml>',
            ": node 'a' has the site 0.5; sites must be",
        ),
        (
            KEYS + '<node id="a"><data key="u">x</data></node><node id="b"/></graph></graphml>',
            ": node 'b' has no url but others have one",
        ),
    ],
)
def test_invalid_graphml_is_refused_with_the_line(tmp_path, text, complaint):
    assert_refused(written(tmp_path / "web.graphml", text), complaint)


def test_parquet_of_page_ids_is_an_edge_list(tmp_path):
    path = tmp_path / "web.parquet"
    for kind in (pyarrow.int64(), pyarrow.uint8()):
        sources, targets = (pyarrow.array(ids, kind) for ids in ([0, 0, 3, 0], [3, 1, 0, 3]))
        parquet.write_table(
            pyarrow.table({"source": sources, "x": targets, "target": targets}), path
        )
        assert facts(read_graph(path)) == [[[3, 1], [], [], [0]], [0, 0, 0, 0], None, None]


def test_parquet_of_urls_may_hold_dictionaries(tmp_path):
    ends = {"source_url": [A, B], "target_url": [C, A], "source": [1, 2], "target": [1, 2]}
    table = pyarrow.table({name: pyarrow.array(column) for name, column in ends.items()})
    table = table.set_column(0, "source_url", table.column(0).dictionary_encode())
    parquet.write_table(table, tmp_path / "web.parquet")
    assert facts(read_graph(tmp_path / "web.parquet")) == [
        [[1], [], [0]],
        [0, 0, 1],
        [A, C, B],
        ["a.example", "b.example"],
    ]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"source": [0]}, " has the columns source; it must have source and target"),
        ({"source": [0.5], "target": [1]}, ": source holds double; it must hold strings or whole"),
        ({"source": ["a"], "target": [1]}, ": one of source and target holds strings, the other"),
        ({"source": [0, None], "target": [1, 2]}, ": row 2 has no source"),
        ({"source": ["a", "b"], "target": ["b", None]}, ": row 2 has no target"),
        ({"source": ["a", "b"], "target": ["b", ""]}, ": row 2 has an empty target"),
        ({"source": [0, 1, 2], "target": [1, 2, -1]}, ": row 3 has the target -1"),
        ({"source": [2**31 - 1], "target": [0]}, ": row 1 has the source 2147483647"),
    ],
)
def test_invalid_parquet_is_refused_with_the_row(tmp_path, columns, complaint):
    parquet.write_table(pyarrow.table(columns), tmp_path / "web.parquet")
    assert_refused(tmp_path / "web.parquet", complaint)


@pytest.mark.parametrize("compressed", [True, False])
def test_an_npz_reads_back_however_it_is_compressed(tmp_path, compressed):
    graph = LinkGraph(np.array([0, 2, 3, 3]), np.array([2, 1, 0]), np.array([0, 1, 1]), Urls("abc"))
    write_npz(graph, tmp_path / "web.npz", compressed=compressed)
    assert facts(read_graph(tmp_path / "web.npz")) == facts(graph)
    with zipfile.ZipFile(tmp_path / "web.npz") as archive:
        kinds = {member.compress_type for member in archive.infolist()}
    assert kinds == {zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED}


def test_line_ends_of_other_systems_are_not_part_of_urls(tmp_path):
    write_npz(LinkGraph(np.zeros(4, dtype=int), np.array([], dtype=int)), tmp_path / "web.npz")
    for text in (b"a\r\nb\r\r\nc\rd\r", b"a\nb\nc\rd"):
        (tmp_path / "web.urls.gz").write_bytes(gzip.compress(text))
        assert list(read_graph(tmp_path / "web.npz").urls or ()) == ["a", "b", "c\rd"]


def test_cleaning_in_place_equals_cleaning_a_copy():
    rng = np.random.default_rng(3)
    indptr = np.concatenate(([0], np.cumsum(rng.integers(0, 9, 50)))).astype(np.int64)
    indices = rng.integers(0, 50, indptr[-1], dtype=np.int32)
    kept = indices.copy()
    copied = LinkGraph.cleaned(indptr, indices)
    assert indices.tolist() == kept.tolist()
    in_place = LinkGraph.cleaned(indptr, indices, in_place=True)
    assert facts(in_place) == facts(copied)
    assert in_place.n_dropped == copied.n_dropped > 0
    assert np.shares_memory(in_place.indices, indices)


WHOLE = LinkGraph(
    np.array([0, 3, 5, 5, 6, 6]),
    np.array([1, 2, 3, 0, 4, 0]),
    np.array([0, 0, 1, 1, 2]),
    [f"http://{host}.example/{page}" for page, host in enumerate("aabbc")],
    ["a.example", "b.example", "c.example"],
)


def write_parquet(path, sources, targets):
    parquet.write_table(pyarrow.table({"source": sources, "target": targets}), path)


WRITERS = {
    "web.npz": partial(write_npz, WHOLE, compressed=False),
    "deflated.npz": partial(write_npz, WHOLE, compressed=True),
    "web.txt": "# links\n" + "".join(f"{s}\t{t}\n" for s, t in to_networkx(WHOLE).edges),
    "web.txt.gz": gzip.compress(b"0 1\n1 2\n2 3\n" * 9),
    "web.csv": f'source,target,anchor\n{A},{C},"x, y"\n{C},{A},z\n',
    "web.jsonl": json.dumps({"source": A, "target": B, "anchor": "ä"}) + "\n",
    "web.graphml": partial(networkx.write_graphml, to_networkx(WHOLE)),
    "web.parquet": partial(write_parquet, sources=[A, B, C], targets=[B, C, A]),
    "ids.parquet": partial(write_parquet, sources=[0, 1, 2], targets=[1, 2, 0]),
}
"""By the name of a graph's file: what it holds, or what writes it."""


@pytest.mark.parametrize("name", WRITERS)
def test_a_damaged_file_is_a_graph_or_one_sentence(tmp_path, name):
    path, write = tmp_path / name, WRITERS[name]
    if callable(write):
        write(path)
    else:
        written(path, write)
    assert read_graph(path).n_links > 0
    whole = path.read_bytes()

    @settings(
        max_examples=examples(60),
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize=True,
    )
    @given(
        st.integers(0, len(whole)),
        st.sampled_from(["cut", "overwrite", "insert"]),
        st.binary(min_size=1, max_size=6),
    )
    def read_damaged(place, kind, garbage):
        after = {"cut": b"", "overwrite": whole[place + len(garbage) :], "insert": whole[place:]}
        path.write_bytes(whole[:place] + (b"" if kind == "cut" else garbage) + after[kind])
        complaint = refusal_of(path)
        assert not complaint or (str(path) in complaint and "\n" not in complaint)

    read_damaged()


READ_BIG = """
import resource, sys
import numpy as np
from crawlprio import LinkGraph, read_graph

# What is compiled and imported counts before the file is read.
LinkGraph.cleaned(np.array([0, 2]), np.array([0, 0], dtype=np.int32), in_place=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
graph = read_graph(sys.argv[1])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
size = graph.indptr.nbytes + graph.indices.nbytes + graph.site.nbytes
print(graph.n_dropped, peak * 1024 / size)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is counted in kilobytes on Linux")
def test_reading_a_large_npz_takes_less_than_twice_the_memory_of_its_arrays(tmp_path):
    rng = np.random.default_rng(1)
    n_pages, n_links = 1_000_000, 10_000_000
    indptr = np.linspace(0, n_links, n_pages + 1).astype(np.int64)
    indices = rng.integers(0, n_pages, n_links, dtype=np.int32)
    indices[1::1000] = indices[::1000]
    write_npz(LinkGraph(indptr, indices), tmp_path / "web.npz")
    done = run_to_end([sys.executable, "-c", READ_BIG, str(tmp_path / "web.npz")], check=True)
    n_dropped, ratio = done.stdout.split()
    assert int(n_dropped) >= 9000
    assert float(ratio) < 2
