"""Pages made by script: which are rendered, what becomes of them, and what they cannot fetch."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from browsers import in_browser
from crawls import ADDON, PROJECT, Answer, Site, n_recorded, page, run_spider
from forked import run_to_end
from scrapy import Spider
from script_sites import HTML, JSON, SCRIPT, app, scripted
from stores import query
from waiting import until
from warcs import records

import crawlprio
from crawlprio.spiders.site import SiteSpider

pytestmark = in_browser


def crawl(site, folder, path="/p/0", **settings):
    """Crawl a site with the bundled spider in this process."""
    every = {
        **PROJECT,
        "CRAWLPRIO_STORE": str(folder / "crawl.sqlite"),
        "CRAWLPRIO_RENDER": "auto",
        "CRAWLPRIO_PROGRESS": False,
        **settings,
    }
    return run_spider(SiteSpider, every, seeds=f"http://{site.address}{path}")


def counts(done):
    """Return what a crawl rendered, by the last part of the name of its count."""
    of = "crawlprio/rendered/"
    return {name.removeprefix(of): n for name, n in done.stats.items() if name.startswith(of)}


def path_of(url):
    return "/" + url.split("/", 3)[3]


def titles(folder):
    return dict(
        query(
            folder / "crawl.sqlite", "SELECT url, title FROM visits JOIN pages ON page = pages.id"
        )
    )


def test_a_site_made_by_script_is_crawled_whole_with_titles_texts_and_links(tmp_path):
    with Site(app(12)) as site:
        done = crawl(site, tmp_path)
    root = f"http://{site.address}/p/"
    assert titles(tmp_path) == {f"{root}{n}": f"Page {n}" for n in range(12)}
    links = set(query(tmp_path / "crawl.sqlite", "SELECT source_url, target_url FROM link_urls"))
    assert links == {(f"{root}{n}", f"{root}{(n + k) % 12}") for n in range(12) for k in (1, 2, 3)}
    assert counts(done) == {"pages": 12, "gained": 12}
    asked = Counter(site.paths())
    assert asked["/app.js"] == asked["/view.js"] == 1
    assert not asked["/app.css"]
    assert set(asked.values()) == {1}
    store = crawlprio.read(tmp_path / "crawl.sqlite")
    assert store is not None
    rows = query(tmp_path / "crawl.sqlite", "SELECT seq, n_requests, seconds > 0 FROM rendered")
    assert [seq for seq, *_ in rows] == list(range(1, 13))
    assert {row[1:] for row in rows} == {(3, 1)}
    hashes = query(tmp_path / "crawl.sqlite", "SELECT DISTINCT content_hash FROM visits")
    assert len(hashes) == 12


def test_a_crawl_that_renders_nothing_says_how_many_pages_a_browser_would_show(tmp_path):
    with Site(app(3)) as site:
        done = crawl(site, tmp_path, CRAWLPRIO_RENDER="never", CRAWLPRIO_RECEIPT=True)
    assert site.paths() == ["/p/0"]
    assert counts(done) == {}
    report = done.stats["crawlprio/receipt"]
    assert "1 page looks as if made by script and was not rendered (--render auto)." in report
    assert "left out" not in report


def test_links_to_hash_routes_are_said_in_the_receipt_with_and_without_rendering(tmp_path):
    links = ["#/a", "#!/b", "/1#/c"]
    anchors = "".join(f"<a href='{link}'>{link}</a>" for link in [*links, *links, "#top"])
    web = {"/0": Answer(f"{anchors}{'word ' * 200}", headers=HTML), "/1": page("/0#/d")}
    made = scripted("document.body.innerHTML = '" + anchors.replace("'", '"') + "'")
    for name, served in {"plain": web, "made": {**web, "/0": made}}.items():
        (tmp_path / name).mkdir()
        with Site(served) as site:
            done = crawl(site, tmp_path / name, "/0", CRAWLPRIO_RECEIPT=True)
        report = done.stats["crawlprio/receipt"]
        assert "4 links to hash routes (#/...), which are one page to a crawl." in report
        assert "left out" not in report
        assert sorted(site.paths()) == ["/0", "/1"]


FORBIDDEN = """
const port = location.port, at = (host, path) => `http://${host}:${port}${path}`;
const urls = ["/private/secret", "/to/private", "/to/outside", at("127.0.0.9", "/x"),
              at("10.255.255.1", "/x"), at("other.example", "/x"), "file:///etc/passwd"];
