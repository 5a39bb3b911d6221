"""What comes from strangers, at every entrance: one clear error of irkit's own, soon, or a result that is sound."""

from __future__ import annotations

import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

import irkit
from irkit import op
from irkit.contract.as_json import contract_of
from irkit.core.ir import Fact, Graph, Signature
from irkit.dims import conditions, notation
from irkit.errors import DimensionError, EvaluateError, IrkitError, LoadError, ParseError, SerializeError
from lowering import lower
from lowering.errors import CaptureError
from passes import optimize, prepare
from tests.fuzz.entrances import seeds_torch
from tests.fuzz.entrances.drawing import SHARES, drawn, settle
from tests.support.onnx_models import make, model_of, small
from tests.support.timing import spent

SHARE = {
    "load": 90,
    "optimize": 40,
    "text": 70,
    "contract": 25,
    "sizes": 40,
    "files": 15,
    "side": 15,
    "large": 3,
    "programs": 6,
    "shapes": 6,
    "options": 12,
    "commands": 4,
}
"""Of each entrance's draws, those in the suite; `make fuzz-io` draws them all."""


@pytest.mark.parametrize("door", SHARES)
def test_damage_gives_one_error_or_a_sound_result(door: str) -> None:
    settle(door)
    for seed in range(1_000_000, 1_000_000 + SHARE[door]):
        found = drawn(door, seed)
        assert found.kind in ("taken", "refused"), f"python -m tests.fuzz.entrances {door} --only {seed}\n{found.trace}"


# ---------------------------------------------------------------------------------------------- what the draws found


def with_bytes(model: ModelProto, old: bytes, new: bytes) -> bytes:
    """The bytes of a model with some of them replaced by as many others."""
    data = model.SerializeToString()
    assert old in data and len(old) == len(new)
    return data.replace(old, new)


def foreign() -> ModelProto:
    """A model with an operator of the domain `qqqq`, and metadata `kkkk`."""
    model = model_of([make("Odd", ["x"], ["y"], domain="qqqq")], [("x", (2,))], ["y"])
    model.opset_import.add(domain="qqqq", version=2)
    model.graph.output[0].CopyFrom(model.graph.input[0])
    model.graph.output[0].name = "y"
    model.metadata_props.add(key="kkkk", value="vvvv")
    return model


@pytest.mark.parametrize("text", [b"qqqq", b"kkkk", b"vvvv", b"Odd"])
def test_bytes_that_are_no_text_are_refused_or_replaced(text: bytes) -> None:
    data = with_bytes(foreign(), text, b"\xff\xfe\xc3("[: len(text)])
    try:
        graph = irkit.load(data)
    except LoadError as error:
        assert str(error).isprintable() or "\n" in str(error)
        return
    irkit.verify(graph)
    assert irkit.parse(graph.text()) == graph
    assert len(irkit.load(irkit.to_proto(graph)).results) == 1


def test_errors_can_be_printed_whatever_they_speak_of() -> None:
    with pytest.raises(ParseError) as caught:
        irkit.parse("input %x: \ud800[2]")
    assert str(caught.value).encode()


def computed(*nodes: Any, **constants: Any) -> ModelProto:
    """A model of integers that nodes compute."""
    return model_of(list(nodes), [("x", (2,))], ["y"], initializers={k: np.array(v) for k, v in constants.items()})


