"""Requests as JSON, so that opening somebody else's store runs no code.

Types that JSON has are written as they are. Any other value is an object with one key that begins
with `$`: a tuple is `{"$tuple": [1, 2]}`, bytes are `{"$bytes": "AAE="}`, in base64. A value that
neither form can hold exactly is refused; nothing is converted to something similar.

Plain data are None, bool, int, float, str, bytes, list, tuple, set, frozenset, dict, date, time,
datetime (naive, or with a fixed offset), timedelta and Decimal, but not subclasses of these types.
A Scrapy item whose fields hold such data is written with the name of its class. Text that lxml has
extracted from a document, such as the `link_text` of a `CrawlSpider`, is written as a plain string.

A request is an object of those of its attributes that differ from Scrapy's defaults. Callbacks are
names of spider methods, the body is base64, and headers are lists of a name and its values, in
Latin-1. Everything else is as above. `class` names the class of a `Request` subclass.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakValueDictionary

from scrapy import Item, Request, Spider
from scrapy.http.headers import Headers
from scrapy.http.request import NO_CALLBACK

from crawlprio.errors import StoreError, printable

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
    """Return the value that `to_jsonable` and `dumps` wrote; raise `READ_ERRORS` otherwise."""
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


_MAX_SHOWN = 200
"""Maximum length of a request or a path in a message, in characters."""

_NO_CALLBACK = "$NO_CALLBACK"

_FALSY = (
    ("meta", dict),
    ("cb_kwargs", dict),
    ("priority", int),
    ("dont_filter", bool),
    ("cookies", dict),
    ("flags", list),
)
"""Attributes whose default is the falsy value of their type."""

_OWN_FORM = frozenset({"url", "callback", "errback", "headers", "body"})
"""Attributes that are not written as tagged JSON."""

_ROUTINES = (FunctionType, MethodType, classmethod, staticmethod)

_NO_CALLBACKS = frozenset(vars(Spider)) - {"parse", "_parse"}
"""Methods that every spider has; a stored request must not name one as its callback."""


class RequestNotStorable(StoreError):
    """A request holds something that cannot be stored; the message names both."""


class InvalidRequest(StoreError):
    """A stored request is invalid, or does not belong to this spider."""


class _Refused(Exception):
    """Why a request cannot be written or rebuilt, without naming the request."""


def to_json(
    request: Request,
    spider: Spider,
    *,
    kept_headers: Collection[bytes] | None = None,
) -> bytes:
    """Return a request as JSON in UTF-8, from which `from_json` builds an equal one.

    Callback and errback, if any, must be methods of the spider, and all values plain data;
    otherwise RequestNotStorable is raised. `kept_headers` are the names of the headers to write, as
    Scrapy spells them (`b"Accept-Language"`); None: all. The rebuilt request lacks the others, and
    `cookies` unless `b"Cookie"` is kept.
    """
    try:
        return dumps(_fields(request, spider, kept_headers)).encode()
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
    try:
        fields = loads(data.decode())
    except READ_ERRORS as error:
        raise InvalidRequest(
            f"a stored request cannot be read ({printable(error, _MAX_SHOWN)}); restore a backup "
            "of the store, or start a new crawl."
        ) from None
    if type(fields) is not dict or type(fields.get("url")) is not str:
        raise InvalidRequest(
            "a stored request has no URL; restore a backup of the store, or start a new crawl."
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
        if request.method != "GET":
            fields["method"] = _jsonable("method", request.method)
        if request.encoding != "utf-8":
            fields["encoding"] = _jsonable("encoding", request.encoding)
        for name, of_kind in _FALSY:
            value = getattr(request, name)
            if value or type(value) is not of_kind:
                fields[name] = _jsonable(name, value)
    else:
        # Constructors of subclasses have their own defaults.
        fields["class"] = _name_of_class(kind)
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


def _made(fields: dict[str, Any], spider: Spider) -> Request:
    """Build a request from decoded fields; raise _Refused, or what its constructor raises."""
    name = fields.pop("class", None)
    kind = Request if name is None else _class_of_name(name)
    headers = _headers_of(fields.pop("headers", []))
    for attribute in ("callback", "errback"):
        if attribute in fields:
            fields[attribute] = _method_of_name(spider, fields[attribute], attribute)
    if "body" in fields:
        fields["body"] = _body_of(fields["body"])
    for attribute, of_kind in _KINDS:
        if type(fields.get(attribute, of_kind())) is not of_kind:
            raise _Refused(f"its stored {attribute} is not {of_kind.__name__}")
    if not isinstance(fields.get("cookies", {}), dict | list):
        raise _Refused("its stored cookies are neither dict nor list")
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
    if headers or kind is not Request:
        stored = Headers(encoding=request.encoding)
        dict.update(stored, headers)
        request.headers = stored
    return request


_KINDS = (
    *(("method", str), ("encoding", str), ("priority", int)),
    *(("meta", dict), ("cb_kwargs", dict), ("flags", list)),
)
"""Types that attributes must have."""


def _jsonable(attribute: str, value: object) -> Any:
    """Return the value of an attribute, ready for JSON."""
    try:
        return to_jsonable(value)
    except NotPlain as refusal:
        path = f"{attribute}{refusal.path}"
        if len(path) > _MAX_SHOWN:
            path = f"{path[:_MAX_SHOWN]}..."
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
    """Return the name of a header and its values, as text."""
    texts = [name, *values] if isinstance(values, list) else [values]
    if not all(type(text) is bytes for text in texts):
        raise _Refused(f"its header {name!r} is not bytes")
    return [text.decode("latin-1") for text in texts]  # type: ignore[union-attr]


def _headers_of(headers: object) -> dict[bytes, list[bytes]]:
    """Return stored headers, by name."""
    if type(headers) is not list or not all(_is_header(header) for header in headers):
        raise _Refused("its stored headers are not a list of names and values")
    by_name = {}
    for header in headers:
        name, *values = (text.encode("latin-1") for text in header)
        by_name[name] = values
    return by_name


def _is_header(header: object) -> bool:
    return type(header) is list and len(header) > 0 and all(type(text) is str for text in header)


def _body_of(body: object) -> bytes:
    try:
        return b64decode(body, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise _Refused("its stored body is not base64") from None


def _name_of_method(spider: Spider, function: Callable[..., Any], role: str) -> str:
    """Return the name under which the spider has a method."""
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
    """Return the method of the spider with this name."""
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


def _name_of_class(kind: type[Request]) -> str:
    """Return the name under which a class will be found again."""
    name = full_name(kind)
    if loaded_class(name, Request) is not kind:
        raise _Refused(f"its class {name} is not the only one of this name; rename it")
    return name


def _class_of_name(name: object) -> type[Request]:
    """Return the class with this name."""
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


def priority_of(data: bytes) -> int:
    """Return the priority of a request that `to_json` wrote; 0 if it is damaged."""
    try:
        priority = loads(data.decode()).get("priority", 0)
    except (*READ_ERRORS, AttributeError):
        return 0
    return priority if type(priority) is int else 0
