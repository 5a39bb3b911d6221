"""Every expansion of legalization, both sides computed on random instances; and operators at every opset and in every
element type, by numbers, through a file and back.

`make expansions` checks many more instances of each.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import irkit
from irkit.checking.accuracy import MOST_ELEMENTS
from irkit.checking.agreement import computed_results, difference_of, is_allowed, is_safe, plainly
from irkit.checking.comparison import compare
from irkit.checking.instances import Retry
from irkit.checking.rules import check_rule
from irkit.core.ir import Graph, Value
from irkit.core.types import DType, Tensor
from irkit.errors import RewriteError
from irkit.evaluation.interpreter import evaluate
from irkit.evaluation.kernels.table import DRAWS
from irkit.onnx.sessions import session
from irkit.rewriting.face import Match, Rule, decline
from passes.legal.all_expansions import Expanded, all_expansions
from passes.preparing.prepare import prepare
from passes.targets import OPSET
from passes.targets.targets import OLDEST
from tests.support.draws import drawn
from tests.support.operator_instances import OF_RULES, graph_of, instances_of, names_with_samples

COUNT = int(os.environ.get("IRKIT_EXPANSIONS", "10"))
"""On how many instances each expansion is checked."""


def sampled(expanded: Expanded) -> Rule:
    """The rule with a sample: instances of its operator."""
    rule = expanded.rule
    if rule.sample is not None:
        return rule
    ops = getattr(rule.pattern, "ops", ())
    if rule.name in OF_RULES:
        return attrs.evolve(rule, sample=OF_RULES[rule.name])
    rule = attrs.evolve(rule, sample=instances_of(ops[0])) if len(ops) == 1 else rule
    unlike = UNLIKE.get(rule.name)
    return rule if unlike is None else without(rule, unlike)


def without(rule: Rule, unlike: Callable[[Value], bool]) -> Rule:
    """The rule, which declines for some values."""

    def function(m: Match) -> Any:
        return decline("no such operator is meant") if unlike(m.root) else rule.function(m)

    return attrs.evolve(rule, function=function)


def of_no_number(value: Value) -> bool:
    """True for a window of a near miss's element type."""
    return value.attribute("output_datatype") not in (None, DType.FLOAT, DType.DOUBLE, DType.FLOAT16, DType.BFLOAT16)


def of_no_grid(value: Value) -> bool:
    """True for a grid whose size is not known, is empty, or is for another number of images than there are."""
    theta, size = value.inputs
    sizes = size.blob.array.tolist() if size is not None and size.blob is not None else [0]
    return 0 in sizes or theta is None or sizes[0] != theta.shape[0]


def of_sizes_unknown(value: Value) -> bool:
    """True for attention whose sizes are not known, and may be 0, or with a mode that there is not."""
    known = all(type(d) is int for v in value.inputs if v is not None for d in v.shape)
    return not known or value.attribute("qk_matmul_output_mode", 0) not in range(4)


UNLIKE: dict[str, Callable[[Value], bool]] = {
    # means of integers lie half-way between two, and either may be taken
    "older Resize": lambda value: value.dtype.is_integer,
    **dict.fromkeys(("define BlackmanWindow", "define HammingWindow", "define HannWindow"), of_no_number),
    "define NegativeLogLikelihoodLoss": lambda v: v.attribute("reduction", "mean") not in ("mean", "sum", "none"),
    "define AffineGrid": of_no_grid,
    "define Attention": of_sizes_unknown,
    "define LogSoftmax": lambda v: not v.rank,
    "define Softmax": lambda v: not v.rank,
    "define ReduceL2": lambda v: v.dtype is DType.UINT64,  # squares are beyond its numbers
    "define Range": lambda v: any(x.rank for x in v.inputs if x is not None),
    "define RotaryEmbedding": lambda v: not all(type(d) is int for d in v.shape) or v.shape[-1] < 2,
}
"""Values that near misses make, and that ONNX does not allow, or of which either side may be right."""


DRAWN = drawn("expansions", list(all_expansions()), 120, key=lambda e: e.rule.name)


@pytest.mark.parametrize("expanded", DRAWN, ids=lambda e: e.rule.name.replace(" ", "-"))
def test_both_sides_of_the_expansion_are_equal(expanded: Expanded) -> None:
    rule = sampled(expanded)
    # one operator said by several is right, and seldom as precise
    assert check_rule(rule, COUNT, seed=zlib.crc32(rule.name.encode()) % 1000, measured=False).fired >= min(3, COUNT)


