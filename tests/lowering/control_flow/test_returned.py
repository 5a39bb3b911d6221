"""Lists that a model returns of whose length data tells: a call of the program gives the list itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError
from lowering.records.torch_internals import pytree

LENGTHS = ([6], [1, 1, 1, 3], [0, 6], [0, 0, 0, 0, 6])


def assert_as_eager(program: Any, model: Any, *inputs: Any) -> None:
    """The program gives what eager gives: structure, types, numbers."""
    ours, spec = pytree.tree_flatten(program(*inputs))
    theirs, wanted = pytree.tree_flatten(model(*inputs))
    assert spec == wanted
    for mine, their in zip(ours, theirs, strict=True):
        assert type(mine) is type(their)
        if isinstance(mine, torch.Tensor):
            torch.testing.assert_close(mine, their)
        else:
            assert mine == their


def test_returned_rows_are_a_list_of_any_length() -> None:
    def doubled(x: Any) -> Any:
        return [row * 2 for row in x]

    program = irkit.to_onnx(doubled, (torch.rand(3, 2),), dynamic_shapes=({0: "n"},), rewrite=True)
    for n in (1, 2, 7):
        assert_as_eager(program, doubled, torch.rand(n, 2))


def test_returned_parts_of_unequal_lengths_are_a_tuple_as_torch_gives_it() -> None:
    def parts(x: Any, lengths: Any) -> Any:
        return {"parts": x.split(lengths.tolist(), dim=1), "x": x}

    example = torch.rand(2, 6), torch.tensor([1, 2, 3])
    program = irkit.to_onnx(parts, example, dynamic_shapes=({1: "n"}, {0: "m"}), rewrite=True)
    for lengths in LENGTHS:
        assert_as_eager(program, parts, torch.rand(2, 6), torch.tensor(lengths))
    with pytest.raises(IrkitError):
        program(torch.rand(2, 6), torch.tensor([1, 2]))


def test_returned_elements_have_tensors_numbers_and_constants() -> None:
    def told(x: Any, lengths: Any) -> Any:
        found = [(part.sum(0), part, part.shape[0], {"name": "part"}) for part in x.split(lengths.tolist())]
        return found, tuple(lengths.tolist())

    example = torch.rand(6, 2), torch.tensor([1, 2, 3])
    program = irkit.to_onnx(told, example, dynamic_shapes=({0: "n"}, {0: "m"}), rewrite=True)
    for lengths in LENGTHS:
        assert_as_eager(program, told, torch.rand(6, 2), torch.tensor(lengths))


def test_returned_tensors_may_differ_along_several_axes() -> None:
    def blocks(x: Any, sizes: Any) -> Any:
        return [x[:, None, None] * torch.ones(3, rows, columns) for rows, columns in sizes.tolist()]

    program = irkit.to_onnx(
        blocks, (torch.rand(3), torch.tensor([[1, 2], [2, 3]])), dynamic_shapes=(None, {0: "m"}), rewrite=True
    )
    for sizes in ([[1, 1]], [[0, 4], [3, 1], [2, 2]]):
        assert_as_eager(program, blocks, torch.rand(3), torch.tensor(sizes))


def test_a_list_that_is_returned_and_whose_source_is_written_meanwhile_is_refused() -> None:
    def written(x: Any) -> Any:
        y = x * 1
        found = [row for row in y]  # noqa: C416 - the very rows
        y[0] = 5
        return found

    with pytest.raises(IrkitError):
        irkit.to_onnx(written, (torch.rand(3, 2),), dynamic_shapes=({0: "n"},), rewrite=True, capture="direct")
