"""Other libraries' Scrapy plug-ins, each with and without the add-on, over the same web.

`python tests/upstream/libraries.py` installs them into an environment of its own and crawls the
demo web with each, as its README says: with Scrapy alone, under the add-on, and under it with a
JOBDIR. It prints a row for each; the exit status is 1 if any items differ.
"""

import json
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import version
from pathlib import Path

MODES = ("alone", "addon", "jobdir")
RULES = [
    {"args": ["sort"], "order": 1, "processor": "queryRemoval", "urlPattern": {"include": [""]}}
]


def playwright(port):
    handler = "scrapy_playwright.handler.ScrapyPlaywrightDownloadHandler"
    return {
        "DOWNLOAD_HANDLERS": {"http": handler},
        "PLAYWRIGHT_LAUNCH_OPTIONS": {
            "executable_path": "/usr/bin/chromium",
            "args": ["--no-sandbox"],
            "proxy": {"server": f"http://127.0.0.1:{port}"},
        },
    }


def rotating_proxies(port):
    return {
        "ROTATING_PROXY_LIST": [f"127.0.0.1:{port}", f"localhost:{port}"],
        "DOWNLOADER_MIDDLEWARES": {
            "rotating_proxies.middlewares.RotatingProxyMiddleware": 610,
            "rotating_proxies.middlewares.BanDetectionMiddleware": 620,
        },
    }


def user_agents(port):
    stock = "scrapy.downloadermiddlewares.useragent.UserAgentMiddleware"
    random = "scrapy_user_agents.middlewares.RandomUserAgentMiddleware"
    return {"DOWNLOADER_MIDDLEWARES": {stock: None, random: 400}}


def duplicates(port):
    Path("rules.json").write_text(json.dumps(RULES))
    return {"ADDONS": {"duplicate_url_discarder.Addon": 600}, "DUD_LOAD_RULE_PATHS": ["rules.json"]}


def spidermon(port):
    return {
        "SPIDERMON_ENABLED": True,
        "EXTENSIONS": {"spidermon.contrib.scrapy.extensions.Spidermon": 500},
        "SPIDERMON_SPIDER_CLOSE_MONITORS": [
            "spidermon.contrib.scrapy.monitors.SpiderCloseMonitorSuite"
        ],
        "SPIDERMON_MIN_ITEMS": 50,
    }


LIBRARIES = {
    "scrapy-playwright": (playwright, {"playwright": True}),
    "scrapy-poet": (lambda port: {"ADDONS": {"scrapy_poet.Addon": 300}}, {}),
    "scrapy-impersonate": (
        lambda port: {
            "DOWNLOAD_HANDLERS": {"http": "scrapy_impersonate.ImpersonateDownloadHandler"}
        },
        {"impersonate": "chrome124"},
    ),
    "scrapy-rotating-proxies": (rotating_proxies, {}),
    "scrapy-user-agents": (user_agents, {}),
    "duplicate-url-discarder": (duplicates, {}),
    "spidermon": (spidermon, {}),
}
"""By name on PyPI: its settings, given the proxy's port, and the meta of each request."""


def main():
    with tempfile.TemporaryDirectory() as folder:
        python = install(Path(folder) / "env")
        web = {"pages": 100, "sites": 3, "seed": 0, "recording": None, "log": None, "port": 0}
        with subprocess.Popen(
            [python, "-m", "crawlprio.demo.server", json.dumps(web)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            served = server.stdout.readline()
            differ = [name for name in LIBRARIES if not compare(python, name, served, Path(folder))]
            server.stdin.close()
    return 1 if differ else 0


def install(folder):
    """Make an environment with crawlprio and all libraries; return its Python."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    project = Path(__file__).parent.parent.parent
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(project), *LIBRARIES], check=True)
    return python


def compare(python, name, served, folder):
    """Crawl in each mode, print a row, and return whether all items are the same."""
    found = []
    for mode in MODES:
        work = folder / f"{name}-{mode}"
        work.mkdir()
        call = [python, __file__, name, mode, served]
        subprocess.run(call, cwd=work, check=True, timeout=900)
        found.append(json.loads((work / "found.json").read_text()))
    is_same = all(each["items"] == found[0]["items"] for each in found) and found[0]["items"]
    counts = " | ".join(f"{len(each['items'])}, {each['errors']}" for each in found)
    print(
        f"| {name} {found[0]['version']} | {counts} | {'the same' if is_same else '?'} |",
        flush=True,
    )
    return bool(is_same)


def crawl(name, mode, served):
    """Crawl the web that is served; write the items and the number of logged errors."""
    import scrapy
    from scrapy.crawler import CrawlerProcess
    from scrapy.linkextractors import LinkExtractor

    web = json.loads(served)
    make, meta = LIBRARIES[name]
    proxy = (
        {}
        if "proxies" in name or "playwright" in name
        else {"proxy": f"http://127.0.0.1:{web['port']}"}
    )
    meta = meta | proxy

    def request(url):
        return scrapy.Request(url, meta=dict(meta))

    class Spider(scrapy.Spider):
        name = "library"

        async def start(self):
            for url in web["seeds"]:
                yield request(url)

        def parse(self, response):
            yield {"url": response.url.partition("#")[0]}
            for link in LinkExtractor().extract_links(response):
                yield request(link.url)

    spider = Spider
    if name == "scrapy-poet":
        from web_poet import WebPage

        def parse(self, response, page):
            assert response.url == str(page.response.url)
            yield from Spider.parse(self, response)

        parse.__annotations__ = {"page": WebPage}
        spider = type("PoetSpider", (Spider,), {"parse": parse})
    settings = make(web["port"]) | {"LOG_LEVEL": "ERROR", "LOG_FILE": "log", "DOWNLOAD_DELAY": 0}
    settings["FEEDS"] = {"items.jsonl": {"format": "jsonlines"}}
    if mode != "alone":
        settings["ADDONS"] = settings.get("ADDONS", {}) | {"crawlprio.Addon": 500}
    if mode == "jobdir":
        settings["JOBDIR"] = "job"
    process = CrawlerProcess(settings)
    crawler = process.create_crawler(spider)
    process.crawl(crawler)
    process.start()
    lines = Path("items.jsonl").read_text().splitlines()
    errors = crawler.stats.get_value("log_count/ERROR", 0) if crawler.stats else None
    found = {"items": sorted(lines), "errors": errors, "version": version(name)}
    Path("found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        crawl(*sys.argv[1:4])
    else:
        sys.exit(main())
