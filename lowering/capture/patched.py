"""`patched`: a block in which functions of a model's libraries are others, each undone behind it, and told of.

What irkit itself patches stands in `lowering.capture.patches.table`; this is for replacements of the user's, and for
those who call torch.export themselves and want irkit's.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import runpy
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Any

import attrs

from irkit.support.counts import count_text
from lowering.capture.patches.table import LOCK, TABLE, Occasion
from lowering.capture.patches.zero_questions import user_frame
from lowering.errors import CaptureError
from lowering.records.pytrees import Registrations, is_cache_type
from lowering.records.torch_internals import ShapeEnv


@attrs.frozen
class Replacement:
    """Another function in the place of one: `where` is its dotted path (`package.module.Class.method`), looked up when
    the block begins; `why` is for the report. `new` is called as the old one was; a `staticmethod`, `classmethod` or
    `property` stays one."""

    where: str
    new: Any
    why: str = ""


@attrs.frozen
class Replaced:
    """What became of a replacement: how often its function was called, and, where it could not be made, why not."""

    where: str
    why: str
    calls: int
    missing: str = ""
    diff: str = attrs.field(default="", repr=False)

    def __str__(self) -> str:
        state = (
            f"not made: {self.missing}"
            if self.missing
            else f"called {count_text(self.calls, 'time')}"
            if self.calls
            else "unused"
        )
        return f"{self.where}: {state}" + (f" ({self.why})" if self.why else "")


class Patching:
    """What a block of `patched` tells, while it lasts and afterwards: `report`, a row for each replacement."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._rows: list[tuple[Replacement, str, str]] = []

    @property
    def report(self) -> tuple[Replaced, ...]:
        """A row for each replacement, in order."""
        return tuple(
            Replaced(each.where, each.why, self._counts.get(i, 0), missing, diff)
            for i, (each, missing, diff) in enumerate(self._rows)
        )

    def __str__(self) -> str:
        return "\n".join(map(str, self.report)) or "nothing is patched"

    def note(self, each: Replacement, missing: str = "", diff: str = "") -> int:
        """The number under which calls of a replacement are counted."""
        self._rows.append((each, missing, diff))
        return len(self._rows) - 1

    def count(self, number: int) -> None:
        """Counts a call."""
        self._counts[number] = self._counts.get(number, 0) + 1


def replacements_of(given: Any) -> tuple[Replacement, ...]:
    """The replacements that are meant: one, or a class with `_PATCHES_`, the names of its methods that take the place
    of those of `_PATCHED_CLASS_`, as onnx-diagnostic writes them. Raises CaptureError for anything else."""
    if isinstance(given, Replacement):
        return (given,)
    names, owner = getattr(given, "_PATCHES_", None), getattr(given, "_PATCHED_CLASS_", None)
    if not isinstance(given, type) or names is None or not (owner is None or isinstance(owner, str | type)):
        raise CaptureError(
            f"{given!r} is no patch",
            hint="give a lowering.Replacement, or a class with _PATCHES_ (names) and _PATCHED_CLASS_",
        )
    if owner is None:  # the library does not have the class
        return ()
    path = owner if isinstance(owner, str) else f"{owner.__module__}.{owner.__qualname__}"
    why = (inspect.getdoc(given) or "").partition("\n")[0]
    return tuple(Replacement(f"{path}.{name}", inspect.getattr_static(given, name), why) for name in names)


@contextmanager
def patched(
    *patches: Any,
    classes: Iterable[type] | bool = True,
    torch_export: bool = False,
    stop_if_static: int = 0,
    dump: str | Path | None = None,
) -> Iterator[Patching]:
    """A block in which patches are in place.

    Args:
        patches: each a `Replacement`, or a class with `_PATCHES_` and `_PATCHED_CLASS_`. One whose place is not there
            (another version of a library) is left out, and said to be.
        classes: classes that torch's pytree shall know for the time of the block; True for all caches and outputs of
            the transformers that is imported, False for none.
        torch_export: make irkit's own patches of torch as well, for a `torch.export.export` in the block.
        stop_if_static: 1 raises CaptureError, with the model's line, where torch.export fixes a dimension that shall
            vary; 2 also where it makes two of them one.
        dump: a folder for a diff of each replacement.

    Gives a `Patching`: `print(it)` says what was replaced, why, and how often it was called. Blocks may be nested, and
    everything is undone behind each, after an error too. Raises CaptureError for what is no patch, before anything is
    replaced. One thread at a time is in such a block.
    """
    wanted = [each for given in patches for each in replacements_of(given)]
    done = Patching()
    kinds = known_classes() if classes is True else () if classes is False else tuple(classes)
    with LOCK, ExitStack() as blocks:
        if kinds:
            registered = blocks.enter_context(Registrations())
            for kind in kinds:
                registered.add(kind)
        if torch_export:
            occasion = Occasion("torch.export")
            for patch in TABLE:
                if patch.when(occasion):
                    blocks.enter_context(patch.block(occasion))
        if stop_if_static:
            blocks.enter_context(stopping_at_numbers(stop_if_static))
        for each in wanted:
            blocks.enter_context(replaced(each, done))
        if dump is not None:
            write_diffs(done, Path(dump))
        yield done


