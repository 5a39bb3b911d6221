"""The zoo of models is complete: every module of torch.nn that the project promises is in it."""

from __future__ import annotations

import pytest
from torch import nn
from torch.nn.modules import activation, batchnorm, conv, instancenorm, loss, normalization, pooling, rnn, sparse

from tests.zoo.cases import CASES, TORCH_NN, case_named

# The image loss that torch calls deprecated, synchronization across processes, bases.
LEFT_OUT = {"NLLLoss2d", "SyncBatchNorm", "RNNBase", "RNNCellBase"}


@pytest.fixture(scope="module")
def present() -> set[str]:
    """The names of the classes of all modules in the torch.nn part of the zoo."""
    return {type(module).__name__ for case in TORCH_NN for module in case.model().modules()}


@pytest.mark.parametrize(
    "family",
    [activation, batchnorm, conv, instancenorm, loss, normalization, pooling, rnn, sparse],
    ids=lambda m: m.__name__,
)
def test_every_module_of_a_family_is_in_the_zoo(family: object, present: set[str]) -> None:
    names = {name for name in family.__all__ if isinstance(getattr(nn, name, None), type)}  # type: ignore[attr-defined]
    # A lazy module is the plain one once it has seen its first input.
    assert not {name for name in names - present - LEFT_OUT if not name.startswith("Lazy")}


def test_every_case_has_a_name_of_its_own_and_sizes_to_check() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    for case in CASES:
        assert case.dynamic_shapes is None or len(case.assignments) >= 3, case.name
        assert all(dict(dims) != dict(case.traced) for dims in case.assignments), case.name
        assert case.dynamic_shapes is not None or case.note or case.refused, case.name
    assert case_named("bert").family == "encoder"


def test_a_case_is_the_same_each_time() -> None:
    case = case_named("linear")
    (first,), _ = case.inputs(case.traced)
    model, (second,), _ = case.build()
    assert first.equal(second)
    assert model.weight.equal(case.model().weight)  # type: ignore[operator, union-attr]
    assert not model.training
