"""`crawlprio crawl --plan` fetches little, and says what a crawl would do by the same rules."""

import json

import pytest
from crawls import Answer, Site, page
from forked import run_forked

XML = {"Content-Type": "application/xml"}


def sitemap(*urls):
    locations = "".join(f"<url><loc>{url}</loc></url>" for url in urls)
    return Answer(
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{locations}</urlset>',
        headers=XML,
    )


def web(robots, n_named=0, **pages):
    """Return a site with a sitemap of so many pages, a quarter of them private."""

    class Named(Site):
        def answer(self, host, path):
            start = f"http://{self.address}"
            if path == "/robots.txt":
                named = f"Sitemap: {start}/sitemap.xml\n" if n_named else ""
                return Answer(f"User-agent: *\n{robots}\n{named}")
            if path == "/sitemap.xml":
                kinds = ("a", "private", "b", "c")
                return sitemap(*(f"{start}/{kinds[n % 4]}/{n}" for n in range(n_named)))
            return super().answer(host, path)

    return Named({"/": page("/1", "/2", "http://other.test/"), **pages})


def plan(site, folder, *words, path="/"):
    given = ["crawl", f"http://{site.address}{path}", "--plan", *words]
    done = run_forked("crawlprio", given, folder)
    return done.returncode, done.stdout, done.stderr


def test_a_plan_says_rules_delays_size_and_hours(tmp_path):
    with web("Disallow: /private\nCrawl-delay: 2", n_named=400) as site:
        status, shown, told = plan(site, tmp_path, "--json", "--pages", "200", "--delay", "0.1")
        paths = site.paths(robots=True)
        gaps = [
            after.start - before.end
            for before, after in zip(site.fetches, site.fetches[1:], strict=False)
        ]
    assert (status, told) == (0, "")
    assert sorted(paths) == ["/", "/robots.txt", "/sitemap.xml"]
    assert min(gaps) >= 1.9
    found = json.loads(shown)
    (host,) = found["sites"]
    assert (host["crawl_delay"], host["delay"], host["links"]) == (2.0, 2.0, 2)
    assert (host["in_sitemaps"], host["pages"]) == (400, 300)
    assert host["refused"] == {"forbidden by robots.txt": 100}
    assert (found["pages_known"], found["pages"], found["size_is_known"]) == (300, 200, True)
    assert 200 * 2 <= found["seconds"] < 200 * 2.5
    assert found["limits"]["CRAWLPRIO_MAX_PAGES"] == 200
    assert found["ends"] == ["CRAWLPRIO_MAX_PAGES (--pages) is 200"]
    assert found["seeds"] == [{"url": f"http://{site.address}/", "refused": None}]
    assert list(tmp_path.iterdir()) == []


def test_a_plan_in_words_names_what_would_be_refused(tmp_path):
    with web("Disallow: /") as site:
        words = ("--folder", "job", "--delay", "0.1", "--warc", "archive")
        status, shown, told = plan(site, tmp_path, *words, path="/deep/page.html")
        assert site.paths(robots=True) == ["/robots.txt"]
    assert (status, told) == (0, "")
    seed = f"http://{site.address}/deep/page.html"
    assert shown.startswith(f"{seed} would not be fetched: forbidden by robots.txt.\n")
    assert "Seeds that may be fetched: 0 of 1." in shown
    assert "home page forbidden by robots.txt" in shown
    assert list(tmp_path.iterdir()) == []


def test_without_a_sitemap_the_size_is_a_lower_bound(tmp_path):
    with web("Allow: /") as site:
        status, shown, _ = plan(site, tmp_path, "--delay", "0.1")
    assert status == 0
    assert "at least 3. To fetch 3 takes" in shown
    assert "there may be many more pages" in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--demo", "--plan"], "--plan needs a URL"),
        (["http://a.test/", "--json"], "--json prints a plan; add --plan"),
        (["http://a.test/", "--plan", "--ordering", "opick"], "ORDERING is 'opick'; known"),
    ],
)
def test_bad_input_is_one_sentence(words, told, tmp_path):
    done = run_forked("crawlprio", ["crawl", *words], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