def known_classes() -> tuple[type, ...]:
    """The caches and outputs of models (`ModelOutput`) of the libraries that are imported already."""
    found: dict[type, None] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("transformers", "diffusers") and module is not None:
            for each in list(vars(module).values()):
                if isinstance(each, type) and (is_cache_type(each) or is_output(each)):
                    found.setdefault(each)
    return tuple(found)


def is_output(kind: type) -> bool:
    """Whether a class is an output of a model of transformers or diffusers, by the names of its bases."""
    return any(base.__name__ in ("ModelOutput", "BaseOutput") for base in kind.__mro__[1:])


def patch_named(text: str) -> Any:
    """The patch that a text names: `package.module:name`, or `folder/file.py:name`. Raises CaptureError where there is
    none."""
    where, _, name = text.rpartition(":")
    hint = "write package.module:name or folder/file.py:name, of a Replacement or a class with _PATCHES_"
    if not where:
        raise CaptureError(f"{text!r} names no patch", hint=hint)
    try:
        held = runpy.run_path(where) if where.endswith(".py") else vars(importlib.import_module(where))
    except (ImportError, OSError) as error:
        raise CaptureError(f"{where} cannot be read: {error}", hint=hint) from error
    if name not in held:
        raise CaptureError(f"{where} has no {name}", hint=hint)
    return held[name]


# ---------------------------------------------------------------------------------------------- one replacement


@contextmanager
def replaced(each: Replacement, done: Patching) -> Iterator[None]:
    """A block in which one function is another, if its place is there."""
    try:
        owner, name = place_of(each.where)
    except LookupError as error:
        done.note(each, missing=str(error))
        yield
        return
    own = name in vars(owner)
    before = inspect.getattr_static(owner, name)
    number = done.note(each, diff=diff_of(before, each))
    setattr(owner, name, counting(each.new, before, lambda: done.count(number)))
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


def place_of(path: str) -> tuple[Any, str]:
    """(what holds the function, its name there). Raises LookupError where there is none."""
    parts = path.split(".")
    for size in range(len(parts) - 1, 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:size]))
        except ImportError:
            continue
        for i, name in enumerate(parts[size:], size):
            if not hasattr(owner, name):
                raise LookupError(f"{'.'.join(parts[:i])} has no {name}")
            if i + 1 < len(parts):
                owner = getattr(owner, name)
        return owner, parts[-1]
    raise LookupError(f"there is no module {parts[0]}")


def counting(new: Any, before: Any, count: Callable[[], None]) -> Any:
    """The new function, of the old one's kind, told of when it is called."""
    if isinstance(new, property):
        return property(counting(new.fget, None, count), new.fset, new.fdel, new.__doc__)
    function = new.__func__ if isinstance(new, staticmethod | classmethod) else new
    if not callable(function):
        return new

    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        count()
        return function(*args, **kwargs)

    if isinstance(new, staticmethod | classmethod):
        return type(new)(counted)
    if isinstance(before, staticmethod | classmethod):
        return type(before)(counted)
    return property(counted) if isinstance(before, property) else counted


def diff_of(before: Any, each: Replacement) -> str:
    """A unified diff of two functions; empty where the source of either is not at hand."""
    try:
        old, new = (textwrap.dedent(inspect.getsource(unwrapped(f))).splitlines(True) for f in (before, each.new))
    except (OSError, TypeError):
        return ""
    return "".join(unified_diff(old, new, each.where, "replacement"))


def unwrapped(function: Any) -> Any:
    """The plain function in a method or property."""
    if isinstance(function, property):
        return function.fget
    return function.__func__ if isinstance(function, staticmethod | classmethod) else function


def write_diffs(done: Patching, folder: Path) -> None:
    """A file with the diff of each replacement that was made."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in done.report:
        if each.diff:
            (folder / f"{each.where}.diff").write_text(each.diff, encoding="utf-8")


# ---------------------------------------------------------------------------------------------- fixed dimensions


def stopping_at_numbers(level: int) -> AbstractContextManager[None]:
    """A block in which torch raises where it fixes a dimension. Raises CaptureError for an unknown level."""
    if level not in (1, 2):
        raise CaptureError(f"stop_if_static is {level!r}", hint="give 1, or 2 for dimensions that become one, too")
    return stopping(level)


@contextmanager
def stopping(level: int) -> Iterator[None]:
    """`stopping_at_numbers`, the level being one of both."""
    before = ShapeEnv._set_replacement

    def watched(env: Any, symbol: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        fixed = target.is_number
        known = env.replacements.get(symbol) == target
        if not known and symbol in env.backed_var_to_val and (fixed or level > 1):
            sources = env.var_to_sources.get(symbol, ())
            name = sources[0].name if sources else str(symbol)
            name = name() if callable(name) else name
            what = f"is fixed as {target}" if fixed else f"is made one with {target}"
            frame = user_frame(sys._getframe(1))
            line = "" if frame is None else f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"
            raise CaptureError(f"the dimension {name} {what}", source=line, hint="what this line does lets it not vary")
        return before(env, symbol, target, *args, **kwargs)

    ShapeEnv._set_replacement = watched  # type: ignore[method-assign]
    try:
        yield
    finally:
        ShapeEnv._set_replacement = before
