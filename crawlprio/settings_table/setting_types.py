"""Settings and the kinds of values that they may have.

This module imports neither Scrapy nor anything that is slow to load.
"""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from crawlprio.errors import ConfigError
from crawlprio.extras import require
from crawlprio.plugins import require_plugin

OWN_PREFIX = "CRAWLPRIO_"
OWN_NAMES = ("ORDERING", "ORDERING_OPTIONS", "TOPIC", "TOPIC_OPTIONS")
"""crawlprio's settings that lack the prefix."""

_SAME = object()
_OFF = (None, False, "", "None", "False", "false")
_HOST_NAME = re.compile(
    r"localhost|(?![0-9.]+$)[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+"
).fullmatch

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch  # RFC 9110, section 5.6.2

ROBOTS = "robots"
"""The source of sitemaps that means those named in robots.txt files."""


class NotAllowedError(ValueError):
    """A value that a kind does not allow; the message, if any, continues `NAME is VALUE`."""


@dataclass(frozen=True)
class SettingType:
    """The kind of values that a setting may have.

    `none` says what None means ("no limit"), and is empty if None is not allowed. An empty string
    and the string `None`, as given on the command line, count as None.
    """

    none: str = field(default="", kw_only=True)

    @property
    def bounds(self) -> str:
        """The allowed values other than None."""
        return "any value"

    def parse(self, value: Any) -> Any:
        """Return a value as crawlprio uses it; raise NotAllowedError if it is not allowed."""
        if self.none and (value is None or value in ("", "None")):
            return None
        return self.convert(value)

    def convert(self, value: Any) -> Any:
        """Do the same for a value that is not None."""
        return value

    def portable(self, value: str) -> tuple[str, str] | None:
        """Return a value that a crawl can take from anybody, in two parts; None if it cannot.

        The second is empty, or the path of a folder, or of a file if the first is not empty.
        """
        return value, ""

    @property
    def allowed(self) -> str:
        """The allowed values, as in `give ...`."""
        return f"{self.bounds}, or None for {self.none}" if self.none else self.bounds


@dataclass(frozen=True)
class AnyValue(SettingType):
    """A value that is checked where it is used: an ordering, a topic, a class of Scrapy."""

    bounds: str = "any value"

    def portable(self, value: str) -> tuple[str, str] | None:
        return None


@dataclass(frozen=True)
class Text(SettingType):
    """A text that `matches` accepts."""

    what: str
    matches: Callable[[str], object]

    @property
    def bounds(self) -> str:
        return self.what

    def convert(self, value: Any) -> str:
        if not isinstance(value, str) or not self.matches(value):
            raise NotAllowedError
        return value


CONTACT = (
    "a mail address or a URL (http:// or https://) that tells owners of sites who crawls them",
    re.compile(r"https?://[^\s()<>\"\\]+|[^\s()<>@,;:\"\\]+@[^\s()<>@,;:\"\\]+").fullmatch,
)
"""What a `Text` may be, and what matches it."""


@dataclass(frozen=True)
class Float(SettingType):
    """A finite number of 0 or more, as float; `also` is a word that may stand in its place."""

    above_zero: bool = False
    also: str = ""

    @property
    def bounds(self) -> str:
        least = "a number above 0" if self.above_zero else "a number of 0 or more"
        return f"{least}, or {self.also}" if self.also else least

    def convert(self, value: Any) -> float | str:
        if self.also and value == self.also:
            return self.also
        number = float(value)
        if not 0 <= number < math.inf or (self.above_zero and number == 0):
            raise NotAllowedError
        return number


class ShareToReach(NamedTuple):
    """A share of all importance, above 0 and at most 1, that is certain, or likely at least."""

    share: float
    is_certain: bool

    @property
    def written(self) -> float | str:
        """The share as a setting has it: a number, or `likely:NUMBER`."""
        return self.share if self.is_certain else f"likely:{self.share!r}"


@dataclass(frozen=True)
class Share(SettingType):
    """A `ShareToReach`."""

    bounds = "a number above 0 and at most 1, or likely:NUMBER"

    def convert(self, value: Any) -> ShareToReach:
        word, colon, text = str(value).partition(":")
        if colon and word != "likely":
            raise NotAllowedError
        share = float(text if colon else value)
        if not 0 < share <= 1:
            raise NotAllowedError
        return ShareToReach(share, not colon)


@dataclass(frozen=True)
class Int(SettingType):
    """A whole number within bounds, as int."""

    least: int = 0
    most: int | None = None

    def convert(self, value: Any) -> int:
        number = int(value)
        if number != float(value) or number < self.least:
            raise NotAllowedError
        if self.most is not None and number > self.most:
            raise NotAllowedError
        return number

    @property
    def bounds(self) -> str:
        if self.most is None:
            return f"a whole number of {self.least} or more"
        return f"a whole number from {self.least} to {self.most}"


