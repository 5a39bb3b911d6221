"""Samples of operators that are not ONNX's: their own, or drawn as their schemas say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irkit.checking.samples.sampler import ANY, NUMBERS, WIDER, Sampler
from irkit.checking.samples.table import SAMPLES, Sample
from irkit.core.ir import Value
from irkit.core.operator_names import Dialects
from irkit.core.types import DType
from irkit.errors import IrkitError, TypeRuleError
from irkit.nodes.operators import Operator, operators_in
from irkit.ops.schemas import TYPE_STRINGS, AttributeSpec, Formal
from irkit.support.results import as_tuple

TRIES = 40
"""How often operands are drawn until the operator takes them."""

CHOICES: Mapping[str, tuple[Any, ...]] = {"INT": (1, 0, 2, -1), "FLOAT": (1.0, 0.5, 2.0, -1.0), "STRING": ("", "a")}
"""What attributes of each kind are drawn from."""


def samples_with(dialects: Dialects) -> Mapping[str, Sample]:
    """The samples of ONNX's operators, and of those of the dialects."""
    return {**SAMPLES, **{name: sample_of(each) for name, each in operators_in(dialects).items()}}


def sample_of(operator: Operator) -> Sample:
    """What makes an instance of an operator: by its own sample where it has one.

    Raises TypeRuleError where no operands are found that it takes."""

    def sample(s: Sampler) -> Any:
        if operator.sample is not None:
            operands: list[Any] = list(as_tuple(operator.sample(s)))
            attributes: dict[str, Any] = operands.pop() if operands and isinstance(operands[-1], dict) else {}
            return operator(*operands, **attributes)
        refused: IrkitError | None = None
        for attempt in range(TRIES):
            try:
                return operator(*drawn_operands(s, operator, attempt), **drawn_attributes(s, operator))
            except IrkitError as error:
                refused = error
        raise TypeRuleError(
            f"no operands were found that {operator.text} takes: {refused and refused.what}",
            hint="give it a sample: irkit.operator(name, sample=lambda s: (s.tensor(), {'axis': 0}))",
        ) from refused

    return sample


def drawn_operands(s: Sampler, operator: Operator, attempt: int) -> list[Value | None]:
    """Operands of the element types that the schema allows: mostly of one type, and of shapes that broadcast."""
    row, found = operator.row, list[Value | None]()
    kinds: dict[str, DType] = {}
    formals = [f for f in row.inputs if f.option != "variadic"]
    if len(formals) < len(row.inputs):
        formals += [row.inputs[-1]] * s.integer(1, 3)
    for formal in formals:
        if formal.option == "optional" and s.flag():
            found.append(None)
            continue
        first = next((v for v in found if v is not None), None)
        allowed = allowed_kinds(s, operator, formal)
        if first is None:
            found.append(s.tensor(allowed, 1 if attempt % 2 else 0, 3))
        else:
            alike = kinds.get(formal.type) or (first.dtype if first.dtype in allowed else s.choose(allowed))
            shape = first.shape if attempt % 3 != 1 else first.shape[-1:]
            found.append(s.of(alike, shape) if attempt % 4 < 3 else s.tensor((alike,), 0, 3))
        last = found[-1]
        if last is not None:
            kinds.setdefault(formal.type, last.dtype)
    return found


def allowed_kinds(s: Sampler, operator: Operator, formal: Formal) -> tuple[DType, ...]:
    """The element types that an operand may have: mostly the usual ones, where it may have one of these."""
    allowed = operator.row.allowed(formal)
    usual = tuple(d for d in ANY if TYPE_STRINGS[d] in allowed)
    more = tuple(d for d in WIDER[NUMBERS] if TYPE_STRINGS[d] in allowed) if s.wide and s.rarely() else ()
    return more or usual or tuple(d for d in DType if TYPE_STRINGS[d] in allowed)


def drawn_attributes(s: Sampler, operator: Operator) -> dict[str, Any]:
    """Attributes: those with a default mostly left at it."""
    return {
        each.name: s.choose(CHOICES[each.kind])
        for each in operator.row.attributes.values()
        if each.kind in CHOICES and (each.required or s.rarely() or is_shown(s, each))
    }


def is_shown(s: Sampler, attribute: AttributeSpec) -> bool:
    """True now and then for a float, of which another than the default tells most."""
    return attribute.kind == "FLOAT" and s.flag()
