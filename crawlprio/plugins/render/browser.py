"""A browser without network: it runs the scripts of pages, and others answer what these ask for.

Its proxy is a port on which nobody listens, it resolves no name, and requests end here.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from playwright.async_api import Browser, Error, Page, Request, Route, async_playwright

from crawlprio.errors import ConfigError

MAX_SECONDS, MAX_WAIT = 10.0, 300.0
"""Seconds until a page must be quiet, without and with its waits for answers."""

MAX_REQUESTS, MAX_ANSWER_BYTES = 60, 50_000_000
MAX_NODES, MAX_CHARACTERS = 200_000, 10_000_000
"""Limits of one page: answers and their bytes; elements and characters of its document."""

MAX_RESIDENT = 1_500_000_000
"""Bytes of memory at which a process of the browser is killed."""

PAGES_A_BROWSER = 500
"""Pages after which a new browser takes over, so that what leaks does not add up."""

_STEP, _QUIET_STEPS, _PATIENCE = 0.05, 3, 10.0
_FLAGS = (
    *("--proxy-bypass-list=<-loopback>", "--host-resolver-rules=MAP * ~NOTFOUND"),
    *("--disable-quic", "--no-pings", "--dns-prefetch-disable", "--disable-background-networking"),
    *("--webrtc-ip-handling-policy=disable_non_proxied_udp", "--force-webrtc-ip-handling-policy"),
    "--disable-features=SpareRendererForSitePerProcess,HttpsUpgrades,OptimizationHints,"
    "HttpsFirstBalancedModeAutoEnable,AvoidUnnecessaryBeforeUnloadCheckSync,MediaRouter",
    *("--disable-gpu", "--disable-domain-reliability", "--js-flags=--max-old-space-size=512"),
)
_BEFORE = """
for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport"])
    delete globalThis[name];  // they know ways into the network beside the proxy
for (const name of ["open", "alert", "confirm", "prompt", "print"]) globalThis[name] = () => null;
"""
_LOOK = """new Promise((told) => requestIdleCallback(
    () => told([document.getElementsByTagName("*").length, document.readyState]), {timeout: 500}
))"""
_TAKE = """(() => {
    let room = MOST, roots = [];
    const count = (root) => {
        const nodes = document.createTreeWalker(root, NodeFilter.SHOW_ALL);
        for (let node = nodes.nextNode(); node && room > 0; node = nodes.nextNode()) {
            room -= 1 + (node.nodeValue || "").length;
            if (node.shadowRoot) { roots.push(node.shadowRoot); count(node.shadowRoot); }
        }
    };
    count(document);
    const top = document.documentElement;
    if (room <= 0 || !top) return null;
    const inside = top.getHTML({serializableShadowRoots: true, shadowRoots: roots});
    const outside = top.cloneNode(false).outerHTML.replace(/<[/]html>$/, "");
    top.remove();  // nothing is left to draw
    return inside.length > MOST ? null : `<!DOCTYPE html>${outside}${inside}</html>`;
})()""".replace("MOST", str(MAX_CHARACTERS))
_NOT_PASSED_ON = {
    *("content-encoding", "content-length", "transfer-encoding", "connection", "set-cookie"),
    *("content-disposition", "refresh", "link", "strict-transport-security", "alt-svc"),
    *("clear-site-data", "nel", "report-to", "reporting-endpoints"),
}


class RenderFailed(Exception):
    """A page could not be rendered; its text is the cause, in a word or two."""


class PageAnswer(NamedTuple):
    """What the browser gets: a response as the crawl has it; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Rendered(NamedTuple):
    """The document that a page became, how many requests were answered, and how long it took."""

    html: str
    n_requests: int
    seconds: float


Fetch = Callable[[str, str], Awaitable[PageAnswer | None]]
"""Returns the answer to a URL that the page of another one asks for; None refuses it."""