@dataclass(frozen=True)
class Bool(SettingType):
    """True or False, in all the forms that Scrapy accepts."""

    bounds = "True or False"

    def convert(self, value: Any) -> bool:
        if value in ("True", "true", "False", "false"):
            return value in ("True", "true")
        return bool(int(value))


@dataclass(frozen=True)
class Choice(SettingType):
    """One of a few words, of which `off` counts as None."""

    words: tuple[str, ...] = ()
    off: str = ""

    def convert(self, value: Any) -> str | None:
        if not isinstance(value, str) or value not in self.words:
            raise NotAllowedError
        return None if value == self.off else value

    @property
    def bounds(self) -> str:
        quoted = [f'"{word}"' for word in self.words]
        return f"{', '.join(quoted[:-1])} or {quoted[-1]}"


@dataclass(frozen=True)
class Options(SettingType):
    """A dict, which is JSON on the command line; `secret`: no message quotes it."""

    secret: bool = False
    bounds = "a dict, as JSON on the command line: '{\"option\": 1}'"

    def convert(self, value: Any) -> dict[Any, Any]:
        if value is None:
            return {}
        return dict(json.loads(value) if isinstance(value, str) else value)


@dataclass(frozen=True)
class FileName(SettingType):
    """The name of a file, as `Path`, perhaps with one of some extensions; `False` counts as None.

    With `in_folder`, its folder must exist.
    """

    suffixes: tuple[str, ...] = ()
    in_folder: bool = False

    def parse(self, value: Any) -> Path | None:
        path: Path | None = super().parse(None if value is False else value)
        return path

    def convert(self, value: Any) -> Path:
        path = Path(os.fspath(value))
        if self.suffixes and path.suffix.lower() not in self.suffixes:
            raise NotAllowedError
        if self.in_folder and not os.path.isdir(path.parent):
            raise NotAllowedError("whose folder does not exist")
        return path

    def portable(self, value: str) -> None:
        return None

    @property
    def bounds(self) -> str:
        if not self.suffixes:
            return "a file name"
        most = ", ".join(self.suffixes[:-1])
        return f"a file name that ends in {most} or {self.suffixes[-1]}"


@dataclass(frozen=True)
class Folder(SettingType):
    """A writable folder, as a string; it is created if it does not exist."""

    bounds = "a writable folder, or one that can be created"

    def convert(self, value: Any) -> str:
        folder = Path(os.fspath(value))
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise NotAllowedError("which is a file") from None
        except OSError as error:
            raise NotAllowedError(f"which cannot be created ({error.strerror})") from None
        if not can_write(folder):
            raise NotAllowedError("which is not writable")
        return str(folder)

    def portable(self, value: str) -> tuple[str, str]:
        return "", value


@dataclass(frozen=True)
class WordList(SettingType):
    """A list of distinct words, as a tuple; in a string, commas or spaces separate them."""

    def convert(self, value: Any) -> tuple[Any, ...]:
        given = value.replace(",", " ").split() if isinstance(value, str) else value
        if not isinstance(given, Iterable) or isinstance(given, Mapping):
            raise NotAllowedError
        return tuple(dict.fromkeys(map(self.word, given)))

    def word(self, given: Any) -> Any:
        """Return a word as crawlprio uses it; raise NotAllowedError if it is not allowed."""
        raise NotImplementedError


class Extensions(WordList):
    """File name extensions, in lower case and without the dot."""

    bounds = "a list of extensions, comma-separated on the command line"

    def word(self, given: Any) -> str:
        name = given.strip().removeprefix(".").lower() if isinstance(given, str) else ""
        if not name.isalnum():
            raise NotAllowedError(f"in which {given!r} is not an extension")
        return name


class Networks(WordList):
    """Networks (`10.0.0.0/8`), addresses and host names."""

    bounds = "a list of networks, addresses or names, comma-separated on the command line"

    def word(self, given: Any) -> str:
        if not isinstance(given, str) or not _is_network(given.strip("[]")):
            raise NotAllowedError(f"in which {given!r} is not a network, address or name")
        return given


class HeaderNames(WordList):
    """Names of HTTP headers, as a set of bytes in Scrapy's spelling (`b"Content-Type"`).

    An empty string means no headers, not None.
    """

    bounds = "a list of header names, comma-separated on the command line"

    def parse(self, value: Any) -> frozenset[bytes] | None:
        is_none = self.none and (value is None or value == "None")
        return None if is_none else frozenset(self.convert(value))

    def word(self, given: Any) -> bytes:
        if not isinstance(given, str) or not _HEADER_NAME(given):
            raise NotAllowedError(f"in which {given!r} is not the name of a header")
        return given.title().encode()


