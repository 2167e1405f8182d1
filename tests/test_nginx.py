"""Real documentation behind a real server: what its log and lxml say about a crawl.

Debian's nginx serves documentation packages, each as a site with a robots.txt. `.ci/run` installs
both. The crawl runs three times, and two of the runs are resumed, as a user would do it.
"""

import json
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import lxml.html
import pytest
from forked import run_forked
from nginx_sites import NGINX, serve
from protego import Protego
from stores import query

from crawlprio.measure.importance import open_repository
from crawlprio.simulator.graph_pages import Source
from crawlprio.web.scope import SKIP_EXTENSIONS

DOCS = Path("/usr/share/doc")
SITES = {
    "127.0.0.21": ("python-attr-doc/html", ["/_modules/", "/genindex"]),
    "127.0.0.22": ("python-click-doc/html", ["/a", "/py-modindex", "/search"]),
    "127.0.0.23": ("python-jinja2-doc/html", ["/_sources/", "/extensions", "/py"]),
    "127.0.0.24": ("python-requests-doc/html", ["/_modules/requests/", "/community/"]),
}
"""Addresses, with what is served there and what its robots.txt forbids."""

MISSING = [name for name, _ in SITES.values() if not (DOCS / name / "index.html").is_file()]

pytestmark = [
    pytest.mark.skipif(
        NGINX is None, reason="nginx is not installed (apt-get install nginx-light)"
    ),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


@pytest.fixture
def server(tmp_path):
    sites = {host: (DOCS / name, forbidden) for host, (name, forbidden) in SITES.items()}
    with serve(tmp_path / "nginx", sites) as served:
        yield served


def links_of(file, url):
    """Return the links of a page as lxml finds them, by URL, and whether they are followed."""
    tree = lxml.html.fromstring(file.read_bytes())
    found = {}
    for element in tree.xpath("//a[@href]|//area[@href]"):
        target = urldefrag(urljoin(url, element.get("href").strip())).url
        nofollow = "nofollow" in (element.get("rel") or "").lower().split()
        if target.startswith("http"):
            found[target] = found.get(target, False) or not nofollow
    return found


@dataclass
class Truth:
    """What a crawl has to find, derived from the files alone."""

    known: set[str]
    fetched: set[str]
    links: dict[str, set[str]]

    def pairs(self):
        """Links between known pages."""
        return {
            (source, target)
            for source, targets in self.links.items()
            for target in targets
            if target in self.known and target != source
        }


def truth(server, depth_limit):
    """Crawl the files breadth-first, by the rules in docs/crawl.md."""
    robots = {
        host: Protego.parse("User-agent: *\n" + "".join(f"Disallow: {p}\n" for p in forbidden))
        for host, (_, forbidden) in SITES.items()
    }
    depths = dict.fromkeys(server.seeds, 0)
    fetched = set()
    links = {}
    waiting = deque(server.seeds)
    while waiting:
        url = waiting.popleft()
        parts = urlsplit(url)
        host = parts.hostname or ""
        if not robots[host].can_fetch(url, "crawlprio"):
            continue
        fetched.add(url)
        file = DOCS / SITES[host][0] / unquote(parts.path).lstrip("/")
        if file.is_dir() and parts.path.endswith("/"):
            file /= "index.html"
        if file.is_dir() or not file.is_file() or file.suffix not in (".html", ".htm"):
            assert not file.is_dir(), f"{url} redirects, which this test knows nothing of"
            continue
        found = links_of(file, url)
        links[url] = set(found)
        for target, is_followed in found.items():
            ending = urlsplit(target).path.rpartition("/")[2].rpartition(".")[2].lower()
            if (
                is_followed
                and urlsplit(target).netloc in {f"{host}:{server.port}" for host in SITES}
                and ending not in SKIP_EXTENSIONS
                and target not in depths
                and not (depth_limit and depths[url] >= depth_limit)
            ):
                depths[target] = depths[url] + 1
                waiting.append(target)
    return Truth(set(depths), fetched, links)


def crawlprio(folder, *words):
    return run_forked("crawlprio", words, folder)


@pytest.mark.parametrize(("at_once", "depth_limit"), [(1, 0), (4, 2), (16, 1)])
def test_every_allowed_page_is_fetched_once_with_the_links_that_lxml_sees(
    server, at_once, depth_limit, tmp_path
):
    expected = truth(server, depth_limit)
    assert len(expected.fetched) > 20
    assert len(expected.known) > len(expected.fetched)
    first = len(expected.fetched) // 3
    settings = {
        "DOWNLOAD_DELAY": 0,
        "CONCURRENT_REQUESTS": 64,
        "CONCURRENT_REQUESTS_PER_DOMAIN": at_once,
        "DEPTH_LIMIT": depth_limit,
        "ORDERING": "breadth-first",  # so that depths are those of the shortest path
    }
    line = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    begun = crawlprio(
        tmp_path, "crawl", *server.seeds, "--folder", "job", "--pages", str(first), *line
    )
    assert begun.returncode == 0, begun.stderr
    again = crawlprio(tmp_path, "resume", "job", "--pages", str(first))
    assert again.returncode == 0, again.stderr
    assert crawlprio(tmp_path, "resume", "job").returncode == 0

    asked = Counter(
        server.url(host, path) for host, path, _ in server.requests() if path != "/robots.txt"
    )
    assert set(asked) - expected.fetched == set()
    assert expected.fetched - set(asked) == set()
    assert set(asked.values()) == {1}
    store = tmp_path / "job" / "crawl.sqlite"
    recorded = set(query(store, "SELECT source_url, target_url FROM link_urls"))
    assert {url for (url,) in query(store, "SELECT url FROM pages")} == expected.known
    assert recorded - expected.pairs() == set()
    assert expected.pairs() - recorded == set()
    crawl = open_repository(store)
    assert crawl.graph.n_links == Source.open(store).graph.n_links == len(expected.pairs())
    assert {crawl.graph.urls[page] for page in crawl.order} == expected.fetched
    scored = crawlprio(tmp_path, "score", str(store), "--json", "score.json")
    assert scored.returncode == 0, scored.stderr
    figures = json.loads((tmp_path / "score.json").read_text())
    assert figures["links"] == len(expected.pairs())
    got = [path for _, path, status in server.requests() if path != "/robots.txt" and status < 400]
    assert figures["fetched"] == len(got)
    assert figures["failed"] == len(expected.fetched) - len(got)
    assert figures["not_fetched"] == len(expected.known - expected.fetched)
