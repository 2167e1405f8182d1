"""Requests as JSON, so that opening somebody else's store runs no code.

Types that JSON has are written as they are. Any other value is an object with one key that begins
with `$`: a tuple is `{"$tuple": [1, 2]}`, bytes are `{"$bytes": "AAE="}`, in base64. A value that
neither form can hold exactly is refused; nothing is converted to something similar.

Plain data are None, bool, int, float, str, list, dict and the types of `_BUILT`, but not subclasses
of these; NumPy's numbers; and Scrapy items, dataclasses, attrs classes, named tuples and members of
enumerations whose fields hold such data, which are written with the name of their class. Text that
lxml has extracted from a document, such as the `link_text` of a `CrawlSpider`, is written as a
plain string.

A request is an object of those of its attributes that differ from Scrapy's defaults. Callbacks are
names of spider methods, the body is base64, and headers are lists of a name and its values, in
Latin-1. Everything else is as above. `class` names the class of a `Request` subclass.
"""

from __future__ import annotations

import ipaddress
import json
import math
import pathlib
import re
import sys
from base64 import b64decode, b64encode
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from functools import lru_cache, partial, reduce
from inspect import getattr_static
from time import struct_time
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple
from uuid import UUID
from weakref import WeakValueDictionary
from zoneinfo import ZoneInfo

import numpy as np
from scrapy import Item, Request, Spider
from scrapy.http.headers import Headers
from scrapy.http.request import NO_CALLBACK

from crawlprio.errors import StoreError, printable
from crawlprio.store.crawl_state import UNHELD
from crawlprio.web.urls import is_of_page

MAX_DEPTH = 100
"""Maximum nesting depth of values."""

MAX_HASHED = 1_000
"""Maximum number of members of a set, and of items of a dict whose keys are not all text.

The author of the JSON can choose members with equal hashes, which take quadratic time to insert.
"""

READ_ERRORS = (ValueError, TypeError, ArithmeticError, LookupError, RecursionError)
"""The exceptions that `loads` raises for text that `dumps` did not write."""

_MAX_INT_BITS = 10_000

_loaded: WeakValueDictionary[str, type] = WeakValueDictionary()
"""Classes by full name: a cache for `loaded_class`."""


class NotPlain(Exception):
    """A value cannot be written; `path` says where it is, e.g. `['item'][0]`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path = ""

    def inside(self, step: object) -> NotPlain:
        """Prefix the path with a key or an index, and return self."""
        self.path = f"[{step!r}]{self.path}"
        return self


def to_jsonable(value: object, depth: int = MAX_DEPTH) -> Any:
    """Return a form of a value that `json` can write and `loads` restores, types included.

    A value that is not plain data, is nested deeper than `depth`, or exceeds the bounds above,
    raises NotPlain, and so does one in it.
    """
    kind = type(value)
    if kind is str:
        assert isinstance(value, str)
        if value.isascii() or _is_unicode(value):
            return value
        return {"$str": b64encode(value.encode("utf-8", "surrogatepass")).decode()}
    if value is None or kind is bool:
        return value
    if kind is int:
        assert isinstance(value, int)
        if value.bit_length() > _MAX_INT_BITS:
            raise NotPlain(f"is an integer of more than {_MAX_INT_BITS} bits")
        return value
    if depth == 0:
        raise NotPlain(f"is nested deeper than {MAX_DEPTH} levels")
    write = _WRITERS.get(kind) or _writer_for(kind)
    if write is None:
        raise NotPlain(f"is {_a(kind)}, which JSON cannot hold")
    return write(value, depth - 1)


dumps = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode
"""Returns the JSON of a value built from what `to_jsonable` returns."""


def full_name(kind: type) -> str:
    """Return the name under which `loaded_class` finds a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def loaded_class(name: str, base: type) -> type | None:
    """Return the subclass of `base` with a full name, or None if it is not loaded."""
    kind = _loaded.get(name)
    if kind is None or not issubclass(kind, base):
        kinds: list[type] = list(base.__subclasses__())
        for kind in kinds:
            _loaded[full_name(kind)] = kind
            kinds += kind.__subclasses__()
        kind = _loaded.get(name)
    return kind if kind is not None and issubclass(kind, base) else None


