"""Whether the two sides of a rule are equal: by numbers, on the evaluator and on ONNX Runtime."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

import attrs
import numpy as np

from irkit.checking.accuracy import MOST_ELEMENTS, Reference, is_real_made, least, traced_values, worse
from irkit.checking.comparison import Difference, compare
from irkit.checking.counterexamples import Case, Counterexample
from irkit.checking.draws import NOTHING, ZEROS, assignment, feeds
from irkit.checking.instances import Retry
from irkit.checking.near_misses import Instead, rebuild_over
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor, same_types
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.core.walk import post_order
from irkit.errors import EvaluateError, IrkitError, TypeRuleError
from irkit.evaluation.interpreter import evaluate, trace
from irkit.evaluation.kernels.common import Array, Content, is_array
from irkit.rewriting.sides import results_of, sides
from irkit.support.tracebacks import is_told
from irkit.support.upstairs import upstairs

__tracebackhide__ = is_told

TRIES = 4
"""How many assignments of the symbols are tried until the left side has a value."""


@attrs.frozen
class Limits:
    """How near the two sides of a rule must be: to the bit where `exact`; else by the tolerances that were asked for,
    and where none was, the right side no worse than the left one (see `irkit.checking.accuracy`), or, where it is not
    to be `measured`, within the tolerances of `irkit.compare`.

    Where constants were made `far` from 1, a rule of real numbers is not held to what its right side loses on the way
    for want of range, but to the constants and attributes that it makes: those must stay within theirs."""

    exact: bool = True
    rtol: float | None = None
    atol: float | None = None
    measured: bool = True
    far: bool = False

    @property
    def asked(self) -> bool:
        """Whether a tolerance was asked for."""
        return self.rtol is not None or self.atol is not None or not self.measured


@attrs.frozen
class Agreement:
    """Feeds on which the two sides agree: how many elements were compared, and what was fed."""

    elements: int
    arrays: tuple[Content, ...]


def agree(
    name: str,
    roots: Value | Sequence[Value],
    found: Value | tuple[Value, ...],
    params: tuple[Value, ...],
    rng: np.random.Generator,
    *,
    limits: Limits,
    given: Mapping[Value, Content] | None = None,
    names: Mapping[Value, str] = NOTHING,
    operands: Sequence[Value] = (),
) -> tuple[Agreement, ...]:
    """Random feeds of `params`, or those that are `given`, on which the roots and what the rule made of them agree:
    first such that nothing need be empty, then, now and then, with sizes of 0 among them. () where the left side has a
    value for none of the feeds tried. Of `operands`, see `count_agreeing`. Raises Counterexample where they differ."""
    old, new = sides(roots, found)
    for a, b in zip(old, new, strict=True):
        if same_types(a.type, b.type) is False:
            raise Counterexample.of(
                Case(name, "types", f"turns a {a.type!r} into a {b.type!r}", old, new, params, names)
            )
    agreed: list[Agreement] = []
    for attempt in range(TRIES + 1):
        empty = attempt == TRIES or bool(agreed)
        chosen = assignment(params, rng, given or {}, empty=empty)
        if agreed and (0 not in chosen.values() or rng.random() < 0.5):
            break
        arrays = feeds(
            params,
            rng,
            special=limits.exact,
            chosen=chosen,
            arrays=given or {},
            whole=True,
            plain=not limits.exact and not limits.measured,
            zeros=1.0 if limits.far else ZEROS,
        )
        if given is not None and not is_allowed(old, params, arrays):
            continue
        elements = count_agreeing(name, old, new, params, arrays, rng, limits, names, operands, marks=given is not None)
        if elements is not None:
            agreed.append(Agreement(elements, tuple(arrays)))
            if len(agreed) > 1:
                break
    return tuple(agreed)


def count_agreeing(
    name: str,
    old: tuple[Value, ...],
    new: tuple[Value, ...],
    params: tuple[Value, ...],
    arrays: Sequence[Content],
    rng: np.random.Generator,
    limits: Limits,
    names: Mapping[Value, str] = NOTHING,
    operands: Sequence[Value] = (),
    *,
    marks: bool = False,
) -> int | None:
    """How many elements of both sides agree, on these feeds; None where the left side has no value. Where `marks`, NaN
    and infinities must stand at the same places. Raises Counterexample where they differ.

    A rule that is true of real numbers says nothing where one of its `operands`, the values that its holes stand for,
    comes of what is not a real number, as of a division by zero.
    """
    expected = computed_results(Graph(params, old), arrays)
    if expected is None:
        return None  # sizes that do not fit: the left side has no value, and says nothing of the right

    def failed(why: str, actual: tuple[np.ndarray, ...] | None = None, index: Any = None) -> Counterexample:
        case = Case(name, "numbers", why, old, new, params, names, tuple(arrays), expected, actual, index)
        return Counterexample.of(case)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            actual = evaluate(Graph(params, new), arrays, most=MOST_ELEMENTS)
    except EvaluateError as error:
        if isinstance(error.__cause__, TypeRuleError):
            return None  # a definition refuses, as types, sizes that the kernels of the left side let pass
        raise failed(f"differs: its right side cannot be computed: {error.what}") from error
    reference: Reference | None = None
    for i, (one, other) in enumerate(zip(expected, actual, strict=True)):
        if limits.exact or limits.asked or not is_real(one, other):
            difference = apart(one, other, limits)
        else:
            reference = reference or Reference.of(params, old, arrays, expected)
            difference = worse(reference, i, one, other, rng)
        if difference is None and marks and not same_marks(one, other):
            difference = Difference("one has NaN or an infinity where the other has another", "", unlike(one, other))
        if difference is not None and reference is not None and not marks:
            found = traced_values(params, old, arrays) or {}
            if not is_real_made((v for v in post_order(operands) if v in found), found):
                return None
        if difference is not None and limits.far and not limits.exact and runs_out_of_range(params, new, arrays):
            return None
        if difference is not None:
            place = None if difference.index is None else (i, unlike(one, other) if limits.exact else difference.index)
            raise failed(f"differs: {difference.what}", actual, place)
    return sum(np.size(each) for each in expected if is_array(each)) + sum(isinstance(each, list) for each in expected)


def runs_out_of_range(params: tuple[Value, ...], new: tuple[Value, ...], arrays: Sequence[Content]) -> bool:
    """Whether, on the way to values, an operator of finite attributes makes NaN or an infinity of finite operands, or a
    product or quotient is too small for its element type."""
    found = traced_values(params, new, arrays) or {}
    order = [v for v in post_order(new) if v in found and v.op != CONSTANT]
    made = is_real_made((v for v in order if has_finite_attributes(v)), found)
    return not made or any(v.op in ("Mul", "Div") and underflows(v, found) for v in order)


def underflows(value: Value, found: Mapping[Value, Content]) -> bool:
    """Whether a product or quotient of floats holds a number below the smallest normal one, made of no zero."""
    if not isinstance(value.type, Tensor) or not value.dtype.is_float:
        return False
    product, *operands = (np.asarray(found[v]).astype(np.float64) for v in (value, *value.inputs) if v is not None)
    small = np.abs(product) < least(value.dtype)
    return bool(np.any(small & np.logical_and.reduce([np.broadcast_to(x != 0, product.shape) for x in operands])))


def has_finite_attributes(value: Value) -> bool:
    """Whether no attribute of a value is NaN or an infinity."""
    return all(math.isfinite(content) for _, content in value.attributes if type(content) is float)


def is_real(one: Content, other: Content) -> bool:
    """True for arrays of one shape and one element type, of real floats."""
    if not is_array(one) or not is_array(other):
        return False
    return one.dtype == other.dtype and one.shape == other.shape and DType.of(one.dtype).is_float


def apart(one: Content, other: Content, limits: Limits) -> Difference | None:
    """How two results differ, to the bit where that is asked for, else beyond the tolerance; None where they do not."""
    if limits.exact:
        if is_real(one, other):
            at = None if same_bits(one, other) else unlike(one, other)
            return None if at is None else Difference("the bits differ, and the rule is said to be exact", "", at)
        return compare(one, other, rtol=0.0, atol=0.0)
    if limits.rtol is None and limits.atol is None:
        return difference_of(one, other, False)
    if is_real(one, other):
        one, other = _where(np.isfinite(one.astype(np.float64)), one, other)
    return compare(one, other, rtol=limits.rtol, atol=limits.atol)


def _where(real: Array, one: Array, other: Array) -> tuple[Array, Array]:
    """Two results with 0 in both where a mark is False."""
    zero = one.dtype.type(0)
    return np.where(real, one, zero), np.where(real, other, zero).astype(other.dtype)


def unlike(one: Content, other: Content) -> tuple[int, ...] | None:
    """The first place where two arrays are not the same to the bit; None where there is none, or they are no arrays."""
    if not is_array(one) or not is_array(other) or one.shape != other.shape:
        return None
    pairs = zip(one.reshape(-1), other.reshape(-1), strict=True)
    flat = next((i for i, (a, b) in enumerate(pairs) if not same_bits(np.asarray(a), np.asarray(b))), None)
    return None if flat is None else tuple(int(n) for n in np.unravel_index(flat, one.shape))


def is_allowed(old: tuple[Value, ...], params: Sequence[Value], arrays: Sequence[Content]) -> bool:
    """False where the type rules refuse the values with sizes as in the arrays: kernels may let more pass."""
    sized: Instead = {
        p: param(Tensor(p.dtype, np.shape(a)))
        for p, a in zip(params, arrays, strict=True)
        if isinstance(p.type, Tensor)
    }
    order = post_order(old)
    if any(v.bodies for v in order):
        return True  # the types in bodies are written down, and are not inferred again
    try:
        rebuild_over(order, sized)
    except (IrkitError, Retry):
        return False
    return True


NARROW = {DType.FLOAT16: 1e-2, DType.BFLOAT16: 2e-2}
"""What a rounding or two in a narrow type may cost, of the largest number that is summed."""


def difference_of(expected: Content, actual: Content, exact: bool) -> Difference | None:
    """The difference of two results, None where there is none.

    Where a rule is not exact, it speaks of real numbers: what is none on the left side is left out. Sums of narrow
    numbers cancel, and so they are compared relative to the largest of them.
    """
    kind = DType.of(expected.dtype) if is_array(expected) else None
    if exact or kind is None or not kind.is_float or np.shape(expected) != np.shape(actual):
        return compare(expected, actual)
    wide = expected.astype(np.float64)
    real = np.isfinite(wide)
    if not real.all():
        expected, actual = _where(real, expected, actual)
    if kind not in NARROW:
        return compare(expected, actual)
    return compare(expected, actual, atol=NARROW[kind] * max(1.0, float(np.abs(wide[real]).max(initial=0.0))))


def computed_results(graph: Graph, arrays: Sequence[Content]) -> tuple[np.ndarray, ...] | None:
    """The results on the evaluator; None where there are none, or where a check would take too much to get them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy's, of means of nothing
        try:
            return evaluate(graph, arrays, most=MOST_ELEMENTS)
        except EvaluateError:
            return None


