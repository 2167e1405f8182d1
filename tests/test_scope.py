"""Which links a crawl follows, and what seeds may look like."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlprio.errors import ConfigError
from crawlprio.web.addresses import PrivateAddresses
from crawlprio.web.scope import DYNAMIC, SKIP_EXTENSIONS, Scope, Traps, read_seeds
from crawlprio.web.urls import MAX_URL_LENGTH

SEED = "http://www.example.co.uk/start"


def followed(scope, urls, depth=1):
    return [url for url in urls if not scope.refuses(url, depth)]


def test_site_means_the_seeds_hosts_with_or_without_www():
    here = ["http://www.example.co.uk/a", "https://example.co.uk:8080/b", "http://b.org/"]
    there = ["http://sub.example.co.uk/", "http://co.uk/", "http://www.c.org/", "http://wwwb.org/"]
    assert followed(Scope([SEED, "http://b.org/"]), here + there) == here


def test_domain_means_the_registered_domain_private_suffixes_included():
    scope = Scope(
        [SEED, "http://me.github.io/", "http://10.0.0.1/", "http://localhost/"], follow="domain"
    )
    here = ["http://example.co.uk/", "http://a.b.example.co.uk/", "http://me.github.io/",
            "http://x.me.github.io/", "http://10.0.0.1:8000/", "http://localhost:81/"]  # fmt: skip
    there = ["http://other.co.uk/", "http://you.github.io/", "http://10.0.0.2/", "http://co.uk/"]
    assert followed(scope, here + there) == here


def test_domain_never_uses_the_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("network used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert not Scope([SEED], follow="domain").refuses("http://x.example.co.uk/", 1)


def test_web_means_every_host():
    urls = ["http://a.org/", "http://b.org/", "http://c.org:81/"]
    assert followed(Scope([SEED], follow="web"), urls) == urls
    assert followed(Scope([SEED], follow="web", hosts=["a.org", "C.org"]), urls) == [
        "http://a.org/",
        "http://c.org:81/",
    ]
    assert followed(Scope(["http://a.org/"], hosts=["b.org"]), urls) == []


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:8000", "10.0.0.1", "[::1]", "printer.local"]
)
def test_a_private_host_that_is_another_site_is_refused_as_any_other_site(host):
    private = PrivateAddresses("refuse")
    refusals = {
        follow: Scope([SEED], follow, private=private).refuses(f"http://{host}/x", 1)
        for follow in ("site", "domain", "web")
    }
    assert refusals == {"site": "out-of-scope", "domain": "out-of-scope", "web": "private-address"}
    own = Scope([f"http://{host}/"], private=private)
    assert own.refuses(f"http://{host}/x", 1) == "private-address"


def test_a_seed_added_later_widens_the_scope_at_once():
    scope = Scope([SEED])
    assert scope.refuses("http://b.org/x", 1)
    assert scope.add_seed("http://b.org/")
    assert not scope.add_seed("http://www.b.org/")
    assert not scope.refuses("http://b.org/x", 1)


def test_allow_and_deny_search_the_url_and_deny_wins():
    urls = [f"http://a.org/{path}" for path in ("wiki/A", "wiki/Talk:B", "x", "wiki/C?edit")]
    scope = Scope(["http://a.org/"], allow=r"/wiki/", deny=r"Talk:|\?edit$")
    assert followed(scope, urls) == ["http://a.org/wiki/A"]
    assert followed(Scope(["http://a.org/"], allow="/wiki/"), urls) == [urls[0], urls[1], urls[3]]
    assert followed(Scope(["http://a.org/"], deny="/wiki/"), urls) == [urls[2]]
    assert followed(Scope(["http://a.org/"], allow="", deny=""), urls) == urls


def test_each_heuristic_can_be_turned_off():
    urls = ["http://a.org/cgi-bin/x", "http://a.org/x", "http://a.org/x?y"]
    seeds = ["http://a.org/"]
    assert followed(Scope(seeds), urls, depth=99) == []
    assert followed(Scope(seeds, max_static_depth=None), urls, depth=99) == urls[1:2]
    assert followed(Scope(seeds, max_dynamic_depth=None), urls, depth=99) == urls[2:]
    assert followed(Scope(seeds, skip_cgi_bin=False), urls, depth=1) == urls
    assert followed(Scope(seeds, heuristics=False), urls, depth=99) == urls
    assert followed(Scope(seeds, max_static_depth=0, max_dynamic_depth=1), urls) == urls[2:]


def test_archives_media_and_documents_are_not_followed_but_text_is():
    files = [f"http://a.org/x.{end}" for end in ("pdf", "JPG", "tar.gz", "mp4", "zip?v=1", "png;a")]
    pages = [
        f"http://a.org/{path}"
        for path in (
            *("x.pdf/", "pdf", "get?file=x.pdf", "x.htm", ".hidden", "wiki/Node.js"),
            "whois/abc.au",
            *("notes.txt", "sort.cpp", "setup.py", "data.json", "list.csv", "style.css"),
            "feed.rss",
        )
    ]
    scope = Scope(["http://a.org/"], heuristics=False)
    assert followed(scope, files + pages) == pages
    assert [scope.refuses(url, 1) for url in files] == ["extension"] * len(files)


def test_a_wiki_page_about_a_file_is_followed_and_the_file_is_not():
    pages = [
        f"http://a.org/{path}"
        for path in ("wiki/File:Sunset.jpg", "wiki/Datei%3AX.PNG", "w/index.php/Image:a.gif;b")
    ]
    assert followed(Scope(["http://a.org/"]), [*pages, "http://a.org/a:b/Sunset.jpg"]) == pages


def refusal(url, depth, max_repeats, deny):
    """Return why the scope of a.org rejects a page, by the rules in their order of precedence."""
    host, _, rest = url.removeprefix("http://").partition("/")
    path, question, _ = rest.partition("?")
    name = path.split("/")[-1]
    name = name.split(";")[0]
    extension = name.split(".")[-1].lower() if "." in name and ":" not in name else ""
    bound = 5 if question or extension in DYNAMIC else 15
    rules = {
        "out-of-scope": host not in ("a.org", "www.a.org:81"),
        "extension": extension in SKIP_EXTENSIONS,
        "too-deep": depth > bound,
        "cgi-bin": "/cgi-bin/" in url,
        "out-of-scope ": deny is not None and deny in url,
    }
    traps = Traps(max_repeats=max_repeats, max_segments=6, max_parameters=2)
    return next((reason.strip() for reason, holds in rules.items() if holds), traps.refuses(url))


@given(
    paths=st.lists(
        st.lists(
            st.sampled_from(
                [
                    *("a", "b", "x.html", "y.pdf", "F:", "z.PHP", "v1.2", ".", "jpg", "exe;x.y"),
                    *("/", "/", "/", "/", "?", "&", ";", "cgi-bin", "?f=x.pdf", "/a" * 4),
                ]
            ),
            max_size=9,
        ).map("".join),
        max_size=5,
    ),
    hosts=st.lists(st.sampled_from(["a.org", "www.a.org:81", "b.org"]), min_size=5, max_size=5),
    depth=st.sampled_from([1, 5, 6, 15, 16]),
    max_repeats=st.sampled_from([None, 0, 1, 3]),
    deny=st.sampled_from([None, "b"]),
)
def test_the_links_of_a_page_are_refused_like_each_of_them_alone(
    paths, hosts, depth, max_repeats, deny
):
    traps = Traps(max_repeats=max_repeats, max_segments=6, max_parameters=2)
    scope = Scope(["http://a.org/"], traps=traps, deny=deny)
    urls = [f"http://{host}/{path}" for host, path in zip(hosts, paths, strict=False)]
    expected = [refusal(url, depth, max_repeats, deny) for url in urls]
    assert scope.refuse_all(urls, depth) == expected
    assert [scope.refuses(url, depth) for url in urls] == expected


def test_seeds_are_a_list_of_normalised_urls():
    spec = " HTTP://B.org:80 ,http://a.org/x#top,,http://b.org/"
    assert read_seeds(spec) == ["http://b.org/", "http://a.org/x"]


def test_seeds_are_read_from_a_file_one_per_line(tmp_path):
    path = tmp_path / "seeds.txt"
    path.write_bytes(
        b"\xef\xbb\xbf# hosts\r\n\r\nhttp://a.org\r\n  http://b.org/x,y#part \r\nhttp://a.org/"
    )
    assert read_seeds(f"@{path}") == ["http://a.org/", "http://b.org/x,y"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("", "seeds is empty; give URL[,URL...] or @FILE."),
        (" , ", "seeds is empty; give URL[,URL...] or @FILE."),
        (
            "http://a.org/,example.org/x",
            "seeds: 'example.org/x' has no scheme; "
            "write 'https://example.org/x' or 'http://example.org/x'.",
        ),
        (
            "localhost:8000",
            "seeds: 'localhost:8000' has no scheme; "
            "write 'https://localhost:8000' or 'http://localhost:8000'.",
        ),
        ("ftp://a.org/", "seeds: 'ftp://a.org/' is not http or https; only those are crawled."),
        ("mailto:a@b.org", "seeds: 'mailto:a@b.org' is not http or https; only those are crawled."),
        ("http://", "seeds: 'http://' is not a URL; write it as 'https://example.org/'."),
        ("not a url", "seeds: 'not a url' is not a URL; write it as 'https://example.org/'."),
        (
            "http://a.org/" + "x" * MAX_URL_LENGTH,
            f"seeds: 'http://a.org/{'x' * 27}'... has {MAX_URL_LENGTH + 13} characters; "
            f"at most {MAX_URL_LENGTH} are allowed.",
        ),
    ],
)
def test_a_bad_seed_error_says_what_to_write(spec, message):
    with pytest.raises(ConfigError) as caught:
        read_seeds(spec)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "{}:1: no URL in the file; give one per line."),
        (b"# one\n\n# two\n", "{}:3: no URL in the file; give one per line."),
        (b"http://a.org/\nb.org\n",
         "{}:2: 'b.org' has no scheme; write 'https://b.org' or 'http://b.org'."),
        (b"http://a.org/\n\nhttp://\xff.org/\n", "{}:3: not valid UTF-8; save it as UTF-8."),
    ],
)  # fmt: skip
def test_a_bad_seed_file_is_named_with_its_line(tmp_path, content, message):
    path = tmp_path / "seeds.txt"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_seeds(f"@{path}")
    assert str(caught.value) == message.format(path)


@pytest.mark.parametrize(("name", "reason"), [("none.txt", "No such file"), ("", "Is a directory")])
def test_a_seed_file_that_cannot_be_read_is_named(tmp_path, name, reason):
    path = tmp_path / name
    with pytest.raises(ConfigError) as caught:
        read_seeds(f"@{path}")
    assert str(caught.value).startswith(f"seeds: {str(path)!r} cannot be read ({reason}")


def test_under_an_unlisted_top_level_domain_the_last_two_labels_are_the_domain():
    scope = Scope(["http://www.site17.example/"], "domain")
    urls = ["http://shop.site17.example/a", "http://www.site1.example/", "http://site17.example/"]
    assert [not scope.refuses(url, 1) for url in urls] == [True, False, True]


def test_an_expression_that_backtracks_is_stopped_and_named():
    scope = Scope(["http://a.org/"], deny="(a+)+!")
    url = f"http://a.org/{'a' * 60}"
    with pytest.raises(ConfigError, match=r"deny is '\(a\+\)\+!', which takes more than 1 s to"):
        scope.refuses(url, 1)
    assert scope.refuses("http://a.org/b", 1) == ""