def _a(kind: type) -> str:
    """Return the name of a type with its article."""
    return f"{'an' if kind.__name__[:1] in 'AEIOUaeiou' else 'a'} {kind.__name__}"


def _is_unicode(text: str) -> bool:
    """Return whether UTF-8 can encode a text, that is, whether it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _write_list(values: list[object], depth: int) -> list[object]:
    written: list[object] = []
    try:
        for value in values:
            written.append(to_jsonable(value, depth))  # noqa: PERF401 - the length is the index
    except NotPlain as refusal:
        raise refusal.inside(len(written)) from None
    return written


def _write_dict(values: Mapping[Any, object], depth: int) -> dict[str, object]:
    written: dict[str, object] = {}
    for key, value in values.items():
        if type(key) is not str or not (key.isascii() or _is_unicode(key)):
            return _tagged_dict(values, depth)
        try:
            written[key] = to_jsonable(value, depth)
        except NotPlain as refusal:
            raise refusal.inside(key) from None
    if len(written) == 1 and next(iter(written)).startswith("$"):
        return _tagged_dict(values, depth)
    return written


def _tagged_dict(values: Mapping[Any, object], depth: int) -> dict[str, object]:
    """Return a dict with keys that a JSON object cannot have, as a list of pairs."""
    pairs = []
    for written, (key, value) in zip(
        _written_members("a key", values, depth), values.items(), strict=True
    ):
        try:
            pairs.append([written, to_jsonable(value, depth)])
        except NotPlain as refusal:
            raise refusal.inside(key) from None
    return {"$dict": pairs}


def _write_set(values: set[object] | frozenset[object], depth: int) -> dict[str, object]:
    # Equal sets may have different orders, and requests are compared by their JSON.
    members = sorted(_written_members("a member", values, depth), key=dumps)
    return {f"${type(values).__name__}": members}


def _written_members(part: str, values: Collection[object], depth: int) -> list[object]:
    """Return the forms of the keys or members of a value, which no path can name."""
    if len(values) > MAX_HASHED:
        raise NotPlain(f"has {len(values)} members, more than the {MAX_HASHED} that can be stored")
    try:
        return [to_jsonable(value, depth) for value in values]
    except NotPlain as refusal:
        raise NotPlain(f"has {part} that {refusal}") from None


def _write_moment(
    value: datetime | time, depth: int, kind: type[datetime] | type[time]
) -> dict[str, object]:
    """Write a time by its text, if that says all of it, or else with its fold and time zone."""
    tag, text = f"${kind.__name__}", value.isoformat()
    # Equality is not enough: it ignores the name of a time zone and the fold of a time.
    if repr(kind.fromisoformat(text)) == repr(value):
        return {tag: text}
    naive = value.replace(tzinfo=None, fold=0).isoformat()
    return {tag: [naive, value.fold, to_jsonable(value.tzinfo, depth)]}


def _read_moment(value: object, kind: type[datetime] | type[time]) -> datetime | time:
    if type(value) is str:
        return kind.fromisoformat(value)
    text, fold, zone = _members(value)
    return kind.fromisoformat(_text(text)).replace(tzinfo=zone, fold=fold)


def _write_item(item: Item, depth: int) -> dict[str, list[object]]:
    name = full_name(type(item))
    if loaded_class(name, Item) is not type(item):
        raise NotPlain(f"is {_a(type(item))}, and another class has the same name")
    if vars(item).keys() != _ITEM_STATE:
        raise NotPlain(f"is {_a(type(item))} with attributes besides its fields")
    return {"$item": [name, _write_dict({**item}, depth)]}


_ITEM_STATE = vars(Item()).keys()


class _Built(NamedTuple):
    """A type whose values are written as what `build` makes them of again.

    `parts` returns that for a value, as a tuple. On reading, each part must be of one of its
    `kinds`, so that none can cost more than its text.
    """

    kind: type
    kinds: tuple[Any, ...]
    parts: Callable[[Any], tuple[object, ...]]
    build: Callable[..., object]

    def write(self, value: object, depth: int) -> dict[str, object]:
        parts = self.parts(value)
        written = [to_jsonable(part, depth) for part in parts]
        if not any(isinstance(part, list | dict) for part in parts):
            made: object = None
            with suppress(Exception):
                made = self.build(*parts)
            # Equality is not enough: it ignores the zeros of a decimal.
            if repr(made) != repr(value):
                raise NotPlain(f"is {value!r}, which {parts!r} does not fully represent")
        alone = len(self.kinds) == 1 and self.kinds[0] is str
        return {f"${self.kind.__name__.lower()}": written[0] if alone else written}

    def read(self, value: object) -> object:
        parts = [value] if type(value) is str else _members(value)
        if len(parts) != len(self.kinds) or not all(map(isinstance, parts, self.kinds)):
            raise TypeError("a tag holds what its type is not made of")
        return self.build(*parts)


def _compiled(pattern: str | bytes, flags: int) -> object:
    if len(pattern) > _MAX_PATTERN:
        raise ValueError(f"a pattern of more than {_MAX_PATTERN} characters")
    return re.compile(pattern, flags & ~re.DEBUG)  # which would print


_MAX_PATTERN = 200
"""Maximum length of a regular expression: its author can make each character cost a millisecond."""

_FACTORIES: dict[str | None, Any] = {
    None: None,
    **{each.__name__: each for each in (list, dict, set, tuple, int, float, str, bytes, bool)},
}
"""The factories that a stored `defaultdict` may have, by name."""


def _factory_name(factory: object) -> str | None:
    for name, known in _FACTORIES.items():
        if known is factory:
            return name
    raise NotPlain(f"has the factory {factory!r}, which JSON cannot hold")


def _zone(key: str) -> ZoneInfo:
    if not re.fullmatch(r"\w[\w+-]*(/\w[\w+-]*){0,2}", key, re.ASCII):
        raise ValueError("not a time zone")
    return ZoneInfo(key)


_IP_KINDS = (
    *(ipaddress.IPv4Address, ipaddress.IPv4Interface, ipaddress.IPv4Network),
    *(ipaddress.IPv6Address, ipaddress.IPv6Interface, ipaddress.IPv6Network),
)
_PATH_KINDS = (pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path()))

_BUILT = {
    f"${kind.__name__.lower()}": _Built(kind, kinds, parts, build or kind)
    for kind, kinds, parts, build in (
        (date, (str,), lambda value: (value.isoformat(),), date.fromisoformat),
        (timedelta, (int,) * 3, lambda value: value.__reduce__()[1], None),
        (timezone, (tuple,), lambda value: (value.__getinitargs__(),), lambda all: timezone(*all)),
        (ZoneInfo, (str,), lambda value: (value.key or "",), _zone),
        (struct_time, (tuple, dict), lambda value: value.__reduce__()[1], None),
        (Decimal, (str,), lambda value: (str(value),), None),
        (Fraction, (int, int), Fraction.as_integer_ratio, None),
        (complex, (float, float), lambda value: (value.real, value.imag), None),
        (bytearray, (bytes,), lambda value: (bytes(value),), None),
        (range, (int,) * 3, lambda value: value.__reduce__()[1], None),
        (slice, (object,) * 3, lambda value: value.__reduce__()[1], None),
        (UUID, (str,), lambda value: (str(value),), None),
        (re.Pattern, ((str, bytes), int), lambda value: (value.pattern, value.flags), _compiled),
        (deque, (list, (int, type(None))), lambda value: ([*value], value.maxlen), None),
        (OrderedDict, (dict,), lambda value: ({**value},), None),
        (Counter, (dict,), lambda value: ({**value},), None),
        (
            *(defaultdict, ((str, type(None)), dict)),
            lambda value: (_factory_name(value.default_factory), {**value}),
            lambda name, values: defaultdict(_FACTORIES[name], values),
        ),
        *((kind, (str,), lambda value: (str(value),), None) for kind in (*_IP_KINDS, *_PATH_KINDS)),
    )
}
"""Types of the standard library by their tags."""

_WRITERS: dict[type, Callable[[Any, int], object]] = {
    dict: _write_dict,
    list: _write_list,
    float: lambda value, depth: value if math.isfinite(value) else {"$float": repr(value)},
    bytes: lambda value, depth: {"$bytes": b64encode(value).decode()},
    tuple: lambda values, depth: {"$tuple": _write_list(list(values), depth)},
    set: _write_set,
    frozenset: _write_set,
    datetime: partial(_write_moment, kind=datetime),
    time: partial(_write_moment, kind=time),
    **{built.kind: built.write for built in _BUILT.values()},
}


def _writer_for(kind: type) -> Callable[[Any, int], object] | None:
    """Return what writes the values of a type that is not in the table, if anything does."""
    if issubclass(kind, Item):
        return _write_item
    if issubclass(kind, str) and kind.__module__ == "lxml.etree":
        return lambda value, depth: to_jsonable(str(value), depth)
    if issubclass(kind, np.generic) and _NUMBERS.fullmatch(np.dtype(kind).str):
        return lambda value, depth: {
            "$numpy": [value.dtype.str, b64encode(value.tobytes()).decode()]
        }
    return _write_object if _fields_of(kind) is not None else None


_NUMBERS = re.compile(r"[<|][biufc]\d{1,2}")
"""The types of NumPy's numbers."""


