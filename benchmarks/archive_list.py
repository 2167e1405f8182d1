"""The archived websites that `archives.py` reads: repository, commit, home pages."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

HOST = "archive.example"
"""The host that stands for the archive where it has only one."""


class Archive(NamedTuple):
    """A website in a git repository."""

    kind: str
    repository: str
    """Owner and name on GitHub."""
    commit: str
    homes: tuple[str, ...] = ("index.html",)
    """Paths of the home pages, below `root`."""
    root: str = ""
    """The folder that holds the website."""
    prefixes: tuple[str, ...] = ()
    """Host and path under which its pages link to each other absolutely."""
    folders_are_sites: bool = False
    """Whether each folder at the top is a site of its own, otherwise all pages are on one."""


FIRST = {
    "twisted-lists": Archive(
        "mailing lists",
        "twisted/pipermail",
        "75a0ed20ffa55cc4354dc11e725a2f2c096f566c",
        (
            *("twisted-python/index.html", "twisted-web/index.html", "inheritance/index.html"),
            *("reality/index.html", "divunal-list/index.html", "divunal-author/index.html"),
            "divunal-devel/index.html",
        ),
        prefixes=("twistedmatrix.com/pipermail", "www.twistedmatrix.com/pipermail"),
        folders_are_sites=True,
    ),
    "imagej-lists": Archive(
        "mailing lists",
        "imagej/pipermail",
        "e1ba8566b04f736fe4e2ef06b8cea2a97ef36897",
        prefixes=("imagej.net/pipermail", "jenkins.imagej.net/pipermail"),
    ),
    "opendcl-forum": Archive(
        "forum", "opendcl/forum-archive", "ad10ae279fbf8f36dfcfe552356b1bfca6ecf94c"
    ),
    "openenergy-forum": Archive(
        "forum",
        "openenergymonitor/forum-archive",
        "e0a42e321b9faca872ff9ef3f617757c3d97ef12",
        prefixes=("openenergymonitor.org/emon", "openenergymonitor.org"),
    ),
    "ucf-news": Archive(
        "newspaper",
        "UCF/UCF-News-Static-Archive",
        "cd7992f11f0e4efa8533cba150e2e265af40837d",
        root="news.ucf.edu/output/",
        prefixes=("news.ucf.edu/UCFnews", "news.ucf.edu"),
    ),
    "we-change": Archive(
        "newspaper",
        "amir-rashidi/we-change-static-archive",
        "0c7778fd4f361fc79f53ca3d0209eddeaf7e9546",
        prefixes=(f"{HOST}/we-change-static-archive/site", f"{HOST}/we-change-static-archive"),
    ),
    "wikinotes": Archive(
        "wiki",
        "dellsystem/wikinotes-static-archive",
        "722deea52a084d1149b7060c8c94c8cbd1831280",
        root="docs/",
    ),
    "mozilla-reps": Archive(
        "people and events",
        "irvin/reps-portal-static-archive",
        "9488c634fb8e9dc8bf57ff97c4c515f76e3ac65f",
        prefixes=("reps.mozilla.org",),
    ),
    "openehr": Archive(
        "organisation",
        "openEHR/openehr.org-django-site-static-archive",
        "5f3b6bc6f7cfd32418145fa39362a45eedda3fa2",
        prefixes=("openehr.org", "www.openehr.org"),
    ),
}
"""The webs that were built first. Figures of all but those held out were seen before `SECOND`."""

SECOND = {
    "opensim-list": Archive(
        "mailing list",
        "BackupTheBerlios/opensim-dev-maillist",
        "28b1befcba9346dae9f9e62abde376f64d02370f",
    ),
    "fetchmail-list": Archive(
        "mailing list",
        "BackupTheBerlios/fetchmail-users-maillist",
        "98970bbdc04d065832613ffb319addc4cc612c68",
    ),
    "socketcan-list": Archive(
        "mailing list",
        "BackupTheBerlios/socketcan-core-maillist",
        "68a992a3357326764dc1bb09c9a837439512d401",
    ),
    "asm-forum": Archive(
        "forum",
        "asmcommunity/asmcommunity.github.io",
        "69f777f4078f797df40f3bd47301901e34f415f6",
        ("forums/index.html",),
    ),
    "computer-forum": Archive(
        "forum",
        "pblitz/cf.net",
        "ea4c0b671ebcde816e8bbacdd5948073a4325eb4",
        ("index.php.html",),
        prefixes=("www.computer-forum.net",),
    ),
    "timecrest-forum": Archive(
        "forum",
        "BrailleBennett/Sneaky-Crab-Forums-Archive",
        "138ea04b52edbaa84dfc68a388f486259630abb0",
    ),
    "luciddb-wiki": Archive(
        "wiki",
        "julianhyde/luciddb",
        "10a3df838bb5f7618d7a20a5168ed5418885193e",
        ("Main_Page.html",),
        root="docs/",
        prefixes=(
            f"{HOST}/wiki",
            "luciddb.org/wiki",
            "www.luciddb.org/wiki",
            "pub.eigenbase.org/wiki",
        ),
    ),
    "akban-wiki": Archive(
        "wiki",
        "AKBAN-Online/akban_static_public",
        "01cee07e99c61eb4dc0237582b3993d44d076d2f",
        ("wiki/Main_Page.html",),
        prefixes=("www.akban.org",),
    ),
    "emdashes": Archive(
        "blog",
        "emdashes/emdashes.github.io",
        "d8b021b90549666d942404db404e51b1c35f56f8",
        prefixes=("emdashes.github.io",),
    ),
    "web2ireland": Archive(
        "blog",
        "web2ireland/web2ireland-org",
        "59a57a8f00c6d10a009148a364c3b9335dc47fca",
        prefixes=("www.web2ireland.org", "web2ireland.org"),
    ),
    "veganyumyum": Archive(
        "blog", "VeganYumYum/veganyumyum.github.io", "c1a1be5d177161c44596ce98555336b2b459960d"
    ),
    "sports-of-boston": Archive(
        "newspaper",
        "sports-of-boston-llc/sportsofboston.com-archive",
        "2655b708ffe6945609014a954e98f3350f2ee7d2",
        prefixes=("www.sportsofboston.com", "sportsofboston.com"),
    ),
    "linuxcn": Archive(
        "newspaper",
        "MichaelSatoshi1983/linuxcn.github.io",
        "e8f94282588d3b095309824db51066c3edfaeae7",
    ),
    "weightless-books": Archive(
        "shop", "antibland/weightless_books", "a5444760913bff7558bfa9f5fa038d318f686da9"
    ),
    "cloud-chemistry": Archive(
        "shop", "NumberLabs/Cloud-Chemistry", "c69a6ebb9acc1366888c6b0be8044c174ec28600"
    ),
    "rosindex": Archive(
        "software catalogue",
        "sloretz/rosindex-staging",
        "0190acbdec32f2c7a03bbd6c5fa7e356b89eade6",
    ),
    "politepix": Archive(
        "company",
        "Halle/Politepix",
        "fd34deebe7b6f4d7777f09b10010c3daa7adc387",
        prefixes=("www.politepix.com",),
    ),
    "phila-gov": Archive(
        "city",
        "CityOfPhiladelphia/static-beta.phila.gov",
        "cb05873fb6af969141addb4adb7d44d75a71ebef",
        prefixes=("beta.phila.gov",),
    ),
    "berkeley-guide": Archive(
        "university",
        "berkeleyguidearchive/2014-15",
        "e27d2dabc31c0feedc3a55ba8db1d52092e9c2cc",
        prefixes=(f"{HOST}/2014-15", "guide.berkeley.edu/2014-15"),
    ),
    "web-standards": Archive(
        "organisation",
        "web-standards-project/webstandards.org",
        "d712694ee593378350f08078b79f6f0bc2fccfe2",
        prefixes=("www.webstandards.org", "webstandards.org"),
    ),
    "your-sinclair": Archive(
        "magazine",
        "ZXSpectrumVault/your-sinclair",
        "f532ef7de1ea82f149be131b5c755111262216cd",
        ("index.htm",),
    ),
}
"""The webs that were added to choose an ordering by, before any ordering was run on them."""

THIRD = {
    "judge-openocd-list": Archive(
        "mailing list",
        "BackupTheBerlios/openocd-development-maillist",
        "ee3d592d94f49cf0afa97bbbd51fa22ebd02eeed",
    ),
    "judge-mozilla-it": Archive(
        "organisation",
        "mozilla-it/old-website-archive.mozilla.org",
        "d220d7b26faa23752d5b5deb53f1d0cb000144df",
    ),
}
"""The webs that judge the estimate of coverage alone."""

ASIDE_FIRST = {
    "openocd-list": THIRD["judge-openocd-list"],
    "mozilla-archive": THIRD["judge-mozilla-it"],
    "art-institute": Archive(
        "museum",
        "art-institute-of-chicago/static-archive",
        "42e48f843b7eeb4e3bb175487121fffd817b805a",
        prefixes=("archive.artic.edu", "www.artic.edu"),
        folders_are_sites=True,
    ),
}
"""The webs of the first set of `ahead.py`; home pages of `art-institute` are the `index.html` of
each folder."""

ASIDE_SECOND = {
    "uvc-list": Archive(
        "mailing list",
        "BackupTheBerlios/linux-uvc-devel-maillist",
        "5e1bc56a1c77b81bf3bcd74aad805d6c402d7512",
    ),
    "mapnik-list": Archive(
        "mailing list",
        "BackupTheBerlios/mapnik-users-maillist",
        "4e11a7c61de711ff651991a486fd1294067fdab3",
    ),
    "unreal-wiki": Archive(
        "wiki",
        "MichaelJCole/wiki.unrealengine.com",
        "5f5d1dfc7542ba3e826f959986cf540d288091ed",
        ("Main_Page/index.html",),
        root="original/",
        prefixes=(
            *(f"{HOST}/index.php", "wiki.unrealengine.com/index.php"),
            "wiki.unrealengine.com",
        ),
    ),
    "socionics-wiki": Archive(
        "wiki",
        "vikisosyon/vikisosyon.github.io",
        "7cdce6f82ea0d1b75096f39e0723a57f9fa3ae05",
        ("index.php/Main_Page.html",),
    ),
    "tekken-forum": Archive(
        "forum",
        "KulaGGin/TekkenZaibatsuArchiveTest2",
        "ddf702fce8d55b4da5eece1f6989d3b734af7cc6",
        ("forums/index.html",),
    ),
    "drupal-cz": Archive(
        "organisation",
        "Drupalcz/old.drupal.cz",
        "15700c6b5a7099ebfab9e50a712537adea81e447",
        prefixes=("www.drupal.cz", "drupal.cz", "old.drupal.cz"),
    ),
}
"""The webs of the second set of `ahead.py`."""

ARCHIVES = FIRST | SECOND | THIRD
"""The webs, by name."""


def third(archives: dict[str, Archive]) -> list[str]:
    """Return a third of the names: those with the smallest SHA-256."""
    return sorted(archives, key=lambda name: sha256(name.encode()).digest())[: len(archives) // 3]


HELD_OUT = [*third(FIRST), *third(SECOND)]
"""The webs that judge, and that nothing is tuned on."""
