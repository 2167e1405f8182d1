"""Names of settings that nothing reads, and what they were probably meant to be."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

_ALMOST, _NEAR, _ALIKE = 0.9, 0.87, 0.8
_INSTALLED = ("site-packages", "dist-packages")


def nearest(name: str, short: Iterable[str], polite: Iterable[str], others: Sequence[str]) -> str:
    """Return the setting that a name resembles; empty if it resembles none.

    Parameters
    ----------
    short, polite, others
        the known settings. A name may differ most from a short one, and more from one that keeps a
        crawl polite than from others, from which it may also differ by swapped letters.
    """
    name = name.upper()
    for known, cutoff in ((short, _ALIKE), (polite, _NEAR), (others, _ALMOST)):
        found = get_close_matches(name, list(known), 1, cutoff)
        if found:
            return found[0]
    return next((one for one in others if sorted(one) == sorted(name)), "")


def is_read(name: str) -> bool:
    """Return whether any loaded module appears to read a setting of this name.

    Installed packages count if they contain the name at all. In the project's own modules, where
    the name is set, it must be asked for (`settings.get(NAME)`), imported or used.
    """
    word = re.compile(rf"\b{re.escape(name)}\b")
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py"):
            continue
        try:
            with open(file, "rb") as source:
                code = source.read()
            # Few modules contain the name at all; the rest need no decoding and no pattern.
            if name.encode() not in code:
                continue
            text = code.decode()
            if word.search(text) and (
                any(part in file for part in _INSTALLED) or _uses(text, name)
            ):
                return True
        except (OSError, ValueError, SyntaxError):
            continue
    return False


def _uses(text: str, name: str) -> bool:
    """Return whether the source of a module does more with a name than set it."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(ast.Attribute(_, method), arguments) if method.startswith(("get", "pop")):
                used = any(isinstance(one, ast.Constant) and one.value == name for one in arguments)
            case ast.Subscript(_, ast.Constant(value), ast.Load()):
                used = value == name
            case ast.Assign(_, ast.Constant(value)):
                used = value == name
            case ast.Compare(ast.Constant(value), [ast.In() | ast.NotIn()], [holder]):
                used = value == name and ast.unparse(holder).endswith("settings")
            case ast.Name(found, ast.Load()) | ast.Attribute(_, found, ast.Load()):
                used = found == name
            case ast.alias(found):
                used = found == name
            case _:
                used = False
        if used:
            return True
    return False
