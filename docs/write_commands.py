"""Writes `docs/commands.md` from the parsers of all commands; a test checks it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from scrapy.settings import Settings

from crawlprio.commands.cli import COMMANDS, command_of

PAGE = Path(__file__).with_name("commands.md")

INTRODUCTION = """\
# Commands

<!-- Written by docs/write_commands.py from the parsers in crawlprio/commands/. -->

All commands work in any folder, as `crawlprio NAME`, and most also as `scrapy NAME`. Each takes
`--help`, which has examples, and Scrapy's global options (`-s NAME=VALUE`, `-L LEVEL`,
`--logfile FILE`). It exits with 0 on success, and with 2 and one sentence on invalid input. A crawl
exits with 1 if it got no page or the disk is full, and with 130 after a second Ctrl-C.
"""

SHARED = ("Global Options", "positional arguments")
WITH_MOST = "crawl"
"""The command whose options others share."""


def commands_page() -> str:
    """Return the page, in Markdown."""
    return "\n".join([INTRODUCTION, *map(_section, COMMANDS)])


def _section(name: str) -> str:
    """Return the section of one command; options that another has alike are told once."""
    command, rows = _command(name)
    shown = f"`crawlprio {f'{name} {command.syntax()}'.rstrip()}`"
    parts = [f"## {name}", f"{_escaped(command.short_desc()).rstrip('.')}: {shown}"]
    told = _command(WITH_MOST)[1] if name != WITH_MOST else {}
    same = [option for option, row in rows.items() if told.get(option) == row]
    if same:
        parts.append(f"* these of [{WITH_MOST}](#{WITH_MOST}): {', '.join(same)}")
    parts += [row for option, row in rows.items() if option not in same]
    return "\n".join([*parts, ""])


def _command(name: str) -> tuple[Any, dict[str, str]]:
    """Return a command, and a line for each of its options."""
    command = command_of(name)
    command.settings = Settings(command.default_settings)
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    actions = (
        action
        for group in parser._action_groups
        if group.title not in SHARED
        for action in group._group_actions
        if action.help != argparse.SUPPRESS and "--help" not in action.option_strings
    )
    return command, dict(map(_row, actions))


def _row(action: argparse.Action) -> tuple[str, str]:
    """Return an option as it is typed, and its line."""
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    words = "" if action.nargs == 0 else f" {metavar}"
    names = ", ".join(f"`{name}{words}`" for name in action.option_strings) or f"`{metavar}`"
    text = _escaped((action.help or "").replace("%%", "%"))
    return names, f"* {names}: {text}"


def _escaped(text: str) -> str:
    """Return plain text for Markdown."""
    for character in "\\`*_|<>[]":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


if __name__ == "__main__":
    PAGE.write_text(commands_page(), "utf-8")
