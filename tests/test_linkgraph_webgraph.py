"""Reading WebGraph files, checked with an encoder written here from the format's description."""

import random

import numpy as np
import pytest
from linkgraphs import rows_of

from crawlprio.errors import GraphError
from crawlprio.plugins.papers.webgraph import CODE_NAMES, as_words, read_number
from crawlprio.store.graph_files import read_graph

DEFAULT_CODES = {
    "OUTDEGREES": "GAMMA",
    "REFERENCES": "UNARY",
    "BLOCK_COUNT": "GAMMA",
    "BLOCKS": "GAMMA",
    "INTERVALS": "GAMMA",
    "RESIDUALS": "ZETA",
}


def unary(x):
    return "0" * x + "1"


def gamma(x):
    binary = f"{x + 1:b}"
    return unary(len(binary) - 1) + binary[1:]


def delta(x):
    binary = f"{x + 1:b}"
    return gamma(len(binary) - 1) + binary[1:]


def zeta(x, k):
    """Unary class h, then x + 1 - 2^(hk) in minimal binary over [0, 2^(hk + k) - 2^(hk))."""
    h = ((x + 1).bit_length() - 1) // k
    rest, size = x + 1 - 2 ** (h * k), 2 ** (h * k + k) - 2 ** (h * k)
    n_bits = h * k + k
    short = 2**n_bits - size
    if rest < short:
        return unary(h) + (f"{rest:0{n_bits - 1}b}" if n_bits > 1 else "")
    return unary(h) + f"{rest + short:0{n_bits}b}"


def nibble(x):
    groups = [x & 7]
    while x := x >> 3:
        groups.insert(0, x & 7)
    return "".join(f"{i == len(groups) - 1:b}{group:03b}" for i, group in enumerate(groups))


def code(name, x, k):
    if name == "ZETA":
        return zeta(x, k)
    return {"UNARY": unary, "GAMMA": gamma, "DELTA": delta, "NIBBLE": nibble}[name](x)


def natural(x):
    return 2 * x if x >= 0 else -2 * x - 1


def encode_row(page, row, reference, back, codes, window, least_interval, k):
    """Encode one successor list, with the list `back` pages before as its reference (0: none)."""

    def put(component, x):
        return code(codes[component], x, k)

    bits = put("OUTDEGREES", len(row))
    if not row:
        return bits
    extra = list(row)
    if window:
        bits += put("REFERENCES", back)
        if back:
            runs = []
            copying = True
            length = 0
            for target in reference:
                if (target in row) == copying:
                    length += 1
                else:
                    runs.append(length)
                    copying, length = not copying, 1
            bits += put("BLOCK_COUNT", len(runs))
            for i, run in enumerate(runs):
                bits += put("BLOCKS", run - (i > 0))
            extra = [target for target in row if target not in reference]
    if not extra:
        return bits
    residuals = list(extra)
    if least_interval:
        intervals = []
        for target in extra:
            if intervals and target == sum(intervals[-1]):
                intervals[-1][1] += 1
            else:
                intervals.append([target, 1])
        intervals = [i for i in intervals if i[1] >= least_interval]
        bits += put("INTERVALS", len(intervals))
        before = None
        for left, length in intervals:
            gap = natural(left - page) if before is None else left - before - 1
            bits += put("INTERVALS", gap) + put("INTERVALS", length - least_interval)
            before = left + length
        residuals = [t for t in extra if not any(a <= t < a + n for a, n in intervals)]
    before = None
    for target in residuals:
        gap = natural(target - page) if before is None else target - before - 1
        bits += put("RESIDUALS", gap)
        before = target
    return bits


