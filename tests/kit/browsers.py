"""The browser of the tests: the system's Chromium, driven by Playwright."""

import importlib.util
import shutil
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from waiting import MAX_SECONDS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-sync", "--disable-background-networking", "--disable-component-update"),
]
in_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.skipif(
        importlib.util.find_spec("playwright") is None, reason="Playwright is not installed"
    ),
]


@contextmanager
def serving(server):
    """Serve in a thread until the end of the block."""
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def served_by(answer, address="127.0.0.1"):
    """Serve on loopback; yield the URL of the root.

    `answer` returns the headers and the body for a path: a redirect if there is a Location.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            headers, body = answer(self.path)
            self.send_response(302 if "Location" in headers else 200)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with serving(ThreadingHTTPServer((address, 0), Handler)) as server:
        yield f"http://{address}:{server.server_port}/"


@contextmanager
def running_browser():
    """Start Chromium, and end it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


class Tab:
    """A page in the browser, with what it said and asked for."""

    def __init__(self, browser, *, scheme="light"):
        self.context = browser.new_context(
            viewport={"width": 1200, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        self.page = self.context.new_page()
        self.page.set_default_timeout(1000 * MAX_SECONDS)
        self.errors = []
        self.requests = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def violations(self, only=None):
        """Return the rules of axe that the page breaks."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page, options={"runOnly": only} if only else None)
        return [violation["id"] for violation in found.response["violations"]]
