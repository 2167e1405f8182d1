"""Small sites whose pages a script makes, with history routing, as `Site`s on loopback."""

import json

from crawls import Answer

HTML = {"Content-Type": "text/html; charset=utf-8"}
SCRIPT = {"Content-Type": "text/javascript"}
JSON = {"Content-Type": "application/json"}

SHELL = """<!DOCTYPE html><html lang=en><head><title>Loading</title>
<link rel=stylesheet href=/app.css><script type=module src=/app.js></script></head>
<body><div id=app></div></body></html>"""

APP = """
import { show } from "/view.js";
const answer = await fetch("/api" + location.pathname + ".json");
show(await answer.json());
"""

VIEW = """
export function show(page) {
    document.title = page.title;
    const app = document.getElementById("app");
    for (const link of page.links) {
        const anchor = document.createElement("a");
        anchor.textContent = anchor.href = link;
        app.append(anchor, " ");
    }
    app.append(page.text);
}
"""


def app(n_pages, *, script="", robots=""):
    """Return a site of `n_pages` pages, each of which links to the next three.

    `script` runs on each page beside the app.
    """
    web = {
        "/robots.txt": Answer(f"User-agent: *\n{robots}", headers={"Content-Type": "text/plain"}),
        "/app.js": Answer(APP + script, headers=SCRIPT),
        "/view.js": Answer(VIEW, headers=SCRIPT),
        "/app.css": Answer("a { color: red }", headers={"Content-Type": "text/css"}),
    }
    for number in range(n_pages):
        links = [f"/p/{(number + step) % n_pages}" for step in (1, 2, 3)]
        text = f"The text of page {number}. " * 20
        page = {"title": f"Page {number}", "text": text, "links": links}
        web[f"/p/{number}"] = Answer(SHELL, headers=HTML)
        web[f"/api/p/{number}.json"] = Answer(json.dumps(page), headers=JSON)
    return web


def scripted(script, *, links=()):
    """Return a page without content, on which a script runs."""
    anchors = "".join(f"<a href={link}>{link}</a>" for link in links)
    return Answer(f"<body>{anchors}<script>{script}</script>", headers=HTML)
