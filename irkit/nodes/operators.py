"""Operators that are defined by others: ONNX Runtime's own, and those of the user's dialects.

An `Operator` is a value that holds all that there is to know of one. What follows from a definition stands here: the
type rule, the body for operands of some types, the values to put in its place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Any, cast

import attrs

from irkit import dims
from irkit.core.attributes import Attributes
from irkit.core.ir import Graph, Value, param
from irkit.core.operator_names import Dialects, OperatorName, named_in
from irkit.core.types import DType, Tensor, Type, dims_of, map_dims, same_types
from irkit.dims import Dim
from irkit.errors import TypeRuleError
from irkit.nodes import construct
from irkit.nodes.applications import LACKING, Application, Sizes, bound_sizes
from irkit.ops.descriptions import signature_of
from irkit.ops.schemas import OpSpec, known_row, split_domain
from irkit.ops.types.contents import contents
from irkit.ops.types.context import Context
from irkit.support.arguments import brief
from irkit.support.counts import count_text
from irkit.support.results import as_tuple

Definition = Callable[..., Any]
"""From an Application and its operands, None where one is left out, to a value, or a tuple of values: those that are
asked for at least."""

TypeRule = Callable[[Context], Any]
"""From an application without a type to its type, or a tuple of types, one for each result."""

Table = Mapping[str, "Operator"]
"""Operators by name, with the domain: what a dialect is."""

MOST = 16
"""Integer operands of more elements are not looked into by a type rule."""


class _Described(str):
    """What is told of a class, and of each instance of it."""

    def __get__(self, instance: Operator | None, owner: type) -> str:
        return str(self) if instance is None else f"{instance!r}\n\n{instance.doc}".rstrip()


@attrs.frozen(eq=False, repr=False)
class Operator:
    """An operator with its meaning. Immutable; compared by identity: another one of the same name is another operator.

    Calling it builds a value, as `irkit.op` does for ONNX's: operands by position, attributes by name. `irkit.operator`
    makes one.

    Attributes:
        text: its name, with the domain: "mylib::Silu".
        definition: what it is in other operators, as a function of an Application and of operands; or None.
        typing: the type rule that was given; without one the definition says the types.
        kernel: what computes it in the evaluator, as a function of the node and of arrays; without one the definition
            is evaluated.
        sample: what makes an instance of it, for fuzzing and checks (see `irkit.checking.samples.sampler`).
        library: the path of a library of custom operators, with which ONNX Runtime runs it.
        schema: its row; None for one that irkit has a row of.
        key: what tells it from other operators of its name; "" for one that irkit knows by its name.
        place: the module, and the name in it, under which pickle finds it.
    """

    __doc__ = _Described(__doc__)

    text: str
    definition: Definition | None = None
    typing: TypeRule | None = None
    kernel: Callable[..., Any] | None = None
    sample: Callable[[Any], Any] | None = None
    library: str = ""
    schema: OpSpec | None = None
    key: str = ""
    place: tuple[str, ...] = ("",)
    doc: str = ""

    @property
    def name(self) -> str:
        """What `Value.op` is for a value of it: a text that knows this operator."""
        return self._name

    @cached_property
    def _name(self) -> str:
        return OperatorName(self.text, self.key, self) if self.key else self.text

    @property
    def row(self) -> OpSpec:
        """Its operands, attributes, results, and what their types may be."""
        return self.schema or known_row(self.text)

    @property
    def domain(self) -> str:
        """What stands before the `::` of its name."""
        return split_domain(self.text)[0]

    @property
    def __signature__(self) -> inspect.Signature:
        return signature_of(self.row)

    def __call__(self, *operands: Any, outputs: int | None = None, **attributes: Any) -> Any:
        """The operator applied to operands: a Value, or a tuple of Values where it has several results.

        Raises TypeRuleError where its schema, type rule or definition refuses them."""
        return construct.call(self.name, operands, attributes, outputs=outputs, row=self.row, rule=self.rule)

    def __repr__(self) -> str:
        return f"{self.text}{shown_signature(self.row)}"

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        if found_operator(*self.place) is self:
            return found_operator, self.place
        raise TypeError(
            f"the operator {self.text} cannot be pickled: nothing at the top of the module {self.place[0]!r} is it; "
            "define it there, or write the graph as text or ONNX"
        )

    def rule(self, context: Context) -> Any:
        """Its type rule: the types of the results, of which what was given and what the definition says must agree.

        Raises TypeRuleError for operands that it refuses, and where they do not."""
        if self.definition is None:
            return as_tuple(cast(TypeRule, self.typing)(context))
        found = inferred_types(self, context)
        if self.typing is None:
            return found
        given: tuple[Any, ...] = as_tuple(self.typing(context))
        if len(given) != len(found) or any(same_types(a, b) is False for a, b in zip(given, found, strict=True)):
            said, made = (", ".join(map(repr, types)) for types in (given, found))
            raise context.fail(
                f"its type rule says {said}, and its definition makes {made}",
                hint="mend one of them; without a type rule the definition says the types",
            )
        return given


def found_operator(module: str, *names: str) -> Any:
    """What a module has under a name, or in a table of it; None where there is nothing."""
    found: Any = import_module(module)
    for name in names:
        found = held_under(found, name)
    return found


def held_under(holder: Any, name: str) -> Any:
    """What a module, a class or a table has under a name; None where there is nothing."""
    return cast("Mapping[str, Any]", holder).get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def shown_signature(row: OpSpec) -> str:
    """The parameters of an operator, as Python writes them; how many results are asked for only where that is open."""
    text = str(signature_of(row)).replace("/, ", "").replace(", /)", ")")
    return text.replace("*, outputs=None)", ")").replace(", outputs=None)", ")") if is_fixed(row) else text


def is_fixed(row: OpSpec) -> bool:
    """True for an operator that always has as many results."""
    return row.min_outputs == row.max_outputs


def operator_of(op: str) -> Operator | None:
    """The operator that a name knows; None for a plain name."""
    return cast(Operator, op.operator) if type(op) is OperatorName else None


def operators_in(dialects: Dialects) -> Table:
    """The operators of several dialects, by name; raises as `named_in` does."""
    return cast("Table", named_in(dialects))


# ---------------------------------------------------------------------------------------------- by definition


def defined_results(
    operator: Operator, inputs: Sequence[Value | None], attributes: Attributes, outputs: int, sizes: Sizes | None = None
) -> tuple[Value, ...]:
    """The results of an operator by its definition, `outputs` of them.

    `sizes` makes vectors of dimensions; without it those are bound by the operands. Raises TypeRuleError for operands
    and attributes that are not defined, and for an operator without a definition.
    """
    function, op = operator.definition, operator.text
    if function is None:
        raise TypeRuleError(f"{op} has no definition", hint="irkit.operator(name) makes one of a function of values")
    given = tuple(inputs)
    hint = f"it is {operator!r}: mend the operands, or its definition" if operator.key else LACKING
    application = Application(operator.row, given, dict(attributes), outputs, sizes or bound_sizes(given), hint)
    takes = arity(function)
    if takes and any(v is not None for v in given[takes:]):
        raise application.fail(f"its operand {operator.row.formal(takes).name} is not defined here")
    given, missing = given[: takes or None], takes - len(given)
    try:
        found = function(application, *given, *(None,) * missing)
    except TypeRuleError as error:
        if error.what.startswith(op):
            raise
        raise application.fail(error.what) from error
    except RecursionError as error:
        raise application.fail("its definition has no end: it is made of itself") from error
    results = as_tuple(found)
    if any(r is not None and type(r) is not Value for r in results):
        raise application.fail(f"its definition gives {brief(found)}, which is no value")
    there = next((i for i, r in enumerate(results) if r is None), len(results))
    if there < outputs:
        raise application.fail(f"of its results only the first {there} are defined")
    if operator.key and len(results) > outputs:
        named = attrs.evolve(application, hint='name them: irkit.operator(..., results=("y", "mean"))')
        raise named.fail(f"its definition gives {count_text(len(results), 'result')}, and it has {outputs}")
    return results[:outputs]


@lru_cache(maxsize=1 << 12)
def arity(function: Definition) -> int:
    """How many operands a definition takes, those that are left out included; 0 for one that takes them as they are."""
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    return 0 if kinds[1:] == [inspect.Parameter.VAR_POSITIONAL] else len(kinds) - 1


StandIn = tuple[Type, tuple[Dim, ...] | None] | None
"""What a type rule may look at: the type of an operand, and its elements where it holds a few known integers."""


def stand_in(value: Value | None) -> StandIn:
    """What stands for an operand while its user's type is inferred."""
    if value is None:
        return None
    type_ = value.type
    small = isinstance(type_, Tensor) and len(type_.shape) <= 1 and type_.dtype in (DType.INT32, DType.INT64)
    found = contents(value) if small else None
    return type_, found if found is not None and len(found) <= MOST else None


