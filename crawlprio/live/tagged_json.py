"""Plain data as JSON and back, of the same types, however they are nested.

What JSON has is written as it is. All else is an object of one key that begins with `$`: a tuple is
`{"$tuple": [1, 2]}`, bytes are `{"$bytes": "AAE="}`, in base64. What neither can hold exactly is
refused: nothing is turned into something similar.

Plain data are None, bool, int, float, str, bytes, list, tuple, set, frozenset, dict, date, time,
datetime (naive, or with a fixed offset), timedelta and Decimal; of these types, not of subclasses.
A Scrapy item whose fields hold such data is written with the name of its class. Text that lxml has
taken from a document, as in the `link_text` of a `CrawlSpider`, is written as the text alone.
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
"""Levels to which values may be nested."""

MAX_HASHED = 1_000
"""Members of a set, and items of a dict whose keys are not all text.

Whoever wrote the JSON can choose members of one hash, so that more would take quadratic time.
"""

READ_ERRORS = (ValueError, TypeError, ArithmeticError, LookupError, RecursionError)
"""What `loads` raises for text that is not what `dumps` wrote."""

_MAX_INT_BITS = 10_000


_loaded: WeakValueDictionary[str, type] = WeakValueDictionary()
"""Classes by their full names, of those that were looked for."""


class NotPlain(Exception):
    """A value cannot be written; `path` says where it is: `['item'][0]`, say."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path = ""

    def inside(self, step: object) -> NotPlain:
        """Prefix the path by a key or an index, and return self."""
        self.path = f"[{step!r}]{self.path}"
        return self


def to_jsonable(value: object, depth: int = MAX_DEPTH) -> Any:
    """Return what `json` writes for a value, so that `loads` gives its equal, types included.

    Raises
    ------
    NotPlain
        if the value, or one in it, is not plain data, nested deeper than `depth`, or larger than
        the bounds above.
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
    """Return JSON for a value made of what `to_jsonable` returns."""
    return _encode(jsonable)


def loads(text: str) -> Any:
    """Return the value whose `to_jsonable` was written.

    Raises
    ------
    ValueError, TypeError, ArithmeticError, LookupError, RecursionError
        if it is not JSON, or a tag holds what it cannot. Nothing else, whatever the text is.
    """
    return _decode(text)


def full_name(kind: type) -> str:
    """Return the name under which `loaded_class` finds a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def loaded_class(name: str, base: type) -> type | None:
    """Return the subclass of a class that has a full name, if it is loaded; import nothing."""
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
    """The name of a type, after its article."""
    return f"{'an' if kind.__name__[:1] in 'AEIOUaeiou' else 'a'} {kind.__name__}"


def _is_unicode(text: str) -> bool:
    """Whether UTF-8 can hold a text: it has no lone surrogates."""
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
    """A dict with keys that a JSON object cannot have, as a list of pairs."""
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
    """What is written for a value that no path leads to."""
    try:
        return to_jsonable(value, depth)
    except NotPlain as refusal:
        raise NotPlain(f"has {part} that {refusal}") from None


def _write_exact(tag: str, text_of: Callable[[Any], str]) -> Callable[[Any, int], dict[str, str]]:
    """A writer for what a text means exactly, unless it comes back as something else."""

    def write(value: object, depth: int) -> dict[str, str]:
        text = text_of(value)
        # Equal is not enough: the name of a time zone and the fold of a time do not count then.
        if repr(_READERS[tag](text)) != repr(value):
            raise NotPlain(f"is {value!r}, whose text {text!r} does not say all of it")
        return {tag: text}

    return write


def _write_item(item: Item, depth: int) -> dict[str, list[object]]:
    name = full_name(type(item))
    if loaded_class(name, Item) is not type(item):
        raise NotPlain(f"is {_a(type(item))}, a name that another class has too")
    if vars(item).keys() != _ITEM_STATE:
        raise NotPlain(f"is {_a(type(item))} that has more than its fields")
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
        raise TypeError("a tag holds no text")
    return value


def _members(values: object) -> list[Any]:
    if type(values) is not list:
        raise TypeError("a tag holds no array")
    return values


def _hashed(values: object) -> list[Any]:
    members = _members(values)
    if len(members) > MAX_HASHED:
        raise ValueError(f"a tag holds {len(members)} members, more than {MAX_HASHED}")
    return members


def _read_float(value: object) -> float:
    if value not in ("nan", "inf", "-inf"):
        raise ValueError("a tag holds no such float")
    return float(_text(value))


def _read_timedelta(value: object) -> timedelta:
    days, seconds, microseconds = _members(value)
    return timedelta(days, seconds, microseconds)


def _read_item(value: object) -> Item:
    name, values = _members(value)
    kind = loaded_class(_text(name), Item)
    if kind is None or type(values) is not dict:
        raise ValueError("an item of a class that is not loaded; import it where the spider is")
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
    """The value of an object whose values are read already: the innermost come first."""
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
