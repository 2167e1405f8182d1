"""Takes the pictures of the report and the live view in `docs/images`, of a crawl of the demo web.

Needs Chromium and Playwright, and takes a few minutes:
`make compiled && .venv/bin/python docs/take_pictures.py`.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, sync_playwright

IMAGES = Path(__file__).parent / "images"
COMMAND = [sys.executable, "-m", "crawlprio"]
REPORT = (("report-light", "coverage"), ("report-dark", "sites"), ("report-phone", ""))
SECONDS = 45


def new_page(browser: Browser, name: str) -> Any:
    """Return a page with the width and the colours that the name of a picture says."""
    is_phone = name.endswith("phone")
    width, height = (390, 800) if is_phone else (1100, 1000)
    is_dark = name in ("report-dark", "monitor-phone")
    return browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if is_dark else "light",
        reduced_motion="reduce",
    )


def main() -> None:
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        line = [*COMMAND, "crawl", "--demo", "--folder", "job", "--pages", "4000", "--delay", "1"]
        crawl = subprocess.Popen(
            [*line, "--monitor"], cwd=folder, stderr=subprocess.PIPE, text=True
        )
        assert crawl.stderr is not None
        address = next(told.split()[-1] for told in crawl.stderr if "live view" in told)
        names = ("monitor-light", "monitor-phone")
        pages = [new_page(browser, name) for name in names]
        for page in pages:
            page.goto(address)
        pages[0].wait_for_timeout(SECONDS * 1000)
        for name, page in zip(names, pages, strict=True):
            page.screenshot(path=IMAGES / f"{name}.png")
            page.close()
        crawl.send_signal(signal.SIGINT)
        crawl.communicate()
        score = [*COMMAND, "score", "job/crawl.sqlite", "--report", "report.html"]
        measures = ["--importance", "pagerank", "--importance", "backlinks"]
        subprocess.run([*score, *measures], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        for name, section in REPORT:
            page = new_page(browser, name)
            page.goto((Path(folder) / "report.html").as_uri())
            page.wait_for_timeout(1000)
            if section:
                page.evaluate(f"document.getElementById('{section}').scrollIntoView()")
            page.screenshot(path=IMAGES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