def stood_in(stand: StandIn) -> Value | None:
    """A value of that type, and with those elements."""
    if stand is None:
        return None
    type_, elements = stand
    if elements is None or not isinstance(type_, Tensor):
        return param(type_)
    vector = construct.shape_vector(elements)
    shaped = vector if type_.shape else construct.call("Squeeze", [vector, [0]])
    return shaped if type_.dtype is DType.INT64 else construct.call("Cast", [shaped], {"to": type_.dtype})


@lru_cache(maxsize=4096)
def result_types(
    operator: Operator, attributes: Attributes, operands: tuple[StandIn, ...], outputs: int
) -> tuple[Type, ...]:
    """The types of an operator's results, by its definition."""
    return tuple(v.type for v in defined_results(operator, [stood_in(s) for s in operands], attributes, outputs))


def inferred_types(operator: Operator, context: Context) -> tuple[Type, ...]:
    """The types of the results of an operator that has a definition. Raises TypeRuleError for what that refuses."""
    operands = tuple(map(stand_in, context.inputs))
    found = result_types(operator, tuple(sorted(context.attributes.items())), operands, context.outputs)
    known = {d for s in operands if s is not None for d in (*dims_of(s[0]), *(s[1] or ()))}
    known = {symbol for d in known for symbol in dims.symbols_of(d)}
    unknown = {s for t in found for d in dims_of(t) for s in dims.symbols_of(d) if dims.is_fresh(s) and s not in known}
    if not unknown:
        return found
    swaps = {symbol: dims.fresh() for symbol in unknown}  # the memo must not make unknown sizes of two values one
    return tuple(map_dims(t, lambda d: dims.substitute(d, swaps)) for t in found)


@lru_cache(maxsize=512)
def body(operator: Operator, attributes: Attributes, operands: tuple[StandIn, ...], outputs: int) -> Graph:
    """The definition of an operator for operands of those types, as a graph over those that are given."""
    params = [None if s is None else param(s[0]) for s in operands]
    inputs = [p if s is None or s[1] is None else stood_in(s) for p, s in zip(params, operands, strict=True)]
    results = defined_results(operator, inputs, attributes, outputs)
    return Graph(tuple(p for p in params if p is not None), results, name=split_domain(operator.text)[1])
