"""The program `crawlprio`: runs its commands in any folder; and the one about itself, `compile`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from time import perf_counter

from scrapy.commands import ScrapyCommand, ScrapyHelpFormatter
from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from crawlprio.commands import OneLineCommand, program
from crawlprio.errors import ConfigError
from crawlprio.plugins import ADDED, load

COMMANDS = {
    "crawl": "crawl.Command",
    "resume": "crawl.ResumeCommand",
    "update": "",
    "changes": "",
    "receipt": "recorded.ReceiptCommand",
    "certify": "certify.Command",
    "explain": "recorded.ExplainCommand",
    "score": "score.Command",
    "audit": "recorded.AuditCommand",
    "simulate": "simulate.Command",
    "links": "recorded.LinksCommand",
    "items": "recorded.ItemsCommand",
    "texts": "",
    "replay": "crawl.ReplayCommand",
    "value": "",
    "frontier": "",
    "compile": "cli.CompileCommand",
}
"""The commands in the overview's order, each by its class in `crawlprio.commands`; empty: it is a
plugin's, whose table has its class. Those of installed plugins follow."""

COMMANDS |= {name: "" for name in ADDED["commands"] if name not in COMMANDS}

_CRAWLING = ("crawl", "resume", "update", "certify", "replay")


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command; exit with its status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview(), flush=True)
        sys.exit(0 if words else 2)
    if words[0] in ("-V", "--version", "version"):
        print(f"crawlprio {version('crawlprio')}", flush=True)
        sys.exit(0)
    name = words[0]
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        error = ConfigError(f"crawlprio has no command {name}; known commands: {known}.")
        print(error, file=sys.stderr)
        sys.exit(2)
    if name in _CRAWLING:
        # Scrapy handles SIGINT once it crawls, even in a script's background job, which inherits
        # that it is ignored; so none may be lost while modules are still being imported.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(_run(name, words[1:]))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another one would change the status
        print("Interrupted.", file=sys.stderr)
        sys.exit(130)


def _overview() -> str:
    lines = ["usage: crawlprio COMMAND [options] [arguments]", ""]
    for name in COMMANDS:
        with suppress(ConfigError):  # of a plugin that this copy lacks
            lines.append(f"  {name:<10}{command_of(name).short_desc()}")
    return "\n".join([*lines, "", "See crawlprio COMMAND --help for the options of a command."])


def command_of(name: str) -> ScrapyCommand:
    """Return a command; raise ConfigError if its plugin is missing."""
    if not COMMANDS[name]:
        return load("commands", name)()  # type: ignore[no-any-return]
    module, _, cls = COMMANDS[name].rpartition(".")
    command: ScrapyCommand = getattr(import_module(f"crawlprio.commands.{module}"), cls)()
    return command


def _run(name: str, words: list[str]) -> int:
    """Run one command as `scrapy` would; return its exit status."""
    try:
        command = command_of(name)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    settings = _settings()
    settings.setdict(command.default_settings, priority="command")
    command.settings = settings
    parser = argparse.ArgumentParser(
        prog=f"crawlprio {name}",
        usage=f"crawlprio {name} {command.syntax()}",
        formatter_class=ScrapyHelpFormatter,
        conflict_handler="resolve",
        description=command.long_desc(),
    )
    command.add_options(parser)
    options, arguments = parser.parse_known_args(_with_port(_with_stdout(words)))
    try:
        command.process_options(arguments, options)
        if command.requires_crawler_process:
            # Scrapy's deprecations walk the stack, which costs .1 s where Scrapy would import it.
            import scrapy.core.downloader.contextfactory  # noqa: F401
            from scrapy.crawler import AsyncCrawlerProcess

            command.crawler_process = AsyncCrawlerProcess(settings)
        command.run(arguments, options)
    except UsageError as error:
        print(f"crawlprio {name}: {error}; see crawlprio {name} --help.", file=sys.stderr)
        return 2
    return command.exitcode


def _with_stdout(words: list[str]) -> list[str]:
    """Return the words, `-o -:FORMAT` as one, whose second part argparse takes for an option."""
    for at in reversed(range(1, len(words))):
        if words[at].startswith("-:") and words[at - 1] in ("-o", "-O"):
            words = [*words[: at - 1], words[at - 1] + words[at], *words[at + 1 :]]
    return words


def _with_port(words: list[str]) -> list[str]:
    """Return the words, `--monitor` with a port, for which argparse takes the URL after it."""
    return [
        "--monitor=0" if word == "--monitor" and not after.isdigit() else word
        for word, after in zip(words, [*words, ""][1:], strict=True)
    ]


def _settings() -> Settings:
    """Return Scrapy's defaults with the bundled project's settings on top, in any project."""
    settings = Settings()
    settings.setmodule("crawlprio.settings", priority="project")
    # The report is enough; -L INFO shows Scrapy's own log.
    settings.set("LOG_LEVEL", "WARNING", priority="project")
    return settings


class CompileCommand(OneLineCommand):
    """`crawlprio compile` compiles what would otherwise be compiled on first use."""

    takes = ""
    does = "Compile ahead of time what crawlprio would compile on first use"
    about = (
        "Compile everything that crawlprio would compile on first use, and cache it where "
        "later runs find it: in NUMBA_CACHE_DIR if that is set, else beside the sources of the "
        "package, else in the user's cache folder. Run it when building a container image "
        "whose processes may be unable to write to any of these. Takes half a minute of "
        "processor time."
    )
    examples = ("compile",)

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        """Compile; raise `ConfigError` if the compiled code cannot be cached."""
        if args:
            raise ConfigError(f"compile: found {' '.join(args)}; expected: {program()} compile")
        from crawlprio.graph import compiled
        from crawlprio.live.compiling import compile_all

        started = perf_counter()
        compile_all()
        folder = compiled.folder()
        if folder is None:
            raise ConfigError(
                "compile: the compiled code cannot be cached for later runs; set NUMBA_CACHE_DIR "
                "to a folder that is writable."
            )
        print(f"Compiled in {perf_counter() - started:.0f} s, and cached in {folder}.")


if __name__ == "__main__":
    main()
