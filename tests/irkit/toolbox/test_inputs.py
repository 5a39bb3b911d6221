"""Inputs for a model: sizes that it allows, arrays of its types, arrays of files."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyrsistent import pmap

import irkit
from irkit import op
from irkit.core.ir import Fact
from irkit.errors import IrkitError
from irkit.testing import typed_graphs
from irkit.toolbox.inputs import (
    drawn_inputs,
    fitted_inputs,
    ranges_from,
    several_sizes,
    sizes_fed,
    sizes_for,
    sizes_from,
)
from irkit.toolbox.running import require_contract, run_all, run_whole, write_arrays


def bounded() -> irkit.Graph:
    x = irkit.param(irkit.tensor("f32", "n", "m"))
    facts = (Fact("guard", "m == 3*n"),)
    ports = irkit.Signature((irkit.Port("x"),), (irkit.Port("y", "output"),), facts)
    return irkit.Graph((x,), (op.Relu(x),), pmap({"n": irkit.Range(2, 9), "m": irkit.Range(1, None)}), ports)


def test_sizes_keep_to_ranges_and_conditions() -> None:
    assert sizes_for([bounded()], {}) == {"n": 2, "m": 6}
    assert sizes_for([bounded()], {"n": 5}) == {"n": 5, "m": 15}
    with pytest.raises(irkit.ContractError, match="was captured for n in"):
        sizes_for([bounded()], {"n": 20})
    with pytest.raises(irkit.ContractError, match="m == 3"):
        sizes_for([bounded()], {"n": 2, "m": 5})
    for sizes in several_sizes([bounded()], {}, 3, 0):
        assert sizes["m"] == 3 * sizes["n"]


def test_texts_are_read_and_others_refused() -> None:
    assert sizes_from(["n=3", "m=0"]) == {"n": 3, "m": 0}
    assert ranges_from(["ids=0:10"]) == {"ids": (0.0, 10.0)}
    for wrong in ("n", "n=", "n=-1", "=3", "n=x"):
        with pytest.raises(IrkitError, match="gives no size"):
            sizes_from([wrong])
    with pytest.raises(IrkitError, match="gives no range"):
        ranges_from(["ids=3"])


def test_integers_are_indices_that_any_table_has_unless_a_range_is_given() -> None:
    ids = irkit.param(irkit.tensor("i64", "n"))
    graph = irkit.Graph((ids,), (op.Neg(ids),), signature=irkit.Signature((irkit.Port("ids"),)))
    rng = np.random.default_rng(0)
    assert set(drawn_inputs(graph, {"n": 50}, rng)["ids"].tolist()) == {0, 1}
    assert drawn_inputs(graph, {"n": 500}, rng, {"ids": (3, 40)})["ids"].max() > 30


@settings(max_examples=20)
@given(typed_graphs(3), st.integers(0, 99))
def test_what_is_drawn_is_what_the_contract_admits(graph: irkit.Graph, seed: int) -> None:
    sizes = sizes_for([graph], {})
    feeds = drawn_inputs(graph, sizes, np.random.default_rng(seed))
    require_contract(graph, feeds)
    assert sizes_fed(graph, feeds).items() <= sizes.items()


def test_arrays_of_a_file_come_back_in_their_types(tmp_path: Path) -> None:
    types = {"a": "bf16", "b": "f32", "c": "str", "d": "i4"}
    params = tuple(irkit.param(irkit.tensor(dtype, 2)) for dtype in types.values())
    ports = irkit.Signature(tuple(irkit.Port(name) for name in types))
    graph = irkit.Graph(params, params, signature=ports)
    feeds = drawn_inputs(graph, {}, np.random.default_rng(0))
    with (tmp_path / "x.npz").open("wb") as file:
        write_arrays(file, [*feeds.items(), ("s", [np.zeros(1), np.ones(2)]), ("nothing", None)])
    with np.load(tmp_path / "x.npz") as stored:
        assert stored["s/1"].shape == (2,) and "nothing" not in stored
        again = fitted_inputs(graph, {name: stored[name] for name in types})
    assert again["a"].dtype == ml_dtypes.bfloat16
    assert irkit.compare(list(feeds.values()), list(again.values())) is None
    with pytest.raises(IrkitError, match="no input called 'z'"):
        fitted_inputs(graph, {"z": np.zeros(1)})


def test_runtimes_agree_and_every_value_is_told(tmp_path: Path) -> None:
    x = irkit.param(irkit.tensor("f32", "n", 4))
    signature = irkit.Signature((irkit.Port("x"),), (irkit.Port("y", "output"),))
    graph = irkit.Graph((x,), (op.Softmax(op.Exp(x)),), signature=signature)
    irkit.save(graph, tmp_path / "m.onnx", target="onnxruntime-cpu")
    feeds = {"x": np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)}
    ours, _ = run_whole(graph, feeds, "irkit", None)
    theirs, seconds = run_whole(graph, feeds, "onnxruntime", tmp_path / "m.onnx")
    assert irkit.compare(ours["y"], theirs["y"]) is None and seconds > 0
    for runtime in ("irkit", "onnxruntime"):
        told: dict[str, np.ndarray] = {}
        results = run_all(graph, feeds, runtime, lambda name, _, result, told=told: told.update({name: result}))
        assert list(told) == ["0", "y"] and irkit.compare(results["y"], ours["y"]) is None
        assert irkit.compare(told["0"], np.exp(feeds["x"])) is None
