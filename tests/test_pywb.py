"""Archives in pywb: its own index of them, the bytes that it replays, and how their pages look."""

import shutil
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from archived_crawls import HOST, crawl
from archived_crawls import WEB as PLAIN
from browsers import in_browser, running_browser, serving
from crawls import PROJECT, Answer, Site, job_in, run_spider
from matplotlib.image import imread, imsave
from pywbs import index_of, programs, wayback
from script_sites import app
from warcs import responses

from crawlprio.spiders.site import SiteSpider

pytestmark = pytest.mark.slow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

WEB = {
    **PLAIN,
    "/same": Answer(
        "<link rel=stylesheet href=/s.css><img src='/pixel.gif?a=1&amp;b=é'>",
        headers={"Content-Type": "text/html"},
    ),
    "/s.css": Answer("p { background: url(/pixel.gif) }", headers={"Content-Type": "text/css"}),
    "/pixel.gif": Answer("GIF89a", headers={"Content-Type": "image/gif"}),
}


@pytest.mark.long
def test_pywb_indexes_an_archive_as_crawlprio_does_and_replays_its_bytes(tmp_path):
    crawl(tmp_path, WEB, CLOSESPIDER_PAGECOUNT=2)
    crawl(tmp_path, WEB, CRAWLPRIO_REQUISITES="all", CRAWLPRIO_MAX_WARC_BYTES=3_000)
    assert len(list((tmp_path / "warc").glob("*.warc.gz"))) > 2
    programs()
    assert index_of(tmp_path / "warc") == (tmp_path / "warc" / "index.cdxj").read_text()
    expected, whole = {}, {}
    for record in responses(tmp_path / "warc"):
        whole.setdefault(record.headers.get_header("WARC-Payload-Digest"), record.body)
        body = whole[record.headers.get_header("WARC-Payload-Digest")]
        if not record.url.endswith("/robots.txt"):  # one for each run
            expected[record.url] = (int(record.http.get_statuscode()), body)
    assert {f"{HOST}s.css", f"{HOST}pixel.gif", f"{HOST}copy", f"{HOST}old"} < set(expected)
    with wayback(tmp_path, {"all": tmp_path / "warc"}) as server:
        assert {url: server.get("all", url) for url in expected} == expected
    assert expected[f"{HOST}s.css"] == (200, WEB["/s.css"].body.encode())


class Quiet(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".ttf": "font/ttf"}

    def log_message(self, *_):
        pass


@contextmanager
def served(folder, address):
    """Serve a folder on loopback; return its URL."""
    handler = partial(Quiet, directory=str(folder))
    with serving(ThreadingHTTPServer((address, 0), handler)) as server:
        yield f"http://{address}:{server.server_port}/"


def write_site(folder, other_host):
    """Write a page that shows a style, an imported font, images of all kinds, and a script."""
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    for name in ("css", "fonts", "img"):
        (folder / name).mkdir(parents=True)
    shutil.copy(fonts / "cmmi10.ttf", folder / "fonts" / "letters.ttf")
    colours = {"tile": (255, 240, 200), "one": (200, 30, 30), "two": (30, 30, 200)}
    colours |= {"wide": (30, 160, 60), "icon": (0, 0, 0), "far": (120, 20, 140)}
    for name, colour in colours.items():
        imsave(folder / "img" / f"{name}.png", np.full((90, 120, 3), colour, dtype=np.uint8))
    (folder / "css" / "main.css").write_text(
        '@import url("type.css");\n'
        "body { background: url(../img/tile.png); margin: 20px }\n"
        "nav { float: right; width: 200px; height: 300px; background: teal }"
    )
    (folder / "css" / "type.css").write_text(
        '@font-face { font-family: letters; src: url("../fonts/letters.ttf") }\n'
        "p { font: 40px letters; color: #503010 }"
    )
    (folder / "draw.js").write_text(
        "const box = document.createElement('div');"
        "box.style.cssText = 'width:300px;height:80px;background:orange';"
        "document.body.append(box);"
    )
    (folder / "index.html").write_text(
        "<!doctype html><title>home</title><link rel=stylesheet href=css/main.css>"
        "<link rel=icon href=img/icon.png><nav></nav><p>letters of another alphabet</p>"
        '<img src="img/one.png" srcset="img/one.png 1x, img/two.png 2x" width=120 height=90>'
        '<picture><source media="(min-width: 500px)" srcset="img/wide.png"><img src="img/one.png">'
        f'</picture> <img src="{other_host}img/far.png"><br><a href="more.html">more</a>'
        '<script src="draw.js"></script>'
    )
    (folder / "more.html").write_text("<title>more</title><img src=img/one.png>")