class Tab:
    """A page of the browser, used for one document after another; shares nothing with others."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._url = ""
        self._document: PageAnswer | None = None
        self._n_asked = self._n_open = self._n_requests = self._n_bytes = 0
        self.broken = asyncio.get_running_loop().create_future()

    async def open(self, browser: Browser, user_agent: str) -> None:
        self._context = await browser.new_context(
            service_workers="block", accept_downloads=False, user_agent=user_agent
        )
        await self._context.add_init_script(_BEFORE)
        await self._context.route("**/*", self._answer)
        self._page = await self._context.new_page()
        self._context.on("page", self._close_other)
        self._page.on("crash", self._break)
        self._page.on("close", self._break)
        self._cdp = await self._context.new_cdp_session(self._page)
        # A minimized window is not drawn; pages go on as if they were seen.
        window, bounds = await self._ask("Browser.getWindowForTarget"), {"windowState": "minimized"}
        await self._ask("Browser.setWindowBounds", windowId=window["windowId"], bounds=bounds)

    async def render(self, url: str, document: PageAnswer) -> Rendered:
        """Return what a document becomes once its scripts are quiet."""
        began = monotonic()
        self._url, self._document = url, document
        self._n_requests = self._n_bytes = 0
        page = asyncio.ensure_future(self._rendered(url))
        try:
            await asyncio.wait((page, self.broken), timeout=MAX_WAIT, return_when="FIRST_COMPLETED")
            if self.broken.done() and (not page.done() or page.exception()):
                raise RenderFailed("crashed")
            if not page.done():
                raise RenderFailed("time")
            return Rendered(page.result(), self._n_requests, monotonic() - began)
        finally:
            page.cancel()

    async def _rendered(self, url: str) -> str:
        await self._ask("Emulation.setScriptExecutionDisabled", value=False)
        await self._page.goto(url, wait_until="commit", timeout=1_000 * MAX_SECONDS)
        frame = (await self._ask("Page.getFrameTree"))["frameTree"]["frame"]["id"]
        made = await self._ask("Page.createIsolatedWorld", frameId=frame)
        world = made["executionContextId"]
        await self._until_quiet(world)
        html = await self._evaluate(_TAKE, world)
        if not isinstance(html, str):
            raise RenderFailed("too large")
        # The page's scripts stop, and the next page, which replaces it, finds nothing of it.
        origin = "/".join(url.split("/", 3)[:3])
        try:
            await self._ask("Emulation.setScriptExecutionDisabled", value=True)
            await self._ask("Storage.clearDataForOrigin", origin=origin, storageTypes="all")
            await self._context.clear_cookies()
        except (Error, RenderFailed):
            await self.is_closed()
        return html

    async def _until_quiet(self, world: int) -> None:
        """Wait until nothing is asked for and the number of elements stays, or for MAX_SECONDS."""
        n_same, before, left = 0, (-1, -1), MAX_SECONDS
        while left > 0 and n_same < _QUIET_STEPS:
            began = monotonic()
            await asyncio.sleep(_STEP)
            n_nodes, state = await self._evaluate(_LOOK, world)
            if n_nodes > MAX_NODES:
                raise RenderFailed("too large")
            left -= 0 if self._n_open else monotonic() - began
            now = (n_nodes, self._n_asked)
            is_still = now == before and state == "complete" and not self._n_open
            n_same, before = n_same + 1 if is_still else 0, now

    async def _evaluate(self, expression: str, world: int) -> Any:
        """Return a value from a world of its own, where the page's scripts have changed nothing."""
        how = {"contextId": world, "returnByValue": True, "awaitPromise": True}
        found = await self._ask("Runtime.evaluate", expression=expression, **how)
        return found["result"].get("value")

    async def _ask(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Ask the page's process, which may be busy for ever."""
        try:
            async with asyncio.timeout(_PATIENCE):
                return await self._cdp.send(method, arguments)
        except TimeoutError:
            raise RenderFailed("hung") from None

    def _break(self, _: Page) -> None:
        if not self.broken.done():
            self.broken.set_result(None)

    async def _close_other(self, opened: Page) -> None:
        with suppress(Error):
            await opened.close()

    async def _answer(self, route: Route) -> None:
        self._n_asked += 1
        self._n_open += 1
        try:
            answer = await self._answer_to(route.request)
            if answer is None:
                await route.abort("aborted")  # others would show an error page
            else:
                headers = {k: v for k, v in answer.headers.items() if k not in _NOT_PASSED_ON}
                await route.fulfill(status=answer.status, headers=headers, body=answer.body)
        except Error:  # the page has gone on, or is a window that is not there yet
            pass
        finally:
            self._n_open -= 1

    async def _answer_to(self, request: Request) -> PageAnswer | None:
        """Return the answer to a request of the page, None to refuse it."""
        kind, url, page = request.resource_type, request.url.partition("#")[0], self._url
        if request.is_navigation_request():
            if url != page or request.frame != self._page.main_frame:
                return None
            # Once: a page that loads itself again stays as it is.
            document, self._document = self._document, None
            return document
        if kind == "stylesheet":  # some scripts wait until theirs are there
            return PageAnswer(200, {"content-type": "text/css"}, b"")
        is_late = self._document is not None  # the page before is still there
        if is_late or kind not in ("script", "xhr", "fetch") or request.method != "GET":
            return None
        if self._n_requests >= MAX_REQUESTS or self._n_bytes >= MAX_ANSWER_BYTES:
            return None
        self._n_requests += 1
        answer = await self._fetch(url, page)
        self._n_bytes += 0 if answer is None else len(answer.body)
        return answer if page == self._url else None

    async def is_closed(self) -> bool:
        """End the tab, with all that its page has open; return whether that was possible."""
        with suppress(Error, TimeoutError):
            await asyncio.wait_for(self._context.close(), _PATIENCE)
            return True
        return False


class _Session:
    """One run of the browser, with the process that drives it."""

    def __init__(self) -> None:
        self.idle: list[Tab] = []
        self.n_busy = self.n_pages = 0
        self.is_over = False

    async def open(self, path: str, port: int) -> None:
        self._play = await async_playwright().start()
        try:
            self.browser = await self._play.chromium.launch(
                executable_path=path,
                args=[f"--proxy-server=http://127.0.0.1:{port}", *_FLAGS],
                chromium_sandbox=os.geteuid() != 0,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        except Error as error:
            await self._play.stop()
            because = str(error).partition("\n")[0]
            raise ConfigError(f"CRAWLPRIO_BROWSER {path} does not start: {because}") from None
        self.browser.on("disconnected", lambda _: setattr(self, "is_over", True))
        self._watch = asyncio.ensure_future(self._watch_memory())

    async def tab(self, fetch: Fetch, user_agent: str) -> Tab:
        if self.idle:
            return self.idle.pop()
        tab = Tab(fetch)
        await tab.open(self.browser, user_agent)
        return tab

    async def _watch_memory(self) -> None:
        """Kill each process of the browser that has grown too large: its page fails."""
        cdp = await self.browser.new_browser_cdp_session()
        while True:
            for process in (await cdp.send("SystemInfo.getProcessInfo"))["processInfo"]:
                with suppress(OSError, ValueError):
                    memory = Path(f"/proc/{process['id']}/statm").read_text().split()
                    if int(memory[1]) * os.sysconf("SC_PAGE_SIZE") > MAX_RESIDENT:
                        os.kill(process["id"], signal.SIGKILL)
            await asyncio.sleep(0.25 if self.n_busy else 2.0)

    async def close(self) -> None:
        """End the browser, by force if it does not end by itself."""
        self.is_over = True
        self._watch.cancel()
        for end in (self.browser.close, self._play.stop):
            with suppress(Error, TimeoutError):
                await asyncio.wait_for(end(), _PATIENCE)


class HeadlessBrowser:
    """Renders documents, `n_tabs` at a time; started for the first one, and again as needed."""

    def __init__(self, path: str, fetch: Fetch, user_agent: str, n_tabs: int) -> None:
        self._path = path
        self._fetch = fetch
        self._user_agent = user_agent
        self._slots = asyncio.Semaphore(n_tabs)
        self._starting = asyncio.Lock()
        self._session: _Session | None = None
        self._dead = socket.socket()
        self._dead.bind(("127.0.0.1", 0))  # nobody listens: each connection is refused

    async def render(self, url: str, document: PageAnswer) -> Rendered:
        """Return what a document becomes, or raise `RenderFailed`."""
        async with self._slots:
            session = await self._ready()
            session.n_busy += 1
            session.n_pages += 1
            try:
                return await self._render(session, url, document)
            finally:
                session.n_busy -= 1
                session.is_over = session.is_over or session.n_pages >= PAGES_A_BROWSER
                if session.is_over and not session.n_busy:
                    await session.close()

    async def _render(self, session: _Session, url: str, document: PageAnswer) -> Rendered:
        tab: Tab | None = None
        try:
            tab = await session.tab(self._fetch, self._user_agent)
            rendered = await tab.render(url, document)
        except (Error, RenderFailed) as failure:
            session.is_over = session.is_over or tab is None or not await tab.is_closed()
            if isinstance(failure, RenderFailed):
                raise
            raise RenderFailed("browser ended" if session.is_over else "navigation") from None
        if not tab.broken.done():
            session.idle.append(tab)
        return rendered

    async def _ready(self) -> _Session:
        async with self._starting:
            last = self._session
            if last is not None and not last.is_over:
                return last
            if last is not None and not last.n_busy:
                await last.close()
            session = _Session()
            await session.open(self._path, self._dead.getsockname()[1])
            self._session = session
            return session

    async def close(self) -> None:
        """End the browser."""
        if self._session is not None:
            await self._session.close()
        self._dead.close()
