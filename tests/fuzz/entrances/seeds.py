"""What is damaged: sound models, texts and side files."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from onnx import ModelProto, TensorProto, helper
from pyrsistent import pmap

import irkit
from irkit import op
from irkit.core.ir import Fact, Graph, Port, Signature, param
from irkit.core.types import tensor
from irkit.dims import Range
from irkit.testing import random_graph
from tests.support.node_cases import cases
from tests.support.onnx_models import FLOAT, INT64, branch, function, make, model_of

GOLDEN = Path(__file__).parents[2] / "golden"
RANDOM_GRAPHS = 60


def contracted() -> Graph:
    """A graph with ranges, guards, state, a check and constants that were baked in."""
    x, cache_ = param(tensor("f32", "batch", 4)), param(tensor("f32", "past", 4))
    w = irkit.const(np.linspace(-1, 1, 400, dtype=np.float32).reshape(4, 100), name="w")
    grown = op.Concat(x, cache_, axis=0)
    facts = (
        Fact("guard", "batch % 2 == 0 and past >= 1", "model.py:3"),
        Fact("relation", "batch <= past", "model.py:4"),
        Fact("baked", "k == 4"),
        Fact("length", "len(xs) == 2"),
        Fact("check", "u0 > 3", "model.py:7"),
    )
    params = Port("x"), Port("cache", "state")
    results = Port("y", "output"), Port("new_cache", "state", "cache"), Port("ok", "check", "u0 > 3")
    ok = op.Greater(op.ReduceSum(x, keepdims=0), irkit.const(3.0, "f32"))
    return Graph(
        (x, cache_),
        (op.MatMul(op.Relu(x), w), grown, ok),
        pmap({"batch": Range(1, 64), "past": Range(0, None)}),
        Signature(params, results, facts, (("torch", "2.13"),)),
        "contracted",
    )


def by_hand() -> tuple[ModelProto, ...]:
    """Models of ONNX's rarer parts: functions, bodies, old opsets, typed fields, sparse and foreign things."""
    doubled = function("twice", ["a"], ["b"], [make("Add", ["a", "a"], ["b"])])
    outer = function(
        "four",
        ["a"],
        ["b"],
        [make(n, [i], [o], domain="local") for n, i, o in (("twice", "a", "c"), ("twice", "c", "b"))],
    )
    called = model_of(
        [make("four", ["x"], ["y"], domain="local")], [("x", ("n", 2))], ["y"], functions=[doubled, outer]
    )
    called.opset_import.append(helper.make_opsetid("local", 1))
    either = model_of(
        [
            make(
                "If",
                ["c"],
                ["y"],
                then_branch=branch([make("Relu", ["x"], ["t"])], ["t"]),
                else_branch=branch([make("Neg", ["x"], ["e"])], ["e"]),
            )
        ],
        [("x", ("n",)), ("c", (), TensorProto.BOOL)],
        ["y"],
    )
    body = helper.make_graph(
        [make("Add", ["s", "x"], ["s2"]), make("Identity", ["c"], ["c2"]), make("Identity", ["s2"], ["o"])],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, ()),
            helper.make_tensor_value_info("c", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("s", FLOAT, ("n",)),
        ],
        [helper.make_tensor_value_info(n, FLOAT, None) for n in ("c2", "s2", "o")],
    )
    loop = model_of(
        [make("Loop", ["m", "", "x"], ["y", "z"], body=body)], [("x", ("n",)), ("m", (), INT64)], ["y", "z"]
    )
    sizes = model_of(
        [
            make("Shape", ["x"], ["s"]),
            make("Gather", ["s", "zero"], ["n"]),
            make("Mul", ["n", "two"], ["n2"]),
            make("Concat", ["n2", "minus"], ["t"], axis=0),
            make("Reshape", ["x", "t"], ["r"]),
            make("Div", ["n", "two"], ["q"]),
            make("Range", ["z", "lim", "st"], ["g"]),
            make("Tile", ["g", "q"], ["y"]),
        ],
        [("x", ("2*n", "n + 1", 6))],
        ["r", "y"],
        initializers={
            "zero": np.array([0]),
            "two": np.array([2]),
            "minus": np.array([-1]),
            "z": np.array(0),
            "lim": np.array(9),
            "st": np.array(2),
        },
    )
    old = model_of(
        [
            make("Dropout", ["x"], ["d"], ratio=0.5),
            make("Slice", ["d"], ["e"], starts=[0], ends=[3], axes=[0]),
            make("Squeeze", ["e"], ["f"], axes=[1]),
            make("Clip", ["f"], ["g"], min=0.0),
            make("Upsample", ["u"], ["v"], scales=[1.0, 1.0, 2.0, 2.0]),
            make("BatchNormalization", ["v", "b", "b", "b", "b"], ["y"]),
        ],
        [("x", (4, 1, "n")), ("u", (1, 2, 3, 4))],
        ["g", "y"],
        7,
        initializers={"b": np.ones(2, np.float32)},
    )
    typed = model_of([make("Identity", [n], [n + "_"]) for n in "abcd"], [], [n + "_" for n in "abcd"])
    typed.graph.initializer.add(name="a", data_type=FLOAT, dims=[2, 2], float_data=[1, 2, 3, 4])
    typed.graph.initializer.add(name="b", data_type=TensorProto.STRING, dims=[2], string_data=[b"x", b"\xff"])
    typed.graph.initializer.add(name="c", data_type=TensorProto.FLOAT16, dims=[3], int32_data=[1, 2, 3])
    typed.graph.initializer.add(name="d", data_type=TensorProto.INT4, dims=[3], int32_data=[0x21, 3])
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("s", FLOAT, [2], [1, 2]), helper.make_tensor("i", INT64, [2], [1, 5]), [2, 3]
    )
    thin = model_of(
        [make("Constant", [], ["c"], sparse_value=sparse), make("Add", ["c", "x"], ["y"])], [("x", (2, 3))], ["y"]
    )
    foreign = model_of([make("Odd", ["x"], ["y"], domain="acme", level=3, text="é")], [("x", ("n", 2))], ["y"])
    foreign.opset_import.append(helper.make_opsetid("acme", 2))
    foreign.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, ("n", 2)))
    fused = model_of(
        [
            make("FusedGemm", ["x", "x"], ["g"], domain="com.microsoft", transB=1),
            make("BiasGelu", ["g", "b"], ["y"], domain="com.microsoft"),
        ],
        [("x", (3, 2)), ("b", (3,))],
        ["y"],
    )
    fused.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    numbers = model_of(
        [
            make("Constant", [], ["k"], value_ints=[3, -1]),
            make("Mul", ["k", "k"], ["k2"]),
            make("Div", ["k2", "k"], ["k3"]),
            make("Pow", ["k3", "k"], ["k4"]),
            make("Cast", ["k3"], ["f"], to=FLOAT),
            make("Mul", ["f", "x"], ["y"]),
            make("Mod", ["k2", "k"], ["m"]),
            make("Neg", ["m"], ["z"]),
        ],
        [("x", (2,))],
        ["y", "z"],
    )
    return called, either, loop, sizes, old, typed, thin, foreign, fused, numbers