def archive(folder, seed, **settings):
    every = {
        **PROJECT,
        **job_in(folder / "job"),
        "CRAWLPRIO_WARC": str(folder / "warc"),
        "CRAWLPRIO_PRIVATE_ADDRESSES": "allow",
        **settings,
    }
    assert run_spider(SiteSpider, every, seeds=seed).reason == "finished"


def difference(one, other):
    """Return the share of pixels that two pictures do not have in common."""
    first, second = imread(one), imread(other)
    assert first.shape == second.shape
    return float(np.mean(np.any(np.abs(first - second) > 0.02, axis=2)))


@pytest.mark.sampled(0)
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt install chromium)")
@pytest.mark.skipif(find_spec("playwright") is None, reason="Playwright is not installed")
def test_an_archived_page_looks_like_itself_with_its_requisites_and_not_without(tmp_path):
    with ExitStack() as running:
        with ExitStack() as live_web:
            site = tmp_path / "site"
            home = live_web.enter_context(served(site, "127.0.0.1"))
            write_site(site, live_web.enter_context(served(site, "127.0.0.2")))
            for name in ("with", "without"):
                (tmp_path / name).mkdir()
            archive(tmp_path / "with", home, CRAWLPRIO_REQUISITES="all")
            archive(tmp_path / "without", home)
            take = running.enter_context(pictures(tmp_path))
            live = take(home, "live")
        archives = {name: tmp_path / name / "warc" for name in ("with", "without")}
        replay = running.enter_context(wayback(tmp_path, archives))
        same = take(replay.url("with", home), "replayed")
        bare = take(replay.url("without", home), "replayed-without")
    print(difference(live, same), difference(live, bare))
    assert difference(live, same) < 0.001
    assert difference(live, bare) > 0.5


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "n_workers",
    [
        pytest.param([], marks=in_browser, id="alone"),
        pytest.param(["--workers", "2"], marks=in_browser, id="workers"),
    ],
)
def test_a_page_made_by_script_is_made_again_from_its_archive(n_workers, tmp_path):
    """Its server is gone: the page, its scripts and its JSON are in the archive."""
    with Site(app(2)) as site:
        seed = f"http://{site.address}/p/1"
        words = ["crawl", seed, "--folder", "job", "--delay", "0", "--render", "auto"]
        words += ["--warc", "warc", *n_workers]
        line = [sys.executable, "-m", "crawlprio", *words]
        subprocess.run(line, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    with (
        wayback(tmp_path, {"made": tmp_path / "warc"}) as replay,
        running_browser() as browser,
    ):
        opened = browser.new_page(service_workers="block")
        opened.set_content(f"<iframe src='{replay.url('made', seed)}'>")
        opened.frame_locator("iframe").get_by_text("The text of page 1.").wait_for()
        links = opened.frames[1].eval_on_selector_all("a", "all => all.map(a => a.textContent)")
    assert links == ["/p/0", "/p/1", "/p/0"]


@contextmanager
def pictures(folder):
    """Return a function that opens a URL in Chromium and takes a picture of it, by name."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page(
            viewport={"width": 800, "height": 600}, device_scale_factor=2, service_workers="block"
        )

        def take(url, name):
            # In a frame of ours, pywb shows no bar of its own.
            opened.set_content(
                "<body style='margin: 0'>"
                f"<iframe width=800 height=600 style='border: 0' src='{url}'>",
                wait_until="networkidle",
            )
            opened.frames[1].evaluate("document.fonts.ready.then(() => 0)")
            path = folder / f"{name}.png"
            opened.screenshot(path=path)
            return path

        yield take
        browser.close()
