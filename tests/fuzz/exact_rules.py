"""Rules that claim every bit, held to it: both sides on numbers from the ends of each element type.

Instances are those of `check_rule`, and near misses of them. What they are fed, and what their constants hold, are the
largest and smallest numbers, subnormal ones, -0.0, infinities, NaN and numbers that round. Both sides are compared on
the evaluator and, where every kernel is there, on ONNX Runtime as the file says it (its own optimizations are off).

`python -m tests.fuzz.exact_rules --instances 200` checks all of them. Needs no torch.
"""

from __future__ import annotations

import argparse
import resource
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import attrs
import ml_dtypes
import numpy as np

from irkit import dims
from irkit.build import const
from irkit.checking.accuracy import MOST_ELEMENTS
from irkit.checking.agreement import Unrunnable, computed_results, is_allowed, is_safe, run, same_bits
from irkit.checking.comparison import compare
from irkit.checking.counterexamples import Case, Counterexample
from irkit.checking.draws import assignment
from irkit.checking.instances import Retry
from irkit.checking.near_misses import near_miss, rebuild_over
from irkit.checking.rules import random_instance
from irkit.core.ir import Graph, Value
from irkit.core.types import DType, Tensor, dims_of
from irkit.core.vocabulary import CONSTANT, PARAM
from irkit.core.walk import post_order
from irkit.errors import EvaluateError, IrkitError, RewriteError, TypeRuleError
from irkit.evaluation.interpreter import evaluate
from irkit.rewriting.driver import bound_by
from irkit.rewriting.face import Decline, Rule
from irkit.rewriting.sides import match_of, sides
from tests.support.sweeps import Found, Piece, options, resumed, summary

Rng = np.random.Generator


def ends_of(dtype: DType) -> np.ndarray:
    """The numbers of an element type on which operators err: its ends, subnormal ones, zeros of both signs, what is no
    number, and a few that round."""
    if dtype is DType.BOOL:
        return np.array([False, True])
    if dtype is DType.STRING:
        return np.array(["", "a", "b c"], dtype=object)
    plain = np.array([0, 1, -1, 2, 3, 0.5, -2.5, 1 / 3, 7])
    if dtype.is_integer:
        wide = dtype.bits >= 8
        info: Any = np.iinfo(dtype.numpy) if wide else ml_dtypes.iinfo(dtype.numpy)
        few = [n for n in (0, 1, 2, 3, -1, -2, 7, 2**31, -(2**31), 2**32 + 1) if info.min <= n <= info.max]
        with np.errstate(invalid="ignore"):  # numpy's, of casts to integers of 2 and 4 bits
            return np.array([*few, info.min, info.max, info.max - 1]).astype(dtype.numpy)
    if dtype.is_complex:
        return plain.astype(dtype.numpy)
    about: Any = ml_dtypes.finfo(dtype.numpy)
    largest, least, tiny = (float(v) for v in (about.max, about.smallest_normal, about.smallest_subnormal))
    with np.errstate(all="ignore"):
        ends = [largest, -largest, largest / 2, largest / 1.5, least, -least, tiny, -tiny, 3 * tiny, -0.0]
        return np.array([*plain, *ends, np.nan, np.inf, -np.inf]).astype(dtype.numpy)


