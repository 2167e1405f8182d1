"""Which pages are rendered: the rule for a page alone, and what was learned of others like it."""

import pytest

pytest.importorskip("playwright", reason="Playwright is not installed")

from crawlprio.plugins.render.wanted import RenderHistory
from crawlprio.web.shells import hash_routes, looks_made_by_script

RUNS = "<script src=/app.js></script>"
EMPTY = f"<body><div id=app></div>{RUNS}".encode()
PLAIN = f"<body>{'<a href=/x>a link</a> and text. ' * 30}{RUNS}".encode()

SHELLS = {
    "an empty element": f"<title>A title of its own</title><p></p>{RUNS}",
    "an empty body": f"<head>{RUNS}</head><body>\n</body>",
    "a word to wait by in any language": f"<p>Загрузка...</p>{RUNS}",
    "an empty root": f"<div id='root'></div>{'text ' * 30}{RUNS}",
    "a root of its own kind": f"<my-app>\n</my-app>{'text ' * 30}<script type=module>x()</script>",
    "a root named as a class": f"<div class='root'> </div>{'text ' * 30}{RUNS}",
    "a root that is closed at once": f"<my-app a=b/>{'text ' * 30}{RUNS}",
    "text that is hidden": f"<i></i><noscript>{'Please enable it. ' * 50}</noscript>{RUNS}",
    "styles and comments": f"<i></i><style>{'a {{}} ' * 99}</style><!--{'x ' * 200}-->{RUNS}",
    "controls that are hidden": f"<div></div><input type=hidden><select hidden></select>{RUNS}",
    "templates": f"{'text ' * 60}<script type='text/x-template'>{'<p>text' * 400}</script>{RUNS}",
    "an attribute with a tag's end": f"<meta content='> {'text ' * 60}'><div id=app></div>{RUNS}",
    "links to itself": f"<a href='#top'></a><a href=#a></a><a href=#b></a>{RUNS}",
    "a refresh for those without scripts": "<noscript><meta http-equiv=refresh content='0;/no'>"
    f"</noscript><div id=app></div>{RUNS}",
    "a picture to wait by": f"<div id=app><img src=/wheel.gif></div>{RUNS}",
    "a word to wait by": f"<div class=spinner><h1>Loading&hellip;</h1><b>.</b><b>.</b></div>{RUNS}",
    "a script never ended": "<div id=app></div><script>run(",
}
MENUS = {
    "an empty element": "<div id=main-nav></div>",
    "an element of its own kind": "<app-menu>\n</app-menu>",
    "empty elements inside": "<div class=x id='nav-tree-contents'> <i id=sync></i> <!-- --></div>",
    "a word to wait by": '<ul class=a id="nav-container"><li>Loading...</li></ul>',
    "a form to search by": "<div id=navbar> <form id=search><input></form> </div>",
    "TypeDoc's script": "<script src=assets/navigation.js id=tsd-nav-script></script>",
    "a script of items": "<script src='../menudata.js'></script>",
    "a script of source files": '<script defer src="../../src-files1.90.0.js"></script>',
}
PAGES = {
    "nothing to fill": f"<title>A title</title>{RUNS}",
    "a heading": f"<h1>A title</h1><div></div>{RUNS}",
    "a word": f"<title>A title</title><body><p>Redirecting...</p></body>{RUNS}",
    "a menu": f"<nav id=nav><a href=/1>1</a></nav>{'text ' * 60}{RUNS}",
    "a menu below a form": "<div id=navbar><form><input></form><ul><a href=/1>1</a></ul></div>"
    f"{'text ' * 60}{RUNS}",
    "a menu to search by": f"<div id=searchmenu><form><input></form></div>{'text ' * 60}{RUNS}",
    "a handle of a menu": f"<div id=sidebar-handle></div><i id=nav></i>{'text ' * 60}{RUNS}",
    "a list below a menu": f"<div id=navbar-sub-list></div>{'text ' * 60}{RUNS}",
    "a script for a menu": f"{'text ' * 60}<script src=menu.js></script>",
    "a menu without a script": f"<div id=nav></div>{'text ' * 60}<script type=text/x>{{}}</script>",
    "an example": f"<p>This chart is drawn by a library.</p><div id=graph></div><i>x</i>{RUNS}",
    "a sentence alone": f"<p>A sentence that says what the element below shows.</p>{RUNS}",
    "slides": f"<div><section>Slide 1</section><section>Slide 2</section></div>{RUNS}",
    "controls": f"<button id=play></button><canvas></canvas>{RUNS}",
    "no script": "<div id=app></div>",
    "data alone": "<div id=app></div><script type='application/ld+json'>{}</script>",
    "text": f"{'text ' * 60}{RUNS}",
    "links": f"<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>{RUNS}",
    "a redirect": f"<meta http-equiv='refresh' content='0; url=en/'>{RUNS}",
    "a root with text": f"<div id=app>{'text ' * 120}</div>{RUNS}",
    "an empty root below text": f"<p>{'text ' * 50}</p><div id=root></div>{RUNS}",
    "few templates": f"{'text ' * 200}<script type='text/x-template'><p>text</script>{RUNS}",
}