def _is_network(text: str) -> bool:
    """Return whether a text is a network, an address, or a name of two labels or more."""
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return _HOST_NAME(text) is not None
    return True


class SitemapSources(WordList):
    """`robots`, or URLs of sitemaps."""

    bounds = '"robots", or http(s) URLs of sitemaps, comma-separated on the command line'

    def parse(self, value: Any) -> Any:
        return None if value == "off" else super().parse(value)

    def word(self, given: Any) -> Any:
        if given != ROBOTS and not str(given).startswith(("http://", "https://")):
            raise NotAllowedError(f"in which {given!r} is neither 'robots' nor an http(s) URL")
        return given


@dataclass(frozen=True)
class Slots(Options):
    """`DOWNLOAD_SLOTS`: delay (seconds) and concurrency of individual hosts; None: the default.

    The parsed value is a dict of pairs by host.
    """

    def convert(self, value: Any) -> dict[str, tuple[float | None, int | None]]:
        slots: dict[str, tuple[float | None, int | None]] = {}
        for host, slot in super().convert(value).items():
            if not isinstance(slot, Mapping):
                raise ConfigError(
                    f"DOWNLOAD_SLOTS of {host!r} is {slot!r}; give a dict with delay or "
                    "concurrency."
                )
            delay, limit = slot.get("delay"), slot.get("concurrency")
            slots[host] = (
                None
                if delay is None
                else checked(f"DOWNLOAD_SLOTS of {host!r}: delay", Float(), delay),
                None
                if limit is None
                else checked(f"DOWNLOAD_SLOTS of {host!r}: concurrency", Int(least=1), limit),
            )
        return slots


@dataclass(frozen=True)
class Missing(SettingType):
    """What a setting of a missing plugin may be: off, which is None."""

    name: str
    plugin: str

    def parse(self, value: Any) -> None:
        if value not in (*_OFF, "never", "local"):
            require_plugin(self.plugin, self.name)


@dataclass(frozen=True)
class Setting:
    """A setting that crawlprio reads; `meaning` is one sentence for users.

    `default` is its value in the bundled project, and `guest` that under the add-on in a project
    that does not set it (Scrapy's default, for Scrapy's own settings), if it is another. `rule` is
    the field of `crawlprio.frontier.Politeness` that it sets, if any. A row of `needs` is what a
    value begins with, the module that it then needs, and the extra of crawlprio that installs that.
    `former_name` is the setting's name in the version before this one.

    `option` is the option of `crawlprio crawl` that sets it, with what stands for its value if it
    takes one (`--pages N`), and `alone` the value of an option without one. `summary` is the help
    of the option if it is not `meaning`. A resume does not restore a setting that `is_of_one_run`.
    `again` is the ordering of a resume in which the setting has known pages fetched again.
    """

    name: str
    kind: SettingType
    default: Any
    meaning: str
    unit: str = ""
    guest: Any = _SAME
    rule: str = ""
    needs: tuple[tuple[str, str, str], ...] = ()
    former_name: str = ""
    option: str = ""
    alone: str | None = None
    summary: str = ""
    is_of_one_run: bool = False
    again: str = ""

    @property
    def guest_default(self) -> Any:
        """Its value under the add-on in a project that does not set it."""
        return self.default if self.guest is _SAME else self.guest

    @property
    def is_ours(self) -> bool:
        """Whether the setting is crawlprio's, and not one of Scrapy's."""
        return self.name.startswith(OWN_PREFIX) or self.name in OWN_NAMES

    def require(self, value: object) -> None:
        """Raise ConfigError if this value needs a plugin or package that is missing."""
        if isinstance(self.kind, Missing):
            self.kind.parse(value)
        for beginning, module, extra in () if value in (*_OFF, "0") else self.needs:
            if str(value).startswith(beginning):
                require(module, extra, f"{self.name} {value!r}" if beginning else self.name)


class Section:
    """A group of settings; `is_written` says whether the bundled project sets them."""

    def __init__(
        self, title: str, *settings: Setting, about: str = "", is_written: bool = True
    ) -> None:
        self.title, self.settings = title, settings
        self.about, self.is_written = about, is_written


def can_write(path: Path) -> bool:
    """Return whether this process may write to an existing file, or into a folder."""
    mode = os.W_OK | os.X_OK if os.path.isdir(path) else os.W_OK
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def checked(name: str, kind: SettingType, value: Any) -> Any:
    """Return a value as its kind parses it; a ConfigError says what is allowed."""
    try:
        return kind.parse(value)
    except NotAllowedError as error:
        because = f", {error}" if error.args else ""
    except (TypeError, ValueError, OverflowError):
        because = ""
    is_secret = isinstance(kind, Options) and kind.secret
    shown = "not allowed" if is_secret else repr(value)
    raise ConfigError(f"{name} is {shown}{because}; give {kind.allowed}.")
