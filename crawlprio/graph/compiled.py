"""Compiled functions and their cache, arrays and notices; numba is loaded when one is called.

Numba and its first compiled function take half a second of CPU time and 135 MB, even if everything
is cached. A module that decorates with `njit` from here pays nothing until its functions are
called, and a crawl without compiled functions never pays.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import logging
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from threading import RLock
from time import perf_counter
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

PATIENCE_SECONDS = 1.0
"""Seconds of compilation after which it is announced."""

logger = logging.getLogger("crawlprio")

_is_announced = False


def set_log_level(*libraries: str) -> None:
    """Set the level of libraries to WARNING unless it is already set, to keep a DEBUG log clean."""
    for name in libraries:
        library = logging.getLogger(name)
        if library.level == logging.NOTSET:
            library.setLevel(logging.WARNING)


def notice(sentence: str, *, is_error: bool = False) -> None:
    """Print a sentence on a terminal, or else log it; use standard error if nothing is logged.

    An error is printed as it is where standard error has but warnings and errors of the log.
    """
    takers: list[logging.Handler] = []
    at: logging.Logger | None = logger
    while at is not None:
        takers += (one for one in at.handlers if not isinstance(one, logging.NullHandler))
        at = at.parent if at.propagate else None
    # Scrapy sets the level on its handler and leaves the loggers unset.
    has_info = logger.isEnabledFor(logging.INFO) and any(
        one.level <= logging.INFO for one in takers
    )
    on_stderr = all(getattr(one, "stream", None) is sys.stderr for one in takers)
    if is_error and on_stderr and not has_info:
        print(sentence, file=sys.stderr, flush=True)
    elif is_error or (has_info and not sys.stderr.isatty()):
        logger.log(logging.ERROR if is_error else logging.INFO, "%s", sentence)
    else:
        print(f"crawlprio: {sentence}", file=sys.stderr, flush=True)


def announce_compiling() -> None:
    """Announce compilation once if it takes over a second."""
    from numba.core import event

    class Listener(event.Listener):
        """Receives the start and end of every compilation, including nested ones."""

        def __init__(self) -> None:
            self._began_at = 0.0
            self._under_way = 0
            self._seconds = 0.0

        def on_start(self, event: Any) -> None:
            if self._under_way == 0:
                self._began_at = perf_counter()
            self._under_way += 1
            global _is_announced
            if not _is_announced and self._seconds_so_far() > PATIENCE_SECONDS:
                _is_announced = True
                notice(
                    "Compiling on first use, half a minute on an idle machine; later runs use "
                    "the compiled code ..."
                )

        def on_end(self, event: Any) -> None:
            if self._under_way == 1:
                self._seconds = self._seconds_so_far()
            self._under_way -= 1

        def _seconds_so_far(self) -> float:
            return self._seconds + perf_counter() - self._began_at

    event.register("numba:compile", Listener())  # type: ignore[no-untyped-call]


def record(*columns: str) -> np.dtype[np.void]:
    """Return the dtype of a record; each text is the type of some columns, then their names."""
    named = ((name, kind) for kind, *names in map(str.split, columns) for name in names)
    return np.dtype(list(named), align=True)


Addresses = NDArray[np.int64]
T = TypeVar("T", bound=tuple[Any, ...])


class Layout(Generic[T]):
    """The types of the arrays of a NamedTuple; called in compiled code, it makes the tuple.

    Numba unboxes every array of every call from Python. Twelve arrays take 2 microseconds as twelve
    arguments and 4 as a NamedTuple; as one array of addresses, 0.6. And a compiled caller compiled
    for addresses passes on arrays of any types.

    `named`: the NamedTuple. `dtypes`: the dtype of each of its arrays, which are one-dimensional
    and contiguous.
    """

    def __init__(self, named: type[T], *dtypes: DTypeLike) -> None:
        self._named = named
        self._dtypes = [np.dtype(dtype) for dtype in dtypes]

    def empty(self) -> T:
        return self._named(*(np.zeros(0, dtype=dtype) for dtype in self._dtypes))

    def addresses(self, arrays: T) -> Addresses:
        """Return the address and length of each array; valid for as long as the arrays live."""
        numbers: list[int] = []
        for array, dtype in zip(arrays, self._dtypes, strict=True):
            assert array.dtype == dtype
            assert array.ndim == 1
            assert array.flags.c_contiguous
            numbers += (array.ctypes.data, len(array))
        return np.array(numbers, dtype=np.int64)

    def columns(self, arrays: T) -> T:
        """Return the arrays as `Compiled.plain` reads and writes them: one number fast."""
        every: list[Any] = [
            memoryview(each) if each.dtype.names is None else Columns(each) for each in arrays
        ]
        return self._named(*every)

    def __call__(self, addresses: Addresses | T) -> T:
        """Return the arrays at these addresses; outside compiled code, `columns` as they are."""
        if isinstance(addresses, np.ndarray):
            raise TypeError("a layout finds arrays by their addresses in compiled code only")
        return addresses

    @cached_property
    def numba_type(self) -> Any:
        """The type under which compiled code calls the layout."""
        from numba import from_dtype, types
        from numba.core.cgutils import pack_array
        from numba.core.registry import cpu_target
        from numba.extending import intrinsic
        from numba.np.arrayobj import populate_array

        pack: Any = pack_array
        populate: Any = populate_array
        arrays = [types.Array(from_dtype(dtype), 1, "C") for dtype in self._dtypes]
        made = types.NamedTuple(arrays, self._named)  # type: ignore[no-untyped-call]

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            given = context.make_array(signature.args[0])(context, builder, arguments[0])

            def number(at: int) -> Any:
                place = context.get_constant(types.intp, at)
                return builder.load(builder.gep(given.data, [place]))

            built = []
            for at, (array, dtype) in enumerate(zip(arrays, self._dtypes, strict=True)):
                one = context.make_array(array)(context, builder)
                size = context.get_constant(types.intp, dtype.itemsize)
                fields = {
                    "data": builder.inttoptr(number(2 * at), one.data.type),
                    "shape": pack(builder, [number(2 * at + 1)]),
                    "strides": pack(builder, [size]),
                }
                populate(one, **fields, itemsize=size, meminfo=None)
                built.append(one._getvalue())
            return context.make_tuple(builder, made, built)

        @intrinsic
        def arrays_at(context: Any, addresses: Any) -> Any:
            return made(addresses), build

        context = cpu_target.typing_context
        context.refresh()
        return context.resolve_value_type(arrays_at)


class Columns:
    """An array of records for Python: each column is an attribute, a record is an item."""

    def __init__(self, records: NDArray[np.void]) -> None:
        self._records = records.view(np.recarray)
        for name in records.dtype.names or ():
            column: Any = records[name]
            setattr(self, name, memoryview(column))

    def __getitem__(self, at: int) -> np.record:
        return self._records[at]  # type: ignore[no-any-return]


_INDEX, _CODE = ".nbi", ".nbc"

_folders: set[Path] = set()


def folder() -> Path | None:
    """Return the folder of compiled functions; None if it may not persist for later runs."""
    if not _folders or _temporary_folder.cache_info().currsize:
        return None
    return Path(os.path.commonpath(_folders))


def is_shared() -> bool:
    """Return whether another process of this user finds what this one has compiled."""
    is_own = _temporary_folder.cache_info().currsize and _temporary_folder() != _usual_temporary()
    return bool(_folders) and not is_own


@cache
def sources() -> bytes:
    """Return a digest of all modules in folders with compiled functions.

    A compiled function contains those that it calls, and Numba looks only at its own file: without
    this, code from before a change of theirs would be run. 20 ms, once in a process.
    """
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    folders = {file.parent for file in files if b"njit" in file.read_bytes()}
    texts = (file.read_bytes() for file in files if file.parent in folders)
    return blake2b(b"".join(texts)).digest()


def dispatcher_for(numba: Any, function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return numba's dispatcher for a function, with a cache on disk if the options have one.

    Numba writes to `__pycache__` beside the source, or else to the user's cache folder;
    `NUMBA_CACHE_DIR` overrides both. If it can write to none of them, it gives up. The fallback
    here is a private folder in the folder for temporary files, or else no cache.

    Numba only reads from folders that it can write to. Functions in a read-only folder (compiled
    when an image was built, for example) are therefore copied to a writable one.

    With NUMBA_BOUNDSCHECK, nothing is cached: numba's cache does not tell checked code from other.
    """
    if numba.config.BOUNDSCHECK is not None or not options.get("cache"):
        return numba.njit(**{**options, "cache": False})(function)
    try:
        dispatcher = numba.njit(**options)(function)
    except RuntimeError:  # "no locator available"
        temporary = _temporary_folder()
        if temporary is None:
            return numba.njit(**{**options, "cache": False})(function)
        given, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(temporary)
        try:
            dispatcher = numba.njit(**options)(function)
        finally:
            numba.config.CACHE_DIR = given
    with suppress(AttributeError):  # names that a later version of Numba may change
        index = dispatcher._cache._cache_file
        index._source_stamp = index._source_stamp, sources()
    chosen = Path(dispatcher.stats.cache_path)
    _folders.add(chosen)
    source = Path(inspect.getfile(function))
    _copy(source.parent / "__pycache__", chosen, source.stem)
    if numba.config.CACHE_DIR:
        _copy(Path(numba.config.CACHE_DIR, chosen.name), chosen, source.stem)
    return dispatcher


