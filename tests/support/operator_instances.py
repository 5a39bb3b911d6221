"""Random instances of single operators, drawn from a random generator: what `check` of an expansion is given.

Bases are the samples of tests/support/kernel_samples.py and ONNX's own node cases. Each is changed: all floats, or all
integers, of another element type that the schema allows; sizes that become symbols; operands that become constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.checking.instances import Instance, Retry
from irkit.core.ir import Graph, Value, param
from irkit.core.types import DType, Tensor, Tuple, tensor
from irkit.core.vocabulary import ITEM, PARAM
from irkit.core.walk import post_order
from irkit.errors import IrkitError
from irkit.ops.schemas import BODIES, TYPE_STRINGS, spec
from irkit.rewriting.sides import results_of
from tests.support.kernel_samples import F32, Draw, Sample
from tests.support.kernel_samples_nn import recurrent
from tests.support.kernel_samples_table import SAMPLES
from tests.support.node_cases import SIZES, Case, attribute_of, built, cases, fed
from tests.support.onnxruntime_node import schema_dtypes

FLOATS = (DType.FLOAT, DType.DOUBLE, DType.FLOAT16, DType.BFLOAT16)
INTEGERS = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.UINT32, DType.INT64, DType.UINT64)
WIDE = 64
"""Cases with larger sizes than this are left out: they take long, and say nothing more."""


class Drawn(Draw):
    """The choices of a sample, from a random generator."""

    def __init__(
        self, rng: np.random.Generator, kinds: Callable[[str, int], tuple[DType, ...]] = schema_dtypes
    ) -> None:
        self.rng, self.kinds = rng, kinds

    def draw(self, strategy: Any) -> Any:
        """Hypothesis strategies are not drawn from: what samples use of them is said below."""
        raise Retry("a strategy")

    def pick(self, choices: Sequence[Any]) -> Any:
        """One of the choices."""
        listed = list(choices)
        return listed[int(self.rng.integers(len(listed)))]

    def number(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, low: int = 0, high: int = 4, least: int = 0, most: int = 4) -> tuple[int, ...]:
        """A shape whose rank is from `low` to `high`."""
        sizes = [s for s in (2, 3, 1, 4, 0, 5, 2, 3) if least <= s <= most]
        return tuple(self.pick(sizes) for _ in range(self.number(low, high)))

    def axes(self, rank: int) -> np.ndarray:
        """Some axes, none twice."""
        chosen = self.rng.permutation(rank)[: self.number(0, rank)]
        return np.array([a - rank if self.rng.random() < 0.3 else a for a in chosen], dtype=np.int64)

    def dtype(self, op: str, operand: int = 0) -> DType:
        """An element type of numbers that the operand may have."""
        kinds = [k for k in self.kinds(op, operand) if k in (*FLOATS, *INTEGERS, DType.BOOL)]
        return self.pick(kinds)


# ---------------------------------------------------------------------------------------------- bases


def over_none(op: str) -> Callable[[Draw], Sample]:
    """A reduction over no axes, which leaves the tensor as it is or takes each element for itself."""

    def make(d: Draw) -> Sample:
        kind = d.pick(FLOATS) if "Log" in op else d.dtype(op)  # of integers each rounds logarithms as it likes
        x = d.array(kind, d.shape(0, 3), 0.5 if "Log" in op else -3, 3)
        axes = np.zeros(0, np.int64) if d.flag() else None
        return Sample((x, axes), {"noop_with_empty_axes": 1, "keepdims": d.flag()})

    return make


def sample_Reshape_allowzero(d: Draw) -> Sample:
    """Sizes of which a 0 is meant."""
    shape = d.shape(1, 3)
    wanted = [shape[i] for i in d.rng.permutation(len(shape))]
    return Sample((d.array(d.dtype("Reshape"), shape), np.array(wanted, np.int64)), {"allowzero": 1})


def sample_Split_uneven(d: Draw) -> Sample:
    """Parts of which the last is smaller."""
    x = d.array(d.dtype("Split"), d.shape(1, 3, least=1))
    axis = d.axis(x.ndim)
    count = d.number(1, min(3, x.shape[axis]))
    return Sample((x,), {"axis": axis, "num_outputs": count}, count)


def sample_Pad_axes(d: Draw) -> Sample:
    """Some axes, all modes."""
    mode = d.pick(["constant", "reflect", "edge", "wrap"])
    x = d.array(d.dtype("Pad"), d.shape(1, 3, least=1 if mode in ("constant", "wrap") else 3))
    axes = d.axes(x.ndim)
    most = 4 if mode == "wrap" else 2
    pads = np.array([d.number(0, most) for _ in range(2 * len(axes))], np.int64)
    return Sample((x, pads, d.array(x.dtype, ()) if mode == "constant" and d.flag() else None, axes), {"mode": mode})


def sample_Attention_more(d: Draw) -> Sample:
    """Windows, a mask of one row, the product that comes before the shares."""
    batch, heads, queries, size = d.number(1, 2), d.number(1, 2), d.number(1, 3), d.pick([2, 4])
    past = d.number(0, 2)
    q, k, v = (d.array(F32, (batch, heads, queries, size)) for _ in range(3))
    mask = d.array(F32, (1, queries + past)) if d.flag() else None
    before = [d.array(F32, (batch, heads, past, size)) for _ in range(2)] if past else []
    attributes: dict[str, Any] = {}
    if mask is None:
        attributes = {"left_window_size": d.number(-1, 2), "right_window_size": d.number(-1, 1)}
    return Sample((q, k, v, mask, *before), attributes, 3 if past else 1)


def sample_BatchNormalization_training(d: Draw) -> Sample:
    """By its own mean and variance."""
    x = d.array(d.pick([F32, DType.DOUBLE]), (d.number(2, 3), d.number(1, 3), *d.shape(0, 2, least=2)))
    given = [d.array(x.dtype, (x.shape[1],), 0.5, 2) for _ in range(4)]
    return Sample((x, *given), {"training_mode": 1, "epsilon": 1e-2, "momentum": 0.75}, d.pick([1, 3]))


def sample_LpPool_gaps(d: Draw) -> Sample:
    """Windows with gaps, and windows that are rounded up."""
    rank = d.number(1, 2)
    x = d.array(F32, (1, d.number(1, 2), *(d.number(4, 7) for _ in range(rank))))
    given = {"kernel_shape": [d.number(1, 2) for _ in range(rank)], "dilations": [d.number(1, 2) for _ in range(rank)],
             "strides": [d.number(1, 2) for _ in range(rank)], "ceil_mode": d.flag(), "p": d.number(1, 3)}  # fmt: skip
    return Sample((x,), given)


def layout(op: str, gates: int) -> Callable[[Draw], Sample]:
    """A recurrent layer with the batch in front."""

    def make(d: Draw) -> Sample:
        sample = recurrent(op, gates)(d)
        x, w, r, bias, lengths, *states = sample.inputs
        front = [None if v is None or v.ndim != 3 else v.transpose(1, 0, 2) for v in states]
        rest = [v if v is None or v.ndim != 3 else f for v, f in zip(states, front, strict=True)]
        return Sample(
            (x.transpose(1, 0, 2), w, r, bias, lengths, *rest), {**sample.attributes, "layout": 1}, sample.outputs
        )

    return make


def sample_Squeeze_none(d: Draw) -> Sample:
    """Axes that are given, and are none."""
    return Sample((d.array(d.dtype("Squeeze"), d.shape(1, 3)), np.zeros(0, np.int64)))


_REDUCED = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")


def texts(d: Draw, shape: tuple[int, ...]) -> np.ndarray:
    """Strings, some of them empty."""
    return np.array([d.pick(["", "a", "b c", " ", "a a"]) for _ in range(math.prod(shape))], object).reshape(shape)


def sample_Gather_texts(d: Draw) -> Sample:
    """Several strings at each place."""
    shape = d.shape(2, 3, least=1)
    places = np.array([d.number(-shape[0], shape[0] - 1) for _ in range(3)])
    return Sample((texts(d, shape), places[0] if d.pick([False, True]) else places), {"axis": 0})


def sample_StringSplit_texts(d: Draw) -> Sample:
    """Strings, some of them empty, split by a blank."""
    more = {"maxsplit": d.number(0, 2)} if d.pick([False, True]) else {}
    return Sample((texts(d, d.shape(1, 2)),), {"delimiter": " ", **more}, outputs=2)


MORE: Mapping[str, Callable[[Draw], Sample]] = {
    **{f"Reduce{name}:none": over_none(f"Reduce{name}") for name in _REDUCED},
    "Reshape:allowzero": sample_Reshape_allowzero, "Split:uneven": sample_Split_uneven, "Pad:axes": sample_Pad_axes,
    "Squeeze:none": sample_Squeeze_none,
    "Attention:more": sample_Attention_more, "BatchNormalization:training": sample_BatchNormalization_training,
    "Gather:texts": sample_Gather_texts, "StringSplit:texts": sample_StringSplit_texts,
    "LpPool:gaps": sample_LpPool_gaps, "AveragePool:gaps": lambda d: without_p(sample_LpPool_gaps(d)),
    **{f"{op}:layout": layout(op, gates) for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))},
}  # fmt: skip
"""What the expansions are about, and the kernels' samples leave out."""


