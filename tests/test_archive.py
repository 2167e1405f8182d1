"""The archive of a crawl: WARC files that agree with the store, whatever happened to the crawl."""

import gzip
import json
import logging
import os
import resource
import shutil
from contextlib import contextmanager
from random import Random

import pytest
from archived_crawls import HOST, OneRetry, crawl, store_of
from crawls import ADDON, Answer, Site, page, run_spider
from hostile import RawSite, raw
from stores import change, query
from warcs import check_archive, records, responses

from crawlprio.plugins.archive.archive import surt
from crawlprio.store import Store


@pytest.fixture(scope="module")
def archived(tmp_path_factory):
    """The folder of a crawl that ended."""
    folder = tmp_path_factory.mktemp("archived")
    assert crawl(folder, USER_AGENT="archivist/1.0").reason == "finished"
    return folder


def test_every_answered_visit_has_one_response_with_its_request_and_is_indexed(archived):
    check_archive(archived / "warc", store_of(archived))
    found = [
        (record.url.removeprefix(HOST), record.kind) for record in responses(archived / "warc")
    ]
    assert sorted(found) == [
        ("", "response"),
        ("copy", "revisit"),
        ("lost", "response"),
        ("new?a=1", "response"),
        ("old", "response"),
        ("robots.txt", "response"),
        ("same", "response"),
    ]


def test_records_hold_the_bytes_that_came_and_the_request_that_was_sent(archived):
    info, *rest = records(archived / "warc")
    assert info.kind == "warcinfo"
    assert b"software: crawlprio/" in info.body
    assert b"setting-USER_AGENT: 'archivist/1.0'" in info.body
    (moved,) = [r for r in rest if r.url == f"{HOST}old" and r.kind == "response"]
    assert moved.http.statusline == "301 Moved Permanently"
    assert moved.http.get_header("Location") == "/new?a=1"
    assert moved.body == b"moved"
    (asked,) = [r for r in rest if r.url == f"{HOST}new?a=1" and r.kind == "request"]
    assert asked.http.statusline == "/new?a=1 HTTP/1.1"
    assert asked.http.get_header("Host") == "a.example"
    assert asked.http.get_header("User-Agent") == "archivist/1.0"


def test_a_revisit_names_the_first_response_of_its_body(archived):
    by_url = {record.url: record for record in responses(archived / "warc")}
    first, second = by_url[f"{HOST}same"], by_url[f"{HOST}copy"]
    tell = second.headers.get_header
    assert tell("WARC-Refers-To-Target-URI") == first.url
    assert tell("WARC-Refers-To-Date") == first.headers.get_header("WARC-Date")
    assert tell("WARC-Payload-Digest") == first.headers.get_header("WARC-Payload-Digest")
    assert second.body == b""
    assert second.http.get_header("Content-Type") == "text/html"


def test_each_run_that_ended_leaves_its_receipt_beside_what_it_fetched(tmp_path):
    crawl(tmp_path, CLOSESPIDER_PAGECOUNT=3)
    crawl(tmp_path)
    found = records(tmp_path / "warc")
    kinds = [(record.file[-13:-8], record.kind) for record in found]
    told = [record for record in found if record.kind == "metadata"]
    assert [kind for kind in kinds if kind[1] == "metadata"] == [
        ("00000", "metadata"),
        ("00001", "metadata"),
    ]
    assert kinds[-1] == ("00001", "metadata")
    infos = {record.file: record for record in found if record.kind == "warcinfo"}
    for record in told:
        info = infos[record.file].headers.get_header("WARC-Record-ID")
        assert record.headers.get_header("WARC-Refers-To") == info
    receipts = [json.loads(record.body.removeprefix(b"receipt: ")) for record in told]
    assert [receipt["got"]["pages"] for receipt in receipts] == [3, 5]
    assert receipts[-1] == json.loads((tmp_path / "job" / "receipt.json").read_text())
    check_archive(tmp_path / "warc", store_of(tmp_path))
    assert "metadata" not in (tmp_path / "warc" / "index.cdxj").read_text()