def _read_number(value: object) -> object:
    name, content = map(_text, _members(value))
    if not _NUMBERS.fullmatch(name):
        raise ValueError("not a type of numbers")
    (number,) = np.frombuffer(b64decode(content, validate=True), dtype=name)
    return number


def _fields_of(kind: type) -> Collection[str] | None:
    """Return the names of what values of a class consist of, calling nothing of the class.

    These are fields of a dataclass, an attrs class or a named tuple, or members of an enumeration;
    None if it is none of these, or if to set a field, or to delete a value, would call something.
    """
    if issubclass(kind, Enum):
        return tuple(getattr_static(kind, "_member_map_"))
    if issubclass(kind, tuple):
        names = getattr_static(kind, "_fields", None)
    elif type(getattr_static(kind, "__dataclass_fields__", None)) is dict:
        names = tuple(field.name for field in fields(kind))  # type: ignore[arg-type]
    else:
        found = getattr_static(kind, "__attrs_attrs__", None)
        names = tuple(field.name for field in found) if isinstance(found, tuple) else None
    if type(names) is not tuple or getattr_static(kind, "__del__", None) is not None:
        return None
    for name in () if issubclass(kind, tuple) else names:
        found = getattr_static(kind, name, None)
        if hasattr(type(found), "__set__") and type(found) is not MemberDescriptorType:
            return None
    return names


