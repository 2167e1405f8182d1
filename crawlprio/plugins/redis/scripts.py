"""The frontier's Lua scripts, assembled from their files."""

from __future__ import annotations

from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

Client: TypeAlias = Any
"""A client of redis-py, whose own annotations contradict each other."""

Argument: TypeAlias = str | bytes | int | float
"""An argument of a script."""

_COMMON = ("common", "texts", "queue", "shares", "leases")

_CALLS = ("lease", "end_lease", "clock", "robots", "delivered", "undelivered")
"""A worker's calls, by file name, that need only `_COMMON`; the script `calls` runs any of them."""

_LEARNING_CALLS = ("add", "seeds", "observe", "more", "load", "load_request", "deliver")
"""The calls that also need `_LEARNING`."""

_LEARNING = ("budgets", "learning", "parts")

SCRIPTS = ("open", "calls", "heartbeat", "elect", "rekey", "show", "waiting")
"""The scripts, by file name."""


class Script(NamedTuple):
    """The text of a script, and the SHA-1 hash by which it is called."""

    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """Return a script, preceded by the files that it needs."""
    folder = files("crawlprio.plugins.redis") / "lua"

    def read(part: str) -> str:
        return (folder / f"{part}.lua").read_text(encoding="utf-8")

    if name == "calls":
        parts = [read(part) for part in (*_COMMON, *_LEARNING)]
        for at, calls in ((len(_COMMON) - 1, _CALLS), (-1, _LEARNING_CALLS)):
            parts[at] += "".join(f"do\n{read(call)}end\n" for call in calls)
    else:
        parts = [read(part) for part in _COMMON if name != "open"]
    # Each file becomes a function nested in the previous one. In a single long function, Lua would
    # search all its locals for each upvalue, and it allows a function at most 60 upvalues.
    text = "return (function()\n".join((*parts, read(name))) + "end)()\n" * len(parts)
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def load_scripts(client: Client) -> None:
    """Load all scripts into a server."""
    for name in SCRIPTS:
        client.script_load(script(name).text)