def has_value(
    roots: Sequence[Value],
    params: tuple[Value, ...],
    rng: np.random.Generator,
    given: Mapping[Value, Content] = NOTHING,
) -> bool:
    """True where the values can be computed, for one of a few feeds."""
    results = tuple(r for root in roots for r in results_of(root))
    tried = (feeds(params, rng, special=False, arrays=given) for _ in range(TRIES))
    return any(computed_results(Graph(params, results), arrays) is not None for arrays in tried)


def same_bits(a: Content, b: Content) -> bool:
    """True for arrays, or lists of them, that are equal to the bit, all NaN being one."""
    if isinstance(a, list):
        parts = cast("list[Content]", a)
        return len(parts) == len(b) and all(map(same_bits, parts, b))
    if not is_array(a) or a.dtype.kind not in "fcV":
        return bool(np.array_equal(a, b))
    if a.dtype.kind == "c":
        return same_bits(np.real(a), np.real(b)) and same_bits(np.imag(a), np.imag(b))
    x, y = a.astype(np.float64), b.astype(np.float64)
    return bool(np.array_equal(x, y, equal_nan=True) and np.array_equal(np.signbit(x[x == 0]), np.signbit(y[y == 0])))


def same_marks(a: Content, b: Content) -> bool:
    """True for arrays that have NaN and infinities at the same places, and for all that are no arrays of floats."""
    if not is_array(a) or not DType.of(a.dtype).is_float:
        return True
    x, y = a.astype(np.float64), b.astype(np.float64)
    odd = ~np.isfinite(x) | ~np.isfinite(y)
    return bool(np.array_equal(x[odd], y[odd], equal_nan=True))


