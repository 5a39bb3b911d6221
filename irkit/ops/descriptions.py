"""What `help(op.Softmax)` shows: the signature of a constructor and ONNX's own words, from the schema."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import onnx.defs

from irkit.errors import TypeRuleError
from irkit.ops.schemas import OPSET, OpSpec, spec, split_domain


def describe_constructor(function: Callable[..., Any], name: str, op: str) -> Callable[..., Any]:
    """A new function, with the name, signature and docstring of an operator's constructor, as far as it is known."""
    function.__name__ = function.__qualname__ = name
    try:
        row = spec(op)
    except TypeRuleError:  # it is told where the function is called, with the names that are near
        return function
    function.__signature__ = signature_of(row)
    function.__doc__ = doc_of(op)
    return function


def signature_of(row: OpSpec) -> inspect.Signature:
    """The parameters of a constructor: operands by position, attributes and the number of results by name."""
    kinds = inspect.Parameter
    # An optional operand before one that must be given has no default: None is written in its place.
    needed = max((i for i, f in enumerate(row.inputs) if f.option not in ("optional", "variadic")), default=-1)
    operands = [
        kinds(f.name, kinds.VAR_POSITIONAL)
        if f.option == "variadic"
        else kinds(f.name, kinds.POSITIONAL_ONLY, default=None if i > needed else kinds.empty)
        for i, f in enumerate(row.inputs)
    ]
    attributes = [
        kinds(a.name, kinds.KEYWORD_ONLY, default=kinds.empty if a.required else a.default)
        for a in row.attributes.values()
    ]
    outputs = [kinds("outputs", kinds.KEYWORD_ONLY, default=None)] if row.max_outputs > 1 else []
    return inspect.Signature([*operands, *attributes, *outputs])


def doc_of(op: str) -> str:
    """ONNX's description of an operator; that of ONNX Runtime's own says where it comes from."""
    domain, name = split_domain(op)
    if not onnx.defs.has(name, domain):
        return f"{op}, an operator of ONNX Runtime's own."
    schema = onnx.defs.get_schema(name, OPSET if domain == "" else 1_000, domain)
    title = f"ONNX's {name}, as of opset {schema.since_version}."
    return f"{title}\n\n{textwrap.dedent(schema.doc or '').strip()}"
