"""An equation of two pictures: a rule that is read from left to right, and from right to left."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

import attrs
import numpy as np

from irkit.checking.coverage import Checked
from irkit.checking.rules import check_rule, random_instance
from irkit.core.ir import Value
from irkit.core.types import Tuple, same_types, types_of
from irkit.equations.pictures import (
    Builder,
    Unfit,
    conditions_text,
    joined_conditions,
    names_in,
    refusal,
    with_conditions,
)
from irkit.errors import RewriteError, TypeRuleError
from irkit.pattern import Op, Pattern
from irkit.pattern.heads import describe
from irkit.pattern.language import number_pattern
from irkit.proofs.proofs import RANK, Proof, prove
from irkit.rewriting.rules import (
    Decline,
    Made,
    Match,
    Rule,
    Rules,
    Sample,
    decline,
    refuse_impossible,
    refused_by,
    rule,
)
from irkit.rewriting.sides import match_of
from irkit.support.counts import count_text
from irkit.support.results import as_tuple
from irkit.support.tracebacks import is_told

__tracebackhide__ = is_told

Pictures = Pattern | float | tuple[Pattern | float, ...]
"""One side of an equation: a pattern, a number, or several for several values."""

Side = tuple[Pattern, ...]

Condition = Callable[[Match], bool | Decline]
"""What must hold of a match, besides."""


@attrs.frozen(eq=False, repr=False)
class Equation:
    """Two pictures of one value, or of several: `forward` and `backward` are rules as any other.

    A direction exists where the picture that is built says everything: which operator, and what each hole holds.
    """

    name: str
    left: Side
    right: Side
    exact: bool = True
    where: Condition | None = None
    sample: Sample | None = None

    @property
    def impossible(self) -> tuple[str, str]:
        """Why there is no rule forward, and why none backward; each empty where there is one."""
        return missing_side(self.left, self.right), missing_side(self.right, self.left)

    @property
    def forward(self) -> Rule:
        """The rule from the left side to the right one. Raises RewriteError where that cannot be built."""
        return self._rule(0)

    @property
    def backward(self) -> Rule:
        """The rule from the right side to the left one. Raises RewriteError where that cannot be built."""
        return self._rule(1)

    @property
    def rules(self) -> Rules:
        """The rules of all directions that there are."""
        return tuple(self._rule(i) for i, why in enumerate(self.impossible) if not why)

    @property
    def flipped(self) -> Equation:
        """The same equation with its sides exchanged."""
        sample = None if self.sample is None or self.impossible[0] else backward_sample(self.forward)
        return attrs.evolve(self, left=self.right, right=self.left, sample=sample, name=f"{self.name}_backward")

    def check(self, n: int = 50, *, seed: int = 0, onnxruntime: bool = True) -> tuple[Checked, ...]:
        """Compares both sides by numbers, in each direction that there is (see `irkit.check_rule`).

        Raises Counterexample, a RewriteError, where they differ.
        """
        return tuple(check_rule(each, n, seed=seed, onnxruntime=onnxruntime) for each in self.rules)

    def prove(self, rank: int = RANK) -> tuple[Proof, ...]:
        """Whether it is true for all sizes, in each direction that there is (see `irkit.prove`)."""
        return tuple(prove(each, rank) for each in self.rules)

    def _rule(self, way: int) -> Rule:
        if self.impossible[way]:
            raise RewriteError(
                f"the equation {self.name} cannot be used {('forward', 'backward')[way]}: {self.impossible[way]}",
                ir=str(self),
                hint="use the other direction, or write a rule whose function builds that side: @irkit.rule(pattern)",
            )
        left, right = (self.left, self.right) if not way else (self.right, self.left)
        where = self.where

        def function(m: Match) -> Made:
            return refused_by(where, m, "the equation") or built(right, m)

        function.__name__ = self.name if not way else f"{self.name}_backward"
        function.__doc__ = f"{text_of(left)} -> {text_of(right)}"
        sample = self.sample if not way or self.sample is None or self.impossible[0] else backward_sample(self.forward)
        return rule(*left, exact=self.exact, sample=sample)(function)

    def __str__(self) -> str:
        said = conditions_text((*self.left, *self.right))
        named = "" if self.where is None else getattr(self.where, "__name__", "")
        said = "; ".join(filter(None, (said, "" if named == "<lambda>" else named)))
        return f"{text_of(self.left)} == {text_of(self.right)}{f', where {said}' if said else ''}"

    def __repr__(self) -> str:
        return f"<equation {self.name}: {self}>"


def text_of(side: Side) -> str:
    """One side of an equation as text."""
    return ", ".join(map(describe, side))


def missing_side(left: Side, right: Side) -> str:
    """Why no rule leads from one side to the other; empty where one does."""
    if not isinstance(left[0], Op) or any(not isinstance(each, Op) for each in left):
        return f"{text_of(left)} is no operator that could be looked for"
    known = names_in(left)
    return next(filter(None, (refusal(each, known) for each in right)), "")


def built(side: Side, m: Match) -> Made:
    """What a match makes of a side: the values, or why there are none of the same types."""
    builder = Builder.of(m)
    found: list[Value] = []
    try:
        for pattern, root in zip(side, m.roots, strict=True):
            made = as_tuple(builder.root(pattern, root))
            wanted = types_of(root.type)
            if len(made) != len(wanted) or any(
                same_types(v.type, t) is not True for v, t in zip(made, wanted, strict=False)
            ):
                return decline(f"{describe(pattern)} is not surely a {root.type!r} there")
            found += made
    except Unfit as error:
        return decline(str(error))
    return found[0] if len(side) == 1 and not isinstance(m.root.type, Tuple) else tuple(found)


def backward_sample(forward: Rule) -> Sample:
    """What makes instances of the right side: instances of the left one, rewritten."""

    def sample(rng: np.random.Generator) -> object:
        made = random_instance(forward, rng)
        m = None if made is None else match_of(forward, made.roots, frozenset)
        found = None if m is None else forward.function(m)
        if found is None or isinstance(found, Decline):
            raise TypeRuleError("the left side that was drawn has no right one", hint="another is drawn")
        return found

    return sample


def sides_of(given: object) -> Side:
    """One side of an equation, as patterns. Raises TypeRuleError for what is none."""
    several = cast("tuple[object, ...]", given) if isinstance(given, tuple) else (given,)
    if not several:
        raise TypeRuleError("a side of the equation is empty", hint="write a pattern: p.Add(x, y)")
    found: list[Pattern] = []
    for each in several:
        if isinstance(each, bool) or not isinstance(each, int | float):
            refuse_impossible(each)
            found.append(cast("Pattern", each))
        else:
            found.append(number_pattern(each))
    return tuple(found)


def words(side: Side) -> str:
    """The operators of a side in the order in which they are written, as part of a name."""
    names = re.findall(r"[A-Za-z]\w*(?=\()", text_of(side)) or re.findall(r"\w+", text_of(side)) or ["it"]
    return "_".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() for name in names)


def equation_of(
    left: Side,
    right: Side,
    where: Condition | None = None,
    *,
    exact: bool = True,
    name: str = "",
    sample: Sample | None = None,
) -> Equation:
    """The equation of two sides, each told what the other asks of the holes. Raises TypeRuleError as `equation`."""
    if len(left) != len(right):
        raise TypeRuleError(
            f"{count_text(len(left), 'value')} on the left, and {len(right)} on the right",
            hint="give each side as many patterns",
        )
    if where is not None and not callable(where):
        raise TypeRuleError(f"the condition {where!r} is not a function of a match", hint="write where=lambda m: ...")
    known = joined_conditions(left, right)
    sides = [tuple(with_conditions(each, known) for each in side) for side in (left, right)]
    title = name or f"{words(left)}_to_{words(right)}"
    made = Equation(title, sides[0], sides[1], exact, where, sample)
    if not made.rules:
        raise TypeRuleError(
            f"{made} says in neither direction what is to be built: {made.impossible[0]}",
            hint="write the same holes on both sides; what has to be computed is a rule: @irkit.rule(pattern)",
        )
    return made