def write_webgraph(path, rows, *, window=7, least_interval=4, k=3, codes=None, flags=""):
    """Write `path` and its properties, using the shortest reference for each list."""
    codes = DEFAULT_CODES | (codes or {})
    stream = ""
    for page, row in enumerate(rows):
        choices = [
            encode_row(page, row, rows[page - back], back, codes, window, least_interval, k)
            for back in range(min(window, page) + 1)
        ]
        stream += min(choices, key=len)
    stream += "0" * (-len(stream) % 8)
    path.write_bytes(int("1" + stream, 2).to_bytes(len(stream) // 8 + 1, "big")[1:])
    path.with_suffix(".properties").write_text(
        "#BVGraph properties\n"
        "graphclass=it.unimi.dsi.webgraph.BVGraph\n"
        f"nodes={len(rows)}\narcs={sum(map(len, rows))}\n"
        f"windowsize={window}\nminintervallength={least_interval}\nmaxrefcount=3\nzetak={k}\n"
        f"compressionflags={flags}\nversion=0\n"
    )


def random_rows(seed, n_pages):
    """Rows with runs, near copies of earlier rows, far targets, and dangling pages."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    rows = []
    for page in range(n_pages):
        row = set()
        if rng.random() < 0.8:
            row.update(rng.sample(range(n_pages), rng.randrange(min(n_pages, 8))))
            if rows and rng.random() < 0.6:
                row.update(t for t in rows[-rng.randint(1, min(9, page))] if rng.random() < 0.8)
            for _ in range(rng.randrange(3)):
                left = rng.randrange(n_pages)
                row.update(range(left, min(n_pages, left + rng.randrange(12))))
        row.discard(page)
        rows.append(sorted(row))
    return rows


@pytest.mark.parametrize("name", CODE_NAMES)
@pytest.mark.parametrize("k", [1, 3, 5])
def test_every_code_reads_back_the_numbers_written_with_it(name, k):
    numbers = [*range(40), 63, 64, 65, 127, 255, 511, 512, 1000, 1023]
    if name != "UNARY":
        numbers += [2**16 - 1, 2**16, 10**6, 2**31 - 2]
    bits = "".join(code(name, x, k) for x in numbers)
    padded = bits + "0" * (-len(bits) % 8)
    words = as_words(int("1" + padded, 2).to_bytes(len(padded) // 8 + 1, "big")[1:])
    position, found = 0, []
    for _ in numbers:
        number, position = read_number(words, position, CODE_NAMES.index(name), k)
        found.append(number)
    assert found == numbers
    assert position == len(bits)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("window", "least_interval"), [(7, 4), (0, 0), (1, 2), (3, 0), (0, 3)])
def test_rows_are_decoded_as_encoded(tmp_path, seed, window, least_interval):
    rows = random_rows(seed, 150)
    write_webgraph(tmp_path / "g.graph", rows, window=window, least_interval=least_interval)
    assert rows_of(read_graph(tmp_path / "g.graph")) == rows


def test_compression_flags_choose_the_code_of_each_component(tmp_path):
    rows = random_rows(11, 120)
    codes = {
        "OUTDEGREES": "DELTA",
        "REFERENCES": "GAMMA",
        "BLOCK_COUNT": "UNARY",
        "BLOCKS": "DELTA",
        "RESIDUALS": "NIBBLE",
    }
    flags = " | ".join(f"{component}_{name}" for component, name in codes.items())
    write_webgraph(tmp_path / "g.graph", rows, codes=codes, flags=flags)
    assert rows_of(read_graph(tmp_path / "g.graph")) == rows


def test_a_stream_truncated_anywhere_is_refused_or_lost_only_padding(tmp_path):
    rows = random_rows(5, 40)
    path = tmp_path / "g.graph"
    write_webgraph(path, rows)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(GraphError):
            read_graph(path)


def test_a_damaged_stream_never_yields_a_page_out_of_range(tmp_path):
    path = tmp_path / "g.graph"
    write_webgraph(path, random_rows(6, 60))
    whole = bytearray(path.read_bytes())
    seed = 7
    print(f"seed {seed}")
    rng = random.Random(seed)
    n_refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            graph = read_graph(path)
        except GraphError:
            n_refused += 1
        else:
            assert np.all((graph.indices >= 0) & (graph.indices < 60))
    assert n_refused > 100


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("nodes=x", "nodes is 'x'; it must be a whole number"),
        ("nodes=99999999999", "nodes is '99999999999'"),
        ("graphclass=it.unimi.dsi.webgraph.EFGraph", "only BVGraph is supported"),
        ("endianness=little", "endianness is little; only big is supported"),
        ("compressionflags=RESIDUALS_GOLOMB", "compressionflags has RESIDUALS_GOLOMB"),
        ("zetak=0", "zetak is '0'; it must be a whole number from 1 to 30"),
        ("arcs=3", "are invalid"),
        ("arcs=7", "has 5 links, but g.properties states 7"),
    ],
)
def test_impossible_properties_are_named(tmp_path, line, complaint):
    write_webgraph(tmp_path / "g.graph", [[1, 2], [0, 2], [0]])
    with (tmp_path / "g.properties").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(GraphError, match=complaint):
        read_graph(tmp_path / "g.graph")


def test_missing_properties_are_requested(tmp_path):
    (tmp_path / "g.graph").write_bytes(b"\0")
    with pytest.raises(GraphError, match=r"g\.properties cannot be read .*put it beside the"):
        read_graph(tmp_path / "g.graph")
