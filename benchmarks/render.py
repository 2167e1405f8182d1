"""Rendering: whether its rule names what gains, whether it finds what browsers find, what it costs.

`rule FOLDER...` labels pages by rendering them. Each folder is a site of its own; its pages are
rendered by the browser of the plug-in, which gets files of the folder, and with `--packages` those
of npm packages in place of a CDN's, where the page lies, below a folder named as the site (what
follows `__` in its name), and, if it is an index.html, also at the root of a site. A page gained if
it has twice as much text and 40 characters more, or shows a link on its site that it did not have.
A page that gained nothing is labelled only if all that it asked for was there (but polyfills and
counters of visitors), and if it shows anything: others need a server of their own. Printed too:
the result if twice the text is a gain, however short it is.

`routes WORK` crawls the sites of `render_sites.py`, behind nginx, with `--render auto`, and with a
browser that has a network and follows all links. `manuals FOLDER...` crawls plain folders with and
without rendering. `cost WORK` compares processor time, in pairs.

    python benchmarks/render.py rule pages/* --most 6 --output rule.json
    python benchmarks/render.py routes /tmp/sites
"""

import argparse
import asyncio
import json
import mimetypes
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from time import sleep
from urllib.parse import unquote, urldefrag, urlsplit

sys.path.extend(str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("", "kit"))

from nginx_sites import serve
from playwright.async_api import Error, async_playwright
from render_sites import build

from crawlprio.plugins.render.browser import HeadlessBrowser, PageAnswer, RenderFailed
from crawlprio.web.budgets import pattern_of
from crawlprio.web.html import parse_page
from crawlprio.web.shells import has_script, looks_made_by_script

MAX_BYTES = 3_000_000
CHROMIUM = shutil.which("chromium")
FLAGS = ["--no-sandbox", "--disable-gpu"]
SHOWS_NOTHING = re.compile(r"googletagmanager|google-analytics|zgo\.at|hm\.baidu|polyfill").search


def answer_of(file):
    kind = mimetypes.guess_type(file)[0] or "application/octet-stream"
    return PageAnswer(200, {"content-type": kind}, file.read_bytes())


class Labels:
    """Renders files, and says which gained."""

    def __init__(self, n_tabs, packages=None):
        self._browser = HeadlessBrowser(CHROMIUM, self._fetch, "benchmark", n_tabs)
        self._packages = packages
        self._places = {}
        self._missing = Counter()

    async def _fetch(self, url, page):
        root, file = self._places[page]
        path = unquote(urlsplit(url).path).lstrip("/")
        if urlsplit(url).netloc == urlsplit(page).netloc:
            below = root / path.partition("/")[2]  # as if the site had a folder of its name
            for found in (root / path, file.parent / path, below):
                if found.is_file() and found.resolve().is_relative_to(root.resolve()):
                    return answer_of(found)
        elif self._packages is not None and (found := self._packaged(path)):
            return answer_of(found)
        self._missing[page] += SHOWS_NOTHING(url) is None
        return PageAnswer(404, {"content-type": "text/plain"}, b"")

    def _packaged(self, path):
        """Return the file of a package that a CDN has under a path, of whatever version."""
        path = re.sub(r"-[\d.]+(?=(?:\.slim)?(?:\.min)?\.js$)", "", path)
        for start, part in enumerate(path.split("/")):
            name = re.sub(r"(?<=.)@.*|(?:\.slim)?\.min\.js$", "", part)
            package = self._packages / name
            if (package / "package.json").is_file():
                about = json.loads((package / "package.json").read_text())
                main = about.get("jsdelivr") or about.get("unpkg") or about.get("main", "index.js")
                rest = "/".join(path.split("/")[start + 1 :]) or main
                base = rest.rpartition("/")[2]
                for folder in (rest, f"dist/{base}", f"lib/{base}", f"dist/js/{base}", base):
                    if (package / folder).is_file():
                        return package / folder
        return None

    async def of(self, number, root, file):
        """Return what is known of a page, plain and rendered."""
        body, path = file.read_bytes(), file.relative_to(root).as_posix()
        row = {
            "page": f"{root.name}/{path}",
            "looks": looks_made_by_script(body),
            "gained": False,
            "labelled": not has_script(body),
        }
        site = root.name.rpartition("__")[2]
        urls = [f"http://s{number}.example/{path}", f"http://t{number}.example/{site}/{path}"]
        if file.name == "index.html":
            urls.append(f"http://r{number}.example/")
        for url in urls if has_script(body) else ():
            self._places[url] = root, file
            plain = parse_page(body, url, want_text=True)
            try:
                done = await self._browser.render(url, answer_of(file))
            except RenderFailed as failure:
                row["failed"] = str(failure)
                continue
            shown = parse_page(done.html.encode("utf-8", "replace"), url, want_text=True)
            new = {u for u in {*shown.urls} - {*plain.urls} if urlsplit(u).netloc in url}
            row["gained"] |= bool(new) or len(shown.text) >= 2 * len(plain.text) + 40
            is_whole = not self._missing[url] and bool(shown.text or shown.urls)
            row["labelled"] |= row["gained"] or is_whole
            row["text"], row["links"] = len(plain.text), len(plain.urls)
            row.setdefault("shown", []).append((len(shown.text), len(shown.urls), len(new)))
        return row

    async def close(self):
        await self._browser.close()


