"""Converters of `lowering.aten.indexing.embedding` against eager torch."""

from __future__ import annotations

import pytest
import torch

from tests.lowering.aten.oracle import check, check_all, module_cases, op_cases

OPS = ["nn.functional.embedding", "nn.functional.embedding_bag"]


@pytest.mark.parametrize("name", OPS)
def test_as_torch_samples_it(name: str) -> None:
    """OpInfo's samples in f32."""
    check_all(op_cases(name, torch.float32, 8))


MODULES = ["nn.Embedding"]


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    """ModuleInfo's modules."""
    check_all(module_cases(name, 6))


ROWS = torch.tensor([[1, 2, 4], [4, 3, 9]])


def test_any_batch() -> None:
    """The batch is a symbol."""
    shapes, others = [{0: "batch"}], [(torch.tensor([[0, 1, 1]]),)]
    check(torch.nn.Embedding(10, 3, padding_idx=1), ROWS, dynamic_shapes=shapes, others=others, operators=["Gather"])
    for mode in ("sum", "mean", "max"):
        check(torch.nn.EmbeddingBag(10, 3, mode=mode), ROWS, dynamic_shapes=shapes, others=others)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_by_offsets(mode: str) -> None:
    """An empty bag, a row that is left out, an end that is given."""
    flat = ROWS.reshape(-1)
    check(torch.nn.EmbeddingBag(10, 3, mode=mode, padding_idx=4), flat, torch.tensor([0, 2, 2, 5]))
    check(torch.nn.EmbeddingBag(10, 3, mode=mode, include_last_offset=True), flat, torch.tensor([0, 2, 2, 6]))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_any_number_with_an_end(mode: str) -> None:
    """The number of bags varies; indices behind the last offset are left out by one of torch's kernels only."""
    bags = torch.nn.EmbeddingBag(10, 3, mode=mode, include_last_offset=True)
    others = [(torch.tensor([1, 2, 3, 4]), torch.tensor([0, 1, 1])), (torch.tensor([1, 2]), torch.tensor([0, 2]))]
    check(bags, ROWS.reshape(-1), torch.tensor([0, 2, 2, 6]), dynamic_shapes=[{0: "i"}, {0: "b"}], others=others)


def test_one_hot() -> None:
    """int64, the classes last."""
    check(lambda rows: torch.nn.functional.one_hot(rows, 12), ROWS)


def test_renormalized_rows() -> None:
    """max_norm writes the table itself: the new table is state."""
    check(torch.nn.Embedding(10, 3, max_norm=0.5), ROWS)
