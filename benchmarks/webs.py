"""Link graphs of real documentation, in which each Debian package is a site; run by hand.

    python benchmarks/webs.py FOLDER [--web NAME]... [--list]

Downloads the HTML documentation of Debian packages with `apt-get download`, unpacks it with
`dpkg-deb`, reads the links of every page with the crawler's own parser, and writes one link graph
for each web: `FOLDER/NAME.npz`, `NAME.urls.gz` and `NAME.homes.txt`, the home page of each site.
Pages and packages stay in FOLDER, which should be outside the repository; all webs together take
about 6 GB. A second run reuses what is there.

The links are those in the pages: relative links across packages, `file:` URLs into the folder of
another package, and links to the upstream address of a package that is also in the web (listed in
`SITES`). Query and fragment are dropped, and a folder means its `index.html`. A page is in the web
if it can be reached from the home pages; a site contributes at most its first `MOST_PAGES` pages,
breadth-first. The pages depend on the Debian release, so figures from another release differ.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.npz import write_npz
from crawlprio.web.html import parse_page

MOST_PAGES = 12_000
"""Most pages of one site; otherwise the largest packages would make up most of a web."""

LARGEST = 2_000_000
"""Most bytes of a page; crawlers have a similar limit."""

FEWEST = 5
"""Fewest links of a home page."""

HOST = "debian.example"

JUDGE_MANUALS = (
    *("mit-scheme-doc", "python-openstackclient-doc", "groonga-doc"),
    *("scons-doc", "libcoap3-doc", "cppreference-doc-en-html"),
    *("libopenvdb-doc", "mailfromd-doc", "fop-doc"),
    "gnustep-make-doc",
)
JUDGE_SHELF = (
    *("coinor-libosi-doc", "libsphinxbase-doc", "libghc-clash-lib-doc"),
    *("opendnssec-doc", "garlic-doc", "libdvbv5-doc"),
    *("qtgstreamer-doc", "lirc-doc", "autogen-doc"),
    *("libstarlink-ast-doc", "libvips-doc", "libags-audio-doc"),
)
JUDGE_APTITUDE = tuple(
    f"aptitude-doc-{language}"
    for language in ("en", "cs", "es", "fi", "fr", "it", "ja", "nl", "ru")
)
JUDGE_REFERENCE = tuple(
    f"debian-reference-{language}"
    for language in ("en", "de", "es", "fr", "it", "ja", "pt", "zh-cn")
)
"""Packages of the webs that judge the estimate of coverage alone. The first two are of Debian's
section doc, of .6 to 6 MB and 100 HTML files or more, not used otherwise, one of each family of
names, by the smallest SHA-256 of their names: ten manuals, and a shelf of the next twelve without
those of more than a thousand files."""

SITES: dict[str, tuple[str, ...]] = {
    "python3.11-doc": ("docs.python.org/3/", "docs.python.org/", "docs.python.org/3.11/"),
    "python-django-doc": ("docs.djangoproject.com/en/stable/", "docs.djangoproject.com/en/3.2/"),
    "python-sqlalchemy-doc": ("docs.sqlalchemy.org/en/14/", "docs.sqlalchemy.org/"),
    "python-scipy-doc": ("docs.scipy.org/doc/scipy/", "docs.scipy.org/doc/scipy/reference/"),
    "python-sympy-doc": ("docs.sympy.org/latest/", "docs.sympy.org/"),
    "python-pandas-doc": (
        "pandas.pydata.org/docs/",
        "pandas.pydata.org/pandas-docs/stable/",
    ),
    "python-astropy-doc": ("docs.astropy.org/en/stable/", "docs.astropy.org/"),
    "python-statsmodels-doc": ("www.statsmodels.org/stable/", "www.statsmodels.org/"),
    "python-dask-doc": ("docs.dask.org/en/latest/", "docs.dask.org/en/stable/", "docs.dask.org/"),
    "python-celery-doc": ("docs.celeryq.dev/en/stable/", "docs.celeryproject.org/en/latest/"),
    "python-tornado-doc": ("www.tornadoweb.org/en/stable/", "www.tornadoweb.org/"),
    "python-flask-doc": ("flask.palletsprojects.com/", "flask.palletsprojects.com/en/2.2.x/"),
    "python-werkzeug-doc": (
        "werkzeug.palletsprojects.com/",
        "werkzeug.palletsprojects.com/en/2.2.x/",
    ),
    "python-jinja2-doc": ("jinja.palletsprojects.com/", "jinja.palletsprojects.com/en/3.1.x/"),
    "python-requests-doc": ("requests.readthedocs.io/", "docs.python-requests.org/"),
    "python-pytest-doc": ("docs.pytest.org/en/stable/", "docs.pytest.org/", "pytest.org/"),
    "sphinx-doc": ("www.sphinx-doc.org/en/master/", "www.sphinx-doc.org/", "sphinx-doc.org/"),
    "python-tables-doc": ("www.pytables.org/",),
    "python-h5py-doc": ("docs.h5py.org/en/stable/", "docs.h5py.org/"),
    "python-cryptography-doc": ("cryptography.io/en/latest/", "cryptography.io/"),
    "python-ipython-doc": ("ipython.readthedocs.io/en/stable/", "ipython.org/"),
    "python-babel-doc": ("babel.pocoo.org/", "babel.pocoo.org/en/latest/"),
    "python-pygments-doc": ("pygments.org/docs/", "pygments.org/"),
    "python-scrapy-doc": ("docs.scrapy.org/en/latest/", "docs.scrapy.org/"),
    "twisted-doc": ("docs.twistedmatrix.com/en/stable/", "twistedmatrix.com/documents/current/"),
    "python-sklearn-doc": ("scikit-learn.org/stable/", "scikit-learn.org/"),
    "libboost1.74-doc": ("www.boost.org/", "www.boost.org/doc/libs/release/"),
    "libeigen3-doc": ("eigen.tuxfamily.org/dox/",),
    "libglibmm-2.4-doc": ("developer.gnome.org/glibmm/stable/",),
    "libgtkmm-3.0-doc": ("developer.gnome.org/gtkmm/stable/",),
    "libsigc++-2.0-doc": ("libsigc.sourceforge.net/libsigc2/docs/",),
    "libstdc++-12-doc": ("gcc.gnu.org/onlinedocs/libstdc++/",),
    "wx3.2-doc": ("docs.wxwidgets.org/3.2/", "docs.wxwidgets.org/"),
    "libsdl2-doc": ("wiki.libsdl.org/",),
    "libsfml-doc": ("www.sfml-dev.org/documentation/",),
    "libcrypto++-doc": ("www.cryptopp.com/docs/ref/", "www.cryptopp.com/"),
    "libhdf5-doc": ("docs.hdfgroup.org/hdf5/",),
    "libxml2-doc": ("xmlsoft.org/", "www.xmlsoft.org/"),
    "libgtk-3-doc": ("docs.gtk.org/gtk3/", "developer.gnome.org/gtk3/stable/"),
    "libgtk-4-doc": ("docs.gtk.org/gtk4/",),
    "libglib2.0-doc": ("docs.gtk.org/glib/", "docs.gtk.org/gobject/", "docs.gtk.org/gio/"),
    "libpango1.0-doc": ("docs.gtk.org/Pango/", "docs.gtk.org/PangoCairo/"),
    "libcairo2-doc": ("www.cairographics.org/manual/", "cairographics.org/manual/"),
    "libsoup-3.0-doc": ("libsoup.org/libsoup-3.0/",),
    "libsoup2.4-doc": ("developer.gnome.org/libsoup/stable/",),
    "libwebkit2gtk-4.0-doc": ("webkitgtk.org/reference/webkit2gtk/stable/",),
    "qtbase5-doc-html": ("doc.qt.io/qt-5/",),
    "qtdeclarative5-doc-html": (),
    "qtcreator-doc": ("doc.qt.io/qtcreator/",),
    "cmake-doc": ("cmake.org/cmake/help/latest/",),
    "llvm-14-doc": ("llvm.org/docs/",),
    "clang-14-doc": ("clang.llvm.org/docs/",),
    "dpdk-doc": ("doc.dpdk.org/",),
    "apache2-doc": ("httpd.apache.org/docs/2.4/", "httpd.apache.org/docs/current/"),
    "postgresql-doc-15": ("www.postgresql.org/docs/15/", "www.postgresql.org/docs/current/"),
    "git-doc": ("git-scm.com/docs/",),
    "libsvn-doc": (),
    "bind9-doc": ("bind9.readthedocs.io/",),
    "varnish-doc": ("varnish-cache.org/docs/",),
    "haproxy-doc": ("docs.haproxy.org/",),
    "xen-doc": ("xenbits.xen.org/docs/",),
    "libvirt-doc": ("libvirt.org/", "www.libvirt.org/"),
    "postfix-doc": ("www.postfix.org/",),
    "exim4-doc-html": ("www.exim.org/exim-html-current/doc/html/spec_html/",),
    "slurm-wlm-doc": ("slurm.schedmd.com/",),
    "mpich-doc": ("www.mpich.org/static/docs/latest/",),
    "vim-doc": ("vimhelp.org/",),
    "zsh-doc": ("zsh.sourceforge.io/Doc/Release/",),
    "nodejs-doc": ("nodejs.org/api/",),
    "debian-handbook": ("debian-handbook.info/",),
    "debian-reference-en": ("www.debian.org/doc/manuals/debian-reference/",),
    "debian-policy": ("www.debian.org/doc/debian-policy/",),
    "maint-guide": ("www.debian.org/doc/manuals/maint-guide/", "www.debian.org/doc/maint-guide/"),
    "installation-guide-amd64": (),
    "developers-reference": (
        "www.debian.org/doc/manuals/developers-reference/",
        "www.debian.org/doc/developers-reference/",
    ),
    "r-doc-html": ("cran.r-project.org/doc/manuals/r-release/",),
    "sqlite3-doc": ("www.sqlite.org/", "sqlite.org/"),
    "octave-doc": (),
    "maxima-doc": (),
    "gap-doc": (),
    "racket-doc": ("docs.racket-lang.org/",),
    "erlang-doc": ("www.erlang.org/doc/",),
    "swi-prolog-doc": ("www.swi-prolog.org/pldoc/",),
    "sbcl-doc": ("www.sbcl.org/manual/",),
    "gnuplot-doc": (),
    "lilypond-doc-html": ("lilypond.org/doc/v2.24/",),
    "ada-reference-manual-2012": (),
    "linux-doc-6.1": ("www.kernel.org/doc/html/latest/", "docs.kernel.org/"),
    "netcdf-doc": (),
    "scala-doc": ("www.scala-lang.org/api/current/",),
    "openjdk-17-doc": ("docs.oracle.com/en/java/javase/17/docs/api/",),
    "libcommons-lang3-java-doc": (),
    "libhsqldb-java-doc": (),
    "fp-docs-3.2.2": ("www.freepascal.org/docs-html/",),
    "ghc-doc": ("downloads.haskell.org/ghc/latest/docs/",),
    "rust-doc": ("doc.rust-lang.org/", "doc.rust-lang.org/stable/"),
    "petsc3.18-doc": ("petsc.org/release/docs/",),
    "doxygen-doc": ("www.doxygen.nl/manual/", "doxygen.nl/manual/"),
    "gimp-help-en": ("docs.gimp.org/",),
    "singular-doc": (),
    "sagemath-doc": ("doc.sagemath.org/html/en/", "doc.sagemath.org/"),
    "lazarus-doc-2.2": (),
    "libpcl-doc": (),
    "dolfin-doc": (),
    "python-biopython-doc": ("biopython.org/docs/latest/api/",),
    "python-skimage-doc": ("scikit-image.org/docs/stable/", "scikit-image.org/"),
    "llvm-13-doc": (),
    "llvm-15-doc": (),
    "llvm-16-doc": (),
    "llvm-19-doc": (),
    "clang-13-doc": (),
    "clang-15-doc": (),
    "clang-16-doc": (),
    "clang-19-doc": (),
    "libstdc++-11-doc": (),
    "libboost1.81-doc": (),
    **dict.fromkeys(
        (
            *(f"debian-faq-{language}" for language in ("de", "fr", "it", "ja", "nl", "ru")),
            *("debian-faq",),
            *(f"maint-guide-{language}" for language in ("ca", "de", "es", "fr", "it", "ja", "ru")),
            *(f"developers-reference-{language}" for language in ("de", "fr", "ja")),
        ),
        (),
    ),
    **dict.fromkeys((*JUDGE_MANUALS, *JUDGE_SHELF, *JUDGE_APTITUDE, *JUDGE_REFERENCE), ()),
}
"""Packages, and their addresses on the web: URLs without scheme, each the folder of the home
page."""

FRONT = {"installation-guide-amd64": "usr/share/doc/installation-guide-amd64/index.html"}
"""Manuals in many languages without a page that links to all of them: where one is made."""

WEBS: dict[str, tuple[str, ...]] = {
    "python": (
        *("python3.11-doc", "python-django-doc", "python-sqlalchemy-doc", "python-celery-doc"),
        *("python-tornado-doc", "python-flask-doc", "python-werkzeug-doc", "python-jinja2-doc"),
        *("python-requests-doc", "python-pytest-doc", "sphinx-doc", "python-cryptography-doc"),
        *("python-babel-doc", "python-pygments-doc", "python-scrapy-doc", "twisted-doc"),
    ),
    "science": (
        *("python3.11-doc", "python-scipy-doc", "python-sympy-doc", "python-pandas-doc"),
        *("python-astropy-doc", "python-statsmodels-doc", "python-dask-doc", "python-tables-doc"),
        *("python-h5py-doc", "python-ipython-doc", "python-sklearn-doc", "r-doc-html"),
        *("octave-doc", "maxima-doc", "gap-doc", "netcdf-doc", "libhdf5-doc"),
    ),
    "cplusplus": (
        *("libboost1.74-doc", "libeigen3-doc", "libstdc++-12-doc", "wx3.2-doc", "libsdl2-doc"),
        *("libsfml-doc", "libcrypto++-doc", "llvm-14-doc", "clang-14-doc", "cmake-doc"),
        *("qtbase5-doc-html", "qtdeclarative5-doc-html", "doxygen-doc"),
    ),
    "gnome": (
        *("libgtk-3-doc", "libgtk-4-doc", "libglib2.0-doc", "libpango1.0-doc", "libcairo2-doc"),
        *("libsoup-3.0-doc", "libsoup2.4-doc", "libwebkit2gtk-4.0-doc"),
        *("libglibmm-2.4-doc", "libgtkmm-3.0-doc", "libsigc++-2.0-doc"),
        *("libxml2-doc",),
    ),
    "servers": (
        *("apache2-doc", "postgresql-doc-15", "git-doc", "libsvn-doc", "bind9-doc", "varnish-doc"),
        *("haproxy-doc", "xen-doc", "libvirt-doc", "postfix-doc", "exim4-doc-html"),
        *("slurm-wlm-doc", "mpich-doc", "dpdk-doc"),
    ),
    "manuals": (
        *("debian-handbook", "debian-reference-en", "debian-policy", "maint-guide", "vim-doc"),
        *("installation-guide-amd64", "developers-reference", "sqlite3-doc", "zsh-doc"),
        *("gnuplot-doc", "linux-doc-6.1"),
        *("gimp-help-en", "lilypond-doc-html"),
    ),
    "languages": (
        *("erlang-doc", "racket-doc", "swi-prolog-doc", "sbcl-doc", "nodejs-doc"),
        *("ada-reference-manual-2012", "ghc-doc", "rust-doc", "scala-doc", "fp-docs-3.2.2"),
        *("openjdk-17-doc", "libcommons-lang3-java-doc", "libhsqldb-java-doc", "python3.11-doc"),
    ),
    "erlang": ("erlang-doc",),
    "linux": ("linux-doc-6.1",),
    "racket": ("racket-doc",),
    "boost": ("libboost1.74-doc",),
    "django": ("python-django-doc",),
    "gtk": ("libgtk-3-doc", "libglib2.0-doc", "libpango1.0-doc", "libcairo2-doc"),
    "postgresql": ("postgresql-doc-15",),
    "sqlite": ("sqlite3-doc",),
    "petsc": ("petsc3.18-doc", "mpich-doc", "libhdf5-doc"),
    "held-out-mixed": (
        *("singular-doc", "sagemath-doc", "lazarus-doc-2.2", "libpcl-doc", "dolfin-doc"),
        *("python-biopython-doc", "python-skimage-doc"),
    ),
    "held-out-sage": ("sagemath-doc",),
    "held-out-singular": ("singular-doc",),
    "installation": ("installation-guide-amd64",),
    "faq": (
        "debian-faq",
        *(f"debian-faq-{language}" for language in ("de", "fr", "it", "ja", "nl", "ru")),
    ),
    "held-out-guides": (
        *("maint-guide", "developers-reference"),
        *(f"maint-guide-{language}" for language in ("ca", "de", "es", "fr", "it", "ja", "ru")),
        *(f"developers-reference-{language}" for language in ("de", "fr", "ja")),
    ),
    "held-out-apache": ("apache2-doc",),
    "held-out-prolog": ("swi-prolog-doc",),
    "llvm-13": ("llvm-13-doc",),
    "llvm-14": ("llvm-14-doc",),
    "llvm-15": ("llvm-15-doc",),
    "llvm-16": ("llvm-16-doc",),
    "llvm-19": ("llvm-19-doc",),
    "clang-13": ("clang-13-doc",),
    "clang-14": ("clang-14-doc",),
    "clang-15": ("clang-15-doc",),
    "clang-16": ("clang-16-doc",),
    "clang-19": ("clang-19-doc",),
    "libstdc++-11": ("libstdc++-11-doc",),
    "libstdc++-12": ("libstdc++-12-doc",),
    "boost-1.81": ("libboost1.81-doc",),
    **{f"judge-{package.partition('-')[0]}": (package,) for package in JUDGE_MANUALS},
    "judge-shelf": JUDGE_SHELF,
    "judge-aptitude": JUDGE_APTITUDE,
    "judge-reference": JUDGE_REFERENCE,
}
"""The webs, each with its sites. Orderings' options were chosen without those held out, and without
those from `llvm-13` on, which are states of the same documentation."""


@dataclass
class Site:
    """One package: its pages, as paths below the root of the file system, and its home page."""

    paths: set[str]
    home: str


class Library:
    """Packages downloaded and unpacked into one tree, as if all were installed."""

    def __init__(self, folder: Path) -> None:
        self.root = (folder / "root").resolve()  # paths below it are compared resolved
        self._debs = folder / "debs"
        self.root.mkdir(parents=True, exist_ok=True)
        self._debs.mkdir(exist_ok=True)
        self.sites: dict[str, Site] = {}
        self._real: dict[str, str] = {}

    def add(self, package: str) -> None:
        """Add a package to the tree; raises CalledProcessError if apt or dpkg fails."""
        if package in self.sites:
            return
        found = sorted(self._debs.glob(f"{package}_*.deb"))
        if not found:
            subprocess.run(["apt-get", "download", package], cwd=self._debs, check=True)
            found = sorted(self._debs.glob(f"{package}_*.deb"))
        archive = found[0]
        listing = subprocess.run(
            ["dpkg-deb", "--contents", archive], check=True, capture_output=True, text=True
        ).stdout
        done = self._debs / f"{archive.name}.unpacked"
        if not done.exists():
            subprocess.run(["dpkg-deb", "-x", archive, self.root], check=True)
            done.touch()
            self._real.clear()  # what led nowhere may lead into this package
        paths = set()
        entries = []
        if package in FRONT:
            self._add_front_page(package, listing)
            paths.add(f"/{FRONT[package]}")
        for line in listing.splitlines():
            path = line.split(maxsplit=5)[5].partition(" -> ")[0][1:]
            if line[0] == "-" and path.endswith((".html", ".htm", ".xhtml")):
                paths.add(path)
            elif line[0] == "-" and path.startswith("/usr/share/doc-base/"):
                lines = (self.root / path[1:]).read_text(errors="replace").splitlines()
                entries += [text[6:].strip() for text in lines if text.startswith("Index:")]
        real = {self.resolve(entry) for entry in entries}
        indexes = {path for path in paths if path.rpartition("/")[2].startswith("index.")}
        front = real & paths | indexes
        home = min(front, key=lambda path: (path.count("/"), path), default="")
        if not home or self._count_links(home) < FEWEST:
            # No front page, or one that has only frames.
            home = max(sorted(paths), key=self._count_links)
        self.sites[package] = Site(paths, home)
        print(f"  {package}: {len(paths):,} pages, home {home}", flush=True)

    def _add_front_page(self, package: str, listing: str) -> None:
        """Write the front page of a package that has one index for each language, and no other."""
        folder = f"./{FRONT[package].rpartition('/')[0]}/"
        names = [line.rpartition(folder)[2] for line in listing.splitlines() if folder in line]
        languages = [
            name for name in names if name.count("/") == 1 and name.endswith("/index.html")
        ]
        links = "".join(f'<a href="{name}">{name}</a>' for name in languages)
        (self.root / FRONT[package]).write_text(links)

    def _count_links(self, path: str) -> int:
        """Return roughly how many links a page has."""
        return (self.root / path[1:]).read_bytes().count(b"<a ")

    def resolve(self, path: str) -> str:
        """Return the path of the page that a path means, with links and folders resolved, or ''."""
        found = self._real.get(path)
        if found is None:
            full = os.path.realpath(f"{self.root}{os.path.normpath(path)}")
            if os.path.isdir(full):
                full = os.path.join(full, "index.html")
            inside = full.startswith(f"{self.root}/") and os.path.isfile(full)
            found = full[len(str(self.root)) :] if inside else ""
            self._real[path] = found
        return found


def links_of(library: Library, upstream: dict[str, str], path: str) -> list[str]:
    """Return the distinct paths of the pages that a page links to, in page order."""
    body = (library.root / path[1:]).read_bytes()[:LARGEST]
    body = body.replace(b'"file:///usr/', f'"http://{HOST}/usr/'.encode())
    targets: dict[str, None] = {}
    for url in parse_page(body, f"http://{HOST}{path}").urls:
        parts = urlsplit(url)
        if parts.hostname == HOST:
            target = library.resolve(unquote(parts.path))
        else:
            target = _from_upstream(library, upstream, f"{parts.netloc}{unquote(parts.path)}")
        if target and target != path and "\n" not in target:
            targets[target] = None
    return list(targets)


def _from_upstream(library: Library, upstream: dict[str, str], address: str) -> str:
    """Return the path of the page with this address on the web, or ''."""
    folders = address.split("/")
    for end in range(len(folders) - 1, 0, -1):
        prefix = "/".join(folders[:end]) + "/"
        if prefix in upstream:
            rest = address[len(prefix) :]
            for candidate in (rest, f"{rest}.html"):
                found = library.resolve(f"{upstream[prefix]}/{candidate}")
                if found:
                    return found
    return ""


def read_web(library: Library, packages: Sequence[str]) -> tuple[LinkGraph, list[int]]:
    """Return the graph of the pages reachable from the packages' home pages, and the home pages."""
    site_of: dict[str, int] = {}
    upstream: dict[str, str] = {}
    for number, package in enumerate(packages):
        site = library.sites[package]
        site_of.update(dict.fromkeys(site.paths, number))
        for prefix in SITES[package]:
            upstream[prefix] = site.home.rpartition("/")[0]
    number_of: dict[str, int] = {}
    n_taken = [0] * len(packages)
    queue: deque[str] = deque()
    rows: list[list[str]] = []

    def meet(path: str) -> None:
        site = site_of.get(path)
        if site is not None and path not in number_of and n_taken[site] < MOST_PAGES:
            n_taken[site] += 1
            number_of[path] = len(number_of)
            queue.append(path)

    homes = [library.sites[package].home for package in packages]
    for home in homes:
        meet(home)
    while queue:
        path = queue.popleft()
        rows.append(links_of(library, upstream, path))
        for target in rows[-1]:
            meet(target)
    kept = [[number_of[path] for path in row if path in number_of] for row in rows]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in kept])]).astype(np.int64)
    indices = np.fromiter((page for row in kept for page in row), dtype=np.int32)
    paths = list(number_of)
    graph = LinkGraph.cleaned(
        indptr,
        indices,
        site=np.array([site_of[path] for path in paths], dtype=np.int32),
        urls=[f"http://{packages[site_of[path]]}.example{path}" for path in paths],
    )
    return graph, [number_of[home] for home in homes]