def filled(rng: Rng, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """An array of such numbers."""
    return np.asarray(rng.choice(ends_of(dtype), shape)).astype(dtype.numpy).reshape(shape)


def with_ends(roots: tuple[Value, ...], rng: Rng) -> tuple[Value, ...]:
    """The values with such numbers in some of their constants of floats. Raises Retry where there are none."""
    order = post_order(roots)
    constants = [v for v in order if v.op == CONSTANT and v.dtype.is_float and v.blob is not None]
    if not constants:
        raise Retry("no constant of floats")
    instead: dict[Value, Any] = {}
    for value in constants:
        numbers = filled(rng, value.dtype, value.shape if rng.random() < 0.5 else ())
        instead[value] = const(np.broadcast_to(numbers, value.shape).copy())
    made = rebuild_over(order, instead)
    return tuple(made[r] for r in roots)


@attrs.define
class Count:
    """How often both sides were compared, on the evaluator and on ONNX Runtime."""

    fired: int = 0
    compared: int = 0
    on_runtime: int = 0


def applied(rule: Rule, roots: tuple[Value, ...]) -> Any:
    """What a rule makes of values; None where it declines or does not match."""
    params = tuple(v for v in post_order(roots) if v.op == PARAM)
    symbols = frozenset(s for v in params for d in dims_of(v.type) for s in bound_by(d))
    m = match_of(rule, roots, lambda: symbols)
    found = None if m is None else rule.function(m)
    return None if found is None or isinstance(found, Decline) or found is roots[0] or found == roots else found


def agree(rule: Rule, roots: tuple[Value, ...], given: Any, rng: Rng, count: Count, near: bool) -> None:
    """Compares both sides on such numbers, where the rule fires; near misses, some of which ONNX does not allow and
    which may end the process there, on the evaluator only. Raises RewriteError where a bit differs."""
    try:
        found = applied(rule, roots)
    except TypeRuleError:  # of near misses that say sizes that do not fit
        params = tuple(v for v in post_order(roots) if v.op == PARAM)
        if valued(roots, params, rng) is not None and given is None:
            raise
        return
    if found is None:
        return
    count.fired += 1
    params = tuple(v for v in post_order(roots) if v.op == PARAM)
    if not all(isinstance(p.type, Tensor) for p in params):
        return
    old, new = sides(roots if rule.others else roots[0], found)
    for _ in range(3):
        arrays = fed(params, given or {}, rng)
        try:
            expected = computed_results(Graph(params, old), arrays)
            if expected is None or not is_allowed(old, params, arrays):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                actual = evaluate(Graph(params, new), arrays, most=MOST_ELEMENTS)
        except MemoryError:  # a near miss may count to 2**40
            continue
        compared(rule, "on the evaluator", old, new, params, arrays, (expected, actual))
        count.compared += any(e.size if isinstance(e, np.ndarray) else len(e) for e in expected)
        count.on_runtime += not near and compared_there(rule, old, new, params, arrays, expected)


def valued(roots: tuple[Value, ...], params: tuple[Value, ...], rng: Rng) -> Any:
    """The results of some values on such numbers; None where they have none."""
    found = (computed_results(Graph(params, roots), fed(params, {}, rng)) for _ in range(3))
    return next((each for each in found if each is not None), None)


def fed(params: tuple[Value, ...], given: Any, rng: Rng) -> list[Any]:
    """An array for each parameter, integers of those that are given as they are."""
    chosen = assignment(params, rng, given)
    found = []
    for value in params:
        shape = tuple(dims.evaluate(d, chosen) for d in value.shape)
        plain = value in given and not value.dtype.is_float
        small = value.dtype.is_integer and rng.random() < 0.3
        made = filled(rng, value.dtype, shape)
        found.append(given[value] if plain else rng.integers(0, 3, shape).astype(value.dtype.numpy) if small else made)
    return found


def divides_by_less_one(graph: Graph) -> bool:
    """True for a graph that divides integers by -1: of the least one that ends the process, as it does in C++."""
    return any(
        v.op in ("Div", "Mod") and v.dtype.is_integer and v.inputs[1].blob is not None and -1 in v.inputs[1].blob.array  # type: ignore[union-attr]
        for v in graph.order
    )


def compared_there(rule: Rule, old: Any, new: Any, params: tuple[Value, ...], arrays: list[Any], expected: Any) -> bool:
    """True where ONNX Runtime runs both sides. Raises RewriteError where the right one differs there from the left one,
    which it may compute wrongly, and from what that is on the evaluator."""
    graph = Graph(params, (*old, *new))
    if not all(isinstance(v.type, Tensor) for v in (*params, *old)) or not is_safe(graph) or divides_by_less_one(graph):
        return False
    try:
        got = run(graph, arrays)
    except Unrunnable:
        return False
    plain = [unsigned(found) for found in got]
    if all(same_bits(unsigned(one), other) for one, other in zip(expected, plain[len(old) :], strict=True)):
        return True
    if any(v.op in BY_PLACE for v in graph.order) and all(map(nearly_same, plain[: len(old)], plain[len(old) :])):
        return True
    compared(rule, "on ONNX Runtime", old, new, params, arrays, (plain[: len(old)], plain[len(old) :]))
    return True


BY_PLACE = frozenset((
    "Cos", "Sin", "Tan", "Exp", "Log", "Tanh", "Sinh", "Cosh", "Sigmoid", "Erf", "Pow", "Softplus", "Gelu", "Mish",
    "Swish", "Elu", "Selu", "Celu", "Softmax", "LogSoftmax", "Asinh", "Acosh", "Atanh", "Atan", "Asin", "Acos",
))  # fmt: skip
"""Functions whose last bit hangs on where an element lies in memory: ONNX Runtime computes several at once, and those
that are left over by other instructions."""


def nearly_same(one: Any, other: Any) -> bool:
    """Whether two results are equal but for the last bits of floats."""
    if not isinstance(one, np.ndarray) or not DType.of(one.dtype).is_float:
        return same_bits(one, other)
    unit = 4 * float(ml_dtypes.finfo(one.dtype).eps)
    return compare(one, other, rtol=unit, atol=unit) is None


def unsigned(found: Any) -> Any:
    """An array with all its zeros positive: kernels of ONNX Runtime, such as that of Where, lose the sign of zero."""
    if not isinstance(found, np.ndarray) or not DType.of(found.dtype).is_float:
        return found
    return np.where(found == 0, np.zeros((), found.dtype), found)


def compared(rule: Rule, where: str, old: Any, new: Any, params: Any, arrays: Any, results: Any) -> None:
    """Raises RewriteError where a bit of the results differs."""
    for one, other in zip(*results, strict=True):
        if not same_bits(one, other):
            what = f"differs {where}: {np.asarray(one).tolist()} and {np.asarray(other).tolist()}"
            kind = "runtime" if "Runtime" in where else "numbers"
            case = Case(rule.name, kind, what, tuple(old), tuple(new), tuple(params), {}, tuple(arrays), *results)
            raise Counterexample.of(case)


def missed(roots: tuple[Value, ...], rng: Rng) -> tuple[Value, ...]:
    """The values of a near miss. Raises Retry where there is none."""
    return near_miss(roots, rng).roots


def check_bits(rule: Rule, instances: int, seed: int = 0, patience: int = 20) -> Count:
    """How often both sides of a rule were compared on its instances. Raises RewriteError where a bit differs."""
    rng, count = np.random.default_rng([zlib.crc32(rule.name.encode()), seed]), Count()
    for _ in range(instances * patience):
        if count.fired >= instances:
            break
        made = random_instance(rule, rng)
        if made is None:
            continue
        agree(rule, made.roots, made.arrays, rng, count, near=False)
        for change in (with_ends, missed, lambda roots, rng: with_ends(missed(roots, rng), rng)):
            try:
                roots = change(made.roots, rng)
            except (Retry, IrkitError):
                continue
            agree(rule, roots, made.arrays, rng, count, near=change is not with_ends)
    return count


MEMORY = 8 << 30
"""How many bytes a run may take: numbers that are changed can ask for a Range of any length."""


def checked(piece: Piece, tell: Callable[[str], None]) -> Found:
    """What came of a rule on a seed: counts, or what differs."""
    from tests.tables.rules import RULES

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    (rule,) = (rule for rule in RULES if rule.name == piece[0])
    try:
        return attrs.asdict(check_bits(rule, int(piece[2]), int(piece[1])))
    except (RewriteError, EvaluateError, TypeRuleError) as error:
        return {"error": str(error)}


def main() -> int:
    """Checks every rule that is declared exact; 1 where a bit of one differs."""
    from tests.tables.rules import RULES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    parser.add_argument("--only", default="", help="a part of the names of rules")
    options("exact_rules", parser)
    given = parser.parse_args()
    names = [rule.name for rule in RULES if rule.exact and given.only in rule.name]
    seeds = range(given.seed, given.seed + given.seeds)
    pieces: list[Piece] = [(name, seed, given.instances) for seed in seeds for name in names]
    rows = resumed(given.results, checked, pieces, given.jobs, given.seconds)
    wrong = [p for p in pieces if p in rows and not rows[p].get("fired")]
    for piece in wrong:
        print(f"WRONG {piece[0]} {piece[1]}: {rows[piece].get('error', rows[piece].get('ended', 'it never fired'))}")
    print(summary(rows, pieces, "fired", "compared", "on_runtime"))
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
