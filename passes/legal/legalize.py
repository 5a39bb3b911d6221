"""Legalization: a graph in the IR's vocabulary becomes one that a target runs, or an error that names what it cannot.

What a target lacks is tried in this order, for each value, operands first:

1. an expansion of its own, for older opsets (`passes.legal.opsets.operators`) or for any
   (`passes.legal.runtime.expansions`);
2. where only the element type has no kernel: casts to a wider one, the operator, and casts back, noted on the origin
   of the operator as `upcast[bf16->f32]`;
3. ONNX's own definition of the operator by others, or, on runtimes beside ONNX Runtime, what stands for it there in
   float64;
4. where float64 has no kernel and nothing above helps: casts to float32 and back, noted as `downcast[f64->f32]`.

What an older opset has other words for is no matter: `irkit.onnx.writing.downgrade` writes it so. Each result is
legalized in turn. An operator without a kernel that ONNX Runtime expands itself, by ONNX's definition,
is left as it is where everything in that definition runs.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import product, zip_longest
from typing import Any, cast

import attrs
from pyrsistent import PMap, pmap

from irkit.build import call, dtype_complaint, op
from irkit.core.blobs import SMALL
from irkit.core.ir import Graph, Value, item, param, require_graph
from irkit.core.origins import Origin
from irkit.core.types import DType, Tensor, Tuple, types_of
from irkit.dims import Range
from irkit.errors import RewriteError, TypeRuleError
from irkit.nodes.operators import body as body_of
from irkit.nodes.operators import operator_of, stand_in
from irkit.onnx.writing.downgrade import respelled_value
from irkit.onnx.writing.materialize import ALLOWZERO
from irkit.ops.schemas import BODIES, OPSET, Formal, OpSpec
from irkit.pattern import Hole
from irkit.rewriting.driver import Plan
from irkit.rewriting.face import Match, Rule, Rules, decline
from irkit.rewriting.firings import counts_only, heard
from irkit.rewriting.passes import Observer, Pass, nobody
from irkit.support.results import as_tuple
from irkit.support.uncollected import without_collector
from passes.analysis.expansions import Expanded
from passes.legal.copies import with_cast_copies
from passes.legal.definitions import by_definition
from passes.legal.elementwise import activations_by_others
from passes.legal.float64.determinants import DETERMINANTS
from passes.legal.float64.functions import DOUBLES
from passes.legal.float64.recurrent import RECURRENT
from passes.legal.float64.windows import WINDOWS
from passes.legal.opsets.onnx_functions import applies_at, by_function
from passes.legal.opsets.operators import OLDER, plain_reshapes
from passes.legal.others.exponentials import log_sum_exp
from passes.legal.others.quirks import other_of, refusal
from passes.legal.runtime.biases import LARGE_BIASES
from passes.legal.runtime.byte_products import BYTES
from passes.legal.runtime.division import OVERFLOWS
from passes.legal.runtime.eighths import EIGHTHS as ROUNDED_EIGHTHS
from passes.legal.runtime.empty import WITHOUT_ELEMENTS, empty_rules
from passes.legal.runtime.expansions import EXPANSIONS, Expansion, group_normalization
from passes.legal.runtime.halves import half_rules, holds_halves
from passes.legal.runtime.integers import INTEGERS
from passes.legal.runtime.long_sums import LONG_SUMS
from passes.legal.runtime.misfused import fusion_rules
from passes.legal.runtime.quirks import REFUSED_OPERATORS, ROUNDED_ATTENTION, refusal_of
from passes.legal.runtime.refusals import is_of, misread
from passes.legal.runtime.slices import SLICES
from passes.rules.arithmetic.algebra import ALGEBRA
from passes.rules.arithmetic.casts import CASTS
from passes.rules.constants import EXACT_FOLDING
from passes.rules.movement.sizes import SIZES
from passes.rules.movement.views import SHAPES
from passes.rules.nan import KEPT_BY_DEFAULT
from passes.targets import Kind, Target, has_kernel, runtime_version, target_of
from passes.targets.costs import is_slow
from passes.targets.measured import MEASURED
from passes.targets.targets import OLDEST, OURS, domain_of, kind_of, result_complaint, row_at

WIDER: Mapping[DType, tuple[DType, ...]] = {
    DType.FLOAT16: (DType.FLOAT,), DType.BFLOAT16: (DType.FLOAT,), DType.BOOL: (DType.UINT8, DType.INT32, DType.INT64),
    DType.INT8: (DType.INT32, DType.INT64, DType.FLOAT), DType.UINT8: (DType.INT32, DType.INT64, DType.FLOAT),
    DType.INT16: (DType.INT32, DType.INT64, DType.FLOAT),
    DType.UINT16: (DType.INT32, DType.UINT32, DType.INT64, DType.FLOAT),
    DType.UINT32: (DType.INT64, DType.UINT64, DType.DOUBLE), DType.INT32: (DType.INT64, DType.DOUBLE),
    DType.FLOAT8E4M3FN: (DType.FLOAT,), DType.FLOAT8E5M2: (DType.FLOAT,), DType.FLOAT8E4M3FNUZ: (DType.FLOAT,),
    DType.FLOAT8E5M2FNUZ: (DType.FLOAT,), DType.INT4: (DType.INT8, DType.INT32),
    DType.UINT4: (DType.UINT8, DType.INT32),
}  # fmt: skip
"""Element types that hold every value of another, the cheapest first."""

NARROWER: Mapping[DType, tuple[DType, ...]] = {DType.DOUBLE: (DType.FLOAT,)}
"""Where an operator has a kernel for no wider type, but for one that rounds."""

ROOTS = frozenset(("ReduceL2",))
"""Operators that round in any type: squares of 64-bit integers are beyond these, and their sum has no whole root."""

FLOAT64: Mapping[str, Expansion] = {
    **DOUBLES, **WINDOWS, **RECURRENT, **DETERMINANTS, "GroupNormalization": group_normalization,
    "ReduceLogSumExp": log_sum_exp,
}  # fmt: skip
"""How operators are expanded where their operands are float64."""

ELSEWHERE: Mapping[str, Expansion] = {**RECURRENT, **{n: WINDOWS[n] for n in ("AveragePool", "LpPool", "Col2Im")}}
"""Those of them that are right in each element type."""

WRAPS = frozenset((
    "Add", "Sub", "Mul", "Neg", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "MatMul", "ReduceSum", "CumSum",
    "Where", "Expand", "Tile", "Pad", "Slice", "Concat", "Gather", "Transpose", "Reshape", "Trilu", "DepthToSpace",
    "SpaceToDepth", "Equal",
))  # fmt: skip
"""Operators on which 64-bit integers may be taken for signed ones: sums and products wrap alike."""

TIDY = SIZES + SHAPES + ALGEBRA + CASTS + EXACT_FOLDING
"""What tidies up after definitions were put in. None of these moves an operator to another element type."""

CPU = "CPUExecutionProvider"

NO_RANGES: PMap[str, Range] = pmap({})

UNTOUCHED = frozenset(("Cast", "CastLike", "Identity", "BitCast", *BODIES))
"""Operators around which casts would change what they do."""


@without_collector
def legalize(graph: Graph, target: Target | str, *, observe: Observer = nobody) -> Graph:
    """A graph that the target (or the one of that name) runs, equal to `graph`; the very same object where it runs
    already.

    Raises RewriteError that names the operators for which nothing helps, with the opset or the kernel that is missing,
    and for a target that nobody knows.
    """
    target = target_of(target)
    step = Pass("legalize", (("target", str(target)),), lambda before, seen, _depth: _legalized(before, target, seen))
    return with_copies(step.run(graph, observe), target)


def with_copies(graph: Graph, target: Target) -> Graph:
    """The graph, whose results that are parameters or constants can be written, too. Raises RewriteError."""
    if not target.provider:
        return graph
    copied, failed = with_cast_copies(graph, lambda value: trouble(value, target))
    if failed is not None:
        raise _unrunnable([(failed, trouble(failed, target))], target)
    return copied


def _legalized(graph: Graph, target: Target, observe: Observer) -> Graph:
    legal, quirks = _rules(target, graph.symbols, holds_halves(graph))
    if not wants_more(graph, target) and not Plan(quirks).applies(graph):
        return graph
    told = heard(observe)
    if target.is_onnxruntime and (told is None or counts_only(observe)):
        found = activations_by_others(graph, legal, Plan(quirks), partial(wants_others, target=target), told)
        if found is not None:
            return found
    plan = Plan((legal, *quirks), tidy=TIDY, told=told)
    after = plan.rewrite(graph)
    missing = list(problems(after, target, plan.declined))
    if missing:
        raise _unrunnable(missing, target)
    return after


@lru_cache(maxsize=64)
def _rules(target: Target, ranges: PMap[str, Range], halves: bool = True) -> tuple[Rule, Rules]:
    """The rule that makes values run, and those for what runs and goes wrong, where a tensor is empty or where ONNX
    Runtime fuses it: the same objects every time, so that what is known of a rule set is known of them."""
    quirks = (
        (*empty_rules(ranges), *KEPT_BY_DEFAULT, *fusion_rules(ranges, target.opset), *SLICES, *WITHOUT_ELEMENTS)
        if target.is_onnxruntime
        else ()
    )
    quirks = (*quirks, *INTEGERS, *LARGE_BIASES, *ROUNDED_EIGHTHS) if target.is_onnxruntime else quirks
    quirks = (*quirks, *LONG_SUMS, *OVERFLOWS, *BYTES) if target.provider == CPU else quirks
    quirks = (*quirks, *half_rules(target)) if target.provider == CPU and halves else quirks
    return legal_rule(target), (*quirks, *((plain_reshapes(ranges),) if target.opset < ALLOWZERO else ()))


def wants_more(graph: Graph, target: Target) -> bool:
    """True where some value of a graph or of its bodies does not run on a target, or runs slowly."""
    for value in graph.order:
        if value.bodies and any(wants_more(body, target) for body in value.bodies):
            return True
        if value.op not in OURS and wants_others(value, target):
            return True
    return False


def problems(graph: Graph, target: Target, among: Container[Value] | None = None) -> Iterator[tuple[Value, str]]:
    """The values of a graph and its bodies that the target cannot run, each with the reason; `among` some only."""
    for value in graph.order:
        why = trouble(value, target) if among is None or value in among else ""
        if why:
            yield value, why
        for body in value.bodies:
            yield from problems(body, target, among)


def require_runnable(graph: Graph, target: Target) -> None:
    """Raises RewriteError, with all of them, for operators of a graph that the target does not run as they are."""
    require_graph(graph)
    missing = list(problems(graph, target))
    if missing:
        error = _unrunnable(missing, target)
        hint = "save passes.prepare(graph, target), which writes them in operators that it runs"
        raise RewriteError(error.what, ir=error.ir, source=error.source, hint=hint)


def _unrunnable(missing: list[tuple[Value, str]], target: Target) -> RewriteError:
    reasons: dict[str, list[Value]] = {}
    for value, why in missing:
        reasons.setdefault(why, []).append(value)
    lines = [f"{why}: {_places(values)}" for why, values in reasons.items()]
    names = ", ".join(dict.fromkeys(value.op for value, _ in missing))
    return RewriteError(
        f"{names} cannot run at {target}",
        ir="\n".join(lines),
        source=str(missing[0][0].origin),
        hint=_hint([v for v, _ in missing], target),
    )


def _places(values: list[Value]) -> str:
    shown = [str(v.origin) or repr(v) for v in values[:5]]
    return "; ".join(shown) + (f"; and {len(values) - 5} more" if len(values) > 5 else "")


def _hint(values: list[Value], target: Target) -> str:
    """The opset nearest to the target's at which it runs the values."""
    others = sorted(range(OLDEST, OPSET + 1), key=lambda opset: (abs(opset - target.opset), -opset))
    fitting = (o for o in others if not any(trouble(v, attrs.evolve(target, opset=o)) for v in values))
    found = next(fitting, None)
    return f"ask for opset {found}" if found else "replace the operator, or choose another target"