@cache
def _copy(from_folder: Path, to_folder: Path, module: str) -> None:
    """Copy the compiled functions of a module that are missing in the second folder.

    The index of a function is copied last, so that all files it refers to exist when it is read.
    """
    if from_folder == to_folder:
        return
    with suppress(OSError):
        for index in from_folder.glob(f"{module}.*{_INDEX}"):
            if not (to_folder / index.name).exists():
                codes = from_folder.glob(f"{index.stem}.*{_CODE}")
                for path in (*codes, index):
                    handle, part = tempfile.mkstemp(dir=to_folder)
                    os.close(handle)
                    shutil.copyfile(path, part)
                    os.replace(part, to_folder / path.name)


@cache
def _temporary_folder() -> Path | None:
    """Return a private temporary folder for compiled functions, and announce it; None if none.

    Its content is executed, so nobody else may be able to write to it.
    """
    try:
        folder = _usual_temporary()
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == _user()
        if not is_own or stat.S_IMODE(found.st_mode) & 0o022:
            folder = Path(tempfile.mkdtemp(prefix="crawlprio-"))
    except OSError:
        notice(
            "Compiled code cannot be cached, so every run compiles it again; set NUMBA_CACHE_DIR "
            "to a writable folder."
        )
        return None
    notice(
        f"Neither the package's folder nor the user's cache folder is writable, so compiled code "
        f"is cached in {folder}; set NUMBA_CACHE_DIR to cache it elsewhere."
    )
    return folder


