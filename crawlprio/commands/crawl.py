"""The command `crawlprio crawl`: crawls sites in order of importance, from any folder."""

from __future__ import annotations

import argparse
from typing import ClassVar

from crawlprio.commands import Option
from crawlprio.commands.site_crawl import SiteCrawlCommand
from crawlprio.errors import ConfigError, printable


class Command(SiteCrawlCommand):
    """`crawlprio crawl URL...` crawls with the spider `site` and the bundled settings."""

    title = "Crawl"
    takes = "[options] URL... | @FILE | --demo"
    does = "Crawl sites, important pages first"
    about = (
        "Crawl from each URL (@FILE: one per line), important pages first. The crawl is "
        "polite: it obeys robots.txt, and fetches one page at a time from each site. All pages "
        "and links are recorded in a crawl store, which crawlprio score, simulate, links and "
        "replay read. With --folder, the crawl can be stopped at any time and resumed."
    )
    examples = (
        "crawl https://example.org/ --folder example --pages 10000",
        "crawl https://a.example/ https://b.example/ --contact me@a.example",
        "crawl @seeds.txt --follow domain --ordering rankmass",
        "crawl https://example.org/ --pages 10000 --plan",
        "crawl --demo --pages 2000",
    )

    options: ClassVar = {
        **SiteCrawlCommand.options,
        "--folder": Option(
            "FOLDER", "keep the crawl in FOLDER, to resume it with crawlprio resume"
        ),
        "--demo": Option(None, "crawl the demo web, served on this machine"),
        "--plan": Option(
            None, "fetch robots.txt, sitemaps and home pages only, and say what a crawl would do"
        ),
        "--json": Option(None, "with --plan: print it as JSON"),
    }

    def prepare(self, args: list[str], opts: argparse.Namespace) -> None:
        self.take_options(opts)
        if opts.value is not None:
            self.set_default("ORDERING", "value")
        if opts.folder is not None and not opts.plan:
            if not opts.folder:
                raise ConfigError("--folder is empty; name a folder, or leave it out.")
            self.set("JOBDIR", opts.folder)
        if args:
            opts.spargs["seeds"] = _seeds(args)
        has_seeds = not {"seeds", "url"}.isdisjoint(opts.spargs)
        if opts.plan and not has_seeds:
            raise ConfigError("--plan is about a crawl of URLs; name one, and leave out --demo.")
        if opts.json and not opts.plan:
            raise ConfigError("--json prints a plan; add --plan, or leave it out.")
        if opts.demo and has_seeds:
            raise ConfigError("--demo crawls the demo web and takes no URL; leave out one of them.")
        if not (opts.demo or has_seeds):
            raise ConfigError(
                "crawlprio crawl was given no URL; say where to start, as in crawlprio crawl "
                "https://example.org/, or crawl the demo web with --demo."
            )
        if has_seeds:
            _check(opts.spargs)
        if opts.plan:
            self._prepare_plan()

    def _prepare_plan(self) -> None:
        """Turn the settings of the crawl into those of its dry run."""
        from tempfile import TemporaryDirectory

        from crawlprio.commands.planning import planning_settings
        from crawlprio.settings_table.config import limits_of

        assert self.settings is not None
        self._limits = limits_of(self.settings)
        self._folder = TemporaryDirectory()
        for name, value in planning_settings(self.settings, self._folder.name).items():
            self.set(name, value)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if not opts.plan:
            super().run(args, opts)
            return
        import json

        from crawlprio.commands.planning import PlanSpider, has_answer, lines_of_plan, plan_of
        from crawlprio.show.tables import PipeSafeConsole

        with self._folder:
            spider = self.crawl(PlanSpider, opts).spider
        if not self.exitcode and isinstance(spider, PlanSpider):
            plan = plan_of(spider.found, self._limits)
            lines = map(printable, lines_of_plan(plan))
            text = json.dumps(plan, indent=1) if opts.json else "\n".join(lines)
            PipeSafeConsole().out(text, highlight=False)
            self.exitcode = 0 if has_answer(plan) else 1


def _seeds(args: list[str]) -> str:
    """Return the seeds in the form that the spider takes."""
    if len(args) > 1 and any(arg.startswith("@") for arg in args):
        raise ConfigError(f"found {' '.join(args)}; give URLs or one @FILE.")
    if len(args) == 1:
        return args[0]
    return ",".join(arg.replace(",", "%2C") for arg in args)


def _check(arguments: dict[str, str]) -> None:
    """Refuse what the spider would refuse, before anything starts."""
    from crawlprio.spiders.site import SiteSpider

    SiteSpider(**arguments)