def newest_for(graph: Graph, target: Target) -> Target:
    """The target at the newest opset, not above its own, at which it runs all that the graph holds: an operator whose
    kernels end before the target's opset, and that nothing can express, makes for an older one. It is what a model
    gets for which no opset was asked."""
    frozen = {name for name in operators_of(graph) if name.rpartition("::")[2] in FROZEN}
    stuck = [v for v in _all_values(graph) if v.op in frozen and trouble(v, target)] if frozen else []
    for opset in range(target.opset, OLDEST - 1, -1):
        chosen = target if opset == target.opset else attrs.evolve(target, opset=opset)
        if not any(trouble(v, chosen) for v in stuck):
            return chosen
    return target


FROZEN = frozenset((
    "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "RoiAlign",
    "MaxRoiPool",
))  # fmt: skip
"""Operators that no others express."""


def operators_of(graph: Graph) -> set[str]:
    """The operators of a graph and of its bodies."""
    inside = [operators_of(body) for value in graph.order if value.bodies for body in value.bodies]
    return {value.op for value in graph.order}.union(*inside)


def _all_values(graph: Graph) -> Iterator[Value]:
    for value in graph.order:
        yield value
        for body in value.bodies:
            yield from _all_values(body)


# ---------------------------------------------------------------------------------------------- one value