for (const url of urls) fetch(url).catch(() => 0);
const asked = new XMLHttpRequest(); asked.open("GET", "/private/xhr"); asked.send();
fetch("/post", {method: "POST", body: "x"}).catch(() => 0);
navigator.sendBeacon("/beacon", "x");
new Image().src = "/image.png"; new Image().src = at("127.0.0.9", "/image.png");
try { new WebSocket(`ws://${location.host}/socket`); } catch {}
try { new WebSocket(`ws://127.0.0.9:${port}/socket`); } catch {}
new EventSource("/events");
try { window.open("/popup"); window.open(at("127.0.0.9", "/popup")); } catch {}
try { navigator.serviceWorker.register("/worker.js").catch(() => 0); } catch {}
try { new Worker(URL.createObjectURL(new Blob([`fetch("http://127.0.0.9:${port}/worker")`]))); }
catch {}
try { new SharedWorker("/shared.js"); } catch {}
for (const [tag, name, value] of [
    ["iframe", "src", "/frame"], ["iframe", "src", at("127.0.0.9", "/frame")],
    ["link", "href", "/prefetched"], ["object", "data", "/object"], ["video", "src", "/video"],
    ["a", "ping", "/ping"],
    ["iframe", "srcdoc", "<img src=/inner.png><script src=/private/s.js></script>"],
]) {
    const made = document.createElement(tag);
    if (tag === "link") made.rel = "prefetch";
    if (tag === "a") { made.href = "#x"; }
    made.setAttribute(name, value);
    document.body.append(made);
    if (tag === "a") made.click();
}
document.head.innerHTML += `<link rel=preconnect href="${at("127.0.0.9", "")}">
    <link rel=dns-prefetch href=//other.example><link rel=icon href=/icon.png>
    <link rel=manifest href=/manifest.json><meta http-equiv=refresh content="0;url=/refreshed">`;
const form = document.createElement("form"); form.action = "/form"; form.method = "post";
document.body.append(form); form.submit();
try { new RTCPeerConnection({iceServers: [{urls: "stun:127.0.0.9:" + port}]})
        .createDataChannel("x"); } catch {}
setTimeout(() => { location.href = "/gone"; }, 0);
alert("a dialog"); confirm("another"); prompt("and another");
"""


def test_scripts_get_nothing_that_a_crawl_could_not_fetch(tmp_path):
    with Site({}) as site:
        port = site.address.rpartition(":")[2]
        web = app(2, script=FORBIDDEN, robots="Disallow: /private\n")
        web["/to/private"] = Answer("", 302, {"Location": "/private/2"})
        web["/to/outside"] = Answer("", 302, {"Location": f"http://127.0.0.9:{port}/secret"})
        site._pages = web
        done = crawl(site, tmp_path)
    asked = Counter(site.paths())
    expected = {"/p/0", "/p/1", "/api/p/0.json", "/api/p/1.json", "/app.js", "/view.js"}
    expected.add("/shared.js")  # a script that a crawl may fetch; it cannot be run
    # The last one is a link of the document that the script made.
    assert set(asked) - {"/to/private", "/to/outside", "/refreshed"} == expected
    assert {fetch.method for fetch in site.fetches} == {"GET"}
    assert {fetch.host for fetch in site.fetches} == {"127.0.0.1"}
    assert counts(done) == {"pages": 2, "gained": 2}
    assert all(path.startswith(("/p/", "/refreshed")) for path in map(path_of, titles(tmp_path)))


def sockets_of(pids):
    """Return the remote addresses of all sockets that processes have, but those of files."""
    inodes = set()
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = os.readlink(file)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = set()
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]:
            words = line.split()
            if words[9] in inodes:
                found.add((kind, words[2]))
    return found


def below(parent):
    """Return the processes below one."""
    children = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(words[1]), []).append(int(file.parent.name))
    found, waiting = [], [parent]
    while waiting:
        waiting += children.get(waiting[0], [])
        found.append(waiting.pop(0))
    return found[1:]


def browsers_of(parent):
    """Return the processes below one that are Chromium's."""
    found = []
    for pid in below(parent):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"--type=" in command or b"--headless" in command:
            found.append(pid)
    return found


