"""A site of texts in three languages, crawled with its texts."""

from crawls import BREADTH_FIRST, ONE_AT_A_TIME, Answer, run_spider

from crawlprio.plugins.value.kept_texts import kept_texts
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store

GERMAN = "Der Hund läuft durch den Wald und sieht dort einen Hasen, der schnell verschwindet."

ENGLISH = "The dog runs through the forest and sees a hare there, which is gone in a moment."

FRENCH = "Le chien court dans la forêt et y voit un lièvre, qui disparaît en un instant."


def html(text, *links, head="", lang="", **headers):
    anchors = "".join(f'<nav><a href="{link}">to {link}</a></nav>' for link in links)
    body = f"<!doctype html><html{lang}><head>{head}</head><body>{text}{anchors}</body></html>"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(body, headers={"Content-Type": "text/html; charset=utf-8", **named})


WEB = {
    "/": html(
        ENGLISH,
        *(f"/{n}" for n in range(1, 7)),
        head="<title>Dogs</title><link rel=license href=/terms>",
        lang=' lang="en-GB"',
    ),
    "/1": html(
        f'{GERMAN} <a rel="nofollow License" href="https://license.test/by#4">CC BY</a>',
        head="<meta name=robots content=noarchive>",
        X_Robots_Tag="noai",
        Content_Usage="train-ai=n",
    ),
    "/2": html(FRENCH, lang=" xml:lang=fr"),
    "/3": html(f"<p>{ENGLISH.upper()}"),
    "/4": html("too short"),
    "/5": html(""),
    "/6": Answer(ENGLISH, 404, {"Content-Type": "text/html"}),
}


def crawl(store, spider=SiteSpider, **settings):
    given = {
        **BREADTH_FIRST,
        **ONE_AT_A_TIME,
        "CRAWLPRIO_STORE": str(store),
        "CRAWLPRIO_KEEP_TEXT": True,
        **settings,
    }
    arguments = {"seeds": "http://a.test/"} if spider is SiteSpider else {}
    return run_spider(spider, given, site=WEB, **arguments)


def rows(store):
    """Return the texts in a store, without the times."""
    with Store.open(store, readonly=True) as opened:
        found = [kept._asdict() for kept in kept_texts(opened)]
    assert all(row.pop("fetched_at") > 1e15 for row in found)
    return found
