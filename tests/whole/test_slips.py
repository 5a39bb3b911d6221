"""Slips of a user's pen: each is an error of irkit's own that says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import irkit
from irkit import op
from irkit.doors.cli import app
from irkit.doors.to_onnx import to_onnx
from irkit.pattern import hole, p
from passes import optimize, prepare

A = irkit.param(irkit.tensor("f32", "n", 4))
GRAPH = irkit.Graph((A,), (op.Neg(A),))
X = torch.ones(3)


def baked(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
    return x if y is None else x + y


SLIPS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "a result that is not a value": (
        lambda: irkit.Graph((A,), (3,)),  # type: ignore[arg-type]
        "parameters and results are a tuple of values, and (3,) was given",
        "write (value,) for one",
    ),
    "one value for the tuple of results": (
        lambda: irkit.Graph((A,), A),  # type: ignore[arg-type]
        "parameters and results are a tuple of values, and <f32[n, 4] Param> was given",
        "write (value,) for one",
    ),
    "a tuple among the results": (
        lambda: irkit.Graph((A,), (op.Split(A, num_outputs=2, axis=1),)),  # type: ignore[arg-type]
        "parameters and results are a tuple of values, and ((<f32[n, 2] Item>, <f32[n, 2] Item>),) was given",
        "an operator with several results, or with bodies, gives a tuple itself",
    ),
    "names of sizes in a list": (
        lambda: op.Reshape(A, ["n", 2, 2]),
        "Reshape: operand 1 is ['n', 2, 2], which is not an array",
        "irkit.shape_vector(sizes)",
    ),
    "sizes that vary in a list": (
        lambda: op.Reshape(A, (A.shape[0], 2, 2)),
        "Reshape: operand 1 is (n, 2, 2), which is not an array",
        "irkit.shape_vector(sizes)",
    ),
    "rows of different lengths": (
        lambda: op.Concat(A, [[1, 2], [3]], axis=0),
        "Concat: operand 1 is [[1, 2], [3]], which cannot be f32",
        "",
    ),
    "an operand by name": (
        lambda: op.Clip(A, max=6),  # type: ignore[call-arg]
        "Clip has no attribute 'max'",
        "it is operand 2",
    ),
    "a function for a rule": (
        lambda: irkit.rewrite(GRAPH, len),  # type: ignore[arg-type]
        "<built-in function len> is not a rule",
        "@rule(pattern) makes a rule",
    ),
    "no name of a file": (lambda: irkit.save(GRAPH, ""), "'' names no file", "give the name of a file"),
    "a class for a module": (
        lambda: to_onnx(torch.nn.Linear, (X,)),
        "Linear is a class, no module",
        "pass an instance: Linear(...)",
    ),
    "a tensor for None": (
        lambda: to_onnx(baked, (X, None))(X, torch.ones(1000)),
        "y is a Tensor, and the model was captured with y = None baked in",
        "capture it again with this value",
    ),
    "a number for a precision": (
        lambda: to_onnx(baked, (X,), precision=3),  # type: ignore[arg-type]
        "there is no precision 3",
        "known: float16",
    ),
    "a constant that is nothing": (lambda: irkit.const(None), "a constant cannot hold None", "give numbers"),
    "a constant with rows of different lengths": (
        lambda: irkit.const([[1], [2, 3]]),
        "[[1], [2, 3]] is not an array",
        "lists of one length",
    ),
    "a constant that is not a number": (lambda: irkit.const("one", "f32"), "'one' cannot be f32", ""),
    "an element type that there is not": (
        lambda: irkit.const(1, "f99"),
        "there is no element type 'f99'",
        "they are f32",
    ),
    "a word for a type": (lambda: irkit.param("f32"), "'f32' is not a type", "f32[batch, 4]"),
    "a word for the type of an operator of one's own": (
        lambda: irkit.custom("my::Own", A, type="f32"),  # type: ignore[arg-type]
        "my::Own: 'f32' is not a type",
        "irkit.tensor(",
    ),
    "an operator in small letters": (
        lambda: irkit.call("relu", [A]),
        "ONNX has no operator 'relu' at opset 26",
        "did you mean Relu?",
    ),
    "an operand too many": (lambda: irkit.call("Relu", [A, A]), "Relu takes 1 operand, and was given 2", ""),
    "a word for an element type": (
        lambda: op.Cast(A, to="float"),
        "Cast: attribute to must be of kind INT, and is 'float'",
        "irkit.DType.FLOAT",
    ),
    "a check of several rules": (
        lambda: irkit.check_rule(()),  # type: ignore[arg-type]
        "() is not a rule",
        "check one rule at a time",
    ),
    "a family for a rule": (lambda: irkit.explain("gelu", GRAPH), "'gelu' is not a rule", "@rule("),  # type: ignore[arg-type]
    "a question about nothing": (
        lambda: irkit.explain((), None),  # type: ignore[arg-type]
        "None is neither a value nor a graph",
        "graph.results[0]",
    ),
    "an ONNX model for a graph": (
        lambda: optimize(irkit.to_proto(GRAPH)),  # type: ignore[arg-type]
        "a ModelProto is not an irkit graph",
        "irkit.load(model)",
    ),
    "a program for a graph": (
        lambda: prepare(to_onnx(baked, (X,))),  # type: ignore[arg-type]
        "a Program is not an irkit graph",
        "program.graph",
    ),
    "path and graph the wrong way round": (
        lambda: irkit.save("model.onnx", GRAPH),  # type: ignore[arg-type]
        "a str is not an irkit graph",
        "irkit.load(model)",
    ),
    "an opset of long ago": (
        lambda: to_onnx(baked, (X,), opset=9),
        "irkit writes opsets 13 to 26, and was asked for 9",
        "ask for one of these",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_told(slip: str) -> None:
    make, what, hint = SLIPS[slip]
    with pytest.raises(irkit.IrkitError) as caught:
        make()
    assert caught.value.what == what and hint in caught.value.hint


def test_a_pattern_of_an_operator_that_there_is_not_is_refused_where_it_is_written() -> None:
    with pytest.raises(AttributeError, match=r"no operator 'Sofmax' \(did you mean Softmax\?\); p.op\(\"mydomain::"):
        p.Sofmax(hole("x"))
    assert p.op("mine::Sofmax")(hole("x")).ops == ("mine::Sofmax",)
    with pytest.raises(TypeError, match=r"'Relu' is not a pattern\n  try: write one by irkit\.pattern\.p"):
        irkit.rule("Relu")  # type: ignore[arg-type]


@pytest.mark.parametrize("content", ("text", "nothing", "one array"))
def test_samples_that_are_no_arrays_by_name_are_refused(tmp_path: Path, content: str) -> None:
    sample = tmp_path / "sample.npz"
    if content == "one array":
        with sample.open("wb") as file:
            np.save(file, np.ones(3))
    else:
        sample.write_text("some text" if content == "text" else "")
    irkit.save(GRAPH, tmp_path / "model.onnx")
    given = ["optimize", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "out.onnx"), "--precision", "float16"]
    found = CliRunner().invoke(app, [*given, "--sample", str(sample)])
    assert found.exit_code == 1 and "sample.npz holds no arrays by name" in found.stderr