def _write_object(value: object, depth: int) -> dict[str, object]:
    """Write a value of a class with fields, from which the class can make it again."""
    kind = type(value)
    name = f"{kind.__module__}:{kind.__qualname__}"
    if _named_class(name) is not kind:
        raise NotPlain(f"is {_a(kind)}, whose class cannot be found by its name")
    state = _state_of(value)
    content: Any = [*tuple.__iter__(value)] if isinstance(value, tuple) else state
    is_whole = content is state or not state
    if isinstance(value, Enum):
        content = value._name_
    made: object = None
    with suppress(Exception):
        made = _made_object(kind, content)
    if isinstance(value, Enum) and made is not value:
        raise NotPlain(f"is {value!r}, which is no member of {kind.__name__}")
    if made is None or not is_whole:
        raise NotPlain(f"is {_a(kind)} with attributes besides its fields")
    return {"$object": [name, to_jsonable(content, depth + 1)]}


def _state_of(value: object) -> dict[str, Any]:
    """Return the attributes of an object, those in slots included, calling nothing of its class."""
    state = object.__getstate__(value)
    inside, slots = state if type(state) is tuple else (state, None)
    return {**(inside or {}), **(slots or {})}


def _made_object(kind: type, content: Any) -> object:
    """Return a value of a class, of its fields or of the name of its member.

    No constructor is called, and nothing else that the class defines.
    """
    names = _fields_of(kind)
    if names is None:
        raise ValueError(f"{kind.__name__} has no fields")
    if issubclass(kind, Enum):
        members = getattr_static(kind, "_member_map_")
        if content in members:
            return members[content]
        if getattr_static(kind, "_missing_", None) is not vars(Flag)["_missing_"]:
            raise ValueError(f"{kind.__name__} has no such member")
        return reduce(Flag.__or__, [members[each] for each in _text(content).split("|")])
    if issubclass(kind, tuple):
        if len(_members(content)) != len(names):
            raise ValueError(f"{kind.__name__} has {len(names)} fields")
        return tuple.__new__(kind, content)
    if type(content) is not dict or not content.keys() <= {*names}:
        raise ValueError(f"{kind.__name__} has other fields")
    made = object.__new__(kind)
    for name, value in content.items():
        object.__setattr__(made, name, value)
    return made


