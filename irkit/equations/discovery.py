"""Equations that nobody wrote: small terms that are equal on numbers, checked, and those that known rules do not give.

As in TASO and Ruler: terms over chosen operators are enumerated by size and told apart by what they compute on random
numbers and on the ends of the ranges. What computes the same may be equal. All terms stand in one e-graph; what the
known rules, and the equations found so far, make one class there is nothing new. The rest is checked as every rule is,
the smallest first, and each equation that is true is applied to all terms before the next one is looked at.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count, product
from typing import Any

import attrs
import numpy as np

from irkit.build import const
from irkit.checking.draws import numbers
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor, tensor
from irkit.equations.equations import Equation, equation_of
from irkit.equations.functions import is_function, parameters_of, picture_of, word
from irkit.equations.pictures import Builder, Unfit
from irkit.errors import EvaluateError, IrkitError, RewriteError, TypeRuleError
from irkit.onnx.evaluate import evaluate
from irkit.ops.schemas import COMMUTATIVE, spec
from irkit.pattern import Hole, Op, Pattern
from irkit.pattern.heads import describe, names_of
from irkit.pattern.language import number_pattern, p
from irkit.pattern.predicates import typed_predicate
from irkit.rewriting.face import rewrite
from irkit.rewriting.rules import Match, Rules
from irkit.saturation.egraph import EGraph
from irkit.saturation.rounds import Bounds, Saturation, grow
from irkit.support.arguments import require_count
from irkit.support.counts import count_text
from irkit.text.types import type_of

NAMES = "xyzuvw"
ROUNDS = 15
"""On how many draws of all variables terms are compared."""

DIGITS = 7
"""To so many digits, in float64."""


@attrs.frozen(eq=False)
class Operator:
    """What terms are made with: a pattern over holes, which stand for the operands in order."""

    pattern: Op
    holes: tuple[str, ...]

    @property
    def is_commutative(self) -> bool:
        """Whether its two operands may change places."""
        return len(self.holes) == 2 and self.pattern.ops[0] in COMMUTATIVE


@attrs.frozen(eq=False)
class Term:
    """An expression: as a pattern over holes, and as a value over parameters; `size` is how many operators it has."""

    pattern: Pattern
    value: Value
    size: int


@attrs.frozen
class Discovery:
    """What was found: equations that are true and that no known rule gives, the smallest first; how many terms there
    were, how many of the pairs that look equal known rules make equal, and how many are not equal after all."""

    equations: tuple[Equation, ...]
    terms: int
    known: int
    untrue: int
    seconds: float

    def __str__(self) -> str:
        lines = [f"{each.name}: {each}" + ("" if each.exact else "  (of real numbers)") for each in self.equations]
        return "\n".join(
            [
                *lines,
                f"{count_text(len(self.equations), 'equation')} among {count_text(self.terms, 'term')}, "
                f"in {self.seconds:.0f} s; {self.known} "
                f"pairs are known to be equal, {self.untrue} only look so",
            ]
        )


def discover(
    operators: Iterable[Any],
    *,
    size: int = 2,
    types: Sequence[Tensor | str] = (),
    constants: Iterable[float] = (),
    rules: Rules = (),
    n: int = 20,
    most: int = 100,
    seconds: float = 120.0,
    seed: int = 0,
) -> Discovery:
    """Equations between terms of these operators that are true, and that neither `rules` nor one another give.

    Args:
        operators: names ("Add"), patterns over holes (`p.Softmax(x, axis=-1)`), or functions over values
            (`lambda x: op.ReduceSum(x, [-1])`).
        size: of how many operators a term is made at most.
        types: of the variables, x, y, z and so on, as values or as text ("f32[4, 4]"), without symbols; two matrices
            of floats without it. Floats are compared in float64.
        constants: numbers that stand in terms, too.
        rules: what is known: an equation that they give, in any order and direction that they have, is not offered.
        n: on how many instances each equation is checked, in each direction, as `irkit.check_rule` does.
        most: how many equations are wanted.
        seconds: how long it may take.
        seed: of the random numbers.

    Returns the equations, as values that give rules; those that hold only of floats, or of integers, say so.
    Raises TypeRuleError for what is no operator, and for a type that is none, or has symbols.
    """
    start = time.monotonic()
    if isinstance(operators, str):
        raise TypeRuleError(f"the operators are the text {operators!r}", hint=f"write [{operators!r}] for one")
    size = require_count(size, "size", TypeRuleError)
    given = tuple(map(variable_type, types)) or (tensor("f32", 4, 4),) * 2
    kinds = tuple(Tensor(DType.DOUBLE, t.shape) if t.dtype.is_float else t for t in given)
    run = _Search(kinds, rules, np.random.default_rng(seed), start + seconds)
    run.enumerate(tuple(map(operator_of, operators)), size, tuple(map(float, constants)))
    run.close(rules, seconds / 4)
    found = run.equations(n, most)
    return Discovery(tuple(found), len(run.terms), run.known, run.untrue, time.monotonic() - start)


def variable_type(given: Any) -> Tensor:
    """A type of a variable, of a value or a text. Raises TypeRuleError for one with symbols, and for none."""
    found = type_of(given) if isinstance(given, str) else given
    if not isinstance(found, Tensor) or any(type(d) is not int for d in found.shape):
        raise TypeRuleError(f"{given!r} is no type of a variable", hint='give tensors of known sizes, as "f32[4, 4]"')
    return found


def operator_of(given: Any) -> Operator:
    """A name, a pattern or a function as an operator. Raises TypeRuleError for anything else."""
    if isinstance(given, str):
        row = spec(given)
        holes = tuple(NAMES[: max(1, row.min_inputs)])
        return Operator(p.op(given)(*map(Hole, holes)), holes)
    if isinstance(given, Op):
        return Operator(given, tuple(sorted(names_of(given))))
    if is_function(given):
        names = parameters_of(given)
        (pattern,) = picture_of(given, names)
        if isinstance(pattern, Op):
            return Operator(pattern, names)
        raise TypeRuleError(f"{word(given)} draws no operator", hint="write lambda x: op.Softmax(x, axis=-1)")
    raise TypeRuleError(f"{given!r} is no operator", hint='give a name ("Add"), a pattern, or a function of values')


def substituted(pattern: Pattern, parts: Mapping[str, Pattern]) -> Pattern:
    """A pattern with others in the place of its holes."""
    if isinstance(pattern, Hole):
        return parts.get(pattern.name, pattern)
    if isinstance(pattern, Op):
        return attrs.evolve(pattern, operands=tuple(substituted(each, parts) for each in pattern.operands))
    return pattern


@attrs.define(eq=False)
class _Search:
    """The terms of one discovery, by what they compute, in one e-graph."""

    types: tuple[Tensor, ...]
    rules: Rules
    rng: np.random.Generator
    end: float
    terms: list[Term] = attrs.field(factory=list[Term])
    alike: dict[Hashable, list[Term]] = attrs.field(factory=dict[Hashable, list[Term]])
    made: Saturation | None = None
    params: tuple[Value, ...] = ()
    feeds: list[list[np.ndarray]] = attrs.field(factory=list[list[np.ndarray]])
    known: int = 0
    untrue: int = 0

    # ------------------------------------------------------------------------------------------ terms

    def enumerate(self, operators: tuple[Operator, ...], size: int, constants: tuple[float, ...]) -> None:
        """All terms of up to so many operators, over one term of each kind that computes the same."""
        self.params = tuple(param(t) for t in self.types)
        self.feeds = [self.numbers(i) for i in range(ROUNDS)]
        leaves = [Term(Hole(name), v, 0) for name, v in zip(NAMES, self.params, strict=False)]
        dtype = self.types[0].dtype
        leaves += [Term(number_pattern(c), const(np.array(c).astype(dtype.numpy)), 0) for c in constants]
        by_size: list[list[Term]] = [self.novel(leaves)]
        for wanted in range(1, size + 1):
            fresh = [t for each in operators for t in self.over(each, wanted, by_size)]
            by_size.append(self.novel(fresh))

    def over(self, operator: Operator, size: int, by_size: list[list[Term]]) -> Iterator[Term]:
        """The terms of so many operators whose outermost one is given."""
        for sizes in product(range(size), repeat=len(operator.holes)):
            if sum(sizes) != size - 1 or time.monotonic() > self.end:
                continue
            for operands in product(*(by_size[s] for s in sizes)):
                if operator.is_commutative and self.place(operands[0]) > self.place(operands[1]):
                    continue
                made = self.applied(operator, operands)
                if made is not None:
                    yield Term(made[0], made[1], size)

    def place(self, term: Term) -> tuple[int, str]:
        """What orders the operands of what is commutative."""
        return term.size, describe(term.pattern)

    def applied(self, operator: Operator, operands: tuple[Term, ...]) -> tuple[Pattern, Value] | None:
        """An operator over terms; None where it does not take them, and over constants alone."""
        if not any(t.value.inputs or t.value.op == "Param" for t in operands):
            return None
        bound = {name: t.value for name, t in zip(operator.holes, operands, strict=True)}
        builder = Builder(Match(operands[0].value, dict(bound)), dict(bound))
        try:
            made = builder.build(operator.pattern)
        except (Unfit, IrkitError):
            return None
        if not isinstance(made, Value) or not isinstance(made.type, Tensor):
            return None
        parts = {name: t.pattern for name, t in zip(operator.holes, operands, strict=True)}
        return substituted(operator.pattern, parts), made

    def numbers(self, index: int) -> list[np.ndarray]:
        """Numbers for the variables: moderate ones, of either sign."""
        found: list[np.ndarray] = []
        for each in self.types:
            shape = tuple(d if isinstance(d, int) else 4 for d in each.shape)
            if each.dtype.is_float:
                drawn = self.rng.normal(size=shape) * (1.0, 3.0)[index % 2]
                found.append(drawn.astype(each.dtype.numpy))
            else:
                found.append(numbers(self.rng, each.dtype, shape))
        return found

    def novel(self, fresh: list[Term]) -> list[Term]:
        """Those that compute what no term before them does; all are noted by what they compute."""
        found: list[Term] = []
        for term, key in zip(fresh, self.prints(fresh), strict=True):
            if key is None:
                continue
            self.terms.append(term)
            several = self.alike.setdefault(key, [])
            if not several:
                found.append(term)
            several.append(term)
        return found

    def prints(self, fresh: list[Term]) -> list[Hashable | None]:
        """What tells terms apart: their types, and what they compute in float64, to some digits."""
        if not fresh:
            return []
        graph = Graph(self.params, tuple(t.value for t in fresh))
        columns: list[list[bytes]] = [[] for _ in fresh]
        real = [0] * len(fresh)
        try:
            for arrays in self.feeds:
                for at, found in enumerate(evaluate(graph, arrays)):
                    columns[at].append(rounded(np.asarray(found)))
                    real[at] += count_finite(np.asarray(found))
        except EvaluateError:
            return [key for t in fresh for key in (self.prints([t]) if len(fresh) > 1 else [None])]
        keys: list[Hashable | None] = []
        for term, column, finite in zip(fresh, columns, real, strict=True):
            keys.append((repr(term.value.type), *column) if finite else None)
        return keys

    # ------------------------------------------------------------------------------------------ equations

    def close(self, rules: Rules, seconds: float) -> None:
        """Puts all terms into one e-graph, and joins what the rules make equal."""
        self.made = Saturation(Graph(self.params, tuple(t.value for t in self.terms)), EGraph())
        for term in self.terms:
            self.made.graph.add(term.value)
        if rules:
            grow(self.made, rules, Bounds(4 * self.made.graph.count + 2000, 4, seconds))

    def pairs(self) -> list[tuple[Term, Term]]:
        """Terms that compute the same, with the first of them: the smallest pairs first."""
        found = [(several[0], each) for several in self.alike.values() for each in several[1:]]
        return sorted(found, key=lambda pair: (pair[0].size + pair[1].size, *generality(pair)))

    def equations(self, n: int, most: int) -> list[Equation]:
        """Those that are true, and that nothing makes equal that is known or was found before."""
        found: list[Equation] = []
        terms: dict[str, tuple[Term, Term]] = {}
        for small, large in self.pairs():
            if len(found) >= most or time.monotonic() > self.end or self.made is None:
                break
            graph = self.made.graph
            if graph.class_of(small.value) == graph.class_of(large.value) or self.is_rewritten(small, large):
                self.known += 1
                continue
            each = self.true_one(small, large, n)
            if each is None:
                self.untrue += 1
                continue
            each = attrs.evolve(each, name=unlike(each.name, terms))
            terms[each.name] = small, large
            found.append(each)
            graph.join(graph.class_of(small.value), graph.class_of(large.value))
            graph.rebuild()
            grow(self.made, each.rules, Bounds(2 * graph.count + 500, 2, 2.0))
            grow(self.made, tuple(r for e in found for r in e.rules), Bounds(2 * graph.count + 500, 1, 2.0))
        return self.independent(found, terms)

    def is_rewritten(self, small: Term, large: Term) -> bool:
        """True where the known rules make one graph of both terms, applied as a pipeline applies them."""
        try:
            one, other = (rewrite(Graph(self.params, (t.value,)), self.rules) for t in (small, large))
        except RewriteError:  # rules that undo each other are for saturation alone
            return False
        return one == other

    def independent(self, found: list[Equation], terms: Mapping[str, tuple[Term, Term]]) -> list[Equation]:
        """Those that the others do not give together with the rules: the largest are left out first."""
        kept = list(found)
        for each in reversed(found):
            others = tuple(r for e in kept if e is not each for r in e.rules)
            small, large = terms[each.name]
            made = Saturation(Graph(self.params, (small.value, large.value)), EGraph())
            numbers = [made.graph.add(t.value) for t in (small, large)]
            grow(made, (*others, *self.rules), Bounds(600, 4, max(0.1, min(1.5, self.end - time.monotonic()))))
            if made.graph.find(numbers[0]) == made.graph.find(numbers[1]):
                kept.remove(each)
                self.known += 1
        return kept

    def true_one(self, small: Term, large: Term, n: int) -> Equation | None:
        """The equation of two terms in the widest form that is true: of all element types or of their kind, to the last
        bit or of real numbers."""
        kind = "float" if self.types[0].dtype.is_float else "integer"
        for exact in (True, False) if kind == "float" else (True,):
            for dtype in ("", kind):
                try:
                    made = equation_of((typed(large.pattern, dtype),), (typed(small.pattern, dtype),), exact=exact)
                    made.check(3, onnxruntime=False)
                    made.check(n, seed=1, onnxruntime=False)
                except TypeRuleError:
                    return None  # neither side says what the other is made of
                except RewriteError:
                    continue
                return made
        return None


def generality(pair: tuple[Term, Term]) -> tuple[int, int, str]:
    """What orders pairs of one size: more variables first, then those that are written shorter."""
    names = frozenset[str]().union(*(names_of(t.pattern) for t in pair))
    text = describe(pair[1].pattern)
    return -len(names), len(text), text


def unlike(name: str, taken: Mapping[str, object]) -> str:
    """The name, with a number where it is taken."""
    numbered = (f"{name}_{i}" for i in count(2))
    return name if name not in taken else next(each for each in numbered if each not in taken)


def count_finite(found: np.ndarray) -> int:
    """How many of the numbers are finite; all that are no floats."""
    return int(np.isfinite(found).sum()) if found.dtype.kind == "f" else found.size


def rounded(found: np.ndarray) -> bytes:
    """Numbers to some digits, as bytes; -0.0 is 0.0, and all NaN are one."""
    if found.dtype.kind not in "f" and DType.of(found.dtype).is_float:
        found = found.astype(np.float64)
    if found.dtype.kind != "f":
        return found.tobytes()
    exact = found.astype(np.float64)
    with np.errstate(all="ignore"):
        scale = 10.0 ** (DIGITS - np.ceil(np.log10(np.where((exact == 0) | ~np.isfinite(exact), 1.0, np.abs(exact)))))
        near = np.where(np.isfinite(exact), np.round(exact * scale) / scale, exact)
    near = np.where(np.abs(near) < 1e-9, 0.0, near)
    return np.where(np.isnan(near), np.nan, near).tobytes()


def typed(pattern: Pattern, dtype: str) -> Pattern:
    """The pattern with an element type for its holes."""
    if not dtype:
        return pattern
    if isinstance(pattern, Hole):
        return Hole(pattern.name, type=typed_predicate(dtype))
    if isinstance(pattern, Op):
        return attrs.evolve(pattern, operands=tuple(typed(each, dtype) for each in pattern.operands))
    return pattern
