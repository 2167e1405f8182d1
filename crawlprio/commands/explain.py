"""The command `crawlprio explain`: why this page, why now, why not."""

from __future__ import annotations

import argparse
import contextlib
import json
from typing import TYPE_CHECKING, ClassVar

from crawlprio.commands import OneLineCommand, Option, refuse_unknown_options, store_of
from crawlprio.errors import ConfigError, StoreError, printable

if TYPE_CHECKING:
    from crawlprio.measure.explanations import Policy
    from crawlprio.store import Store


class Command(OneLineCommand):
    """`crawlprio explain STORE|FOLDER [URL]` says what comes next, or what became of a URL."""

    takes = "[options] STORE|FOLDER [URL]"
    does = "Say why a page is next, was fetched, or was refused"
    about = (
        "Without URL, show the pages that the crawl in STORE, or in the FOLDER of a crawl, "
        "fetches next. With URL, say what became of that page: for one that waits its key and "
        "how that came about, its place and when it could be fetched; for one that was fetched "
        "when, why then, and what it brought; for one that was refused or is not known the "
        "rule and its setting, and the pages that link to it. The crawl may be running. Its "
        "visits are replayed under its ordering; name a class of your own, and the options of "
        "the ordering unless the command line of the crawl gave them, with -s."
    )
    examples = (
        "explain example",
        "explain example https://example.org/about",
        "explain crawl.sqlite https://example.org/about --json",
    )
    title = "Explain"
    options: ClassVar = {"--json": Option(None, "print the same as JSON")}

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        refuse_unknown_options(args)
        if not 1 <= len(args) <= 2:
            given = f"{len(args)} arguments" if args else "none"
            raise ConfigError(
                f"crawlprio explain takes a STORE or FOLDER and perhaps a URL; {given}."
            )
        path = store_of(args[0])
        from crawlprio.measure.explanations import explain_head, explain_url
        from crawlprio.show.explained import lines_of_head, lines_of_url
        from crawlprio.show.tables import PipeSafeConsole
        from crawlprio.store import Store
        from crawlprio.web.urls import normalise_url

        if len(args) == 2 and normalise_url(args[1]) is None:
            raise ConfigError(
                f"{args[1]!r} is not a URL; write it as the store has it: 'https://example.org/'."
            )
        with Store.open(path, readonly=True) as store:
            policy = self._policy(store)
        if len(args) == 2:
            found = explain_url(path, policy, args[1])
            lines = lines_of_url(found)
        else:
            found = explain_head(path, policy)
            lines = lines_of_head(found)
        text = json.dumps(found, indent=1) if opts.json else "\n".join(map(printable, lines))
        PipeSafeConsole().out(text, highlight=False)

    def _policy(self, store: Store) -> Policy:
        """Return the rules of a crawl, as it recorded them and the command line changes them."""
        from crawlprio.live.running import policy_of
        from crawlprio.live.spider_arguments import Given, read_arguments
        from crawlprio.orderings import NAMED
        from crawlprio.settings_table.config import CrawlConfig, from_command_line, read_setting
        from crawlprio.spiders.site import recorded_scope

        settings = self.settings
        assert settings is not None
        named, is_given = (
            read_setting(settings, "ORDERING"),
            from_command_line(settings, "ORDERING"),
        )
        kept = Given({}, {}, [])
        with contextlib.suppress(StoreError):  # of the crawl of another spider than `site`
            kept = read_arguments(store)
        for name, value in kept.values.items():
            # Reading this setting creates the folder, or refuses one that is read-only.
            if name != "CRAWLPRIO_WARC" and not from_command_line(settings, name):
                settings.set(name, value, "cmdline")
        ruled = [name for _, name in store.orderings()]
        if ruled and not is_given:
            if ruled[-1] not in (named, *NAMED):
                raise ConfigError(
                    f"the crawl in {store.path} ran under {ruled[-1]}, and a store names no code "
                    "to run; name the ordering again, with -s ORDERING=PATH."
                )
            settings.set("ORDERING", ruled[-1], "cmdline")
        config = CrawlConfig.from_settings(settings, records=False)
        refuses = None
        if kept.arguments.get("seeds"):
            scope = recorded_scope(kept.arguments, settings, store.redirected_seeds())
            refuses = scope.refuses
        return policy_of(settings, config, refuses)