def trouble(value: Value, target: Target) -> str:
    """Why the target cannot run a value; empty where it can, be it by ONNX's definition of the operator."""
    op = value.op
    if op in OURS:
        return ""
    if type(op) is not str:
        return own_trouble(value, target)
    if not target.is_onnxruntime:
        quirk = refusal(value, target.provider)
    else:
        quirk = refusal_of(value) if op in REFUSED_OPERATORS else ""
    if quirk:
        return quirk
    why = target.problem(value) or misread(value, target.opset)
    if op == "Attention" and target.provider == CPU and is_of(value, DType.FLOAT16):
        return ROUNDED_ATTENTION.reason
    if not why or not target.is_onnxruntime or (is_double(value) and value.op in FLOAT64):
        return why
    if row_at(value.op, target.opset) is not None and runs_by_definition(value, target):
        return ""
    return why


def own_trouble(value: Value, target: Target) -> str:
    """Why the target cannot run an operator of the user's own; empty where it has no definition: nobody knows better.

    Where the target allows its domain, a file says the definition as a local function, all of which must run."""
    known = operator_of(value.op)
    if known is None or known.definition is None or (known.library and known.domain in target.domains):
        return ""
    if known.domain not in target.domains:
        return f"the target does not allow the domain {known.domain}"
    made = body_of(known, value.attributes, tuple(map(stand_in, value.inputs)), len(types_of(value.type)))
    why = next((why for _, why in problems(made, target)), "")
    if not why and Plan(_rules(target, NO_RANGES)[1]).applies(made):
        why = "it has to be written otherwise there"
    return f"its definition does not run as it stands: {why}" if why else ""