def test_files_are_rotated_by_size_and_each_opens_with_a_warcinfo_that_its_records_name(tmp_path):
    crawl(tmp_path, CRAWLPRIO_MAX_WARC_BYTES=2_000)
    check_archive(tmp_path / "warc", store_of(tmp_path))
    found = records(tmp_path / "warc")
    names = list(dict.fromkeys(record.file for record in found))
    assert len(names) > 2
    assert [name[-13:] for name in names] == [f"{n:05d}.warc.gz"[-13:] for n in range(len(names))]
    opening = [next(r for r in found if r.file == name) for name in names]
    assert [record.kind for record in opening] == ["warcinfo"] * len(names)
    ids = {record.file: record.headers.get_header("WARC-Record-ID") for record in opening}
    for record in found:
        if record.kind != "warcinfo":
            assert record.headers.get_header("WARC-Warcinfo-ID") == ids[record.file]


def test_a_resumed_crawl_cuts_what_a_killed_one_left_and_archives_the_rest(tmp_path):
    crawl(tmp_path, CLOSESPIDER_PAGECOUNT=3)
    (first,) = (tmp_path / "warc").glob("*.warc.gz")
    whole = first.read_bytes()
    # What a kill leaves: a torn record, and a file begun after it, neither known to the store.
    first.write_bytes(whole + gzip.compress(b"WARC/1.1\r\nWARC-Type: response\r\n")[:-3])
    later = first.with_name(first.name.replace("-00000", "-00001"))
    later.write_bytes(b"torn")
    other = first.with_name("another.warc.gz")
    other.write_bytes(b"")
    assert crawl(tmp_path).reason == "finished"
    assert first.read_bytes() == whole
    assert other.exists()
    other.unlink()
    check_archive(tmp_path / "warc", store_of(tmp_path))
    assert [r.url.removeprefix(HOST) for r in responses(tmp_path / "warc")].count("same") == 1


def test_records_that_a_power_failure_took_are_named_and_forgotten(tmp_path):
    crawl(tmp_path, CLOSESPIDER_PAGECOUNT=4)
    (first,) = (tmp_path / "warc").glob("*.warc.gz")
    n_before = len(responses(tmp_path / "warc"))
    # The last record, a request, and the response before it; then zeros, as some systems leave.
    last = responses(tmp_path / "warc")[-1]
    os.truncate(first, last.offset + 20)
    os.truncate(first, last.offset + last.length)
    run = crawl(tmp_path)
    assert [text for text in run.messages() if "power failure" in text] == [
        f"{first}: the last 1 records are not on disk, as after a power failure; their pages stay "
        "without one."
    ]
    assert len([r for r in responses(tmp_path / "warc") if r.file == first.name]) == n_before - 1


def test_a_resume_without_the_archive_or_without_its_last_file_is_refused(tmp_path):
    crawl(tmp_path, CLOSESPIDER_PAGECOUNT=3)
    (first,) = (tmp_path / "warc").glob("*.warc.gz")
    before = first.read_bytes()
    assert crawl(tmp_path, CRAWLPRIO_WARC=None).messages() == [
        f"{store_of(tmp_path)}: this crawl is archived, and this run would leave a gap; name "
        "the folder again (--warc FOLDER)."
    ]
    (elsewhere,) = crawl(tmp_path, CRAWLPRIO_WARC=str(tmp_path / "b")).messages()
    assert elsewhere.endswith("name the folder that has it, or move it back.")
    assert first.read_bytes() == before
    assert crawl(tmp_path).reason == "finished"
    check_archive(tmp_path / "warc", store_of(tmp_path))


