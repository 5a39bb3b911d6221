"""What is so in the example by chance, and not elsewhere: empty parts, equal types of nothing, places within a part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import irkit
from irkit.errors import IrkitError

WAYS = ("direct", "torch.export")
Model = Callable[..., Any]


def answer(function: Model, given: tuple[torch.Tensor, ...]) -> Any:
    """What a function or a program gives, as a list; None where it refuses."""
    try:
        found = function(*(each.clone() for each in given))
    except Exception:  # torch refuses in every class of errors
        return None
    return list(found) if isinstance(found, tuple) else [found]


def compare(model: Model, example: Any, names: Any, calls: list[Any], way: str) -> int:
    """Asserts that a program refuses or is right; how many calls it answers. Exports that are refused answer none."""
    try:
        program = irkit.to_onnx(model, example, dynamic_shapes=names, capture=way)
    except IrkitError:
        return 0
    count = 0
    for given in calls:
        expected, found = answer(model, given), answer(program, given)
        if found is None:
            continue
        assert expected is not None, f"eager refuses {[each.shape for each in given]}"
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, equal_nan=True)
        count += 1
    return count


OF_NOTHING: dict[str, Model] = {
    "diff": lambda t: t.diff(), "diff of rows": lambda t: t.diff(dim=0), "diff of bools": lambda t: (t > 0).diff(1),
    "diff twice": lambda t: t.diff(2), "flatten": lambda t: t.flatten(), "squeeze": lambda t: t.squeeze(),
    "dropout": lambda t: F.dropout(t, 0.5, False), "pad": lambda t: F.pad(t, (1, 1)),
    "repeat": lambda t: t.repeat(2, 1),
    "sum_to_size": lambda t: t.sum_to_size(1, t.shape[1]), "trapezoid": lambda t: torch.trapezoid(t),
    "cumulative_trapezoid": lambda t: torch.cumulative_trapezoid(t), "normalize": lambda t: F.normalize(t),
    "fliplr": lambda t: t.fliplr(), "rot90": lambda t: t.rot90(),
    "kron": lambda t: torch.kron(t, torch.ones(1, 2)), "tile": lambda t: t.tile(2),
    "repeat_interleave": lambda t: t.repeat_interleave(2, 1), "cat": lambda t: torch.cat([t, t], 1),
    "matmul": lambda t: t @ t.t(), "matmul of columns": lambda t: t.t() @ t, "roll": lambda t: t.roll(1, 1),
    "contiguous": lambda t: t.contiguous(), "to": lambda t: t.to(torch.float32),
    "layer_norm": lambda t: F.layer_norm(t, t.shape[1:]),
    "sort": lambda t: t.sort(1)[0], "narrow": lambda t: t.narrow(1, 0, t.shape[1]), "chunk": lambda t: t.chunk(2, 1)[0],
    "tril": lambda t: t.tril(), "diagonal": lambda t: t.diagonal(),
    "unflatten": lambda t: t.unflatten(1, (1, t.shape[1])),
    "amax": lambda t: t.amax(0), "ravel": lambda t: t.ravel(), "expand_as": lambda t: t.expand_as(t),
    "gradient": lambda t: torch.gradient(t, dim=0)[0], "logcumsumexp": lambda t: t.logcumsumexp(1),
    "cdist": lambda t: torch.cdist(t, t), "pdist": lambda t: torch.pdist(t), "prod": lambda t: t.prod(1),
}  # fmt: skip
"""Operators on a part that is empty in the example, by name."""


@pytest.mark.parametrize("operator", OF_NOTHING.values(), ids=OF_NOTHING)
def test_a_part_that_is_empty_in_the_example(operator: Model) -> None:
    def model(x: torch.Tensor) -> Any:
        return operator(x[:, : x.shape[1] // 8])

    calls = [(torch.randn(rows, columns),) for rows in (1, 2, 6) for columns in (0, 1, 4, 8, 16, 24)]
    compare(model, (torch.randn(6, 4),), ({0: "n", 1: "m"},), calls, "direct")


def pairs(x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(torch.stack([x, x * 2], -1))


TYPES: dict[str, Model] = {
    "complex": lambda x: pairs(x[:, 0]) if len(x) > 0 else x * 3,
    "real": lambda x: x * 3 if len(x) > 0 else pairs(x[:, 0]),
    "complex but of one": lambda x: pairs(x[:, 0]) if len(x) != 1 else torch.cat([x[:, :1], x[:, :1] * 2], 1),
    "float64": lambda x: x * 2 if len(x) > 0 else x.double(),
    "int32": lambda x: x * 2 if len(x) > 0 else x.int(),
    "another shape": lambda x: x * 2 if len(x) > 0 else x.new_zeros(0, 3),
}
"""Models that give something else of one row, or none, by name."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", TYPES.values(), ids=TYPES)
def test_nothing_is_of_a_type_too(model: Model, way: str) -> None:
    calls = [(torch.randn(rows, 2),) for rows in (0, 1, 2, 5)]
    assert compare(model, (torch.randn(3, 2),), ({0: "n"},), calls, way)


def halved(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    third = (x.shape[0] + 2) // 3
    return y.narrow(1, 0, 3 * x.shape[0] - 3 * third) * 1 if -(-x.shape[0] // third) == 2 else x


PARTS: dict[str, Model] = {
    "two chunks": halved,
    "one of two": lambda x, y: y.narrow(1, 0, x.shape[0] + 1) * 1 if x.shape[0] in (2, 4) else x,
    "a start": lambda x, y: y.narrow(1, x.shape[0] - 2, 1) * 1,
    "a start from the end": lambda x, y: y.narrow(1, -2, x.shape[0] - 1) * 1,
    "of sizes": lambda x, y: x.narrow(0, 1, x.shape[0] // 2 + 1) * 1,
}  # fmt: skip
"""Parts whose place and length sizes tell, by name."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", PARTS.values(), ids=PARTS)
def test_a_part_lies_within_its_dimension(model: Model, way: str) -> None:
    calls = [(torch.randn(rows, 2), torch.randn(2, 3)) for rows in range(8)]
    compare(model, (torch.randn(2, 2), torch.randn(2, 3)), ({0: "n"}, None), calls, way)


def put(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 1
    rows = y[:, 0].expand(2, x.shape[0])
    rows[: x.shape[0] - 3] = 0.5
    return y, rows * 1


def filled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 1
    rows = y[:, 0].expand(2, x.shape[0])
    rows[: x.shape[0] - 3].fill_(0.5)
    return y, rows * 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", [put, filled])
def test_a_number_is_copied_into_elements_that_are_one_as_eager_has_it(model: Model, way: str) -> None:
    calls = [(torch.randn(rows, 2),) for rows in range(3, 8)]
    compare(model, (torch.randn(3, 2),), ({0: "n"},), calls, way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.bool, torch.float64, torch.float32])
@pytest.mark.parametrize("given", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("name", "sum prod nansum cumsum cumprod mean amax".split())
def test_what_is_written_out_is_computed_in_the_type_of_out(
    name: str, given: torch.dtype, kind: torch.dtype, way: str
) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros((4, 3) if name.startswith("cum") else 3, dtype=kind)
        getattr(torch, name)(x, 0, out=out)
        return out

    calls = [((torch.randn(4, 3) * 3).to(given),) for _ in range(4)]
    compare(model, calls[0], None, calls, way)