def runs_by_definition(value: Value, target: Target) -> bool:
    """True where the runtime expands the operator itself, into operators that run."""
    if not applies_at(value.op, target.opset) or misread(value, target.opset):
        return False
    row = row_at(value.op, target.opset)
    if row is None or runtime_version(value.op, target.opset)[0] != row.since:
        return False  # the runtime has another definition, or none
    if attrs.evolve(target, provider="").problem(value):
        return False
    return bool(value.bodies) or _definition_runs(_Node(alone(value)), target)


def alone(value: Value) -> Value:
    """The value over parameters in place of what it is computed of, so that no graph and no weight is kept with it."""
    small = [v is None or (v.blob is not None and v.blob.nbytes <= SMALL) for v in value.inputs]
    return value.with_inputs(
        tuple(v if keep or v is None else param(v.type) for v, keep in zip(value.inputs, small, strict=True))
    )


@attrs.frozen(eq=False)
class _Node:
    """A value as a key: what its definition depends on."""

    value: Value

    def key(self) -> Hashable:
        value = self.value
        operands = tuple(None if v is None else (v.type, v.blob and v.blob.key) for v in value.inputs)
        return value.op, value.attributes, operands, value.type

    def __hash__(self) -> int:
        return hash(self.key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Node) and self.key() == other.key()


@lru_cache(maxsize=1024)
def _definition_runs(node: _Node, target: Target) -> bool:
    value = node.value
    found = by_function(Match(value, {}), value)
    if found is None:
        return False
    params = tuple(v for v in value.inputs if v is not None)
    return not any(trouble(v, target) for v in _between(as_tuple(found), frozenset(params)))


def _between(results: Iterable[Value], stop: frozenset[Value]) -> list[Value]:
    """What the results reach, without `stop` and what lies below."""
    seen: dict[Value, None] = {}
    pending = [r for r in results if r not in stop]
    while pending:
        value = pending.pop()
        if value not in seen:
            seen[value] = None
            pending += [v for v in value.inputs if v is not None and v not in stop]
    return list(seen)


def legal_rule(target: Target) -> Rule:
    """The rule that makes any value run on a target."""

    def legal(m: Match) -> Any:
        value = m.root
        why = trouble(value, target)
        if not why:
            quicker = faster(m, value, target)
            return decline("it runs") if quicker is None else quicker
        for attempt in (foreign, expanded, recast, defined, elsewhere, narrowed):
            found = attempt(m, value, target)
            if found is not None:
                return found
        return decline(why)

    def does_not_run(value: Value) -> bool:
        return wants_others(value, target)

    any_value = Hole("any value", where=(does_not_run,))
    return Rule("legalize", any_value, legal, True, "a value -> one that the target runs")


def wants_others(value: Value, target: Target) -> bool:
    """True for a value that does not run on a target, or that others were measured to be faster than."""
    return (value.op in EXPANSIONS and is_outrun(value, target)) or bool(trouble(value, target))