def _usual_temporary() -> Path:
    return Path(tempfile.gettempdir(), f"crawlprio-{_user()}")


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


P = ParamSpec("P")
R = TypeVar("R")

PLAIN_UNTIL = 200_000
"""Number of pages up to which plain Python serves a crawl as well as compiled code.

It takes about 350 bytes more per waiting page, so this many take half the memory of numba, and 0.05
ms more per page, which is negligible beside the 3 ms of stock Scrapy."""

_lock = RLock()
_numba: ModuleType | None = None


def njit(
    *, plain: bool | Callable[..., Any] = False, keeps_arrays: bool = True, **options: Any
) -> Callable[[Callable[P, R]], Compiled[P, R]]:
    """Compile a function with `numba.njit`, deferring the import of numba to the first call.

    Each function is compiled, or loaded from numba's cache, on its first call.

    `plain`: run as Python until numba is loaded for another function; for short loops over arrays,
    in which unsigned integers may wrap around. Or what Python calls instead (`Compiled.plain`):
    a function that returns the same, and sooner. `keeps_arrays`: set to False for a function that
    neither creates nor returns arrays (it may take slices). References to its arrays are then not
    counted, which saves expensive atomic operations. The numba option for this is undocumented;
    versions without it run the function more slowly. `options`: options of `numba.njit`; nearly
    always `cache=True`.
    """
    if not keeps_arrays:
        options["_nrt"] = False
    return lambda function: Compiled(function, options, plain)