def test_the_browser_itself_has_no_connection(tmp_path):
    """While its page tries to reach what answers, it has no socket but that to its driver."""
    seen = set()
    n_looked = 0
    with Site({}) as site:

        def look(_):
            nonlocal n_looked
            pids = browsers_of(os.getpid())
            n_looked += len(pids)
            seen.update(sockets_of(pids))
            return Answer("{}", headers={**JSON, "Cache-Control": "no-store"})

        web = app(1, script=FORBIDDEN)
        asks = "for (let n = 0; n < 20; n++) await fetch('/look?' + n);"
        web["/app.js"] = Answer(FORBIDDEN + asks, headers=SCRIPT)
        site._pages = web
        site._answer = lambda host, path: look(path) if path.startswith("/look") else None
        crawl(site, tmp_path)
    assert sum(path.startswith("/look") for path in site.paths()) == 20
    assert n_looked >= 20
    assert not seen


FAILURES = {
    "hung": "while (true) {}",
    "too large": "document.documentElement.hidden = true;"
    "for (let n = 0; n < 3e5; n++) document.body.append(document.createElement('b'))",
    "too large text": "document.body.append(new Comment('x'.repeat(2e7)))",
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("cause", FAILURES)
def test_a_page_that_cannot_be_rendered_stays_as_it_was_sent_and_is_counted(cause, tmp_path):
    """The page after it is rendered: by another tab, or another browser."""
    web = {**app(4), "/start": scripted(FAILURES[cause], links=["/p/0"])}
    with Site(web) as site:
        done = crawl(site, tmp_path, "/start")
    cause = cause.removesuffix(" text")
    assert counts(done) == {f"failed/{cause}": 1, "pages": 4, "gained": 4}
    assert len(titles(tmp_path)) == 5


@pytest.mark.long
def test_a_page_that_takes_all_memory_is_given_up(tmp_path):
    """By the limit of the script engine, or before, because it answers nothing."""
    script = "const all = []; while (true) all.push(new Array(1e6).fill({}).map(() => ({})));"
    with Site({**app(2), "/start": scripted(script, links=["/p/0"])}) as site:
        done = crawl(site, tmp_path, "/start")
    found = counts(done)
    assert found.pop("failed/crashed", 0) + found.pop("failed/hung", 0) == 1
    assert found == {"pages": 2, "gained": 2}


def test_a_page_whose_process_dies_is_counted_and_the_next_ones_are_rendered(tmp_path):
    def kill():
        for pid in browsers_of(os.getpid()):
            if b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
        return Answer("", headers=JSON)

    web = {**app(2), "/start": scripted("fetch('/kill')", links=["/p/0"])}
    with Site(web, lambda host, path: kill() if path == "/kill" else None) as site:
        done = crawl(site, tmp_path, "/start")
    assert counts(done) == {"failed/crashed": 1, "pages": 2, "gained": 2}


def test_a_browser_that_is_killed_is_started_again(tmp_path):
    with Site(app(6)) as site:
        killed = []

        def kill(path):
            if path == "/api/p/3.json" and not killed:
                killed.extend(browsers_of(os.getpid()))
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)

        site._answer = lambda host, path: kill(path)
        done = crawl(site, tmp_path, CONCURRENT_REQUESTS=1)
    assert killed
    found = counts(done)
    assert found["pages"] >= 5
    assert sum(found.values()) - found["gained"] - found["pages"] <= 1
    assert len(titles(tmp_path)) == 6