@cache
def pool() -> tuple[ModelProto, ...]:
    """Sound models that are quick to make."""
    made = [irkit.to_proto(random_graph(np.random.default_rng(seed), 4 + seed % 9)) for seed in range(RANDOM_GRAPHS)]
    return (*by_hand(), irkit.to_proto(contracted()), *made)


@cache
def node_models() -> tuple[ModelProto, ...]:
    """The models of ONNX's node cases."""
    return tuple(case.model for case in cases() if case.model.ByteSize() < 40_000)


def model(random: Random, wide: bool) -> ModelProto:
    """A sound model; one in three is a node case of ONNX's where the draw is wide."""
    share = random.random()
    if wide and share < 0.35:
        return random.choice(node_models())
    if share < 0.7:
        return random.choice(pool()[:-RANDOM_GRAPHS])
    return random.choice(pool())


@cache
def graphs() -> tuple[Graph, ...]:
    """Graphs whose texts are damaged."""
    made = [random_graph(np.random.default_rng(seed), 3 + seed % 8) for seed in range(RANDOM_GRAPHS)]
    golden = [irkit.parse(path.read_text()) for path in sorted(GOLDEN.glob("*.ir"))]
    return (contracted(), *golden, *made)


@cache
def texts() -> tuple[str, ...]:
    """The texts of those graphs."""
    return tuple(str(graph) for graph in graphs())