def _named_class(name: str) -> type | None:
    """Return the class named `module:name`, if its module is loaded; import and call nothing."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split(".")[:MAX_DEPTH]:
        if type(found) is not ModuleType and not issubclass(type(found), type):
            return None
        found = vars(found).get(part)
    return found if issubclass(type(found), type) else None


def _read_object(value: object) -> object:
    name, content = _members(value)
    kind = _named_class(_text(name))
    if kind is None:
        raise ValueError(f"the class {name!r} is not loaded; import it in the module of the spider")
    return _made_object(kind, content)


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError("the value of a tag is not text")
    return value


def _members(values: object) -> list[Any]:
    if type(values) is not list:
        raise TypeError("the value of a tag is not an array")
    return values


def _hashed(values: object) -> list[Any]:
    members = _members(values)
    if len(members) > MAX_HASHED:
        raise ValueError(f"a tag holds {len(members)} members, more than {MAX_HASHED}")
    return members


def _read_float(value: object) -> float:
    if value not in ("nan", "inf", "-inf"):
        raise ValueError("the value of a tag is not a special float")
    return float(_text(value))


def _read_item(value: object) -> Item:
    name, values = _members(value)
    kind = loaded_class(_text(name), Item)
    if kind is None or type(values) is not dict:
        raise ValueError("an item's class is not loaded; import it in the module of the spider")
    item: Item = Item.__new__(kind)
    Item.__init__(item)
    for name in values:
        Item.__setitem__(item, name, values[name])
    return item


_READERS: dict[str, Callable[[Any], object]] = {
    "$str": lambda value: b64decode(_text(value), validate=True).decode("utf-8", "surrogatepass"),
    "$float": _read_float,
    "$bytes": lambda value: b64decode(_text(value), validate=True),
    "$tuple": lambda value: tuple(_members(value)),
    "$set": lambda value: set(_hashed(value)),
    "$frozenset": lambda value: frozenset(_hashed(value)),
    "$dict": lambda value: {key: item for key, item in _hashed(value)},  # noqa: C416
    "$datetime": partial(_read_moment, kind=datetime),
    "$time": partial(_read_moment, kind=time),
    "$item": _read_item,
    "$object": _read_object,
    "$numpy": _read_number,
    **{tag: built.read for tag, built in _BUILT.items()},
}


def _untagged(value: dict[str, Any]) -> object:
    """Return the value of a decoded object; inner objects are decoded first."""
    if len(value) == 1:
        (tag,) = value
        if tag[:1] == "$":
            read = _READERS.get(tag)
            if read is None:
                raise ValueError("an unknown tag")
            try:
                return read(value[tag])
            except Exception as error:  # A hash may raise anything.
                raise ValueError(str(error)) from None
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


loads = json.JSONDecoder(object_hook=_untagged, parse_constant=_refuse_constant).decode
"""Returns the value that `to_jsonable` and `dumps` wrote; raises `READ_ERRORS` otherwise."""

_MAX_SHOWN = 200
"""Maximum length of a request or a path in a message, in characters."""

_NO_CALLBACK = "$NO_CALLBACK"

_DEFAULTS: dict[str, Any] = {
    **{"method": "GET", "encoding": "utf-8", "priority": 0, "dont_filter": False},
    **{"meta": {}, "cb_kwargs": {}, "cookies": {}, "flags": []},
}
"""Attributes that are only written if they differ from these values, in a plain `Request`."""

_OWN_FORM = frozenset({"url", "callback", "errback", "headers", "body"})
"""Attributes that are not written as tagged JSON."""

_KINDS: dict[str, Any] = {name: type(value) for name, value in _DEFAULTS.items()}
_KINDS |= {"cookies": dict | list, "dont_filter": object}
"""What attributes must be."""

_ROUTINES = (FunctionType, MethodType, classmethod, staticmethod)

_NO_CALLBACKS = frozenset(vars(Spider)) - {"parse", "_parse"}
"""Methods that every spider has; a stored request must not name one as its callback."""


class RequestNotStorable(StoreError):
    """A request holds something that cannot be stored; the message names both."""


class InvalidRequest(StoreError):
    """A stored request is invalid, or does not belong to this spider."""


class Unheld(NamedTuple):
    """A request that JSON cannot hold, and the row that says so in its place."""

    request: Request
    row: bytes

    @classmethod
    def of(cls, request: Request, error: RequestNotStorable) -> Unheld:
        return cls(request, UNHELD + dumps(to_jsonable(str(error))).encode() + b"}")


def why_unheld(row: bytes) -> str:
    """Return the reason in the row of a request that JSON could not hold; it may be damaged."""
    try:
        return printable(loads(row.decode())["unheld"], 3 * _MAX_SHOWN)
    except READ_ERRORS:
        return "unknown."


class _Refused(Exception):
    """Why a request cannot be written or rebuilt, without naming the request."""


def to_json(
    request: Request, spider: Spider, *, kept_headers: Collection[bytes] | None = None
) -> bytes:
    """Return a request as JSON in UTF-8, from which `from_json` builds an equal one.

    Callback and errback, if any, must be methods of the spider, and all values plain data;
    otherwise RequestNotStorable is raised. `kept_headers` are the names of the headers to write, as
    Scrapy spells them (`b"Accept-Language"`); None: all. The rebuilt request lacks the others, and
    `cookies` unless `b"Cookie"` is kept.
    """
    try:
        written = dumps(_fields(request, spider, kept_headers)).encode()
        if not type(request).__module__.startswith("scrapy."):
            _check_same(request, written, spider, kept_headers)
        return written
    except _Refused as refusal:
        reason = str(refusal)
    except RecursionError:
        reason = f"its values are nested deeper than {MAX_DEPTH} levels; flatten them"
    raise RequestNotStorable(f"{_shown(request.method, request.url)}: {reason}.")


def from_json(data: bytes, spider: Spider) -> Request:
    """Return the request that `to_json` wrote; for anything else, raise InvalidRequest alone.

    Nothing named in the data is imported except Python's own codecs, and nothing is called except
    the constructor of a `Request` class that is already loaded. Callbacks are `parse` or methods
    that the spider adds to those of all spiders.
    """
    fault = "has no URL"
    try:
        fields = loads(data.decode())
    except READ_ERRORS as error:
        fields, fault = None, f"cannot be read ({printable(error, _MAX_SHOWN)})"
    if type(fields) is not dict or type(fields.get("url")) is not str:
        raise InvalidRequest(
            f"a stored request {fault}; restore a backup of the store, or start a new crawl."
        )
    try:
        return _made(fields, spider)
    except _Refused as refusal:
        reason = str(refusal)
    except Exception as error:  # A constructor may raise anything.
        reason = f"{type(error).__name__} while rebuilding it: {error}"
    raise InvalidRequest(
        f"{_shown(fields.get('method', 'GET'), fields['url'])}: {printable(reason, _MAX_SHOWN)}; "
        "resume with the spider that stored it, or start a new crawl."
    )


def _fields(
    request: Request, spider: Spider, kept_headers: Collection[bytes] | None
) -> dict[str, Any]:
    """Return the attributes of a request, ready for JSON."""
    kind = type(request)
    if not _keeps_url(request, kind):
        raise _Refused("Scrapy would change its URL; set meta['verbatim_url'] to True")
    fields = {"url": _jsonable("url", request.url)}
    if kind is Request:
        for name, default in _DEFAULTS.items():
            value = getattr(request, name)
            if value != default or type(value) is not type(default):
                fields[name] = _jsonable(name, value)
    else:
        # Constructors of subclasses have their own defaults.
        fields["class"] = class_name = full_name(kind)
        if loaded_class(class_name, Request) is not kind:
            raise _Refused(f"its class {class_name} is not the only one of this name; rename it")
        for name in kind.attributes:
            if name not in _OWN_FORM:
                fields[name] = _jsonable(name, getattr(request, name))
    if request.callback is not None:
        fields["callback"] = _name_of_method(spider, request.callback, "callback")
    if request.errback is not None:
        fields["errback"] = _name_of_method(spider, request.errback, "errback")
    if request.body:
        fields["body"] = b64encode(request.body).decode()
    # Headers.items would look up each header again.
    headers = [
        _header(name, values)
        for name, values in dict.items(request.headers)
        if kept_headers is None or name in kept_headers
    ]
    if headers:
        fields["headers"] = headers
    if kept_headers is not None and b"Cookie" not in kept_headers:
        fields.pop("cookies", None)
    return fields


def _check_same(
    request: Request, written: bytes, spider: Spider, kept_headers: Collection[bytes] | None
) -> None:
    """Refuse a request of which the constructor of its class would make another one."""
    try:
        made = from_json(written, spider)
        is_same = dumps(_fields(made, spider, kept_headers)).encode() == written
        is_same = is_same and _own_state(made) == _own_state(request)
    except Exception:  # Comparing what a class keeps may raise anything.
        is_same = False
    if not is_same:
        raise _Refused(
            f"its class {full_name(type(request))} would make another request of its attributes; "
            "name all that it keeps in its `attributes`, and set nothing else in `__init__`"
        )


def _own_state(request: Request) -> dict[str, object]:
    """Return the values of a request that are not among its public attributes."""
    known = {*Request.__slots__, *request.attributes}
    return {name: value for name, value in _state_of(request).items() if name not in known}


def _made(fields: dict[str, Any], spider: Spider) -> Request:
    """Build a request from decoded fields; raise _Refused, or what its constructor raises."""
    name = fields.pop("class", None)
    kind = Request if name is None else _class_of_name(name)
    headers = _headers_of(fields.pop("headers", []))
    for attribute in ("callback", "errback"):
        if attribute in fields:
            fields[attribute] = _method_of_name(spider, fields[attribute], attribute)
    if "body" in fields:
        try:
            fields["body"] = b64decode(fields["body"], validate=True)
        except (TypeError, ValueError):
            raise _Refused("its stored body is not base64") from None
    for attribute in fields.keys() & _KINDS.keys():
        kinds = _KINDS[attribute]
        if not isinstance(fields[attribute], kinds):
            is_not = "are neither dict nor list"
            if isinstance(kinds, type):
                is_not = f"is not {kinds.__name__}"
            raise _Refused(f"its stored {attribute} {is_not}")
    unknown = fields.keys() - set(kind.attributes)
    if unknown:
        raise _Refused(f"{kind.__name__} has no attribute {min(unknown)!r}")
    url, meta = fields["url"], fields.get("meta", {})
    if kind is Request and _is_printable_url(url):
        # Scrapy would escape the URL again, which costs more than everything else here.
        request = Request(**{**fields, "meta": {**meta, "verbatim_url": True}})
        request.meta.clear()
        request.meta.update(meta)
    else:
        request = kind(**fields)
        if request.url != url:
            raise _Refused("Scrapy would change its URL")
    request.method = fields.get("method", request.method)  # constructors make it upper case
    if headers or kind is not Request:
        stored = Headers(encoding=request.encoding)
        dict.update(stored, headers)
        request.headers = stored
    return request


def _jsonable(attribute: str, value: object) -> Any:
    """Return the value of an attribute, ready for JSON."""
    if not isinstance(value, _KINDS.get(attribute, object)):
        raise _Refused(f"its {attribute} is {_a(type(value))}, which no new request could have")
    try:
        return to_jsonable(value)
    except NotPlain as refusal:
        path = f"{attribute}{refusal.path}"
        path = f"{path[:_MAX_SHOWN]}{'...' * (len(path) > _MAX_SHOWN)}"
        raise _Refused(f"{path} {refusal}; pass plain data, such as a dict, instead") from None


def _is_printable_url(url: str) -> bool:
    """Return whether a URL can be sent as it is."""
    return url.isascii() and url.isprintable() and " " not in url


def _keeps_url(request: Request, kind: type[Request]) -> bool:
    """Return whether a new request for the URL of a request would have the same URL."""
    url, encoding = request.url, request.encoding
    # Escaping such a URL again changes nothing, except in UTF-16 and the like.
    if _is_printable_url(url) and (kind is Request or encoding == "utf-8"):
        return True
    return bool(request.meta.get("verbatim_url")) or Request(url, encoding=encoding).url == url


def _header(name: object, values: object) -> list[str]:
    texts = [name, *values] if isinstance(values, list) else [values]
    if not all(type(text) is bytes for text in texts):
        raise _Refused(f"its header {name!r} is not bytes")
    return [text.decode("latin-1") for text in texts]  # type: ignore[union-attr]


def _headers_of(headers: object) -> dict[bytes, list[bytes]]:
    by_name = {}
    for header in headers if type(headers) is list else [None]:
        if type(header) is not list or not header or any(type(text) is not str for text in header):
            raise _Refused("its stored headers are not a list of names and values")
        name, *values = (text.encode("latin-1") for text in header)
        by_name[name] = values
    return by_name


def _name_of_method(spider: Spider, function: Callable[..., Any], role: str) -> str:
    if function is NO_CALLBACK:
        return _NO_CALLBACK
    name = str(getattr(function, "__name__", ""))
    if _is_method(spider, name, function):
        return name
    for name in _other_names(spider, getattr(function, "__func__", function)):
        if _is_method(spider, name, function):
            return name
    raise _Refused(
        f"its {role} {printable(repr(function), _MAX_SHOWN)} is not a method of spider "
        f"{spider.name!r}, and could not be found by name on resume; make it one"
    )


def _is_method(spider: Spider, name: str, function: object) -> bool:
    return _may_be_called(spider, name) and bool(getattr(spider, name) == function)


def _other_names(spider: Spider, function: object) -> Iterator[str]:
    """Yield the names of the spider's attributes that hold a function, whatever its own name."""
    for names in (vars(spider), *map(vars, type(spider).__mro__)):
        for name, attribute in names.items():
            if getattr(attribute, "__func__", attribute) is function:
                yield name


