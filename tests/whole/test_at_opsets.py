"""Models and operators of torch at older opsets: a sample, and what once failed."""

from __future__ import annotations

import warnings

import pytest

from passes.targets import OPSET
from passes.targets.targets import OLDEST
from tests.lowering.aten.oracle import OPS
from tests.support.at_opsets import TARGETS, Optimized, of_model, of_operator, problem
from tests.support.draws import drawn, generator
from tests.tables.coverage.measure import NOT_DETERMINED, Key
from tests.zoo.cases import TORCH_NN, TRANSFORMERS, case_named

MODELS = (("layers", TORCH_NN, 8), ("models", TRANSFORMERS, 1))
"""How many of each are drawn; a model of transformers takes torch.export seconds."""

OPERATORS, OPSETS = 16, 3
"""How many operators are drawn, and how many opsets for each program."""

ONCE_FAILED_MODELS = (("max_pool2d", 18, "onnxruntime-cpu"), ("transformer_encoder", 13, "onnxruntime-cpu"))
ONCE_FAILED = (
    ("nn.functional.adaptive_avg_pool3d", "dynamic", 18, "onnxruntime-cpu+com.microsoft"),
    ("fft.fft", "dynamic", 13, "onnxruntime-cpu"), ("fft.irfft", "dynamic", 13, "onnxruntime-cpu"),
    ("fft.rfftn", "dynamic", 13, "onnx"),
)  # fmt: skip


def pairs(name: str) -> list[tuple[str, int]]:
    """(target, opset) pairs for a program."""
    rng = generator(f"opsets of {name}")
    return [(rng.choice(TARGETS), opset) for opset in rng.sample(range(OLDEST, OPSET), OPSETS)]


def drawn_models() -> list[str]:
    """Names of models."""
    names = {title: [case.name for case in cases if not case.refused] for title, cases, _ in MODELS}
    return [name for title, _, count in MODELS for name in drawn(f"{title} at opsets", names[title], count)]


def drawn_operators() -> list[Key]:
    """Operators in float32."""
    names = [name for name, info in OPS.items() if info.name not in NOT_DETERMINED]
    rng = generator("modes at opsets")
    modes = {name: rng.choice(("static", "dynamic")) for name in names}
    return [Key(name, "float32", modes[name]) for name in drawn("operators at opsets", names, OPERATORS)]


def passes(given: Optimized, wanted: list[tuple[str, int]], refusable: bool = False) -> None:
    """Fails where a pair does."""
    for target, opset in wanted:
        why = problem(given, target, opset)
        assert not why or (refusable and why.startswith("refused")), f"opset {opset} on {target}: {why}"


@pytest.mark.parametrize("name", drawn_models())
def test_a_model_at_older_opsets(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        passes(of_model(case_named(name)), pairs(name))


@pytest.mark.parametrize("key", drawn_operators(), ids=lambda key: f"{key.op}-{key.mode}")
def test_an_operator_at_older_opsets(key: Key) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = of_operator(key)
        if given is not None:
            passes(given, pairs(key.op), refusable=True)


@pytest.mark.parametrize(("name", "opset", "target"), ONCE_FAILED_MODELS)
def test_a_model_that_once_failed(name: str, opset: int, target: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        passes(of_model(case_named(name)), [(target, opset)])


@pytest.mark.parametrize(("op", "mode", "opset", "target"), ONCE_FAILED)
def test_an_operator_that_once_failed(op: str, mode: str, opset: int, target: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = of_operator(Key(op, "float32", mode))
        assert given is not None
        passes(given, [(target, opset)])


def test_a_refusal_names_the_opset_that_does_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = of_operator(Key("logcumsumexp", "bfloat16", "static"))
        assert given is not None
        assert problem(given, "onnxruntime-cpu", 13).startswith("refused")
        passes(given, [("onnxruntime-cpu", 16)])