class Compiled(Generic[P, R]):
    """A function that numba compiles on its first call; compiled code may call it by this name.

    A call from Python costs 0.2 microseconds more than one of numba's own `dispatcher`.

    `py_func`: the same function in Python. `is_plain`: whether it runs as Python until numba is
    loaded. `targetoptions`: options of `numba.njit`; numba reads them under this name, to inline
    calls.
    """

    def __init__(
        self,
        function: Callable[P, R],
        options: dict[str, Any],
        plain: bool | Callable[P, R] = False,
    ) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.targetoptions = options
        self.is_plain = plain is True
        if callable(plain):
            self.plain = plain
        self._dispatcher: Any = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._dispatcher is None and self.is_plain and _numba is None:
            return self.plain(*args, **kwargs)
        return (self._dispatcher or self.dispatcher)(*args, **kwargs)  # type: ignore[no-any-return]

    @cached_property
    def plain(self) -> Callable[P, R]:
        """The function in Python, in which other compiled functions are called in Python too."""
        if self.is_plain:
            return np.errstate(over="ignore")(self.py_func)
        given: Any = self.py_func
        names = _names_of(given.__module__, given.__globals__)
        return FunctionType(
            given.__code__, names, given.__name__, given.__defaults__, given.__closure__
        )

    @property
    def is_ready(self) -> bool:
        """Whether it was called as compiled code before."""
        return self._dispatcher is not None

    @property
    def dispatcher(self) -> Any:
        """Numba's dispatcher of the function; loads numba."""
        load()
        with _lock:
            if self._dispatcher is None:
                from numba.core.cpu import CPUTargetOptions

                if not hasattr(CPUTargetOptions, "_nrt"):
                    self.targetoptions.pop("_nrt", None)
                self._dispatcher = dispatcher_for(_numba, self.py_func, self.targetoptions)
        return self._dispatcher


_plain_names: dict[str, dict[str, Any]] = {}


def _names_of(module: str, usual: dict[str, Any]) -> dict[str, Any]:
    """Return the global names of a module for its functions in Python."""
    names = _plain_names.get(module)
    if names is None:
        names = _plain_names[module] = dict(usual)  # before the others: they may call each other
        for name, value in usual.items():
            if isinstance(value, Compiled):
                names[name] = value.plain
    return names


def plain_until() -> int:
    """Return the number of pages up to which to use plain Python: 0 if numba is already loaded."""
    return PLAIN_UNTIL if _numba is None else 0


def load() -> None:
    """Import numba; let it see dispatchers in place of `Compiled`, and intrinsics of `Layout`."""
    global _numba
    with _lock:
        if _numba is not None:
            return
        set_log_level("numba")
        _import_numba()
        import numba
        from numba.extending import typeof_impl

        typeof_impl.register(Compiled)(
            lambda function, context: numba.types.Dispatcher(function.dispatcher)
        )
        typeof_impl.register(Layout)(lambda layout, context: layout.numba_type)
        announce_compiling()
        _numba = numba


_NOT_IMPORTED = {"yaml": "numba.core.config", "scipy.linalg.cython_blas": "numba.np.linalg"}


def _import_numba() -> None:
    """Import numba such that it never reads settings from the working folder, and without SciPy.

    Settings in `.numba_config.yaml` in the working folder apply, whoever put it there, and one of
    them names the folder that compiled code is loaded from. Numba reads the file with PyYAML, on
    import and again whenever it compiles; here every file is empty to it. It imports SciPy only to
    see that it is there, a quarter of the time to load a crawl's code, and again to call it.
    """
    empty = SimpleNamespace(safe_load=lambda file: None)
    usual = builtins.__import__

    def without(name: str, globals: Any = None, *others: Any, **named: Any) -> Any:
        if _NOT_IMPORTED.get(name) == (globals or {}).get("__name__", ""):
            return empty
        return usual(name, globals, *others, **named)

    builtins.__import__ = without
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        builtins.__import__ = usual


def dispatcher_of(function: Callable[P, R]) -> Callable[P, R]:
    """Return numba's dispatcher once it is loaded, else the function: hot loops skip a wrapper."""
    if isinstance(function, Compiled) and _numba is not None:
        function = function.dispatcher
    return function
