"""What torch's kernels ask of integers in the data is a condition: a program and its file refuse what eager refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

import irkit

Case = tuple[Callable[..., Any], Sequence[Any], Any, Sequence[Sequence[Any]]]
FIVE = torch.arange(5.0)


def ints(*numbers: int) -> torch.Tensor:
    """A vector of integers."""
    return torch.tensor(numbers)


def floats(*numbers: float) -> torch.Tensor:
    """A vector of numbers."""
    return torch.tensor(numbers)


BATCH = ({0: "n"},)
CASES: dict[str, Case] = {
    "one_hot": (
        lambda x: F.one_hot(x, 4), (ints(0, 1),), BATCH, [(ints(-1),), (ints(4),), (ints(3),), (ints(0, 9, 1),)],
    ),
    "one_hot, as many classes as there are": (
        lambda x: F.one_hot(x, x.size(0)), (ints(0, 1),), BATCH, [(ints(1),), (ints(0),), (ints(2, 1, 0),)],
    ),
    "cross_entropy": (
        lambda x, t: F.cross_entropy(x, t, ignore_index=7), (torch.randn(3, 4), ints(0, 1, 2)), ({0: "n"}, {0: "n"}),
        [(torch.randn(1, 4), ints(t)) for t in (-1, 4, 7, 3)],
    ),
    "nll_loss of images": (
        lambda x, t: F.nll_loss(x, t, reduction="none"), (torch.randn(2, 3, 4), torch.ones(2, 4, dtype=torch.long)),
        None, [(torch.randn(2, 3, 4), torch.full((2, 4), t)) for t in (-2, 3, 2, -100)],
    ),
    "bincount": (lambda x: x.bincount(minlength=3), (ints(0, 1),), BATCH, [(ints(-1),), (ints(4, 4),)]),
    "repeat_interleave": (
        lambda x, r: x.repeat_interleave(r), (FIVE[:3], ints(0, 1, 2)), ({0: "n"}, {0: "n"}),
        [(FIVE[:1], ints(-1)), (FIVE[:1], ints(4))],
    ),
    "narrow": (
        lambda x, i: x.narrow(0, i.item(), 2) + 1, (FIVE, torch.tensor(1)), None,
        [(FIVE, torch.tensor(i)) for i in (4, 3, 0)],
    ),
    "narrow by a length": (
        lambda x, i: x.narrow(0, 1, i.item()) + 1, (FIVE, torch.tensor(1)), None,
        [(FIVE, torch.tensor(i)) for i in (5, 4, 0)],
    ),
    "binary_cross_entropy": (
        lambda x: F.binary_cross_entropy(x, x * 0), (floats(0.5, 0.1),), BATCH,
        [(floats(0.0, 1.0),), (floats(1.5),), (floats(0.5, -0.1),), (floats(float("nan")),)],
    ),
    "histc": (
        lambda x: x.histc(3), (floats(0.5, 0.1),), BATCH,
        [(floats(0.0, 1.0),), (floats(float("nan")),), (floats(1.0, float("inf")),)],
    ),
    "bernoulli": (
        lambda x: x.bernoulli(), (floats(1.0, 0.0),), BATCH,
        [(floats(0.0, 1.0),), (floats(1.5),), (floats(0.5, -0.1),), (floats(float("nan")),)],
    ),
    "poisson": (lambda x: torch.poisson(x), (floats(0.0, 0.0),), BATCH, [(floats(0.0),), (floats(-1.0),)]),
    "multinomial": (
        lambda x: x.multinomial(1), (floats(1.0, 0.0),), BATCH,
        [(floats(0.0, 1.0),), (floats(1.5, -1.0),), (floats(0.0, 0.0),), (floats(float("nan"), 1.0),)],
    ),
    "the targets of binary_cross_entropy": (
        lambda x: F.binary_cross_entropy(x * 0 + 0.5, x), (floats(0.5, 0.1),), BATCH,
        [(floats(0.0, 1.0),), (floats(1.5),), (floats(0.5, -0.1),), (floats(float("nan")),)],
    ),
    "multi_margin_loss": (
        lambda x, t: F.multi_margin_loss(x, t), (torch.randn(3, 4), ints(0, 1, 2)), ({0: "n"}, {0: "n"}),
        [(torch.randn(1, 4), ints(t)) for t in (-1, 4, 3)],
    ),
    "multilabel_margin_loss": (
        lambda x, t: F.multilabel_margin_loss(x, t), (torch.randn(3), ints(0, -1, 2)), None,
        [(torch.randn(3), ints(2, -1, t)) for t in (-2, 3, 1)],
    ),
    "quantile": (
        lambda x, q: x.quantile(q), (FIVE, torch.tensor(0.5)), None,
        [(FIVE, torch.tensor(q)) for q in (-0.1, 0.0, 1.0, 1.1, float("nan"))],
    ),
    "normal": (
        lambda s: torch.normal(1.0, s), (floats(0.0, 0.0),), BATCH, [(floats(0.0),), (floats(-1.0),)],
    ),
    "histogram": (
        lambda x: x.histogram(3).hist, (floats(0.5, 0.1),), BATCH,
        [(floats(0.0, 1.0),), (floats(float("nan")),), (floats(1.0, float("inf")),)],
    ),
    "eigvalsh": (
        torch.linalg.eigvalsh, (torch.eye(3),), None,
        [(torch.ones(3, 3) * x,) for x in (2.0, float("nan"), float("inf"))],
    ),
    "svdvals": (torch.linalg.svdvals, (torch.eye(3),), None, [(torch.ones(3, 3) * x,) for x in (2.0, float("nan"))]),
    "pinv": (torch.linalg.pinv, (torch.eye(3),), None, [(torch.eye(3) * x,) for x in (2.0, float("nan"))]),
}  # fmt: skip
BY_EXPORT = sorted(
    CASES.keys() - {"one_hot, as many classes as there are", "narrow", "narrow by a length", "histogram"}
)
"""Those that torch.export captures."""


def check(case: Case, saved: Path, **options: Any) -> None:
    """Holds a program and its file against eager: the same answer, or both refuse."""
    model, example, shapes, calls = case
    program = irkit.to_onnx(model, tuple(example), dynamic_shapes=shapes, **options)
    program.save(saved, conditions="refuse" if options else None)
    session = onnxruntime.InferenceSession(saved, providers=["CPUExecutionProvider"])
    refused = 0
    for call in (example, *calls):
        feeds = {port.name: x.numpy() for port, x in zip(session.get_inputs(), call, strict=True)}
        try:
            expected = model(*call)
        except (RuntimeError, IndexError):
            refused += 1
            with pytest.raises(irkit.ContractError):
                program(*call)
            with pytest.raises((Fail, InvalidArgument)):
                session.run(None, feeds)
        else:
            torch.testing.assert_close(program(*call), expected, equal_nan=True)
            torch.testing.assert_close(torch.from_numpy(session.run(None, feeds)[0]), expected, equal_nan=True)
    assert refused, "a case whose calls eager takes all tests nothing"


def test_what_is_repeated_may_be_below_zero() -> None:
    program = irkit.to_onnx(lambda x: x.repeat_interleave(2), (ints(-1, 2),), dynamic_shapes=BATCH)
    torch.testing.assert_close(program(ints(-3)), ints(-3, -3))


@pytest.mark.parametrize("capture", ["direct", "torch.export"])
def test_integers_that_are_cast_are_finite(capture: Any) -> None:
    """Experts of a mixture are counted so."""
    program = irkit.to_onnx(lambda x: x.float().histc(3, 0, 0), (ints(0, 2),), dynamic_shapes=BATCH, capture=capture)
    assert not any(fact.text.endswith("are finite") for fact in program.graph.signature.facts)
    torch.testing.assert_close(program(ints(0, 1, 2)), torch.ones(3))


def test_packed_sequences_have_a_length_each() -> None:
    def model(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)[0]

    shapes = ({0: "b", 1: "t"}, {0: "m"})
    program = irkit.to_onnx(model, (torch.randn(2, 4, 3), ints(4, 2)), dynamic_shapes=shapes, capture="direct")
    x = torch.randn(3, 4, 3)
    torch.testing.assert_close(program(x, ints(4, 4, 1)), model(x, ints(4, 4, 1)))
    for lengths in (ints(4), ints(4, 2), ints(4, 3, 2, 1)):
        with pytest.raises(RuntimeError):
            model(x, lengths)
        with pytest.raises(irkit.errors.IrkitError):
            program(x, lengths)


@pytest.mark.parametrize("name", CASES)
def test_integers_that_eager_refuses_are_refused(name: str, tmp_path: Path) -> None:
    check(CASES[name], tmp_path / "model.onnx")


@pytest.mark.parametrize("name", BY_EXPORT)
def test_they_are_by_torch_export_too(name: str, tmp_path: Path) -> None:
    check(CASES[name], tmp_path / "model.onnx", capture="torch.export")
