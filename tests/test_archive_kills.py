"""Real pages behind nginx, archived by a crawl that is killed again and again, and replayed.

By default it is killed twice. `make archive-kills` kills it twenty times, in a crawl of the
3,000 and more pages of four documentation packages, which it downloads.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from crawls import killed_once
from forked import run_forked
from nginx_sites import NGINX, serve
from pywbs import index_of
from stores import query
from warcs import check_archive, records, responses

N_KILLS = int(os.environ.get("CRAWLPRIO_ARCHIVE_KILLS", "2"))
FOLDERS = [
    Path(name)
    for name in os.environ.get(
        "CRAWLPRIO_ARCHIVE_PAGES",
        "/usr/share/doc/python-click-doc/html:/usr/share/doc/python-jinja2-doc/html",
    ).split(":")
]
MISSING = [str(folder) for folder in FOLDERS if not (folder / "index.html").is_file()]

pytestmark = [
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed (apt install nginx-light)"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


def command(server, folder):
    return [
        *("crawl", *server.seeds, "--delay", "0"),
        *("--folder", str(folder / "job"), "--warc", str(folder / "warc")),
        *("-s", "CONCURRENT_REQUESTS=8", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=4"),
        *("-s", "CRAWLPRIO_COMPILE=False", "-s", "CRAWLPRIO_MAX_WARC_BYTES=100000"),
    ]


def visited(folder):
    """Return URL and status of each visit so far."""
    sql = "SELECT url, status FROM visits JOIN pages ON pages.id = page ORDER BY seq"
    with closing(sqlite3.connect(f"file:{folder}/job/crawl.sqlite?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()


def pairs(store):
    return sorted(query(store, "SELECT source_url, target_url FROM link_urls"))


@pytest.mark.long
def test_a_killed_crawl_archives_each_page_once_and_its_replay_sees_the_same_web(tmp_path):
    sites = {f"127.0.0.{31 + n}": (folder, ["/genindex"]) for n, folder in enumerate(FOLDERS)}
    n_files = sum(len(list(folder.rglob("*.html"))) for folder in FOLDERS)
    with serve(tmp_path / "nginx", sites) as server:
        line = command(server, tmp_path)
        for kill in range(N_KILLS):
            n_visits = max(1, kill * (n_files // 2) // N_KILLS)
            killed_once("crawlprio", line, tmp_path / "job" / "crawl.sqlite", n_visits)
        run_forked("crawlprio", line, tmp_path, timeout=900, check=True)
    pages = visited(tmp_path)
    store = tmp_path / "job" / "crawl.sqlite"
    print(f"{len(pages)} visits, {N_KILLS} kills")
    check_archive(tmp_path / "warc", store)
    kinds = [record.kind for record in records(tmp_path / "warc")]
    assert kinds.count("metadata") == 1  # the receipt of the only run that ended
    index = (tmp_path / "warc" / "index.cdxj").read_text()
    assert index_of(tmp_path / "warc") in (index, None)  # pywb's own
    answered = sorted(url for url, status in pages if status)
    robots = {server.url(host, "/robots.txt") for host in sites}
    archived = [record.url for record in responses(tmp_path / "warc")]
    assert sorted(url for url in archived if url not in robots) == answered
    assert len(set(answered)) == len(answered)
    replay = [
        *("replay", str(tmp_path / "warc"), "-a", f"seeds={','.join(server.seeds)}"),
        *("-s", "ORDERING=opic", "-s", "DOWNLOAD_DELAY=0"),
        *("-s", "CRAWLPRIO_PLOT=None", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=8"),
        *("-s", "CRAWLPRIO_COMPILE=False"),
    ]
    run_forked("crawlprio", replay, tmp_path, timeout=900, check=True)
    visits = "SELECT url, status FROM visits JOIN pages ON pages.id = page"
    replayed = query(tmp_path / "replay.sqlite", visits)
    # A page that robots.txt forbids is refused again by each run.
    assert sorted(replayed) == sorted(set(pages))
    assert pairs(tmp_path / "replay.sqlite") == pairs(store)