def test_a_store_cannot_name_a_file_outside_the_archive(tmp_path):
    crawl(tmp_path, CLOSESPIDER_PAGECOUNT=3)
    victim = tmp_path / "victim.warc.gz"
    victim.write_bytes(b"precious")
    change(store_of(tmp_path), "UPDATE archive_files SET name = '../victim.warc.gz', n_bytes = 0")
    (sentence,) = crawl(tmp_path).messages()
    assert "a name that is not crawlprio's" in sentence
    assert victim.read_bytes() == b"precious"


def test_of_a_retried_page_the_last_answer_is_archived_and_no_password(tmp_path):
    answers = iter([Answer("broken", status=500), Answer("ready")])
    settings = {
        **ADDON,
        "RETRY_ENABLED": True,
        "CRAWLPRIO_STORE": str(tmp_path / "crawl.sqlite"),
        "CRAWLPRIO_WARC": str(tmp_path / "warc"),
    }
    run = run_spider(OneRetry, settings, site=({}, lambda host, path: next(answers)))
    assert len(run.site.fetches) == 2
    assert [record.body for record in responses(tmp_path / "warc")] == [b"ready"]
    check_archive(tmp_path / "warc", tmp_path / "crawl.sqlite")
    sent = b"".join(r.http.to_bytes() for r in records(tmp_path / "warc") if r.http is not None)
    assert b"secret" not in sent
    assert b"X-Other: kept" in sent


def test_the_headers_to_leave_out_can_be_named(tmp_path):
    settings = {
        **ADDON,
        "CRAWLPRIO_WARC": str(tmp_path / "warc"),
        "CRAWLPRIO_WARC_SECRET_HEADERS": "x-other,set-cookie",
    }
    with Site({"/": Answer("ready", headers={"Set-Cookie": "kept=1", "X-More": "2"})}) as site:
        run_spider(OneRetry, settings, site=site)
    sent = b"".join(r.http.to_bytes() for r in records(tmp_path / "warc") if r.http is not None)
    assert b"X-Api-Key: secret" in sent
    assert b"X-More: 2" in sent
    assert b"kept" not in sent


@pytest.mark.parametrize("scheduler", ["crawlprio's", "Scrapy's"])
def test_a_crawl_without_a_store_is_archived_too(tmp_path, scheduler):
    settings = {**ADDON, "CRAWLPRIO_WARC": str(tmp_path / "warc")}
    if scheduler == "Scrapy's":
        settings["SCHEDULER"] = "scrapy.core.scheduler.Scheduler"
    assert run_spider(OneRetry, settings, site={"/": page()}).reason == "finished"
    assert [record.url for record in responses(tmp_path / "warc")] == [HOST]
    (line,) = (tmp_path / "warc" / "index.cdxj").read_text().splitlines()
    assert line.startswith("example,a)/ ")


