"""What RFC 9309 says about a robots.txt, case by case, for any matcher.

The cases marked `Google` follow those of Google's published parser (github.com/google/robotstxt),
in our own words. Where that parser goes beyond the RFC (spelling mistakes, missing colons), so do
ours and Protego. Two of its cases are left out because the RFC says otherwise: it does not decode
`%62` in a rule, and it asks callers to encode URLs.
"""

import re
from typing import NamedTuple
from urllib.parse import quote

from crawlprio.web import robots_txt
from crawlprio.web.robots_txt import MAX_BYTES

BOT = "FooBot"


def without_unknown_lines(text):
    """Leave out the lines that say nothing but, in Protego, end a list of robots.

    What ends a line only for Protego is written as in a URL.
    """
    lines = [line for line in re.split("\r\n|\r|\n", text) if robots_txt._directive(line)]
    lines = [re.sub(r"[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", quoted, line.strip()) for line in lines]
    return "\n".join(lines)


def quoted(char):
    return quote(char[0])


def with_whole_products(text, products):
    """Give each group a name that Protego, which goes by beginnings of words, finds as it should.

    RFC 9309, section 2.2.1: a group is for the product that it names, and for no other, and all
    groups that name the robot are one.
    """
    own = min(products, default="")
    lines = without_unknown_lines(text).splitlines()
    for at, line in enumerate(lines):
        directive = robots_txt._directive(line)
        if directive is not None and directive[0] == "User-agent" and directive[1] != "*":
            name = re.split(r"[\s/*]", directive[1].lower())[0]
            named = own if name in products else "nobody-that-asks"
            lines[at] = f"User-agent: {named if directive[1] else ''}"
    return "\n".join(lines)


class Case(NamedTuple):
    """One question to a matcher.

    Attributes
    ----------
    source
        Section of RFC 9309, or `Google`.
    claim
        What the case shows.
    robots
        The file.
    path
        What `BOT` wants to fetch.
    allowed
        The answer.
    """

    source: str
    claim: str
    robots: bytes
    path: str
    allowed: bool


def ours(*lines):
    """Return a file with one group, for `BOT`."""
    return "\n".join(["User-agent: FooBot", *lines, ""]).encode()


def groups(*lines):
    return "\n".join([*lines, ""]).encode()


_GROUPS = groups(
    *("allow: /foo/bar/", "", "user-agent: FooBot", "disallow: /", "allow: /x/"),
    *("user-agent: BarBot", "disallow: /", "allow: /y/", "", "", "allow: /w/"),
    *("user-agent: BazBot", "", "user-agent: FooBot", "allow: /z/", "disallow: /"),
)
_LONG = ours("Disallow: /early") + b"# %s\n" % (b"x" * 98) * 5_000
_FISH = ("disallow: /", "allow: /fish")