def shows_more(row):
    """Return whether a page gained, or shows at least twice its text, however short that is."""
    text = row.get("text", 0)
    longest = max((n for n, *_ in row.get("shown", ())), default=0)
    return row["gained"] or longest >= max(2 * text, 1)


def html_of(root):
    files = sorted(root.rglob("*.html"))
    return [file for file in files if file.is_file() and file.stat().st_size <= MAX_BYTES]


async def rule(options):
    draw, labels = random.Random(options.seed), Labels(options.tabs, options.packages)
    waiting = []
    for root in options.folders:
        files = [file for file in html_of(root) if options.leave_out not in str(file)]
        first = [file for file in files if file == root / "index.html"]
        others = [file for file in files if file not in first]
        n_others = min(options.most - len(first), len(others))
        for file in first + draw.sample(others, n_others):
            waiting.append(labels.of(len(waiting), root, file))
    rows = await asyncio.gather(*waiting)
    await labels.close()
    of = [row for row in rows if row["labelled"]]
    for row in of:
        if row["looks"] != row["gained"]:
            print("named, no gain" if row["looks"] else "gained, not named", row)
    named, gained = (sum(row[name] for row in of) for name in ("looks", "gained"))
    both = sum(row["looks"] and row["gained"] for row in of)
    blank = sum(row["looks"] and not row["labelled"] for row in rows)
    print(f"{len(rows)} pages, {len(of)} labelled; {gained} gained, {named} named, {both} both")
    print(f"precision {both / max(named, 1):.2f}, recall {both / max(gained, 1):.2f}")
    showed = sum(map(shows_more, of))
    both = sum(row["looks"] and shows_more(row) for row in of)
    print(f"with twice the text a gain, however short: {both / max(named, 1):.2f}", end=", ")
    print(f"{both / max(showed, 1):.2f}")
    print(f"{blank} of those that cannot be labelled are named")
    if options.output:
        lines = ",\n".join(map(json.dumps, rows))
        options.output.write_text(f"[\n{lines}\n]\n")


def crawl(folder, seed, *words):
    """Crawl a site with the command; return its pages' links by URL, and what was rendered."""
    shutil.rmtree(folder, ignore_errors=True)
    line = [sys.executable, "-m", "crawlprio", "crawl", seed, "--folder", str(folder)]
    line += ["--delay", "0", "--at-once", "8", *words]
    done = subprocess.run(
        line, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"}
    )
    if done.returncode:
        sys.exit(done.stderr)
    with closing(sqlite3.connect(folder / "crawl.sqlite")) as db:
        sql = "SELECT url, content_hash, targets FROM visits JOIN pages ON page = pages.id "
        pages = {url: rest for url, *rest in db.execute(f"{sql} WHERE status = 200")}
        found = db.execute("SELECT value FROM meta WHERE key = 'rendered'").fetchone()
    return pages, json.loads(found[0]) if found else {}