def is_outrun(value: Value, target: Target) -> bool:
    """True for an operator of which an expansion was measured to be faster."""
    if value.op not in EXPANSIONS or not target.provider or not isinstance(value.type, Tensor):
        return False
    return is_slow(value.op, value.dtype, target.provider)


def faster(m: Match, value: Value, target: Target) -> Any:
    """The operator by others, where those were measured to be faster than it is; None for all others."""
    return expanded(m, value, target) if is_outrun(value, target) else None


def foreign(m: Match, value: Value, target: Target) -> Any:
    """An operator of a domain that the target does not allow, by irkit's definition of it; None for all others."""
    domain = domain_of(value.op)
    return by_definition(m, value) if domain and domain not in target.domains else None


def expanded(m: Match, value: Value, target: Target) -> Value | None:
    """The operator by others that irkit knows to be good; None where there is no such expansion."""
    for below, function in OLDER.get(value.op, ()):
        found = function(m, value) if target.opset < below else None
        if found is not None:
            return found
    other = None if target.is_onnxruntime else other_of(value, target.provider)
    if other is not None and other.expansion is not None:
        return other.expansion(m, value)
    function = FLOAT64.get(value.op) if is_double(value) else None
    found = None if function is None else function(m, value)
    if found is not None:
        return found
    function = EXPANSIONS.get(value.op)
    return None if function is None else function(m, value)


def is_double(value: Value) -> bool:
    """True where the first operand is a tensor of float64."""
    first = value.inputs[0] if value.inputs else None
    return first is not None and isinstance(first.type, Tensor) and first.dtype is DType.DOUBLE


def defined(m: Match, value: Value, target: Target) -> Expanded:
    """The operator by ONNX's own definition, or irkit's of one of ONNX Runtime's; None where there is none."""
    found = by_function(m, value)
    return by_definition(m, value) if found is None else found


def elsewhere(m: Match, value: Value, target: Target) -> Any:
    """The operator by those that stand for it in float64 on ONNX Runtime, on another runtime that lacks it; None where
    there are none, or they are of float64 alone."""
    function = ELSEWHERE.get(value.op) if target.provider in MEASURED else None
    return None if function is None else function(m, value)


# ---------------------------------------------------------------------------------------------- element types


def recast(m: Match, value: Value, target: Target) -> Value | tuple[Value | None, ...] | None:
    """The operator in element types that the target has a kernel for and that hold all numbers, between casts; None
    where none helps."""
    return _recast(value, target, rounding=False)


def narrowed(m: Match, value: Value, target: Target) -> Value | tuple[Value | None, ...] | None:
    """The operator in element types that the target has a kernel for, be it that they round; None where none helps."""
    return _recast(value, target, rounding=True)


def _recast(value: Value, target: Target, rounding: bool) -> Value | tuple[Value | None, ...] | None:
    row = row_at(value.op, target.opset)
    if row is None or value.op in UNTOUCHED or not row.types or misread(value, target.opset):
        return None
    written = respelled_value(
        value, target.opset
    )  # it has the first operands of the value, and perhaps not all of them
    if any(name not in row.attributes for name, _ in written.attributes) or len(written.inputs) > row.max_inputs:
        return None
    chosen = chosen_types(target, value.op, row, tuple(map(kind_of, written.inputs)), _result_kinds(value), rounding)
    if chosen is None:
        return None
    wanted = [chosen.get(row.formal(i).type) for i in range(len(written.inputs))]
    inputs = [_cast(v, dtype) for v, dtype in zip_longest(value.inputs, wanted)]
    given = dict(value.attributes)
    if value.op == "EyeLike":
        given["dtype"] = int(chosen.get("T2", value.dtype))
    count = len(value.type.items) if isinstance(value.type, Tuple) else None
    try:
        made = call(value.op, inputs, given, outputs=count)
    except TypeRuleError:
        return None
    marks = [_mark(old, new) for old, new in sorted({(o, n) for o, n in _changes(value, wanted, row, chosen)})]
    origin = value.origin
    for mark in marks:
        origin = origin.after(mark)
    return _back(value, made, origin)


def _result_kinds(value: Value) -> tuple[Kind, ...]:
    types = types_of(value.type)
    return tuple(t.dtype if isinstance(t, Tensor) else None for t in types)