def without_p(sample: Sample) -> Sample:
    """The sample for a pool that has no p."""
    return Sample(sample.inputs, {k: v for k, v in sample.attributes.items() if k != "p"})


def names_with_samples() -> tuple[str, ...]:
    """The operators of which there is a sample or a case."""
    return tuple(sorted({name.partition(":")[0] for name in SAMPLES} | {c.op for c in cases()}))


@cache
def names_of(op: str) -> tuple[str, ...]:
    """The samples of an operator."""
    return tuple(n for n in (*SAMPLES, *MORE) if n.partition(":")[0] == op)


@cache
def cases_of(op: str) -> tuple[Case, ...]:
    """ONNX's node cases of an operator that are models of one node without bodies, of small data."""
    return tuple(
        c
        for c in cases()
        if c.op == op
        and len(c.model.graph.node) == 1
        and not c.model.graph.initializer
        and all(np.size(x) <= WIDE**2 for x in c.inputs if isinstance(x, np.ndarray))
    )


def base(op: str, rng: np.random.Generator) -> tuple[list[Any], dict[str, Any], int | None]:
    """(operands as arrays, attributes, number of results asked for) of a random sample or case."""
    names, known = names_of(op), cases_of(op)
    if not names and not known:
        raise Retry(f"there is no sample of {op}")
    if names and (not known or rng.random() < 0.7):
        name = names[int(rng.integers(len(names)))]
        sample = (SAMPLES.get(name) or MORE[name])(Drawn(rng))
        return list(sample.inputs), dict(sample.attributes), sample.outputs
    case = known[int(rng.integers(len(known)))]
    (node,) = case.model.graph.node
    given = dict(zip((info.name for info in fed(case.model.graph)), case.inputs, strict=True))
    attributes = {a.name: attribute_of(a) for a in node.attribute}
    several = len(node.output) if spec(op).max_outputs > 1 else None
    return [given[n] if n else None for n in node.input], attributes, several