async def in_browser(seed, n_tabs=4):
    """Return the pages of a site that a browser finds, which follows each link of its documents."""
    found, waiting = set(), asyncio.Queue()
    known = {seed}
    waiting.put_nowait(seed)
    async with async_playwright() as play:
        browser = await play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)

        async def work():
            page = await browser.new_page()
            while True:
                url = await waiting.get()
                try:
                    answer = await page.goto(url, wait_until="networkidle", timeout=20_000)
                    links = await page.eval_on_selector_all(
                        "a[href]", "all => all.map(a => a.href)"
                    )
                    if answer is not None and answer.status == 200:
                        found.add(url)
                    for link in {urldefrag(link)[0] for link in links} - known:
                        if link.startswith(seed) and "?id=" not in link:
                            known.add(link)
                            waiting.put_nowait(link)
                except Error as error:
                    print("not opened:", url, str(error).partition("\n")[0])
                finally:
                    waiting.task_done()

        workers = [asyncio.ensure_future(work()) for _ in range(n_tabs)]
        await waiting.join()
        for worker in workers:
            worker.cancel()
        await browser.close()
    return found


@contextmanager
def served(sites):
    """Serve folders behind nginx, an address each; return their first pages by name.

    A path without a file is a page of that name, a folder, or else what a site's shell answers.
    """
    hosts = {f"127.0.3.{number}": name for number, name in enumerate(sites, 1)}
    places = {}
    for host, name in hosts.items():
        is_shell = (sites[name] / "app.js").exists() or (sites[name] / "docsify.js").exists()
        last = "/index.html" if is_shell else "=404"
        tried = f"try_files $uri $uri.html $uri/index.html {last}"
        files = "location ~ [.](?:json|js|css|md)$ { try_files $uri =404; }"
        places[host] = (f"{sites[name]}; {files} {tried}", [])
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder, "nginx"), places) as server:
        yield {name: server.url(host, "/") for host, name in hosts.items()}


def routes(options):
    sites = build(options.work.resolve())
    with served(sites) as seeds, tempfile.TemporaryDirectory() as folder:
        for name, seed in seeds.items():
            words = ["--render", "auto", "--deny", "[?]id="]
            pages, counts = crawl(Path(folder, name), seed, *words)
            plain, _ = crawl(Path(folder, name), seed, "--deny", "[?]id=")
            shown = asyncio.run(in_browser(seed))
            missed = sorted(shown - set(pages))
            print(f"{name}: {len(plain)} pages without rendering, {len(pages)} with it {counts},")
            print(f"    {len(shown)} by a browser, of which {len(missed)} are missed {missed[:9]}")


def manuals(options):
    with tempfile.TemporaryDirectory() as folder:
        for number, root in enumerate(options.folders):
            with served({root.name: root.resolve()}) as seeds:
                first = options.first if (root / options.first).exists() else "index.html"
                seed = seeds[root.name] + first
                limit = ["--pages", str(options.pages)]
                words = ["--render", "auto", *limit]
                pages, counts = crawl(Path(folder, f"{number}"), seed, *words)
                plain, _ = crawl(Path(folder, f"{number}"), seed, *limit)
            kinds = {pattern_of(url) or url.rpartition("/")[0] for url in plain}
            same = "the same" if pages == plain else f"another, of {len(pages)}"
            found = f"{len(plain)} pages of {len(kinds)} kinds, {same} graph"
            print(f"{root}: {found}; rendered: {counts}", flush=True)


PEER = """
import scrapy
from scrapy.linkextractors import LinkExtractor

class Peer(scrapy.Spider):
    name = "peer"
    custom_settings = {
        "DOWNLOAD_HANDLERS": {
            "http": "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"},
        "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        "PLAYWRIGHT_LAUNCH_OPTIONS": {"executable_path": %r, "args": %r},
        "PLAYWRIGHT_MAX_PAGES_PER_CONTEXT": 2, "CONCURRENT_REQUESTS": 2, "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "ERROR",
    }
    count = 0

    async def start(self):
        yield self.request(%r)

    def request(self, url):
        meta = {"playwright": True, "playwright_page_goto_kwargs": {"wait_until": "networkidle"}}
        return scrapy.Request(url, meta=meta)

    def parse(self, response):
        self.count += 1
        for link in LinkExtractor(allow=%r).extract_links(response):
            yield self.request(link.url)

    def closed(self, reason):
        print("pages", self.count)
"""