LEAST = -(2**63)
WRAPPED: dict[str, tuple[ModelProto, int]] = {
    "Mul": (computed(make("Mul", ["a", "b"], ["y"]), a=2**62, b=4), 0),
    "Add": (computed(make("Add", ["a", "b"], ["y"]), a=2**63 - 1, b=1), LEAST),
    "Sub": (computed(make("Sub", ["a", "b"], ["y"]), a=LEAST, b=1), 2**63 - 1),
    "Neg": (computed(make("Neg", ["a"], ["y"]), a=LEAST), LEAST),
    "ReduceProd": (computed(make("ReduceProd", ["a"], ["y"], keepdims=0), a=[2**40, 2**40]), 0),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_integers_that_overflow_are_computed_as_the_operator_does(name: str) -> None:
    model, wanted = WRAPPED[name]
    graph = irkit.load(model)
    x = np.ones(2, np.float32)
    assert [irkit.evaluate(g, [x])[0].tolist() for g in (graph, optimize(graph))] == [wanted] * 2
    assert isinstance(prepare(optimize(graph)), Graph)


def test_a_quotient_that_overflows_does_no_harm() -> None:
    graph = irkit.load(computed(make("Div", ["a", "b"], ["y"]), a=LEAST, b=-1))
    assert isinstance(prepare(optimize(graph)), Graph)  # its value is undefined, and ONNX Runtime may stop for it


def test_empty_tensors_of_vast_sizes_are_values_like_others() -> None:
    graph = irkit.parse("input %x: f32[0, 4611686018427387904]\n%0: f32[0, 4611686018427387904] = Relu(%x)\nreturn %0")
    irkit.verify(graph)
    better = prepare(optimize(graph))
    assert irkit.load(irkit.to_proto(better).SerializeToString()).params[0].shape == (0, 2**62)
    weight = model_of([make("Identity", ["w"], ["y"])], [], ["y"])
    weight.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[0, 2**62], raw_data=b"")
    try:
        loaded = irkit.load(weight)
        irkit.to_proto(optimize(loaded))
        irkit.evaluate(loaded, [])
    except IrkitError as error:
        assert "4611686018427387904" in str(error) or "size" in str(error)


def test_sizes_that_no_tensor_has_are_refused_where_they_arise() -> None:
    for pads in ([0, 2**63 - 1], [-9, 0]):
        model = model_of([make("Pad", ["x", "p"], ["y"])], [("x", (2,))], ["y"], initializers={"p": np.array(pads)})
        with pytest.raises(LoadError):
            irkit.load(model)
    with pytest.raises(LoadError, match="axes"):
        irkit.load(
            model_of([make("Reshape", ["x", "s"], ["y"])], [("x", (2,)), ("s", (10**6,), TensorProto.INT64)], ["y"])
        )


def test_outputs_of_one_name_are_refused() -> None:
    model = model_of([make("Relu", ["x"], ["y"])], [("x", (2,))], ["y", "y"])
    with pytest.raises(LoadError, match="two results are called 'y'"):
        irkit.load(model)


@pytest.mark.parametrize("kind", ["guard", "relation", "length", "baked", "check", "odd"])
@pytest.mark.parametrize(
    "text", ["", "n ==", "'", "len(x) == many", "0123 > n", "\0", "(" * 300, "u99 > 3", '"a b" > 1']
)
def test_any_fact_has_a_contract(kind: str, text: str) -> None:
    x = irkit.param(irkit.tensor("f32", "n"))
    said = contract_of(Graph((x,), (x,), signature=Signature(facts=(Fact(kind, text),))))
    assert all(fact["text"] != text for fact in said["guards"]), "nothing can check it"


@pytest.mark.parametrize(
    "text",
    [
        "ceil((n+1)**50/3)",
        "max((n+1)**60, 2**60*n)",
        "((n-1)**60) // (n+1)",
        "n // 0",
        "2**63*n",
        "max(" + ", ".join(f"{i}*n + {i}" for i in range(300)) + ")",
    ],
)
def test_large_sizes_take_no_time(text: str) -> None:
    with spent() as cost, suppress(DimensionError):
        size = notation.parse(text)
        irkit.dims.bounds(size, {})
        irkit.dims.evaluate(size, {"n": 3})
    assert cost.seconds < 1


def test_conditions_over_odd_numbers_are_false_or_refused() -> None:
    for text in ("n // 0 == 1", "n % 0 < 2", "sqrt(-n) == 1", "n == 1e400"):
        try:
            assert conditions.holds(text, {"n": 3}) is False
        except DimensionError:
            continue


# ---------------------------------------------------------------------------------------------- torch's files