# ---------------------------------------------------------------------------------------------- instances


def instances_of(op: str) -> Callable[[np.random.Generator], Instance]:
    """The maker of instances of an operator, as `Rule.sample` takes it."""
    return lambda rng: instance_with_body(op, rng) if op in (*BODIES, *CLOSED) else instance_of(op, rng)


CLOSED = frozenset(("SequenceMap",))


def instance_of(op: str, rng: np.random.Generator) -> Instance:
    """A random instance: a value of the operator over parameters and constants, and the numbers for the parameters."""
    arrays, attributes, outputs = base(op, rng)
    arrays = retyped(op, arrays, attributes, rng)
    names = symbols_for(arrays, rng)
    fixed = [i in SIZES.get(op, ()) and rng.random() < 0.85 for i in range(len(arrays))]
    operands: list[Any] = []
    given: dict[Value, Any] = {}
    for index, x in enumerate(arrays):
        if x is None or not isinstance(x, np.ndarray):
            if x is not None:
                raise Retry("no tensor")
            operands.append(None)
        elif fixed[index] or rng.random() < 0.15:
            operands.append(const(x))
        else:
            shape = tuple(names.get(n, n) for n in x.shape)
            operands.append(param(Tensor(DType.of(x.dtype), shape)))
            given[operands[-1]] = x
    try:
        made = call(op, operands, attributes, outputs=outputs)
    except IrkitError as error:
        raise Retry(str(error)) from error
    return Instance((whole(made[0] if isinstance(made, tuple) else made),), given)


def retyped(op: str, arrays: list[Any], attributes: dict[str, Any], rng: np.random.Generator) -> list[Any]:
    """The operands with all that share a type variable with the first in another element type of the same kind."""
    tensors = [x for x in arrays if isinstance(x, np.ndarray)]
    if not tensors or rng.random() < 0.4:
        return arrays
    known = spec(op)
    old = DType.of(tensors[0].dtype)
    family = FLOATS if old in FLOATS else INTEGERS if old in INTEGERS else ()
    allowed = [k for k in family if TYPE_STRINGS[k] in known.allowed(known.formal(0))]
    if not allowed:
        return arrays
    new = allowed[int(rng.integers(len(allowed)))]
    variable = known.formal(0).type
    found = []
    for index, x in enumerate(arrays):
        formal = known.formal(index)
        same = isinstance(x, np.ndarray) and DType.of(x.dtype) is old
        if same and (formal.type == variable or (old in FLOATS and TYPE_STRINGS[new] in known.allowed(formal))):
            x = np.abs(x) if new.is_unsigned and not old.is_unsigned else x
            with np.errstate(all="ignore"):
                x = np.asarray(x).astype(new.numpy)
        found.append(x)
    return found


