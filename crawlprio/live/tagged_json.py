"""Plain data as JSON and back, with the same types, however they are nested.

Types that JSON has are written as they are. Any other value is an object with one key that begins
with `$`: a tuple is `{"$tuple": [1, 2]}`, bytes are `{"$bytes": "AAE="}`, in base64. A value that
neither form can hold exactly is refused; nothing is converted to something similar.

Plain data are None, bool, int, float, str, bytes, list, tuple, set, frozenset, dict, date, time,
datetime (naive, or with a fixed offset), timedelta and Decimal, but not subclasses of these types.
A Scrapy item whose fields hold such data is written with the name of its class. Text that lxml has
extracted from a document, such as the `link_text` of a `CrawlSpider`, is written as a plain string.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from weakref import WeakValueDictionary

from scrapy import Item

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

    Raises
    ------
    NotPlain
        if the value, or one in it, is not plain data, is nested deeper than `depth`, or exceeds the
        bounds above.
    """
    kind = type(value)
    if kind is str:
        assert isinstance(value, str)
        return value if value.isascii() or _is_unicode(value) else _tagged_text(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        assert isinstance(value, int)
        if value.bit_length() > _MAX_INT_BITS:
            raise NotPlain(f"is an integer of more than {_MAX_INT_BITS} bits")
        return value
    if depth == 0:
        raise NotPlain(f"is nested deeper than {MAX_DEPTH} levels")
    write = _WRITERS.get(kind)
    if write is not None:
        return write(value, depth - 1)
    if isinstance(value, Item):
        return _write_item(value, depth - 1)
    if isinstance(value, str) and kind.__module__ == "lxml.etree":
        return to_jsonable(str(value))
    raise NotPlain(f"is {_a(kind)}, which JSON cannot hold")


def dumps(jsonable: object) -> str:
    """Return the JSON of a value built from what `to_jsonable` returns."""
    return _encode(jsonable)


def loads(text: str) -> Any:
    """Return the value that `to_jsonable` and `dumps` wrote.

    Raises
    ------
    ValueError, TypeError, ArithmeticError, LookupError, RecursionError
        if it is not JSON, or a tag holds an invalid value. No text makes it raise anything else.
    """
    return _decode(text)


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


_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode


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


def _tagged_text(text: str) -> dict[str, str]:
    return {"$str": b64encode(text.encode("utf-8", "surrogatepass")).decode()}


def _write_float(value: float, depth: int) -> object:
    return value if math.isfinite(value) else {"$float": repr(value)}


def _write_list(values: list[object], depth: int) -> list[object]:
    written = []
    for at, value in enumerate(values):
        try:
            written.append(to_jsonable(value, depth))
        except NotPlain as refusal:
            raise refusal.inside(at) from None
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
    _check_hashed(len(values))
    pairs = []
    for key, value in values.items():
        try:
            item = to_jsonable(value, depth)
        except NotPlain as refusal:
            raise refusal.inside(key) from None
        pairs.append([_within("a key", key, depth), item])
    return {"$dict": pairs}


def _write_set(tag: str) -> Callable[[Any, int], dict[str, object]]:
    def write(values: set[object] | frozenset[object], depth: int) -> dict[str, object]:
        _check_hashed(len(values))
        return {tag: [_within("a member", value, depth) for value in values]}

    return write


def _within(part: str, value: object, depth: int) -> object:
    """Return the form of a key or a member, which no path can name."""
    try:
        return to_jsonable(value, depth)
    except NotPlain as refusal:
        raise NotPlain(f"has {part} that {refusal}") from None


def _write_exact(tag: str, text_of: Callable[[Any], str]) -> Callable[[Any, int], dict[str, str]]:
    """Return a writer that refuses a value if its text comes back as something else."""

    def write(value: object, depth: int) -> dict[str, str]:
        text = text_of(value)
        # Equality is not enough: it ignores the name of a time zone and the fold of a time.
        if repr(_READERS[tag](text)) != repr(value):
            raise NotPlain(f"is {value!r}, which its text {text!r} does not fully represent")
        return {tag: text}

    return write


def _write_item(item: Item, depth: int) -> dict[str, list[object]]:
    name = full_name(type(item))
    if loaded_class(name, Item) is not type(item):
        raise NotPlain(f"is {_a(type(item))}, and another class has the same name")
    if vars(item).keys() != _ITEM_STATE:
        raise NotPlain(f"is {_a(type(item))} with attributes besides its fields")
    return {"$item": [name, _write_dict({**item}, depth)]}


def _check_hashed(n: int) -> None:
    if n > MAX_HASHED:
        raise NotPlain(f"has {n} members, more than the {MAX_HASHED} that can be stored")


_ITEM_STATE = vars(Item()).keys()

_WRITERS: dict[type, Callable[[Any, int], object]] = {
    dict: _write_dict,
    list: _write_list,
    float: _write_float,
    bytes: lambda value, depth: {"$bytes": b64encode(value).decode()},
    tuple: lambda values, depth: {"$tuple": _write_list(list(values), depth)},
    set: _write_set("$set"),
    frozenset: _write_set("$frozenset"),
    datetime: _write_exact("$datetime", datetime.isoformat),
    date: _write_exact("$date", date.isoformat),
    time: _write_exact("$time", time.isoformat),
    timedelta: lambda value, depth: {"$timedelta": [value.days, value.seconds, value.microseconds]},
    Decimal: _write_exact("$decimal", str),
}


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


def _read_timedelta(value: object) -> timedelta:
    days, seconds, microseconds = _members(value)
    return timedelta(days, seconds, microseconds)


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
    "$datetime": lambda value: datetime.fromisoformat(_text(value)),
    "$date": lambda value: date.fromisoformat(_text(value)),
    "$time": lambda value: time.fromisoformat(_text(value)),
    "$timedelta": _read_timedelta,
    "$decimal": lambda value: Decimal(_text(value)),
    "$item": _read_item,
}


def _untagged(value: dict[str, Any]) -> object:
    """Return the value of a decoded object; inner objects are decoded first."""
    if len(value) == 1:
        (tag,) = value
        if tag[:1] == "$":
            read = _READERS.get(tag)
            if read is None:
                raise ValueError("an unknown tag")
            return read(value[tag])
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(object_hook=_untagged, parse_constant=_refuse_constant).decode
