"""The memory of the browser over a thousand pages, and of the process that drives it."""

import asyncio
import os
from pathlib import Path
from statistics import median

from browsers import CHROMIUM, in_browser
from script_sites import app
from test_render import below

pytestmark = in_browser

N_PAGES = 1_000


def resident(others):
    """Return the proportional memory of the processes below this one, but for some, in MB."""
    total = 0
    for pid in set(below(os.getpid())) - others:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1_000


def test_memory_is_flat_over_a_thousand_pages(monkeypatch):
    """A new browser takes over at 500 pages: whatever they leak, the second needs no more.

    Each is judged by its median, since for a moment there are two.
    """
    from crawlprio.plugins.render import browser as rendering
    from crawlprio.plugins.render.browser import HeadlessBrowser, PageAnswer

    monkeypatch.setattr(rendering, "MAX_SECONDS", 60.0)  # on a busy machine no page hangs
    leak = "window.kept = []; for (let n = 0; n < 1e4; n++) kept.push({n});"
    web = app(N_PAGES, script=leak)

    async def fetch(url, page):
        answer = web["/" + url.split("/", 3)[3]]
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return PageAnswer(200, headers, answer.body.encode())

    others = set(below(os.getpid()))  # of earlier tests

    async def render():
        browser = HeadlessBrowser(CHROMIUM, fetch, "tests", n_tabs=4)
        sizes = []
        for first in range(0, N_PAGES, 50):
            urls = [f"http://a.example/p/{number}" for number in range(first, first + 50)]
            rendering = [browser.render(url, await fetch(url, url)) for url in urls]
            done = await asyncio.gather(*rendering)
            for number, page in zip(range(first, first + 50), done, strict=True):
                assert f"The text of page {number}." in page.html
            sizes.append(resident(others))
        await browser.close()
        return sizes

    sizes = asyncio.run(render())
    print([round(size) for size in sizes])
    half = len(sizes) // 2
    assert half * 50 == rendering.PAGES_A_BROWSER
    assert median(sizes[half:]) < 1.2 * median(sizes[:half])
    assert set(below(os.getpid())) <= others