CASES = [
    Case("2.2", "an empty file allows everything", b"", "/x", True),
    Case("2.2", "a file of comments allows everything", b"# Disallow: /\n\n#\n", "/x", True),
    Case("2.1", "a group forbids a path", ours("Disallow: /x"), "/x/y", False),
    Case("2.1", "a group for others says nothing", groups("User-agent: BarBot", "Disallow: /"),
         "/x", True),
    Case("2.2.1", "names of robots are case-insensitive",
         groups("User-agent: fOObOT", "Disallow: /"), "/x", False),
    Case("2.2", "names of lines are case-insensitive",
         groups("uSeR-aGeNt: FooBot", "dIsAlLoW: /"), "/x", False),
    Case("2.2.2", "paths are case-sensitive", ours("Disallow: /X"), "/x", True),
    Case("2.2.1", "several robots share a group",
         groups("User-agent: BarBot", "User-agent: FooBot", "Disallow: /x"), "/x", False),
    Case("2.2.1", "groups for the same robot are merged", _GROUPS, "/z/d", True),
    Case("2.2.1", "of merged groups, the rules of both apply",
         groups("User-agent: FooBot", "Disallow: /x", "User-agent: BarBot", "Disallow: /",
                "User-agent: FooBot", "Disallow: /y"), "/x", False),
    Case("Google", "rules before the first group are ignored", _GROUPS, "/foo/bar/", False),
    Case("Google", "rules of another group do not apply", _GROUPS, "/y/c", False),
    Case("2.2.1", "the group for all robots applies to those without their own",
         groups("User-agent: BarBot", "Allow: /", "User-agent: *", "Disallow: /"), "/x", False),
    Case("2.2.1", "a robot's own group replaces that for all",
         groups("User-agent: *", "Disallow: /x", "User-agent: FooBot", "Disallow: /y"), "/x", True),
    Case("2.2.1", "the order of groups does not matter",
         groups("User-agent: FooBot", "Disallow: /y", "User-agent: *", "Disallow: /x"), "/y",
         False),
    Case("2.2.1", "groups for all robots are merged",
         groups("User-agent: *", "Disallow: /x", "User-agent: BarBot", "Disallow: /y",
                "User-agent: *", "Disallow: /z"), "/z", False),
    Case("2.2.1", "a robot's name is no part of another's",
         groups("User-agent: Bot", "Disallow: /"), "/x", True),
    Case("Google", "a version after the name is ignored",
         groups("User-agent: FooBot/2.1", "Disallow: /"), "/x", False),
    Case("Google", "a name counts up to its first space",
         groups("User-agent: *", "Disallow: /", "User-agent: FooBot News", "Allow: /x/",
                "Disallow: /"), "/x/y", True),
    Case("2.2.2", "the longest rule wins, whatever the order",
         ours("Disallow: /x/page.html", "Allow: /x/"), "/x/page.html", False),
    Case("2.2.2", "a longer Allow wins over Disallow",
         ours("Allow: /x/page.html", "Disallow: /x/"), "/x/page.html", True),
    Case("2.2.2", "a later, longer Allow wins too",
         ours("Disallow: /x/", "Allow: /x/page.html"), "/x/page.html", True),
    Case("2.2.2", "of rules as long as each other, Allow wins", ours("Disallow: /x", "Allow: /x"),
         "/x", True),
    Case("2.2.2", "a rule is a prefix, not a directory", ours("Disallow: /fish"), "/fishheads",
         False),
    Case("2.2.2", "a closing slash counts", ours("Disallow: /fish/"), "/fish", True),
    Case("2.2.2", "a rule begins at the root", ours("Disallow: /fish"), "/catfish", True),
    Case("2.2.2", "an empty Disallow allows everything", ours("Disallow:"), "/x", True),
    Case("2.2.2", "robots.txt itself is always allowed", ours("Disallow: /"), "/robots.txt", True),
    Case("2.2.2", "the query belongs to the path", ours("Disallow: /x?id="), "/x?id=1", False),
    Case("2.2.2", "a URL inside a query is no URL of its own",
         ours("Disallow: /", "Allow: /x?q=a&u=http://b.test?c&d"), "/x?q=a&u=http://b.test?c&d",
         True),
    Case("2.2.2", "UTF-8 in a rule matches its percent-encoding",
         ours("Disallow: /", "Allow: /x/\u30c4"), "/x/%E3%83%84", True),
    Case("2.2.2", "percent-encoded UTF-8 matches itself",
         ours("Disallow: /", "Allow: /x/%E3%83%84"), "/x/%E3%83%84", True),
    Case("2.2.2", "the case of a percent-encoding does not matter", ours("Disallow: /%e3%83%84"),
         "/%E3%83%84", False),
    Case("2.2.2", "percent-encoded letters are letters", ours("Disallow: /x/%62%61%7A"), "/x/baz",
         False),
    Case("2.2.2", "percent-encoded letters of a URL are letters", ours("Disallow: /~joe"),
         "/%7Ejoe", False),
    Case("2.2.2", "a percent-encoded slash is no slash", ours("Disallow: /a%2Fb"), "/a/b", True),
    Case("2.2.2", "Latin-1 matches its percent-encoding, and no more", b"User-agent: *\nDisallow: "
         b"/\xe9t\xe9\n", "/%E9t%E9", False),
    Case("2.2.2", "Latin-1 does not shorten a rule", b"User-agent: *\nDisallow: /\xe9t\xe9\n", "/t",
         True),
    Case("2.2.3", "* is any characters", ours("Disallow: /*.php"), "/folder/file.php?x", False),
    Case("2.2.3", "* is none, too", ours("Disallow: /fish*.php"), "/fish.php", False),
    Case("2.2.3", "a * at the end says nothing", ours("Disallow: /fish*"), "/fish", False),
    Case("2.2.3", "a rule of one * forbids everything", ours("Disallow: *"), "/x", False),
    Case("2.2.3", "several * in a rule", ours("Disallow: /a*b*c"), "/axxbxxc", False),
    Case("2.2.3", "$ is the end of the URL", ours("Disallow: /*.php$"), "/file.php", False),
    Case("2.2.3", "$ excludes what goes on", ours("Disallow: /*.php$"), "/file.php?x", True),
    Case("2.2.3", "/$ is the home page alone", ours("Allow: /$", "Disallow: /"), "/", True),
    Case("2.2.3", "/$ is no other page", ours("Allow: /$", "Disallow: /"), "/page.html", False),
    Case("2.2.3", "a longer rule with * wins", ours("Allow: /page", "Disallow: /*.html"),
         "/page.html", False),
    Case("2.2.3", "a longer rule without * wins", ours("Allow: /x/page.", "Disallow: /*.html"),
         "/x/page.html", True),
    Case("2.2.3", "%2A is a star, not any characters", ours("Disallow: /a%2Ab"), "/axb", True),
    Case("2.2.3", "# ends a rule", ours("Disallow: /foo/quz#qux"), "/foo/quz", False),
    Case("2.2.3", "a comment forbids nothing", ours("# Disallow: /"), "/x", True),
    Case("Google", "Allow of index.html allows its folder",
         ours("Allow: /a/index.html", "Disallow: /"), "/a/", True),
    Case("2.2.4", "a sitemap between robots ends no group",
         groups("User-agent: FooBot", "Sitemap: http://a.test/s", "User-agent: BarBot",
                "Disallow: /"), "/x", False),
    Case("2.2.4", "an unknown line between robots ends no group",
         groups("User-agent: FooBot", "Policy: open", "User-agent: BarBot", "Disallow: /"), "/x",
         False),
    Case("2.2.4", "unknown lines are ignored", groups("foo: FooBot", "bar: /"), "/x", True),
    Case("2.2", "empty lines end no group", groups("User-agent: FooBot", "", "", "Disallow: /"),
         "/x", False),
    Case("2.2", "lines may end with CR LF", b"User-agent: *\r\nDisallow: /x\r\n", "/x", False),
    Case("2.2", "lines may end with CR", b"User-agent: *\rDisallow: /x\r", "/x", False),
    Case("2.2", "line ends may be mixed", b"User-agent: *\nAllow: /y\r\n\r\nDisallow: /x", "/x",
         False),
    Case("2.2", "white space around names and values is ignored",
         b" User-agent\t: \t*  \n\tDisallow :/x \t\n", "/x", False),
    Case("2.3", "a UTF-8 byte-order mark is ignored", b"\xef\xbb\xbfUser-agent: *\nDisallow: /\n",
         "/x", False),
    Case("Google", "half a byte-order mark is ignored", b"\xef\xbbUser-agent: *\nDisallow: /\n",
         "/x", False),
    Case("Google", "a missing colon is forgiven", groups("user-agent FooBot", "disallow /"), "/x",
         False),
    Case("Google", "common misspellings are forgiven", ours("Disalow: /x"), "/x", False),
    Case("2.3", "a page of HTML forbids nothing",
         b"<!doctype html><title>Home</title>\n<p>Disallow: /\n", "/x", True),
    Case("2.3", "bytes that are no text forbid nothing", bytes(range(256)) * 4, "/x", True),
    Case("2.5", "500 KiB are read", _LONG + ours("Disallow: /late"), "/late", False),
    Case("2.5", "a file over the limit still counts up to it", _LONG * 4, "/early", False),
    Case("Google", "a long rule does not hide the others",
         ours("Disallow: /" + "a" * 20_000, "Disallow: /x"), "/x", False),
    *(Case("Google", f"Allow: /fish and {path}", ours(*_FISH), path, allowed)
      for path, allowed in (("/fish.html", True), ("/fish/salmon.html", True),
                            ("/fish.html?id=any", True), ("/Fish.asp", False),
                            ("/?id=fish", False))),
]  # fmt: skip

assert len(_LONG) < 512_000 < MAX_BYTES
