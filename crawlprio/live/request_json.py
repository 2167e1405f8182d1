"""Requests as JSON, so that resuming from someone else's crawl store runs none of their code.

A request is an object of those of its attributes that differ from Scrapy's defaults. Callbacks are
names of spider methods, the body is base64, and headers are lists of a name and its values, in
Latin-1. `tagged_json` writes everything else. `class` names the class of a `Request` subclass.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator
from types import FunctionType, MethodType
from typing import Any

from scrapy import Request, Spider
from scrapy.http.headers import Headers
from scrapy.http.request import NO_CALLBACK

from crawlprio.errors import StoreError
from crawlprio.live.tagged_json import (
    MAX_DEPTH,
    READ_ERRORS,
    NotPlain,
    dumps,
    full_name,
    loaded_class,
    loads,
    to_jsonable,
)

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

    Parameters
    ----------
    spider
        the spider; the callback and the errback, if any, must be methods of it.
    kept_headers
        names of the headers to write, as Scrapy spells them (`b"Accept-Language"`); None: all. The
        rebuilt request lacks the others, and `cookies` unless `b"Cookie"` is kept.

    Raises
    ------
    RequestNotStorable
        if a callback is not a method of the spider, or a value (of `meta`, `cb_kwargs`, ...) is not
        plain data, as `tagged_json` defines it.
    """
    try:
        return dumps(_fields(request, spider, kept_headers)).encode()
    except _Refused as refusal:
        reason = str(refusal)
    except RecursionError:
        reason = f"its values are nested deeper than {MAX_DEPTH} levels; flatten them"
    raise RequestNotStorable(f"{_shown(request.method, request.url)}: {reason}.")


def from_json(data: bytes, spider: Spider) -> Request:
    """Return the request that `to_json` wrote.

    Nothing named in the data is imported except Python's own codecs, and nothing is called except
    the constructor of a `Request` class that is already loaded. Callbacks are `parse` or methods
    that the spider adds to those of all spiders.

    Raises
    ------
    InvalidRequest
        if the data are not such a request, a callback is not a method of the spider, or the class
        of the request is not loaded. No data makes it raise anything else.
    """
    try:
        fields = loads(data.decode())
    except READ_ERRORS as error:
        raise InvalidRequest(
            f"a stored request cannot be read ({_printable(str(error))}); restore a backup of the "
            "store, or start a new crawl."
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
        f"{_shown(fields.get('method', 'GET'), fields['url'])}: {_printable(reason)}; resume with "
        "the spider that stored it, or start a new crawl."
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
        f"its {role} {_printable(repr(function))} is not a method of spider {spider.name!r}, and "
        "could not be found by name on resume; make it one"
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
    return f"<{_printable(str(method))} {_printable(url)}>"


def _printable(text: str) -> str:
    """Return a text without control characters, truncated."""
    cut = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
    return "".join(char if char.isprintable() else "?" for char in cut)


def priority_of(data: bytes) -> int:
    """Return the priority of a request that `to_json` wrote; 0 if it is damaged."""
    try:
        priority = loads(data.decode()).get("priority", 0)
    except (*READ_ERRORS, AttributeError):
        return 0
    return priority if type(priority) is int else 0