def symbols_for(arrays: Sequence[Any], rng: np.random.Generator) -> dict[int, Any]:
    """A symbol for some of the sizes: one size, one symbol, wherever it stands."""
    if rng.random() < 0.35:
        return {}
    sizes = sorted({n for x in arrays if isinstance(x, np.ndarray) for n in x.shape})
    return {n: dims.symbol(f"n{n}") for n in sizes if rng.random() < (0.5 if n > 1 else 0.3)}


@cache
def cases_with_body(op: str) -> tuple[Case, ...]:
    """ONNX's cases of an operator with a body."""
    return tuple(c for c in cases() if c.op == op and len(c.model.graph.node) == 1)


def instance_with_body(op: str, rng: np.random.Generator) -> Instance:
    """One of ONNX's cases of an operator with a body."""
    known = cases_with_body(op)
    case = known[int(rng.integers(len(known)))]
    made: dict[str, Value] = {}

    def make(name: str, type_: Any) -> Value:
        made[name] = param(type_)
        return made[name]

    results = [r for r in built(case, make) if r is not None]
    given = {
        made[info.name]: x for info, x in zip(fed(case.model.graph), case.inputs, strict=True) if info.name in made
    }
    root = results[0]
    return Instance((whole(root),), given)


def whole(result: Value) -> Value:
    """The operator that a result comes from."""
    return result.inputs[0] if result.op == ITEM and result.inputs[0] is not None else result


# ---------------------------------------------------------------------------------------------- rules with a pattern


def scan(rng: np.random.Generator) -> Instance:
    """A running sum along some axis, of a size that may be 0."""
    axis, backward = int(rng.integers(-2, 2)), int(rng.integers(2))
    rows, columns = int(rng.choice([0, 1, 3])), int(rng.choice([0, 1, 2]))
    sizes = (dims.symbol("n"), dims.symbol("m"))
    x = param(Tensor(DType.FLOAT, sizes))
    start = param(Tensor(DType.FLOAT, (sizes[1 - axis % 2],)))
    _, outs = op.Scan(
        start,
        x,
        body=lambda s, v: (op.Add(s, v), op.Mul(s, 2.0)),
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[axis],
        scan_input_directions=[backward],
        scan_output_directions=[backward],
    )
    data = rng.normal(size=(rows, columns)).astype(np.float32)
    return Instance((whole(outs),), {x: data, start: np.ones(data.shape[1 - axis % 2], np.float32)})


def loop(rng: np.random.Generator) -> Instance:
    """Rows of a size that varies, of as many rounds as a number, a condition or both allow, if any."""
    x, most, flag = param(tensor("f32", "n")), param(tensor("i64")), param(tensor("bool"))
    kind = int(rng.integers(3))
    _, rows = op.Loop(
        None if kind == 0 else most,
        True if kind == 1 else flag,
        np.float32(1),
        body=lambda i, c, s: (op.Less(s, 4.0) if kind == 0 else c, op.Add(s, 1.0), op.Mul(x, s)),
    )
    fed = {x: rng.normal(size=int(rng.integers(3))).astype(np.float32)}
    fed |= {} if kind == 0 else {most: np.array(rng.integers(-1, 4))}
    return Instance((whole(rows),), fed if kind == 1 else {**fed, flag: np.array(rng.random() < 0.5)})


def rough_factor(rng: np.random.Generator, name: str) -> Instance:
    """A product of float64 matrices times, or divided by, a number that float32 does not hold."""
    a, b = (param(tensor("f64", "n", "n")) for _ in range(2))
    factor = const(np.array(0.1))
    operands = [op.MatMul(a, b), factor]
    inner = operands if rng.random() < 0.5 else [getattr(op, name)(operands[0], np.array(1 / 3)), factor]
    data = {v: rng.normal(size=(3, 3)) for v in (a, b)}
    return Instance((getattr(op, name)(*inner),), data)