@pytest.mark.parametrize("kind", SHELLS)
def test_a_page_with_a_script_and_next_to_nothing_else_looks_made_by_script(kind):
    assert looks_made_by_script(SHELLS[kind].encode())


@pytest.mark.parametrize("kind", MENUS)
def test_a_page_with_content_whose_menu_a_script_makes_looks_made_by_script(kind):
    content = "<a href=/x>a link</a> and text. " * 30
    assert looks_made_by_script(f"{MENUS[kind]}{content}{RUNS}".encode())


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_with_content_or_without_a_script_does_not(kind):
    assert not looks_made_by_script(PAGES[kind].encode())


@pytest.mark.sampled(60)
@pytest.mark.parametrize(
    "piece",
    [
        *(b"<script", b"<!--", b"<svg", b"<a ", b"<a href=", b"<", b"<div id=app", b"\xff", b"nav"),
        *(b"<div id=nav", b"<div id=nav>", b"<div id=nav><!--", b"<div id=nav><b> ", b"<p> <img>"),
        *(
            b"<div id=nav><form>",
            b"<form>",
            b"<form",
            b"</form><",
            b"<div id=navbar><form>",
            b" class=root",
            b"<a b='",
            b'<a=">',
        ),
        *(
            b"<script src=nav",
            b"a-",
            b"<a-",
            b">loa",
            b" id=nav",
            b" id=app",
            b"<meta ",
            b" href=x",
        ),
        *(
            b"<script type=text/template>",
            b"<script type=data ",
            b"navdata",
            b" ",
            b">",
            b"<a\thref",
        ),
    ],
)
@pytest.mark.parametrize(
    "before",
    [
        *(b"<script>#/", b"#/<script></script>", b"<script></script><p></p><"),
        *(b"<script></script><div", b"<script></script><div id=nav><form>"),
    ],
)
def test_any_bytes_are_looked_at_in_linear_time(before, piece):
    """Anything quadratic would take minutes."""
    body = before + piece * (500_000 // len(piece))
    for end in (b"", b">", b"<p></p>"):
        looks_made_by_script(body + end)
        hash_routes(body + end)


def test_hash_routes_are_links_whose_fragment_begins_with_a_slash():
    body = b"""<a href="#/a">a</a> <A class=x HREF=/p#!/b>b</A> <a href='#top'>c</a>
    <a href="#/a">again</a> <link href="#/no"> <a title="#/no" href="/">d</a> #/no"""
    assert hash_routes(body) == {"#/a", "/p#!/b"}


def wanted(history, urls, body, gained):
    """Return which URLs are rendered, one after the other, where some gain."""
    found = []
    for url in urls:
        if history.wants(url, body):
            found.append(url)
            history.note(url, body, gained=gained(url))
    return found


def pages(n, folder="p"):
    return [f"http://a.example/{folder}/{number}" for number in range(n)]


def test_a_kind_that_gains_is_rendered_on():
    assert wanted(RenderHistory(), pages(100), EMPTY, lambda _: True) == pages(100)


def test_of_empty_pages_that_gain_nothing_two_are_rendered_and_then_one_in_fifty():
    found = wanted(RenderHistory(), pages(152), EMPTY, lambda _: False)
    assert found == [pages(152)[number] for number in (0, 1, 51, 101, 151)]


def test_of_empty_pages_that_gain_nothing_sixteen_of_a_site_are_rendered():
    names = [f"http://a.example/{kind}/{name}" for kind in "abcdefghijkl" for name in "xyz"]
    found = wanted(RenderHistory(), names, EMPTY, lambda _: False)
    assert found == [name for name in names[:24] if not name.endswith("z")]


def test_of_plain_pages_one_of_a_kind_is_tried_and_eight_of_a_site():
    names = [f"http://a.example/{kind}/{name}" for kind in "abcdefghijkl" for name in "xyz"]
    found = wanted(RenderHistory(), names, PLAIN, lambda _: False)
    assert len(found) == 8
    assert len({url.rpartition("/")[0] for url in found}) == 8


def test_the_rest_of_a_plain_kind_waits_for_its_trial():
    history = RenderHistory()
    first, second = pages(2)
    assert [history.wants(url, PLAIN) for url in (first, second)] == [True, False]
    history.note(first, PLAIN, gained=True)
    assert history.wants(second, PLAIN)


def test_a_kind_goes_on_while_one_in_ten_gained():
    history = RenderHistory()
    found = wanted(history, pages(40), PLAIN, lambda url: url.endswith("/0"))
    assert found == pages(11), "after eleven pages, one in eleven"


def test_new_links_are_of_the_domain_and_counted_once():
    history, url = RenderHistory(), "http://a.example/p"
    assert not history.gains(url, ["http://b.example/x"], 1_000, 1_000)
    assert history.gains(url, ["http://www.a.example/x"], 1_000, 1_000)
    assert not history.gains(url, ["http://www.a.example/x"], 1_000, 1_000)


@pytest.mark.parametrize(
    ("before", "now", "gained"), [(0, 39, False), (0, 40, True), (1_000, 2_039, False)]
)
def test_text_is_gained_if_it_doubles(before, now, gained):
    assert RenderHistory().gains("http://a.example/", [], before, now) is gained