# -------------------------------------------------------------------------------- at every opset, in every element type

NOT_HERE = frozenset(("StringNormalizer", "ImageDecoder", "Dropout", "Split", *DRAWS))
"""Operators of which a run says nothing: by locale, with a package that is not there, at random; and Split, which a
sample may leave without the number of its parts."""

OPERATORS = tuple(name for name in names_with_samples() if name not in NOT_HERE)


def plain_instance(op: str, rng: np.random.Generator) -> tuple[Graph, list[Any], tuple[Any, ...]] | None:
    """(graph, what to feed it, its results) of a random instance over tensors; None where it has no value."""
    try:
        graph, arrays = graph_of(instances_of(op)(rng))
    except (Retry, IndexError, ValueError):
        return None
    tensors = all(isinstance(v.type, Tensor) for v in (*graph.params, *graph.results))
    if not tensors or not is_safe(graph) or not is_allowed(graph.results, graph.params, arrays):
        return None
    expected = computed_results(graph, arrays)
    return None if expected is None else (graph, arrays, expected)


def difference(expected: np.ndarray, got: np.ndarray, narrowed: bool) -> Any:
    """How results differ beyond rounding, relative to the largest number; None where they do not."""
    found, kind = difference_of(expected, got, False), DType.of(expected.dtype)
    if found is None or kind not in (DType.FLOAT, DType.DOUBLE):
        return found
    step = 1e-5 if kind is DType.FLOAT or narrowed else 1e-8
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    return compare(expected, got, rtol=10 * step, atol=step * float(largest))


def is_plain(graph: Graph, arrays: list[Any]) -> bool:
    """False where something on the way is empty, or no number: kernels of ONNX Runtime may fail on that."""
    return plainly(graph, arrays) is not None and all(np.size(a) for a in arrays)


@pytest.mark.parametrize("op", OPERATORS)
def test_an_operator_at_other_opsets_on_the_runtime_and_read_back(op: str) -> None:
    """Written at some opset, it gives on ONNX Runtime what it gives here, and so does what is read back."""
    rng = np.random.default_rng(zlib.crc32(op.encode()))
    done = 0
    for _ in range(COUNT):
        made = plain_instance(op, rng)
        opset = int(rng.integers(OLDEST, OPSET + 1))
        if made is None or done >= max(2, COUNT // 4):
            continue
        graph, arrays, expected = made
        try:
            ready = prepare(graph, opset=opset)
        except RewriteError as error:
            assert "opset" in str(error) or "kernel" in str(error)
            continue
        narrowed = any(rule.startswith("downcast[") for v in ready.order for rule in v.origin.rules)
        runs = [evaluate(irkit.load(irkit.to_proto(ready, opset=opset)), arrays, most=MOST_ELEMENTS)]
        runs += [session(ready, opset=opset).run(arrays)] if is_plain(graph, arrays) else []
        for got in runs:
            for one, other in zip(expected, got, strict=True):
                assert (found := difference(one, other, narrowed)) is None, f"opset {opset}: {found}\n{graph}\n{ready}"
        done += 1


def test_a_slip_in_an_expansion_is_found() -> None:
    """The comparison can fail: one expansion made wrong in four ways."""
    by_name = {e.rule.name: sampled(e) for e in all_expansions()}
    wrong: dict[str, Any] = {
        "expand Mean": lambda m, made: irkit.op.Mul(made, np.array(1.001, made.dtype.numpy)),
        "older Trilu": lambda m, made: irkit.op.Trilu(m.root.inputs[0], np.array(3), upper=0),
        "double Erf": lambda m, made: irkit.op.Cast(irkit.op.Cast(made, to=10), to=11),
        "expand TensorScatter": lambda m, made: irkit.op.Identity(m.root.inputs[0]),
    }
    for name, slip in wrong.items():
        rule = by_name[name]

        def function(m: Match, rule: Rule = rule, slip: Any = slip) -> Any:
            made = rule.function(m)
            return slip(m, made) if isinstance(made, Value) else made

        with pytest.raises(RewriteError, match="differ"):
            check_rule(attrs.evolve(rule, function=function), 30)
