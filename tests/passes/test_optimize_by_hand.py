"""What `irkit optimize` does by default, on ONNX files written by hand: what is left, what is said, the numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from irkit.doors.cli import app

F, LONG, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
rng = np.random.default_rng(0)
WEIGHT = rng.normal(size=(64, 64)).astype(np.float32)


def info(name: str, shape: Any = ("n", 64), kind: int = F) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(" "), outputs.split(" "), **attributes)


def held(**arrays: Any) -> list[Any]:
    return [numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items()]


def model(nodes: list[Any], initializers: list[Any], results: tuple[Any, ...] = ()) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "by_hand", [info("x")], list(results) or [info("y")], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def loop(nodes: list[Any], initializers: list[Any], carried: int = 1) -> Any:
    """A Loop body over `carried` values s0, s1, ..., giving those that the nodes make as t0, t1, ..."""
    states = [info(f"s{i}") for i in range(carried)]
    return helper.make_graph(
        [node("Identity", "go", "on"), *nodes],
        "body",
        [info("i", (), LONG), info("go", (), B), *states],
        [info("on", (), B), *(info(f"t{i}") for i in range(carried))],
        initializers,
    )


def invariant() -> onnx.ModelProto:
    body = loop([node("Tanh", "w", "u"), node("MatMul", "x u", "v"), node("Add", "s0 v", "t0")], [])
    sizes = [node("Shape", "x", "shape"), node("Gather", "shape zero", "count")]
    return model([*sizes, node("Loop", "count  x", "y", body=body)], held(zero=np.array(0), w=WEIGHT))


def constant_if() -> onnx.ModelProto:
    def branch(op: str) -> Any:
        return helper.make_graph([node(op, "x", f"{op}_")], op, [], [info(f"{op}_")])

    nodes = [
        node("Greater", "a b", "c"),
        node("If", "c", "y", then_branch=branch("Tanh"), else_branch=branch("Exp")),
    ]
    return model(nodes, held(a=np.float32(1), b=np.float32(2)))


def unused_carry() -> onnx.ModelProto:
    body = loop([node("Mul", "s0 s0", "q"), node("Tanh", "q", "t0"), node("Exp", "s1", "t1")], [], 2)
    return model([node("Loop", "count  x x", "y unused", body=body)], held(count=np.array(2)))


def doubled_weights() -> onnx.ModelProto:
    nodes = [node("MatMul", "x v", "p"), node("Tanh", "p", "q"), node("MatMul", "q w", "y")]
    return model(nodes, held(v=WEIGHT, w=WEIGHT.copy()))


def twice_the_same() -> onnx.ModelProto:
    nodes = [
        node("Tanh", "x", "a"), node("Tanh", "x", "b"), node("Exp", "a", "c"), node("Exp", "b", "d"),
        node("Mul", "c d", "y"),
    ]  # fmt: skip
    return model(nodes, [])


def unused() -> onnx.ModelProto:
    return model([node("Tanh", "x", "y"), node("MatMul", "x w", "z")], held(w=WEIGHT))


def counted(made: onnx.ModelProto) -> list[str]:
    return sorted(n.op_type for n in made.graph.node)


def bodies(made: onnx.ModelProto) -> list[str]:
    """The operators inside of bodies."""
    return sorted(n.op_type for each in made.graph.node for a in each.attribute for n in a.g.node)


def is_free(made: onnx.ModelProto) -> bool:
    """True where no product is left in a body."""
    return not {"MatMul", "Gemm"}.intersection(bodies(made))


CASES: dict[str, tuple[Callable[[], onnx.ModelProto], str, Callable[[onnx.ModelProto], bool]]] = {
    "loop-invariant motion": (invariant, "hoist", lambda m: "Loop" in counted(m) and is_free(m)),
    "constant If": (constant_if, "simplify", lambda m: counted(m) == ["Exp"]),
    "unused carry": (unused_carry, "simplify", lambda m: "Exp" not in (*counted(m), *bodies(m))),
    "duplicate initializers": (doubled_weights, "share_contents", lambda m: len(m.graph.initializer) == 1),
    "equal values": (twice_the_same, "", lambda m: counted(m) == ["Exp", "Mul", "Tanh"]),
    "unused nodes": (unused, "", lambda m: counted(m) == ["Tanh"] and not m.graph.initializer),
}  # fmt: skip


def on_runtime(path: Path, feed: np.ndarray) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, {"x": feed})


def optimized(made: onnx.ModelProto, folder: Path, *options: str) -> tuple[onnx.ModelProto, str]:
    """(the model that `irkit optimize` writes, what it prints), after ONNX Runtime gave the same numbers for both."""
    given, written = folder / "given.onnx", folder / "made.onnx"
    onnx.checker.check_model(made, full_check=True)
    onnx.save(made, given)
    said = CliRunner().invoke(app, ["optimize", str(given), "-o", str(written), *options])
    assert said.exit_code == 0, said.output
    for rows in (1, 3, 0):
        feed = (rng.normal(size=(rows, 64)) * 0.1).astype(np.float32)
        for a, b in zip(on_runtime(given, feed), on_runtime(written, feed), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    return onnx.load(written), said.output


@pytest.mark.parametrize("name", CASES)
def test_it_is_done_by_default_and_said(tmp_path: Path, name: str) -> None:
    make, line, done = CASES[name]
    found, said = optimized(make(), tmp_path)
    assert done(found), (counted(found), bodies(found), said)
    assert f"{line}: " in said or not line, said


@pytest.mark.parametrize("name", ["constant If", "duplicate initializers", "equal values", "unused carry"])
def test_it_keeps_every_bit_at_level_one(tmp_path: Path, name: str) -> None:
    make, _, done = CASES[name]
    assert done(optimized(make(), tmp_path, "--level", "1")[0])


def test_nodes_are_written_in_an_order_that_every_runtime_takes(tmp_path: Path) -> None:
    wide = [node("MatMul", "x w", f"p{i}") for i in range(1)]
    for i in range(6):
        wide += [node("Tanh" if i % 2 else "Exp", f"p{i}", f"q{i}"), node("MatMul", f"q{i} w", f"p{i + 1}")]
    found, _ = optimized(model([*wide, node("Sum", "q0 q1 q2 q3 q4 q5 p6", "y")], held(w=WEIGHT * 0.01)), tmp_path)
    known = {"", "x", *(i.name for i in found.graph.initializer)}
    for each in found.graph.node:
        assert set(each.input) <= known, "a node stands before what it takes"
        known.update(each.output)


# -------------------------------------------------------------------------------- what is computed, and what stays lazy


@pytest.mark.parametrize("kind", ["Expand", "ConstantOfShape", "Transpose", "Tile", "Range"])
def test_large_constants_are_not_written_out(tmp_path: Path, kind: str) -> None:
    """Expanding a number, or turning a weight that is used twice, makes no file larger than it was."""
    big = np.array([1000, 64])
    nodes = {
        "Expand": [node("Expand", "one big", "c"), node("ReduceSum", "c axis", "d", keepdims=1)],
        "ConstantOfShape": [
            node("ConstantOfShape", "big", "c", value=helper.make_tensor("v", F, [1], [0.5])),
            node("ReduceSum", "c axis", "d", keepdims=1),
        ],
        "Transpose": [node("Transpose", "w", "t", perm=[1, 0]), node("MatMul", "w t", "c"),
                      node("ReduceMax", "c axis", "d", keepdims=1)],
        "Tile": [node("Tile", "row times", "c"), node("ReduceSum", "c axis", "d", keepdims=1)],
        "Range": [node("Range", "zero end step", "r"), node("Cast", "r", "c", to=F), node("ReduceMean", "c axis", "d")],
    }[kind]  # fmt: skip
    arrays = held(
        one=np.float32(0.5),
        big=big,
        axis=np.array([0]),
        w=WEIGHT,
        row=WEIGHT[:1],
        times=np.array([1000, 1]),
        zero=np.array(0),
        end=np.array(64_000),
        step=np.array(1),
    )
    given = model([*nodes, node("Add", "x d", "y")], arrays)
    used = {name for n in given.graph.node for name in n.input}
    kept = [i for i in given.graph.initializer if i.name in used]
    del given.graph.initializer[:]
    given.graph.initializer.extend(kept)
    optimized(given, tmp_path)
    before, after = ((tmp_path / f"{name}.onnx").stat().st_size for name in ("given", "made"))
    assert after < before + 2000, f"{before} bytes became {after}"


def test_the_limit_is_the_user_s(tmp_path: Path) -> None:
    nodes = [node("Expand", "one big", "c"), node("Mul", "c c", "d"), node("ReduceSum", "d axis", "e", keepdims=1),
             node("Add", "x e", "y")]  # fmt: skip
    given = model(nodes, held(one=np.float32(0.5), big=np.array([1000, 64]), axis=np.array([0])))
    lazy, _ = optimized(given, tmp_path)
    assert "Add" in counted(lazy) and len(lazy.graph.node) > 1
    eager, said = optimized(given, tmp_path, "--fold", "100000")
    assert counted(eager) == ["Add"] and "nodes to 1" in said
    none, _ = optimized(given, tmp_path, "--fold", "0")
    assert len(none.graph.node) >= len(lazy.graph.node)