def _method_of_name(spider: Spider, name: object, role: str) -> Callable[..., Any] | None:
    if name is None:
        return None
    if name == _NO_CALLBACK:
        return NO_CALLBACK
    if type(name) is not str or not _may_be_called(spider, name):
        raise _Refused(f"its {role} {name!r} is not a method of spider {spider.name!r}")
    method: Callable[..., Any] = getattr(spider, name)
    return method


def _may_be_called(spider: Spider, name: str) -> bool:
    """Return whether a name is that of a method that may be a callback, calling nothing."""
    if name in _NO_CALLBACKS or (name[:2] == "__" == name[-2:]):
        return False
    own = vars(spider).get(name)
    for cls in type(spider).__mro__:
        if name in vars(cls):
            # A property or the like would run code, and takes precedence over instance attributes.
            return isinstance(vars(cls)[name], _ROUTINES) and isinstance(
                own, (*_ROUTINES, type(None))
            )
    return isinstance(own, _ROUTINES)


def _class_of_name(name: object) -> type[Request]:
    kind = loaded_class(name, Request) if isinstance(name, str) else None
    if kind is None:
        raise _Refused(
            f"its class {name!r} is not loaded, and a store must not cause imports; import it in "
            "the module of the spider"
        )
    return kind


def _shown(method: object, url: str) -> str:
    """Return a request as Scrapy shows it, truncated."""
    return f"<{printable(method, _MAX_SHOWN)} {printable(url, _MAX_SHOWN)}>"


def is_request(data: bytes, spider: Spider) -> bool:
    """Return whether `from_json` builds a request of this; 1 µs where only the URL is new."""
    url, _, rest = data.removeprefix(_URL_FIRST).partition(b'"')
    text = url.decode("latin-1")
    is_usual = data.startswith(_URL_FIRST) and len(rest) < 1_000 and "\\" not in text
    if is_usual and _is_printable_url(text) and is_of_page(text):
        return _is_request_but_for_url(rest, spider)
    return _is_request(data, spider)


_URL_FIRST = b'{"url":"'
"""How the JSON of a request begins."""


def _is_request(data: bytes, spider: Spider) -> bool:
    try:
        from_json(data, spider)
    except InvalidRequest:
        return False
    return True


@lru_cache(maxsize=256)
def _is_request_but_for_url(rest: bytes, spider: Spider) -> bool:
    return _is_request(_URL_FIRST + b'http://a.test/"' + rest, spider)


def priority_of(data: bytes) -> int:
    """Return the priority of a request that `to_json` wrote; 0 if it is damaged."""
    try:
        priority = loads(data.decode()).get("priority", 0)
    except (*READ_ERRORS, AttributeError):
        return 0
    return priority if type(priority) is int else 0
