"""Writes `docs/commands.md` from the parsers of all commands; a test checks it."""

from __future__ import annotations

import argparse
from pathlib import Path

from scrapy.settings import Settings

from crawlprio.commands.cli import COMMANDS, command_of

PAGE = Path(__file__).with_name("commands.md")

INTRODUCTION = """\
# Commands

<!-- Written by docs/write_commands.py from the parsers in crawlprio/commands/. -->

All commands work in any folder, as `crawlprio NAME`, and most also as `scrapy NAME`. Each takes
`--help` and Scrapy's global options (`-s NAME=VALUE`, `-L LEVEL`, `--logfile FILE`). It exits with
0 on success, and with 2 and one sentence on invalid input. A crawl exits with 1 if it got no page
or the disk is full, and with 130 after a second Ctrl-C.
"""

SHARED = ("Global Options", "positional arguments")


def commands_page() -> str:
    """Return the page, in Markdown."""
    return "\n".join([INTRODUCTION, *map(_section, COMMANDS)])


def _section(name: str) -> str:
    command = command_of(name)
    command.settings = Settings(command.default_settings)
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    parts = [f"## {name}\n", f"```text\ncrawlprio {name} {command.syntax()}\n```\n"]
    parts.append(f"{_escaped(command.short_desc()).rstrip('.')}.\n")
    rows = [
        _row(action)
        for group in parser._action_groups
        if group.title not in SHARED
        for action in group._group_actions
        if action.help != argparse.SUPPRESS and "--help" not in action.option_strings
    ]
    if rows:
        parts.append("\n".join(["| option | |", "|---|---|", *rows]) + "\n")
    examples = getattr(command, "examples", ())
    if examples:
        lines = "\n".join(f"crawlprio {example}" for example in examples)
        parts.append(f"```text\n{lines}\n```\n")
    return "\n".join(parts)


def _row(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    words = "" if action.nargs == 0 else f" {metavar}"
    names = ", ".join(f"`{name}{words}`".replace("|", "\\|") for name in action.option_strings)
    return f"| {names or f'`{metavar}`'} | {_escaped((action.help or '').replace('%%', '%'))} |"


def _escaped(text: str) -> str:
    """Return plain text for a cell of a Markdown table."""
    for character in "\\`*_|<>[]":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


if __name__ == "__main__":
    PAGE.write_text(commands_page(), "utf-8")