ENDLESS = {
    "timers": "setInterval(() => { document.title += 'x'; }, 1);",
    "animation": "const turn = () => { requestAnimationFrame(turn); }; turn();",
    "reloads": "location.reload();",
    "history": "setInterval(() => history.pushState(0, '', '/p/' + Math.random()), 50);",
    "fetches": "(async () => { while (true) await fetch('/none?' + Math.random()); })();",
    "dialogs": "for (let n = 0; n < 100; n++) alert(n);",
    "windows": "for (let n = 0; n < 100; n++) window.open('about:blank');",
    "storage": "localStorage.x = 'x'.repeat(1e6); document.cookie = 'a=b';",
    "prototypes": "Object.defineProperty(Element.prototype, 'outerHTML', {get: () => 'no'});"
    "Document.prototype.getElementsByTagName = () => ({length: 1e9}); Array.prototype.push = 0;",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ENDLESS)
def test_a_page_that_never_ends_is_read_as_it_stands(kind, tmp_path):
    with Site(app(2, script=ENDLESS[kind])) as site:
        done = crawl(site, tmp_path)
    assert counts(done) == {"pages": 2, "gained": 2}
    assert len(titles(tmp_path)) == 2
    assert sum(path.startswith("/none") for path in site.paths()) <= 2 * 60


def test_what_a_page_stores_is_gone_when_the_next_one_comes(tmp_path):
    script = "document.title = (localStorage.x || 'none') + document.cookie; localStorage.x = 'y';"
    script += "document.cookie = 'a=b';"
    web = {f"/{n}": scripted(script, links=[f"/{n + 1}"]) for n in range(3)}
    with Site(web) as site:
        crawl(site, tmp_path, "/0", CRAWLPRIO_RENDER="always")
    assert set(titles(tmp_path).values()) == {"none", ""}


def test_a_page_that_the_browser_leaves_as_it_is_counts_as_rendered(tmp_path):
    body = "<!DOCTYPE html><html><head></head><body><script>0</script></body></html>"
    with Site({"/0": Answer(body, headers=HTML)}) as site:
        done = crawl(site, tmp_path, "/0", CRAWLPRIO_RENDER="always")
    assert counts(done) == {"pages": 1}
    assert query(tmp_path / "crawl.sqlite", "SELECT status FROM visits") == [(200,)]


def test_links_in_shadow_roots_are_found(tmp_path):
    script = """customElements.define("a-menu", class extends HTMLElement {
        connectedCallback() {
            this.attachShadow({mode: "open"}).innerHTML = "<a href=/1>one</a><a-menu2></a-menu2>";
        }
    });
    customElements.define("a-menu2", class extends HTMLElement {
        connectedCallback() { this.attachShadow({mode: "open"}).innerHTML = "<a href=/2>two</a>"; }
    });
    document.body.append(document.createElement("a-menu"));"""
    with Site({"/0": scripted(script), "/1": page(), "/2": page()}) as site:
        crawl(site, tmp_path, "/0")
    assert sorted(site.paths()) == ["/0", "/1", "/2"]


def plain_site(n_pages, script="document.body.append('.');"):
    """Return a manual whose pages have content, and a script that brings nothing."""
    web = {"/robots.txt": Answer("", 404)}
    for number in range(n_pages):
        links = "".join(f"<p><a href=/{(number + step) % n_pages}>next</a> word" for step in (1, 2))
        body = f"<title>{number}</title>{links}{'word ' * 200}<script>{script}</script>"
        web[f"/{number}"] = Answer(body, headers=HTML)
    return web


