"""ONNX's own cases and operators of older opsets, as graphs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper

import irkit
from irkit.errors import LoadError
from irkit.onnx import sessions
from tests.support.node_cases import data_of
from tests.support.onnx_models import make, model_of

# ---------------------------------------------------------------------------------------------- ONNX's node cases

NOT_READ = {
    "test_scan_sum": "Scan of opset 8",
    "test_loop13_seq": "a sequence cannot hold both",  # the model says that the elements have rank 0, and they have not
    "test_loop16_seq_none": "a sequence cannot hold both",
    "test_identity_sequence": "has no shape",
    "test_sequence_insert_at_back": "has no shape",
    "test_sequence_insert_at_front": "has no shape",
    "test_affine_grid_2d_expanded": "the rank of the result depends",
    "test_affine_grid_2d_align_corners_expanded": "the rank of the result depends",
    "test_affine_grid_3d_expanded": "",
    "test_affine_grid_3d_align_corners_expanded": "",
}
"""Cases of opsets up to 26 that are refused, and in what words."""


def node_cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return [case for case in collect_testcases(None) if case.model is not None]


def newest(model: ModelProto) -> int:
    """The opset of a model that the IR does not reach; 0 where every domain is within it."""
    return max((o.version for o in model.opset_import if o.domain == "" and o.version > 26), default=0)


def test_node_cases_load_and_run_as_they_did() -> None:
    """Every case of opsets up to 26 loads, but for those in NOT_READ. Each fourth one runs on ONNX Runtime after a
    round trip and gives what the case says, or what ONNX Runtime makes of the original."""
    failures: list[str] = []
    ran = 0
    for number, case in enumerate(node_cases()):
        try:
            graph = irkit.load(case.model)
        except LoadError as error:
            known = NOT_READ.get(case.name)
            if not newest(case.model) and "ai.onnx.preview" not in case.model.opset_import[-1].domain and known is None:
                failures.append(f"{case.name}: {error}")
            if known is not None and known not in str(error):
                failures.append(f"{case.name}: {error}")
            continue
        model = irkit.to_proto(graph)
        if number % 4 or not case.data_sets:
            continue
        inputs, outputs = case.data_sets[0]
        try:
            actual = sessions.run(model, [data_of(d) for d in inputs])
        except Exception:  # no kernel, or an input that it refuses: then it refuses the original as well
            assert not runs(case.model, inputs), case.name
            continue
        ran += 1
        wanted = tuple(data_of(d) for d in outputs)
        if differs(wanted, actual) and differs(runs(case.model, inputs), actual):
            failures.append(f"{case.name}: {irkit.compare(wanted, actual)}")
    assert failures == []
    assert ran > 350


def runs(model: ModelProto, inputs: Any) -> Any:
    """What ONNX Runtime makes of a case's own model; None where it cannot run it."""
    copy = ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = min(copy.ir_version, 13)
    for entry in copy.opset_import:
        entry.version = min(entry.version, 26) if entry.domain == "" else entry.version
    try:
        return sessions.run(copy, [data_of(d) for d in inputs])
    except Exception:
        return None


def differs(wanted: Any, actual: Any) -> bool:
    """True where two results of a case are not the same."""
    return wanted is None or irkit.compare(tuple(wanted), tuple(actual), rtol=1e-3, atol=1e-3) is not None


# ---------------------------------------------------------------------------------------------- older opsets

