"""The arguments of an FX call in the form that converters take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from lowering.errors import Unsupported
from lowering.fold.function_converters import MEANINGLESS
from lowering.fold.refused_arguments import require_taken
from lowering.fold.registry import Entry
from lowering.records.types import DTYPES


def call_arguments(
    target: Any, found: Entry, args: tuple[Any, ...], kwargs: Mapping[str, Any], expected: Any
) -> tuple[list[Any], dict[str, Any]]:
    """(positional, keyword) arguments for a converter: those it names, torch dtypes as element types.

    Raises Unsupported where an argument that the converter does not name was given a value that is not its default, and
    LoweringError where eager refuses the arguments.
    """
    require_taken(target, args, kwargs)
    schema = target._schema.arguments if hasattr(target, "_schema") else ()
    positional: list[Any] = []
    keyword: dict[str, Any] = {}
    skipped = False
    for index, value in enumerate(args):
        name = schema[index].name if index < len(schema) else ""
        if not skipped and (not name or name in found.names or found.takes_rest):
            positional.append(plain(value))
        elif name in found.names or found.takes_all:
            keyword[name] = plain(value)
        else:
            refuse_unless_default(target, schema[index], value)
            skipped = True
    for name, value in kwargs.items():
        if name in found.names or found.takes_all:
            keyword[name] = plain(value)
        elif name not in MEANINGLESS:
            argument = next((a for a in schema if a.name == name), None)
            refuse_unless_default(target, argument, value)
    if found.wants_expected:
        keyword["expected"] = expected
    return positional, keyword


def refuse_unless_default(target: Any, argument: Any, value: Any) -> None:
    """Raises Unsupported for an argument with a meaning that the converter does not know."""
    if argument is None or argument.name in MEANINGLESS or value is None:
        return
    if argument.has_default_value() and argument.default_value == value:
        return
    raise Unsupported(f"the converter of {target} knows no argument {argument.name}={value!r}")


def plain(value: Any) -> Any:
    """A dtype as irkit's, a list of arguments likewise; everything else as it is."""
    if isinstance(value, torch.dtype):
        return DTYPES[value]
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


SUMS = frozenset(f"aten::{name}" for name in "sum nansum prod cumsum cumprod".split())
"""Operators that compute in the element type of what is given as `out`."""


def summed_as(func: Any, named: Mapping[str, Any], dtype: torch.dtype) -> dict[str, torch.dtype]:
    """The element type in which an operator computes what it writes into an `out` of that type; none where that is the
    result's own."""
    return {"dtype": dtype} if func._schema.name in SUMS and named.get("dtype") is None else {}