KEYS = [
    ("http://www.Example.com/", "com,example)/"),
    ("http://www12.example.com/a", "com,example)/a"),
    ("http://wwwx.example.com/", "com,example,wwwx)/"),
    ("http://www.www.example.com/", "com,example,www)/"),
    ("http://example.com", "com,example)/"),
    ("https://example.com:443/", "com,example)/"),
    ("https://example.com:80/", "com,example:80)/"),
    ("http://www.example.com:8080/a", "com,example:8080)/a"),
    ("http://example.com:0080/", "com,example)/"),
    ("http://EXAMPLE.com/A/B/", "com,example)/a/b"),
    ("http://example.com/A?B=C&a=b", "com,example)/a?a=b&b=c"),
    ("http://example.com/a?", "com,example)/a"),
    ("http://example.com/?b=2&a=1&a=0&c", "com,example)/?a=0&a=1&b=2&c"),
    ("http://example.com/?a=b+c&a;b", "com,example)/?a=b+c&a;b"),
    ("http://example.com/?a=1&&b=2", "com,example)/?&a=1&b=2"),
    ("http://example.com/?B=1&a=2&A=3", "com,example)/?a=2&a=3&b=1"),
    ("http://example.com/a//b///c", "com,example)/a/b/c"),
    ("http://example.com/a//../b", "com,example)/a/b"),
    ("http://example.com/..", "com,example)/.."),
    ("http://example.com/../../a", "com,example)/a"),
    ("http://example.com/%7Efoo/%2f%41", "com,example)/~foo/a"),
    ("http://example.com/a b", "com,example)/a%20b"),
    ("http://example.com/é?é=日", "com,example)/%c3%a9?%c3%a9=%e6%97%a5"),
    ("http://example.com/%C3%A9", "com,example)/%c3%a9"),
    ("http://example.com/%E9", "com,example)/%e9"),
    ("http://example.com/%2525", "com,example)/%25"),
    ("http://example.com/%zz", "com,example)/%25zz"),
    ("http://example.com/?%26=%3D&a=%2B", "com,example)/?&==&a=+"),
    ("http://example.com/?u=http://www.x.com/A", "com,example)/?u=http://www.x.com/a"),
    ("http://example.com/a#fragment", "com,example)/a"),
    ("http://user:pw@example.com/a", "com,example)/a"),
    ("http://1.2.3.4:8080/a", "4,3,2,1:8080)/a"),
    ("http://3232235777/a", "1,1,168,192)/a"),
    ("http://256.1.1.1/a", "1,1,1,256)/a"),
    ("http://[2001:db8::1]/a", "2001:db8::1)/a"),
    ("http://[::1]:8080/a", "::1:8080)/a"),
    ("http://bücher.de/a", "de,xn--bcher-kva)/a"),
    ("http://example.com./a", "com,example)/a"),
    ("http://localhost/", "localhost)/"),
    (
        "http://example.com/a;jsessionid=0123456789abcdefghijklemopqrstuv",
        "com,example)/a;jsessionid=0123456789abcdefghijklemopqrstuv",
    ),
    (
        "http://example.com/?a=1&JSESSIONID=0123456789abcdefghijklemopqrstuv&c=2",
        "com,example)/?a=1&c=2",
    ),
    ("http://example.com/?a=1&phpsessid=9682993c8daa2c5497996114facdc805", "com,example)/?&a=1"),
    ("http://example.com/?xsid=9682993c8daa2c5497996114facdc805", "com,example)/?x"),
    (
        "http://example.com/?sid=9682993c8daa2c5497996114facdc8055",
        "com,example)/?sid=9682993c8daa2c5497996114facdc8055",
    ),
    (
        "http://example.com/?a=2&ASPSESSIONIDAQBSDSRT=EOHBLBDDPFCLHKPGGKLILNAM&b=1",
        "com,example)/?a=2&b=1",
    ),
    ("http://example.com/?cfid=1169580&cftoken=48630702&d=22%2F08", "com,example)/?d=22/08"),
    ("http://example.com/?cfid=1", "com,example)/?cfid=1"),
    (
        "http://example.com/(S(0123456789abcdefghijklmn))/(0123456789abcdefghijklmn)/page.aspx?a",
        "com,example)/page.aspx?a",
    ),
    (
        "http://example.com/(0123456789abcdefghijklmn)/page.html",
        "com,example)/(0123456789abcdefghijklmn)/page.html",
    ),
    ("ftp://ftp.example.com/A", "com,example,ftp)/a"),
    ("data:text/plain,Hi", "data:text/plain,hi"),
    ("about:blank", "about:blank"),
]
"""URLs, and the keys by which pywb looks them up: recorded from surt 0.3.1, which it uses."""


@pytest.mark.parametrize(("url", "key"), KEYS)
def test_the_key_of_a_url_is_the_one_that_pywb_looks_up(url, key):
    assert surt(url) == key


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [("archived", "offset", "text"), ("archive_files", "n_bytes", "many")],
)
def test_a_row_with_a_value_of_another_type_is_refused_and_nothing_is_lost(
    tmp_path, archived, table, column, value
):
    shutil.copytree(archived, tmp_path, dirs_exist_ok=True)
    change(store_of(tmp_path), f"UPDATE {table} SET {column} = ?", value)
    kept = {path: path.read_bytes() for path in (tmp_path / "warc").iterdir()}
    n_visits = query(store_of(tmp_path), "SELECT count(*) FROM visits")
    run = crawl(tmp_path)
    assert run.reason == "crawlprio_refused"
    (said,) = run.messages(logging.ERROR)
    assert f"crawl.sqlite: the file is damaged ({column} of row " in said
    assert {path: path.read_bytes() for path in (tmp_path / "warc").iterdir()} == kept
    assert query(store_of(tmp_path), "SELECT count(*) FROM visits") == n_visits