X = np.random.default_rng(0).standard_normal((2, 3, 4, 4)).astype(np.float32)
OLD: dict[str, tuple[int, list[Any], dict[str, Any]]] = {
    "squeeze": (12, [make("Unsqueeze", ["x"], ["u"], axes=[0]), make("Squeeze", ["u"], ["y"], axes=[0])], {}),
    "reduce": (17, [make("ReduceMean", ["x"], ["y"], axes=[1, -1], keepdims=0)], {}),
    "reduce_sum": (11, [make("ReduceSum", ["x"], ["y"], axes=[2])], {}),
    "reduce_all": (17, [make("ReduceMax", ["x"], ["y"])], {}),
    "slice": (9, [make("Slice", ["x"], ["y"], starts=[1, 0], ends=[3, 9], axes=[1, 3])], {}),
    "split": (11, [make("Split", ["x"], ["y", "z"], axis=1, split=[1, 2])], {}),
    "split_evenly": (13, [make("Split", ["x"], ["y", "z"], axis=2)], {}),
    "clip": (10, [make("Clip", ["x"], ["y"], min=-0.5, max=0.25)], {}),
    "clip_one": (6, [make("Clip", ["x"], ["y"], min=0.0)], {}),
    "dropout": (10, [make("Dropout", ["x"], ["y"], ratio=0.3)], {}),
    "pad": (10, [make("Pad", ["x"], ["y"], pads=[0, 0, 1, 1, 0, 0, 0, 2], value=1.5)], {}),
    "pad_edge": (2, [make("Pad", ["x"], ["y"], pads=[0, 0, 1, 1, 0, 0, 0, 2], mode="edge")], {}),
    "softmax": (12, [make("Softmax", ["x"], ["y"], axis=2)], {}),
    "softmax_last": (11, [make("LogSoftmax", ["x"], ["y"], axis=3)], {}),
    "hardmax": (8, [make("Hardmax", ["x"], ["y"])], {}),
    "upsample": (8, [make("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 2.0], mode="nearest")], {}),
    "upsample_9": (9, [make("Upsample", ["x", "s"], ["y"], mode="linear")], {"s": np.array([1, 1, 2, 2], np.float32)}),
    "resize_10": (10, [make("Resize", ["x", "s"], ["y"])], {"s": np.array([1, 1, 2, 2], np.float32)}),
    "resize_11": (
        11,
        [make("Resize", ["x", "roi", "e", "sizes"], ["y"], mode="linear")],
        {"roi": np.zeros(0, np.float32), "e": np.zeros(0, np.float32), "sizes": np.array([2, 3, 7, 5])},
    ),
    "batch_norm": (
        9,
        [make("BatchNormalization", ["x", "c", "b", "b", "c"], ["y"], epsilon=1e-3)],
        {"c": np.array([1, 2, 3], np.float32), "b": np.array([0.5, 0, -1], np.float32)},
    ),
    "topk": (9, [make("TopK", ["x"], ["y", "i"], k=2, axis=1)], {}),
    "add_axis": (
        6,
        [make("Add", ["x", "b"], ["y"], broadcast=1, axis=1)],
        {"b": np.array([1, 2, 3], np.float32)},
    ),
    "cast": (5, [make("Cast", ["x"], ["i"], to="INT32"), make("Cast", ["i"], ["y"], to="FLOAT")], {}),
    "reshape": (1, [make("Reshape", ["x"], ["y"], shape=[0, -1])], {}),
    "scatter": (
        9,
        [make("Scatter", ["x", "i", "u"], ["y"], axis=0)],
        {"i": np.zeros((1, 1, 1, 2), np.int64), "u": np.ones((1, 1, 1, 2), np.float32)},
    ),
    "gemm": (
        6,
        [make("Flatten", ["x"], ["f"]), make("Gemm", ["f", "w", "b"], ["y"], broadcast=1)],
        {"w": np.ones((48, 5), np.float32), "b": np.arange(5, dtype=np.float32)},
    ),
    "group_norm": (
        18,
        [make("GroupNormalization", ["x", "c", "b"], ["y"], num_groups=1)],
        {"c": np.array([2], np.float32), "b": np.array([0.5], np.float32)},
    ),
    "grid_sample": (
        16,
        [make("GridSample", ["x", "g"], ["y"], mode="bicubic")],
        {"g": np.linspace(-1, 1, 2 * 3 * 3 * 2).reshape(2, 3, 3, 2).astype(np.float32)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OLD)
def test_older_operators_keep_their_meaning(name: str) -> None:
    opset, nodes, initializers = OLD[name]
    outputs = list(nodes[-1].output)
    model = model_of(nodes, [("x", X.shape)], outputs, opset, initializers)
    if opset < 9:
        model.ir_version = 3
        model.graph.input.extend(
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in initializers.items()
        )
    graph = irkit.load(model)
    assert [p.name for p in graph.signature.params] == ["x"]
    actual = sessions.run(graph, [X])
    expected = original(model, name)
    assert irkit.compare(expected, actual) is None


def original(model: ModelProto, name: str) -> tuple[Any, ...]:
    """What the original means: by ONNX Runtime from opset 7 on, by hand below."""
    flat = X.reshape(2, 48)
    by_hand: dict[str, Callable[[], Any]] = {
        "add_axis": lambda: X + np.array([1, 2, 3], np.float32)[:, None, None],
        "cast": lambda: np.trunc(X),
        "reshape": lambda: flat,
        "gemm": lambda: flat @ np.ones((48, 5), np.float32) + np.arange(5, dtype=np.float32),
        "clip_one": lambda: np.maximum(X, 0),
        "pad_edge": lambda: np.pad(X, ((0, 0), (0, 0), (1, 0), (1, 2)), mode="edge"),
    }
    return (by_hand[name](),) if name in by_hand else sessions.run(model, [X])


def test_what_cannot_be_upgraded_says_so() -> None:
    nodes = [make("Tile", ["x", "t", "a"], ["y"])]
    one = np.array([1], np.int64)
    with pytest.raises(LoadError, match="Tile of opset 5"):
        irkit.load(model_of(nodes, [("x", (2,))], ["y"], 5, {"t": one, "a": one}))
    with pytest.raises(LoadError, match=r"no operator 'NoSuchThing' at opset 18"):
        irkit.load(model_of([make("NoSuchThing", ["x"], ["y"])], [("x", (2,))], ["y"], 18))
