"""`irkit.operator`: an operator of one's own, made of a function of values that says what it is."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Sequence
from functools import partial

import attrs

from irkit.dialects.adapters import Function, computed_by, defined_by, ruled_by, run_by_library
from irkit.dialects.fingerprints import fingerprint
from irkit.dialects.schemas import Dtypes, row_of_function
from irkit.dialects.scripts import functions_in, row_of_proto, script_call
from irkit.errors import TypeRuleError
from irkit.nodes.operators import Operator
from irkit.ops.runtime_table import CONTRIB
from irkit.ops.schemas import OpSpec, split_domain
from irkit.support.arguments import brief

TAKEN = frozenset(("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training", CONTRIB, "irkit"))
"""Domains whose operators others define."""


def operator(
    name: str,
    *,
    type_rule: Function | None = None,
    dtypes: Dtypes | None = None,
    results: Sequence[str] = ("y",),
    kernel: Function | None = None,
    sample: Function | None = None,
    library: str = "",
    version: int = 1,
) -> Callable[[object], Operator]:
    """A decorator that makes an operator of the function that defines it, in other operators.

        @irkit.operator("mylib::Silu", dtypes={"x": "float"})
        def silu(x, *, alpha: float = 1.0):
            \"\"\"x * sigmoid(alpha * x)\"\"\"
            return op.Mul(x, op.Sigmoid(op.Mul(x, alpha)))

    `silu(x, alpha=2.0)` builds a value of it, which knows its operator: nothing is registered.

    The function's positional parameters are the operands (one with the default None may be left out, `*xs` are any
    number), its parameters behind the star the attributes, of the kind of their annotation or default. It gets values
    and attributes, and gives a value, or a tuple of them. A function without a body (`...`) says no more than these:
    the operator has no definition then, and needs a `type_rule`. In the place of a function may stand a FunctionProto
    of ONNX, or a function of onnxscript.

    Args:
        name: the operator's name, in a domain of your own: "mylib::Silu".
        type_rule: a function of the same operands, of which it reads `type`, `shape` and `dtype`, and attributes, to
            the type of the result, or a tuple of types. With a definition beside it they are held against each other.
        dtypes: by operand, what its element type may be: "f32", a word ("float", "integer"), several of these; or the
            name of another operand, whose element type it has. Any, for operands that are not listed.
        results: the names of the results.
        kernel: a function of the same operands, as arrays, and attributes, to arrays; without it the definition is
            evaluated, and without that the `library` asked.
        sample: a function of an `irkit.checking.samples.sampler.Sampler` to operands, or a tuple of them, of which a
            last dict holds attributes. Without it they are drawn as the schema says.
        library: the path of a library of custom operators, by which ONNX Runtime computes it without its definition.
        version: of the operator, which is that of its domain in files; a file of an older version is not read as this.

    Raises TypeRuleError for a name in no domain of yours, for parameters that are neither operands nor attributes, for
    a kernel or type rule that takes others, and for an operator of which nothing says the type.
    """
    check_name(name)
    names = tuple(results)
    if isinstance(results, str) or not names or not all(isinstance(n, str) and n for n in names):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeRuleError(f"{name}: results is {brief(results)}", hint='give a tuple of names: ("y", "mean")')
    if type(version) is not int or version < 1:
        raise TypeRuleError(f"{name}: version is {version!r}", hint="versions are counted from 1")

    asked = Asked(name, type_rule, dtypes or {}, names, kernel, sample, library, version)
    return partial(operator_defined_by, asked)


@attrs.frozen(eq=False)
class Asked:
    """What `operator` was given."""

    name: str
    type_rule: Function | None
    dtypes: Dtypes
    results: tuple[str, ...]
    kernel: Function | None
    sample: Function | None
    library: str
    version: int


def operator_defined_by(asked: Asked, function: object) -> Operator:
    """The operator that a function defines, of values, of ONNX or of onnxscript."""
    name, script = asked.name, functions_in(function)
    if script:
        row = row_of_proto(name, script[0], asked.version, asked.dtypes)
        definition, doc, place = script_call(script), script[0].doc_string, ("",)
    elif not callable(function):
        raise TypeRuleError(f"{name}: {brief(function)} defines nothing", hint="decorate a function of values")
    else:
        row = row_of_function(name, function, asked.dtypes, asked.results, asked.version)
        definition = None if is_stub(function) else defined_by(function)
        doc = inspect.getdoc(function) or ""
        place = (function.__module__, *getattr(function, "__qualname__", "").split("."))
    if definition is None and asked.type_rule is None:
        raise TypeRuleError(
            f"{name}: nothing says the types of its results", hint="give it a type_rule=, or a definition"
        )
    for what, given in (("kernel", asked.kernel), ("type rule", asked.type_rule)):
        if given is not None:
            check_parameters(name, what, given, row)
    key = f"{name}#{fingerprint(row, script or function, asked.type_rule, asked.kernel, asked.library)}"
    typing = None if asked.type_rule is None else ruled_by(asked.type_rule)
    computed = None if asked.kernel is None else computed_by(asked.kernel)
    if computed is None and definition is None and asked.library:
        computed = run_by_library
    return Operator(name, definition, typing, computed, asked.sample, asked.library, row, key, place, doc)


def check_name(name: object) -> None:
    """Raises TypeRuleError for what no operator of one's own can be called."""
    if not isinstance(name, str):
        raise TypeRuleError(f"{brief(name)} is not an operator's name", hint='write @irkit.operator("mylib::Silu")')
    domain, short = split_domain(name)
    if domain in TAKEN or not short or "::" in domain:
        whose = "has no domain of its own" if not domain or not short else f"stands in {domain}, which is others'"
        raise TypeRuleError(f"the operator {name!r} {whose}", hint=f"call it mylib::{short or 'Silu'}")


def check_parameters(name: str, what: str, function: Function, row: OpSpec) -> None:
    """Raises TypeRuleError where a function does not take the operands and the attributes of an operator."""
    if not callable(function):
        raise TypeRuleError(f"{name}: its {what} is {brief(function)}", hint="give a function")
    try:
        signature = inspect.signature(function)
    except ValueError:  # of numpy's own functions some say none
        return
    operands = [0] * (len(row.inputs) if row.max_inputs == len(row.inputs) else len(row.inputs) + 1)
    try:
        signature.bind(*operands, **dict.fromkeys(row.attributes, 0))
    except TypeError as error:
        given = ", ".join((*(f.name for f in row.inputs), *(f"{n}=" for n in row.attributes)))
        raise TypeRuleError(
            f"{name}: its {what} does not take what the operator does: {error}", hint=f"it is called with ({given})"
        ) from error


def is_stub(function: Function) -> bool:
    """True for a function that does nothing: of which the body is `...`, or words alone."""
    if not inspect.isfunction(function):
        return False
    plain = {"RESUME", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "NOP"}
    steps = list(dis.get_instructions(function))
    constants = [step.argval for step in steps if step.opname in ("LOAD_CONST", "RETURN_CONST")]
    return all(step.opname in plain for step in steps) and constants == [None]