def text(*results: Value) -> str:
    """The values as a graph over the parameters that they reach."""
    params = tuple(v for v in post_order(results) if v.op == PARAM)
    flat = tuple(r for value in results for r in results_of(value))
    return Graph(params, flat, name="instance").text()


# ---------------------------------------------------------------------------------------------- on ONNX Runtime


def agree_on_runtime(
    name: str,
    roots: Value | Sequence[Value],
    found: Value | tuple[Value, ...],
    params: tuple[Value, ...],
    rng: np.random.Generator,
    given: Mapping[Value, Content] | None = None,
    names: Mapping[Value, str] = NOTHING,
    *,
    limits: Limits | None = None,
) -> bool:
    """Raises Counterexample where both sides, legalized for ONNX Runtime and run there without its own optimizations,
    differ by more than rounding; False where the instance says nothing there. With numbers that are `given`, the right
    side there must be what the left one is on the evaluator. What differs on the evaluator as well, by `limits` or by
    more than rounding, is said to differ there.

    That is so where there is no kernel for it, where something is empty (kernels may fail on that), and where it
    divides integers by what may be 0 (which ends the process).
    """
    old, new = sides(roots, found)
    graph = Graph(params, (*old, *new))
    if not all(isinstance(v.type, Tensor) for v in (*params, *old)) or not is_safe(graph):
        return False
    chosen = assignment(params, rng, given or {}, empty=False)
    arrays = feeds(params, rng, special=False, chosen=chosen, arrays=given or {}, plain=True)
    expected = plainly(graph, arrays)
    if expected is None:
        return False
    try:
        if given is not None:
            return agree_there(name, old, new, params, arrays, expected[: len(old)], names)
        got = run(graph, arrays)
    except Unrunnable:
        return False
    except Counterexample:
        differ_here(name, old, new, params, arrays, expected, rng, names, limits)
        raise
    for index in range(len(old)):
        difference = difference_of(got[index], got[len(old) + index], False)
        if difference is not None:
            differ_here(name, old, new, params, arrays, expected, rng, names, limits)
            why = f"differs on ONNX Runtime, {moved_sides(expected, got, index, len(old))}: {difference.what}"
            place = None if difference.index is None else (index, difference.index)
            both = got[: len(old)], got[len(old) :]
            raise Counterexample.of(Case(name, "runtime", why, old, new, params, names, tuple(arrays), *both, place))
    return True


