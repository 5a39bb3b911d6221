"""The row of an operator, read off the parameters of a Python function: operands stand by position, attributes by name.

    def silu(x, *, alpha: float = 1.0): ...

An operand whose default is None may be left out; `*xs` stands for any number of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast, get_args, get_origin

import numpy as np

from irkit.core.attributes import kind_held
from irkit.core.blobs import Blob
from irkit.core.types import DType
from irkit.errors import TypeRuleError
from irkit.ops.schemas import TYPE_STRINGS, AttributeSpec, Formal, OpSpec, split_domain
from irkit.pattern.predicates import typed_predicate

MANY = (1 << 31) - 1
"""The number of operands that ONNX writes for any number of them."""

KINDS: Mapping[str, str] = {
    "bool": "INT", "int": "INT", "float": "FLOAT", "str": "STRING", "ndarray": "TENSOR", "Blob": "TENSOR",
}  # fmt: skip
"""The kind of an attribute by the type of Python that it has."""

LISTS: Mapping[str, str] = {"INT": "INTS", "FLOAT": "FLOATS", "STRING": "STRINGS"}
"""The kind of several attributes."""

Dtypes = Mapping[str, DType | str | Iterable[DType | str]]
"""By operand, what its element type may be: "f32", a word such as "float", several; or the name of another operand,
whose element type it has."""


def row_of_function(
    name: str, function: Callable[..., object], dtypes: Dtypes, results: Sequence[str], version: int
) -> OpSpec:
    """The row of an operator whose operands and attributes are those of a function. Raises TypeRuleError for parameters
    that are neither, and for element types of what is no operand."""
    formals: list[Formal] = []
    attributes: dict[str, AttributeSpec] = {}
    least = most = 0
    for each in inspect.signature(function).parameters.values():
        if each.kind is inspect.Parameter.KEYWORD_ONLY:
            attributes[each.name] = attribute_of(name, each)
        elif each.kind is inspect.Parameter.VAR_KEYWORD:
            raise TypeRuleError(f"{name}: **{each.name} names no attribute", hint="list them: (x, *, alpha=1.0)")
        elif each.kind is inspect.Parameter.VAR_POSITIONAL:
            formals.append(Formal(each.name, each.name, "variadic"))
            most = MANY
        elif each.default is None:
            formals.append(Formal(each.name, each.name, "optional"))
            most += 1
        elif each.default is inspect.Parameter.empty:
            formals.append(Formal(each.name, each.name, "single"))
            most += 1
            least = most
        else:
            raise TypeRuleError(
                f"{name}: the operand {each.name} has the default {each.default!r}",
                hint=f"an attribute stands behind a star: (..., *, {each.name}={each.default!r}); the default of an "
                "operand that may be left out is None",
            )
    tied, types = type_variables(name, formals, dtypes)
    outputs = tuple(Formal(each, f"type of {each}", "single") for each in results)
    anything = {f.type: ANYTHING for f in outputs}
    domain, short = split_domain(name)
    return OpSpec(
        short,
        domain,
        version,
        tied,
        outputs,
        attributes,
        {**types, **anything},
        least,
        most,
        len(results),
        len(results),
    )


ANYTHING = frozenset(TYPE_STRINGS.values())
"""Every tensor type."""


def type_variables(
    name: str, formals: Sequence[Formal], dtypes: Dtypes
) -> tuple[tuple[Formal, ...], Mapping[str, frozenset[str]]]:
    """The operands, of which those that have one element type share a variable, and what each variable may be."""
    known = [f.name for f in formals]
    if not isinstance(cast(object, dtypes), Mapping):
        raise TypeRuleError(
            f"{name}: dtypes is {dtypes!r}, and must say which operand is of which element types",
            hint=f'dtypes={{"{known[0] if known else "x"}": "float"}}',
        )
    other = next((each for each in dtypes if each not in known), None)
    if other is not None:
        raise TypeRuleError(
            f"{name} has no operand {other!r}, of which the element type is given",
            hint=f"its operands are {', '.join(known) or 'none'}",
        )
    found: list[Formal] = []
    types: dict[str, frozenset[str]] = {}
    for formal in formals:
        wanted = dtypes.get(formal.name)
        like = wanted if isinstance(wanted, str) and wanted in known else None
        variable = f"type of {like or formal.name}"
        variable = next((f.type for f in found if f.name == like), variable)
        found.append(Formal(formal.name, variable, formal.option))
        if like is None:
            typed = None if wanted is None else typed_predicate(wanted, None, None)
            allowed = frozenset(DType) if typed is None or not typed.dtypes else typed.dtypes
            types[variable] = frozenset(TYPE_STRINGS[d] for d in allowed)
    return tuple(found), types


def attribute_of(name: str, given: inspect.Parameter) -> AttributeSpec:
    """The attribute that a parameter is: its kind is that of its annotation, or else of its default."""
    default = None if given.default is inspect.Parameter.empty else given.default
    kind = kind_of_annotation(given.annotation) or kind_of_default(default)
    if not kind:
        raise TypeRuleError(
            f"{name}: nothing says of what kind the attribute {given.name} is",
            hint=f"annotate it: {given.name}: int, float, str, tuple[int, ...] or np.ndarray; or give it a default",
        )
    try:
        held = None if default is None else kind_held(kind, given.name, default)
    except (TypeError, ValueError, KeyError) as error:
        raise TypeRuleError(
            f"{name}: the default of the attribute {given.name}, {default!r}, is not of kind {kind}",
            hint="give a default of the type that the annotation says",
        ) from error
    return AttributeSpec(given.name, kind, given.default is inspect.Parameter.empty, held)


def kind_of_annotation(annotation: object) -> str:
    """The kind of attribute that an annotation says: "FLOAT" for float, "INTS" for tuple[int, ...]; "" for none."""
    if annotation is inspect.Parameter.empty:
        return ""
    if isinstance(annotation, str):  # of a module that postpones annotations
        first, _, inner = annotation.partition("[")
        word = inner.partition(",")[0].strip(" ]") if inner else first
        kind = KINDS.get(word.partition("|")[0].strip().rpartition(".")[2], "")
        return LISTS.get(kind, "") if inner and first.strip() != "Optional" else kind
    if get_origin(annotation) in (tuple, list, Sequence):
        return LISTS.get(kind_of_annotation(next(iter(get_args(annotation)), None)), "")
    parts = get_args(annotation)
    word = annotation if not parts else next((p for p in parts if p is not type(None)), None)
    return KINDS.get(getattr(word, "__name__", ""), "")


def kind_of_default(default: object) -> str:
    """The kind of attribute that a default is; "" for what is none."""
    if isinstance(default, list | tuple):
        parts = cast("Sequence[object]", default)
        return LISTS.get(kind_of_default(parts[0]), "") if parts else ""
    if isinstance(default, np.ndarray | Blob):
        return "TENSOR"
    return KINDS.get(type(default).__name__, "")