def test_of_a_plain_site_one_page_is_tried_and_the_graph_is_the_same(tmp_path):
    graphs = []
    with Site(plain_site(30)) as site:
        for mode in ("auto", "never"):
            (tmp_path / mode).mkdir()
            done = crawl(site, tmp_path / mode, "/0", CRAWLPRIO_RENDER=mode)
            file = tmp_path / mode / "crawl.sqlite"
            sql = (
                "SELECT url, title, content_hash, targets FROM visits JOIN pages ON page = pages.id"
            )
            graphs.append(sorted(query(file, sql)))
            assert counts(done) == ({"pages": 1} if mode == "auto" else {})
    assert graphs[0] == graphs[1]
    assert len(graphs[0]) == 30


def test_a_plain_site_whose_script_shows_more_is_rendered_while_that_brings_links(tmp_path):
    script = "for (let n = 0; n < 40; n++) document.body.innerHTML += `<a href=/menu/${n}>m</a>`;"
    web = plain_site(30, script) | {f"/menu/{n}": page() for n in range(40)}
    with Site(web) as site:
        done = crawl(site, tmp_path, "/0")
    assert len(titles(tmp_path)) == 70
    assert counts(done)["gained"] == 1
    assert counts(done)["pages"] <= 11


def test_the_archive_has_what_servers_sent_and_the_rendered_document_beside_it(tmp_path):
    with Site(app(3)) as site:
        crawl(site, tmp_path, CRAWLPRIO_WARC=str(tmp_path / "warc"))
    found = list(records(tmp_path / "warc"))
    of = {kind: [each for each in found if each.kind == kind] for kind in {r.kind for r in found}}
    sent = {record.url.partition(site.address)[2]: record for record in of["response"]}
    assert {"/p/0", "/app.js", "/view.js", *(f"/api/p/{n}.json" for n in range(3))} <= set(sent)
    assert len(of["revisit"]) == 2, "the shell of the other two pages"
    assert b"The text of page" not in sent["/p/0"].body
    pages = {
        record.headers.get_header("WARC-Record-ID"): record
        for record in (*of["response"], *of["revisit"])
    }
    assert len(of["conversion"]) == 3
    for record in of["conversion"]:
        assert pages[record.headers.get_header("WARC-Refers-To")].url == record.url
        assert b"The text of page %b." % record.url[-1].encode() in record.body
        assert record.headers.get_header("Content-Type") == "text/html; charset=utf-8"


class Own(Spider):
    """Somebody's spider, which knows nothing of rendering."""

    name = "own"

    def __init__(self, url):
        super().__init__()
        self.start_urls, self.found = [url], {}

    def parse(self, response):
        self.found[response.url[-1]] = (response.css("title::text").get(), response.flags)
        yield from response.follow_all(css="a")


def test_the_spider_of_a_project_sees_rendered_pages_under_the_add_on():
    with Site(app(5)) as site:
        settings = {**ADDON, "CRAWLPRIO_RENDER": "auto"}
        done = run_spider(Own, settings, url=f"http://{site.address}/p/0")
    assert done.spider.found == {str(n): (f"Page {n}", ["rendered"]) for n in range(5)}


def test_scripts_of_other_domains_are_fetched_only_if_a_setting_says_so(tmp_path):
    """The other host is another address of loopback, opened by the setting for private networks."""
    web = {}
    with Site(web) as site:
        script = f"http://localhost:{site.address.rpartition(':')[2]}/cdn.js"
        body = f"<body><script src={script}></script>"
        web["/0"] = Answer(body, headers=HTML)
        web["/cdn.js"] = Answer("document.body.innerHTML += '<a href=/1>one</a>'", headers=SCRIPT)
        web["/1"] = page()
        for hosts, paths in (("domain", {"/0"}), ("all", {"/0", "/cdn.js", "/1"})):
            site.fetches.clear()
            (tmp_path / hosts).mkdir()
            own = {"CRAWLPRIO_RENDER_HOSTS": hosts, "CRAWLPRIO_PRIVATE_ADDRESSES": "allow"}
            crawl(site, tmp_path / hosts, "/0", **own)
            assert set(site.paths()) == paths