def differ_here(
    name: str,
    old: tuple[Value, ...],
    new: tuple[Value, ...],
    params: tuple[Value, ...],
    arrays: Sequence[Content],
    expected: tuple[Content, ...],
    rng: np.random.Generator,
    names: Mapping[Value, str],
    limits: Limits | None,
) -> None:
    """Raises Counterexample where both sides differ on these numbers on the evaluator, too, which gives `expected`:
    other numbers are fed to ONNX Runtime than those on which the evaluator found them to agree."""
    if limits is not None:
        count_agreeing(name, old, new, params, arrays, rng, limits, names)
    left, right = expected[: len(old)], expected[len(old) :]
    for index, (one, other) in enumerate(zip(left, right, strict=True)):
        difference = difference_of(one, other, False)
        if difference is not None:
            place = None if difference.index is None else (index, difference.index)
            why = f"differs: {difference.what}"
            case = Case(name, "numbers", why, old, new, params, names, tuple(arrays), left, right, place)
            raise Counterexample.of(case)


def moved_sides(expected: tuple[Content, ...], got: tuple[Content, ...], index: int, count: int) -> str:
    """Which side of a result is not on ONNX Runtime what it is on the evaluator, in words."""
    sides = {"left": index, "right": count + index}
    moved = [side for side, at in sides.items() if difference_of(expected[at], got[at], False) is not None]
    if not moved:
        return "where each side is near what it is on the evaluator, and the two are not near each other"
    if len(moved) == 2:
        return "where neither side is what it is on the evaluator"
    return f"where the {moved[0]} side is not what it is on the evaluator"