def test_programs_that_are_damaged_give_one_error_each_time(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    path.write_bytes(seeds_torch.program())
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    model = next(name for name in held if name.endswith(".json") and "models" in name)
    for content in (b"", b"{", b"\xff\xfe", held[model][:900], held[model].replace(b'"schema_version"', b'"schema"')):
        with zipfile.ZipFile(path, "w") as archive:
            for name, kept in held.items():
                archive.writestr(name, content if name == model else kept)
        with pytest.raises(CaptureError):
            lower(path)
    data = bytearray(seeds_torch.program())
    at = data.rfind(b"PK\x01\x02")
    data[at] = 0
    path.write_bytes(data)
    with pytest.raises(CaptureError, match="damaged"):
        lower(path)
    path.write_bytes(seeds_torch.program())
    assert len(lower(path).results) == 3  # and what was held while the others were read is free again


# ------------------------------------------------------------------------------------------ arguments of the wrong kind

GRAPH = small()
X = GRAPH.params[0]
TAKE: dict[str, Callable[[Any], Any]] = {
    "parse": irkit.parse,
    "load": irkit.load,
    "load_text": irkit.load_text,
    "verify": irkit.verify,
    "save": lambda given: irkit.save(given, "never.onnx"),
    "save_text": lambda given: irkit.save_text(given, "never.irkit"),
    "save at": lambda given: irkit.save(GRAPH, given),
    "save_text at": lambda given: irkit.save_text(GRAPH, given),
    "to_proto": irkit.to_proto,
    "print_graph": irkit.print_graph,
    "evaluate": lambda given: irkit.evaluate(given, {}),
    "share": irkit.share,
    "rewrite": lambda given: irkit.rewrite(given, ()),
    "contract_of": contract_of,
    "optimize": optimize,
    "prepare": prepare,
    "item": lambda given: irkit.item(given, 0),
    "symbol": irkit.symbol,
    "constant": irkit.constant,
    "call_graph": lambda given: irkit.call_graph(given, X),
    "custom": lambda given: irkit.custom(given, X, type=X.type),
    "call": lambda given: irkit.call(given, [X]),
    "shape_vector": irkit.shape_vector,
    "substitute": lambda given: irkit.substitute(given, {}),
    "param": irkit.param,
    "op": op.Relu,
}


@pytest.mark.parametrize("given", [None, b"abc", 3, 1.5, [], object(), X], ids=lambda given: type(given).__name__)
@pytest.mark.parametrize("name", TAKE)
def test_arguments_of_the_wrong_kind_are_named(name: str, given: Any) -> None:
    if given is X and name in ("op",):
        return
    if name == "op" and isinstance(given, int | float | list):
        assert TAKE[name](given) is not None  # a number is a constant
        return
    if name == "shape_vector" and isinstance(given, bytes | list):
        assert TAKE[name](given).shape == (len(given),)  # bytes are numbers
        return
    with pytest.raises(IrkitError):
        TAKE[name](given)


def test_options_of_the_wrong_kind_are_named(tmp_path: Path) -> None:
    refused: list[tuple[type[IrkitError], Callable[[], Any]]] = [
        (SerializeError, lambda: irkit.save(GRAPH, tmp_path / "m.onnx", external=np.zeros(2))),  # type: ignore[arg-type]
        (SerializeError, lambda: irkit.to_proto(GRAPH, ir_version=True)),
        (ParseError, lambda: irkit.parse(str(GRAPH), blobs=3)),
        (EvaluateError, lambda: irkit.evaluate(GRAPH, 3)),  # type: ignore[arg-type]
        (IrkitError, lambda: optimize(GRAPH, fold=[])),  # type: ignore[arg-type]
        (IrkitError, lambda: optimize(GRAPH, True)),
        (IrkitError, lambda: lower(torch_relu(), (np.ones(2),), input_names=3)),  # type: ignore[arg-type]
    ]
    for error, action in refused:
        with pytest.raises(error):
            action()


def torch_relu() -> Any:
    """A module."""
    import torch

    return torch.nn.ReLU()


# ---------------------------------------------------------------------------------------------- an interrupt


@pytest.mark.parametrize("module", ["irkit", "irkit_command"])
def test_an_interrupt_while_irkit_is_imported_ends_in_one_line(module: str) -> None:
    line = [sys.executable, "-X", "importtime", "-m", module, "rules"]
    # Whoever runs the tests in the background of a shell hands down an interrupt that is ignored.
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=heeding)
    assert process.stderr is not None
    for told in process.stderr:  # one line for each module that was imported, as it goes on
        if told.strip().endswith((b" irkit_command", b" irkit.errors")):
            process.send_signal(signal.SIGINT)
            break
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 130
    assert b"interrupted" in rest
    assert b"Traceback" not in rest