def run(site, folder, *words):
    line = [sys.executable, "-m", "crawlprio", *words]
    return run_to_end(line, folder)


def test_a_crawl_that_is_killed_resumes_and_leaves_no_browser(tmp_path):
    with Site(app(30)) as site:
        url, store = f"http://{site.address}/p/0", tmp_path / "job" / "crawl.sqlite"
        words = ["crawl", url, "--folder", "job", "--delay", "0", "--render", "auto"]
        killed = subprocess.Popen(
            [sys.executable, "-m", "crawlprio", *words], cwd=tmp_path, stdout=-3, stderr=-3
        )
        until(lambda: n_recorded(store) >= 5)
        browsers = browsers_of(killed.pid)
        killed.kill()
        killed.wait(60)
        assert browsers
        until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in browsers))
        done = run(site, tmp_path, "resume", "job", "--delay", "0")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert "30 pages, 30 gained by it; 0 failed" in done.stdout.replace("│", " ")
    assert len(titles(tmp_path / "job")) == 30
    n_rows = query(store, "SELECT count(*) FROM rendered")[0][0]
    assert 27 <= n_rows <= 30, "a kill may lose the row of the last transaction"


def test_workers_render_what_they_fetch(tmp_path):
    with Site(app(12)) as site:
        url = f"http://{site.address}/p/0"
        words = ["crawl", url, "--folder", "job", "--delay", "0", "--render", "auto"]
        done = run(site, tmp_path, *words, "--workers", "2", "--warc", "job/warc")
    assert done.returncode == 0, done.stderr
    assert "12 pages, 12 gained by it; 0 failed" in done.stdout
    assert sorted(titles(tmp_path / "job").values()) == sorted(f"Page {n}" for n in range(12))
    found = list(records(tmp_path / "job" / "warc"))
    kinds = Counter(record.kind for record in found)
    assert kinds["conversion"] == 12
    sent = Counter(r.url.partition(site.address)[2] for r in found if r.kind == "response")
    assert {f"/api/p/{n}.json" for n in range(12)} <= set(sent)
    assert sent["/app.js"] == sent["/view.js"] == site.paths().count("/app.js")
    rendered = "SELECT url, n_requests FROM rendered JOIN pages ON pages.id = rendered.page"
    rows = dict(query(tmp_path / "job" / "crawl.sqlite", rendered))
    assert rows == {f"http://{site.address}/p/{n}": 3 for n in range(12)}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--browser", "/no/such"],
            "CRAWLPRIO_BROWSER is '/no/such', which cannot be run; install",
        ),
        (["--browser", "/bin/false"], "CRAWLPRIO_BROWSER /bin/false does not start"),
        (["--render", "often"], 'CRAWLPRIO_RENDER is \'often\'; give "never", "auto" or "always"'),
    ],
)
def test_a_browser_that_cannot_be_had_is_one_sentence(words, sentence, tmp_path):
    with Site(app(2)) as site:
        url = f"http://{site.address}/p/0"
        line = ["crawl", url, "--folder", "job", "--delay", "0", "--render", "auto", *words]
        done = run(site, tmp_path, *line)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert sentence in done.stderr


def test_without_playwright_the_sentence_names_the_extra(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'playwright' else find(name, *a)\n"
    )
    line = [sys.executable, "-m", "crawlprio", "crawl", "http://127.0.0.1:9/", "--render", "auto"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = run_to_end(line, tmp_path, env=environment)
    assert done.returncode == 2
    assert done.stderr == (
        "CRAWLPRIO_RENDER 'auto' needs playwright, which is not installed; run pip install "
        "'crawlprio[render]'.\n"
    )