def agree_there(
    name: str,
    old: tuple[Value, ...],
    new: tuple[Value, ...],
    params: tuple[Value, ...],
    arrays: Sequence[Content],
    expected: tuple[Content, ...],
    names: Mapping[Value, str],
) -> bool:
    """True; raises Counterexample where the right side on ONNX Runtime is not what the left one is on the evaluator.
    What was computed in a narrower type there is compared as that one, and relative to the largest number."""
    graph = Graph(params, new)
    there = run(graph, arrays)
    for i, (one, other) in enumerate(zip(expected, there, strict=True)):
        kind = DType.of(one.dtype)
        difference = difference_of(one, other, False)
        if difference is not None and kind in (DType.FLOAT, DType.DOUBLE):
            scale = float(np.abs(one).max(initial=1.0))
            step = 1e-5 if kind is DType.FLOAT or is_narrowed(graph) else 1e-8
            difference = compare(one, other, rtol=10 * step, atol=step * scale)
        if difference is not None:
            why = f"differs on ONNX Runtime, from the evaluator: {difference.what}"
            place = None if difference.index is None else (i, difference.index)
            case = Case(name, "runtime", why, old, new, params, names, tuple(arrays), expected, there, place)
            raise Counterexample.of(case)
    return True


def is_narrowed(graph: Graph) -> bool:
    """True where ONNX Runtime has no kernel for the element type of something in a graph, but for a narrower one."""
    ready = upstairs("passes").prepare(graph)
    return any(rule.startswith("downcast[") for v in ready.order for rule in v.origin.rules)


class Unrunnable(Exception):
    """ONNX Runtime has no kernel for something in a graph, or its kernel refuses the operands."""


def run(graph: Graph, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The results of a graph on ONNX Runtime. Raises Unrunnable."""
    from irkit.onnx.sessions import session  # brings in onnxruntime

    try:
        ready = upstairs("passes").prepare(graph)
        return session(ready, options=plain_options()).run(list(arrays))
    except (IrkitError, *refusals()) as error:
        raise Unrunnable(str(error)) from error


@cache
def refusals() -> tuple[type[Exception], ...]:
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, RuntimeException
    from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as Unimplemented

    return Fail, InvalidArgument, InvalidGraph, RuntimeException, Unimplemented, RuntimeError


def plain_options() -> Any:
    """Session options that change nothing in the graph, and print nothing."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return options


def is_safe(graph: Graph) -> bool:
    """False for a graph that may end the process that runs it: integers divided by what may be 0."""
    for value in graph.order:
        if value.op in ("Div", "Mod") and isinstance(value.type, Tensor) and value.dtype.is_integer:
            divisor = value.inputs[1]
            if divisor is None or divisor.blob is None or not np.all(divisor.blob.array):
                return False
    return True


def plainly(graph: Graph, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...] | None:
    """The results on the evaluator, where every number on the way is finite and nothing is empty; else None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            found = trace(graph, arrays, most=MOST_ELEMENTS)
        except EvaluateError:
            return None
    if not all(_is_plain(array) for value, array in found.items() if value.op != CONSTANT):
        return None
    return tuple(found[r] for r in graph.results)


def _is_plain(array: Content) -> bool:
    if not is_array(array):
        return True
    if not array.size:
        return False
    return array.dtype.kind not in "fV" or bool(np.isfinite(array.astype(np.float64)).all())