@contextmanager
def files_of_at_most(n_bytes):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_ends_the_crawl_in_one_sentence_and_it_resumes(tmp_path):
    noise = Random(7)
    web = {
        "/": page(*(f"/{n}" for n in range(8))),
        **{f"/{n}": Answer(noise.randbytes(60_000).hex()) for n in range(8)},
    }
    with files_of_at_most(300_000):
        run = crawl(tmp_path, web)
    (sentence,) = run.messages()
    assert sentence.endswith("the disk is full; free some space, then resume the crawl.")
    with Store.open(store_of(tmp_path), readonly=True) as store:
        assert 0 < store.n_visits < 9
        n_visits = store.n_visits
    assert len(responses(tmp_path / "warc")) == n_visits + 1  # robots.txt
    assert crawl(tmp_path, web).reason == "finished"
    check_archive(tmp_path / "warc", store_of(tmp_path))
    assert len(responses(tmp_path / "warc")) == 9 + 2


def test_two_crawls_share_a_folder_and_its_index(tmp_path):
    crawl(tmp_path)
    first = (tmp_path / "warc" / "index.cdxj").read_text().splitlines()
    second = tmp_path / "second"
    second.mkdir()
    crawl(second, CRAWLPRIO_WARC=str(tmp_path / "warc"))
    both = (tmp_path / "warc" / "index.cdxj").read_text().splitlines()
    assert len(both) == 2 * len(first)
    assert both == sorted(both)
    assert [line for line in both if line in first] == first


CUT = {
    "broken off": (raw(b"ten bytes.", "Content-Length: 99"), "disconnect", b"ten bytes."),
    "declared too large": (raw(b"x" * 999, "Content-Length: 999"), "length", b""),
    "found too large": (
        raw(b"3E8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n", "Transfer-Encoding: chunked"),
        "length",
        b"x" * 1000,
    ),
}


@pytest.mark.parametrize("case", CUT)
def test_a_body_that_is_cut_off_is_archived_as_far_as_it_came_and_its_page_fails(tmp_path, case):
    answer, why, body = CUT[case]
    outcomes = []
    for folder in (tmp_path / "archived", None):
        settings = {**ADDON, "DOWNLOAD_MAXSIZE": 500, "RETRY_ENABLED": True}
        settings |= {"RETRY_TIMES": 1, "CRAWLPRIO_WARC": None if folder is None else str(folder)}
        store = tmp_path / f"{folder is None}.sqlite"
        with RawSite(lambda host, path: answer) as site:
            run = run_spider(OneRetry, {**settings, "CRAWLPRIO_STORE": str(store)}, site=site)
        visits = query(store, "SELECT status, error FROM visits WHERE page >= 0")
        names = ("crawlprio/refused/too-large", "retry/count", "downloader/response_count")
        outcomes.append((visits, len(site.requests), [run.stats.get(name) for name in names]))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0][0][0] == 0
    (found,) = responses(tmp_path / "archived")
    assert found.headers.get_header("WARC-Truncated") == why
    assert found.body == body


def test_an_answer_that_never_has_a_body_gets_no_length(tmp_path):
    crawl(tmp_path, {"/": Answer("", status=304), "/robots.txt": Answer("")})
    lengths = {
        record.http.get_statuscode(): record.http.get_header("Content-Length")
        for record in responses(tmp_path / "warc")
    }
    assert lengths == {"304": None, "200": "0"}