def processes_below(parent):
    """Yield processor time in ticks and number of each process below one."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = file.read_text().rpartition(")")[2].split()
            child = int(file.parent.name), int(words[11]) + int(words[12])
            found.setdefault(int(words[1]), []).append(child)
    waiting = [parent]
    while waiting:
        for pid, ticks in found.get(waiting.pop(), ()):
            waiting.append(pid)
            yield pid, ticks


def measured(line, folder):
    """Run a command; return processor seconds and peak of PSS in MB, of it and all below, output.

    A process is last looked at some .1 s before its end.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    ticks, peak, n_looks = {}, 0, 0
    with (folder / "out").open("w") as out:
        process = subprocess.Popen(line, cwd=folder, stdout=out, stderr=out)
        while process.poll() is None:
            pids = dict(processes_below(os.getpid()))
            ticks |= pids
            n_looks += 1
            if n_looks % 20 == 0:
                size = 0
                for pid in pids:
                    with suppress(OSError):
                        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
                        size += int(text.partition("Pss:")[2].split()[0])
                peak = max(peak, size)
            sleep(0.1)
    said = (folder / "out").read_text()
    if process.returncode:
        sys.exit(said)
    return sum(ticks.values()) / os.sysconf("SC_CLK_TCK"), peak / 1_024, said


def cost(options):
    """Compare commands in turn: without pages, plain, rendered, and scrapy-playwright's."""
    sites = build(options.work.resolve())
    crawls = ("crawl", "--delay", "0", "--folder", "crawl", "--at-once", "8")
    base = [sys.executable, "-m", "crawlprio", *crawls]
    plain_site, made_site = "vitepress", "vue"
    with served(sites) as seeds, tempfile.TemporaryDirectory() as temporary:
        plain, made = seeds[plain_site], seeds[made_site]
        lines = {
            "one plain page": [*base, plain, "--pages", "1"],
            "plain": [*base, plain],
            "rendered": [*base, plain, "--render", "always"],
            "made by script": [*base, made, "--render", "auto"],
        }
        if find_spec("scrapy_playwright"):
            script = Path(temporary, "peer.py")
            script.write_text(PEER % (CHROMIUM, FLAGS, made, made))
            lines["scrapy-playwright"] = [
                *(sys.executable, "-m", "scrapy", "runspider", str(script)),
            ]
        for number in range(options.rounds):
            for name, line in lines.items():
                seconds, size, said = measured(line, Path(temporary, "run"))
                counts = re.search(r"pages fetched\W+(\d+)|pages (\d+)", said)
                n_pages = next(filter(None, counts.groups())) if counts else "?"
                print(f"{number} {name}: {n_pages} pages, {seconds:.1f} s of processor,", end=" ")
                print(f"{size:.0f} MB at most", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    for command in (rule, manuals):
        added = commands.add_parser(command.__name__)
        added.set_defaults(run=command)
        added.add_argument("folders", nargs="+", type=Path)
        if command is rule:
            added.add_argument("--most", type=int, default=1_000_000, help="pages of a folder")
            added.add_argument("--seed", type=int, default=1, help="of the draw of those pages")
            added.add_argument("--leave-out", default="?", help="leave out paths that contain it")
            added.add_argument("--tabs", type=int, default=2)
            added.add_argument("--packages", type=Path, help="node_modules, in place of CDNs")
            added.add_argument("--output", type=Path)
        else:
            added.add_argument("--first", default="index.html")
            added.add_argument("--pages", type=int, default=100_000)
    for command in (routes, cost):
        added = commands.add_parser(command.__name__)
        added.set_defaults(run=command)
        added.add_argument("work", type=Path, help="a folder for the sites, which stay there")
        added.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    done = options.run(options)
    if asyncio.iscoroutine(done):
        asyncio.run(done)


if __name__ == "__main__":
    main()