def linear_of_halves(rng: np.random.Generator) -> Instance:
    """A product of matrices of float16, of which there may be none, and a vector on either side of it."""
    a, b, c = (param(tensor("f16", *shape)) for shape in ((2, "n", 3), (3, 4), (4,)))
    product = op.MatMul(a, b)
    n = int(rng.choice([0, 1, 5]))
    data = {v: rng.normal(size=size).astype(np.float16) for v, size in ((a, (2, n, 3)), (b, (3, 4)), (c, (4,)))}
    return Instance((op.Add(product, c) if rng.random() < 0.5 else op.Add(c, product),), data)


def turned_product(rng: np.random.Generator) -> Instance:
    """A transposed stack of matrices, of which there may be none, times a matrix."""
    a, b = param(tensor("f32", "n", 3, "m")), param(tensor("f32", 3, 2))
    n, m = int(rng.choice([0, 1, 2])), int(rng.choice([0, 1, 4]))
    data = {a: rng.normal(size=(n, 3, m)).astype(np.float32), b: rng.normal(size=(3, 2)).astype(np.float32)}
    return Instance((op.MatMul(op.Transpose(a, perm=(0, 2, 1)), b),), data)


def turned_sizes(rng: np.random.Generator) -> Instance:
    """A Reshape of sizes that may be 0."""
    n, m = dims.symbol("n"), dims.symbol("m")
    x = param(Tensor(DType.FLOAT, (n, m, 4)))
    shapes = [(m, 2, n, 2), (2, m, dims.mul(2, n)), (m, dims.mul(4, n)), (m, n, 1, 4)]
    data = rng.normal(size=(int(rng.choice([0, 1, 3])), int(rng.choice([0, 1, 2])), 4)).astype(np.float32)
    return Instance((op.Reshape(x, shape_vector(shapes[int(rng.integers(len(shapes)))])),), {x: data})


def cut_spectrum(rng: np.random.Generator) -> Instance:
    """The inverse DFT of a half, to real numbers, of fewer places than the half has."""
    x, length = param(tensor("f32", 2, "n", 2)), int(rng.integers(1, 7))
    root = op.DFT(x, const(np.array(length)), const(np.array(1)), inverse=1, onesided=1)
    n = length // 2 + 1 + int(rng.integers(0, 3))
    return Instance((root,), {x: rng.standard_normal((2, n, 2)).astype(np.float32)})


def columns(rng: np.random.Generator) -> Instance:
    """Overlapping blocks of floats or of integers."""
    x = param(tensor(str(rng.choice(["f32", "i32"])), "n", 8, 9))
    data = (rng.standard_normal((int(rng.integers(0, 3)), 8, 9)) * 9).astype(x.dtype.numpy)
    return Instance((op.Col2Im(x, const(np.array([4, 4])), const(np.array([2, 2]))),), {x: data})


def mel_weights(rng: np.random.Generator) -> Instance:
    """Of computed operands, or of constants, in f32 or f16."""
    numbers = [int(rng.integers(1, 9)), int(rng.choice([16, 17, 64])), 8000]
    given = [np.array(n, np.int64) for n in numbers]
    given += [np.array(edge, np.float32) for edge in (rng.choice([0, 20.5]), rng.choice([3000, 4000]))]
    free = [param(tensor("i64" if g.dtype == np.int64 else "f32")) for g in given]
    operands = free if rng.random() < 0.5 else [const(g) for g in given]
    root = op.MelWeightMatrix(*operands, output_datatype=int(rng.choice([1, 10])))
    return Instance((root,), {v: g for v, g in zip(operands, given, strict=True) if v.op == PARAM})


OF_RULES: Mapping[str, Callable[[np.random.Generator], Instance]] = {
    "scan_of_other_axes": scan, "scan_of_nothing": scan, "loop_of_no_rounds": loop,
    "expand Mul": lambda rng: rough_factor(rng, "Mul"),
    "expand Div": lambda rng: rough_factor(rng, "Div"), "product_of_no_batch": turned_product,
    "plain_reshapes": turned_sizes, "expand Add": linear_of_halves, "expand DFT": cut_spectrum,
    "older Col2Im": columns, "older MelWeightMatrix": mel_weights,
}  # fmt: skip
"""Samples of expansions by the name of their rule, where an operator alone is no instance."""


def graph_of(instance: Instance) -> tuple[Graph, list[Any]]:
    """The instance as a graph over its parameters, and what to feed them."""
    (root,) = instance.roots
    params = tuple(v for v in post_order([root]) if v.op == PARAM)
    count = len(root.type.items) if isinstance(root.type, Tuple) else 1
    return Graph(params, results_of(root)[:count]), [(instance.arrays or {})[p] for p in params]