def _cast(value: Value | None, dtype: DType | None) -> Value | None:
    if value is None or dtype is None or not isinstance(value.type, Tensor) or value.dtype is dtype:
        return value
    return op.Cast(value, to=dtype, saturate=0) if dtype in EIGHTHS else op.Cast(value, to=dtype)


EIGHTHS = frozenset((DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2, DType.FLOAT8E5M2FNUZ))
"""Element types to which a Cast makes the largest number of infinity, unless it is told not to."""


def _changes(
    value: Value, operands: list[DType | None], row: OpSpec, chosen: Mapping[str, DType]
) -> Iterator[tuple[DType, DType]]:
    for v, wanted in zip(value.inputs, operands, strict=False):
        if v is not None and wanted is not None and isinstance(v.type, Tensor) and v.dtype is not wanted:
            yield v.dtype, wanted
    for index, kind in enumerate(_result_kinds(value)):
        wanted = chosen.get(row.outputs[min(index, len(row.outputs) - 1)].type)
        if isinstance(kind, DType) and wanted is not None and kind is not wanted:
            yield kind, wanted


def _mark(old: DType, new: DType) -> str:
    kind = "downcast" if new in NARROWER.get(old, ()) else "upcast"
    return f"{kind}[{old.short}->{new.short}]"


def _back(value: Value, made: Value | tuple[Value, ...], origin: Origin) -> Value | tuple[Value | None, ...] | None:
    """The results cast back to the types of the value's own; the operator carries `origin`."""
    if not isinstance(made, tuple):
        return _cast(made.with_origin(origin), value.dtype)
    node = cast(Value, made[0].inputs[0]).with_origin(origin)
    wanted = types_of(value.type)
    return tuple(_cast(item(node, i), t.dtype if isinstance(t, Tensor) else None) for i, t in enumerate(wanted))


@lru_cache(maxsize=4096)
def chosen_types(
    target: Target, op: str, row: OpSpec, operands: tuple[Kind, ...], results: tuple[Kind, ...], rounding: bool
) -> Mapping[str, DType] | None:
    """An element type for each type variable with which the operator runs, the fewest and nearest changes first; None
    where there is none. Types that do not hold all numbers only where `rounding`."""
    types: dict[str, DType] = {}
    for formals, kinds in ((row.inputs, operands), (row.outputs, results)):
        for index, kind in enumerate(kinds):
            formal = formals[min(index, len(formals) - 1)]
            if isinstance(kind, DType) and formal.homogeneous and formal.type in row.types:
                types.setdefault(formal.type, kind)
    choices = {name: _choices(op, kind, rounding) for name, kind in types.items()}
    ranked = sorted(
        product(*(range(len(c)) for c in choices.values())), key=lambda picks: (_rough(picks, choices), sum(picks))
    )
    for picks in ranked[1:]:
        chosen = {name: choices[name][pick] for name, pick in zip(choices, picks, strict=True)}
        if _runs_with(target, op, row, operands, results, chosen):
            return chosen
    return None


def _choices(op: str, kind: DType, rounding: bool) -> tuple[DType, ...]:
    """A type itself, those that hold all its values, and those that may stand for it on this operator."""
    more = WIDER.get(kind, ()) + (NARROWER.get(kind, ()) if rounding else ())
    if kind is DType.UINT64 and op in WRAPS:
        more += (DType.INT64,)
    if kind is DType.UINT64 and op in ROOTS:
        more += (DType.DOUBLE,)
    return (kind, *more)


def _rough(picks: tuple[int, ...], choices: Mapping[str, tuple[DType, ...]]) -> int:
    """How many of the picks round."""
    return sum(c[pick] in NARROWER.get(c[0], ()) for pick, c in zip(picks, choices.values(), strict=True))


def _runs_with(
    target: Target,
    op: str,
    row: OpSpec,
    operands: tuple[Kind, ...],
    results: tuple[Kind, ...],
    chosen: Mapping[str, DType],
) -> bool:
    def changed(formals: tuple[Formal, ...], kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
        return tuple(
            chosen.get(formals[min(i, len(formals) - 1)].type, kind) if isinstance(kind, DType) else kind
            for i, kind in enumerate(kinds)
        )

    new_operands, new_results = changed(row.inputs, operands), changed(row.outputs, results)
    if dtype_complaint(row, tuple(k if isinstance(k, DType) else None for k in new_operands)):
        return False
    if result_complaint(row, new_results):
        return False
    if not target.provider:
        return True
    since = 0 if target.provider in MEASURED else runtime_version(op, target.opset)[0]
    return has_kernel(target, op, row, since or row.since, new_operands, new_results)