def write_web(path: Path, graph: LinkGraph, homes: Sequence[int]) -> None:
    """Write a web to the files that begin with `path`."""
    write_npz(graph, path.with_name(f"{path.name}.npz"))
    with gzip.open(path.with_name(f"{path.name}.urls.gz"), "wt") as urls:
        urls.writelines(f"{url}\n" for url in graph.urls or ())
    text = "".join(f"{home}\n" for home in homes)
    path.with_name(f"{path.name}.homes.txt").write_text(text)


def build(folder: Path, names: Iterable[str]) -> None:
    """Write the graphs of the given webs."""
    library = Library(folder)
    for name in names:
        if (folder / f"{name}.homes.txt").exists():
            continue
        print(name, flush=True)
        for package in WEBS[name]:
            library.add(package)
        graph, homes = read_web(library, WEBS[name])
        write_web(folder / name, graph, homes)
        between = graph.between_sites().n_links / max(graph.n_links, 1)
        print(
            f"  {graph.n_pages:,} pages, {graph.n_links:,} links, {between:.1%} between "
            f"{len(homes)} sites",
            flush=True,
        )


def main() -> None:
    """Build webs, or list them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--web", action="append", choices=sorted(WEBS))
    parser.add_argument("--list", action="store_true", help="print webs and packages, and end")
    given = parser.parse_args()
    if given.list:
        for name, packages in WEBS.items():
            print(name, *packages)
        return
    if sys.platform != "linux":
        raise SystemExit("webs.py needs apt-get and dpkg-deb; run it on Debian.")
    build(given.folder, given.web or WEBS)


if __name__ == "__main__":
    main()
