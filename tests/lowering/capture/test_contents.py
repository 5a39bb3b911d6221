"""What a model holds is found as torch finds it, and is as before after a block."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch

from lowering.capture.inputs.alike import likes_of
from lowering.capture.inputs.containers import names_beside
from lowering.capture.inputs.contents import Contents, Parts, all_containers, keep_unchanged, modules_below
from lowering.capture.inputs.objects import tells_which
from lowering.capture.inputs.surroundings import leading_names


def shared() -> Any:
    """A model with a module and a weight that are there twice, and a child that is left out."""
    inner = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    model = torch.nn.Sequential(inner, torch.nn.Linear(3, 3), torch.nn.Sequential(inner, torch.nn.Linear(3, 3)))
    model[1].weight = inner[0].weight
    model.register_module("absent", None)
    return model


def test_modules_and_tensors_have_the_names_that_torch_gives() -> None:
    model = shared()
    parts = Parts.of(model)
    assert list(parts.modules) == list(model.named_modules())
    assert list(parts.buffers.items()) == list(model.named_buffers())
    assert list(parts.parameters.items()) == list(model.named_parameters())


def test_who_asks_is_told_of_what_changed_before_it_is_put_back() -> None:
    model = shared()
    before, seen = model[0][1].running_mean, list[bool]()

    def touched() -> None:
        seen.append(model[0][1].running_mean is before)

    with keep_unchanged(model, Parts.of(model), touched):
        pass
    assert not seen
    with keep_unchanged(model, Parts.of(model), touched):
        model[0][1].running_mean = torch.ones(3)
    assert seen == [False]
    assert model[0][1].running_mean is before
    with pytest.raises(ValueError, match="in the block"), keep_unchanged(model, Parts.of(model), touched):
        model[0][1].running_mean = torch.ones(3)
        raise ValueError("in the block")
    assert seen == [False]
    assert model[0][1].running_mean is before


def test_containers_are_found_at_any_depth_and_each_once() -> None:
    inner: list[Any] = [{1: set()}]
    outer = {"a": inner, "b": OrderedDict(c=inner), "d": (inner,)}
    inner.append(outer)
    found = all_containers([outer])
    assert len(found) == len({id(each) for each in found}) == 5


CHANGES = {
    "attribute": lambda m: setattr(m[1], "met", torch.ones(1)),
    "deleted": lambda m: m.settings.pop("depth"),
    "list": lambda m: m.settings["list"].append(2),
    "replaced": lambda m: m.settings["list"].__setitem__(0, 5),
    "set": lambda m: m.settings["set"].add(3),
    "order": lambda m: m.settings.update(depth=m.settings.pop("depth")),
    "weight": lambda m: setattr(m[1], "weight", torch.nn.Parameter(torch.ones(3, 3))),
    "hook": lambda m: m[0].register_forward_hook(lambda *_: None),
    "child": lambda m: m.__setitem__(1, torch.nn.ReLU()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_block_changes_is_seen_and_put_back(change: str) -> None:
    model = shared()
    model.settings = {"depth": 1, "list": [1], "set": {1}}
    held = all_containers([each.__dict__ for _, each in modules_below(model)])
    before, copies = Contents.of(held), [each.copy() for each in held]
    parts = Parts.of(model)
    with keep_unchanged(model, parts) as said:
        CHANGES[change](model)
        assert not before.are_untouched()
    assert before.are_untouched()
    assert [list(each) for each in held] == [list(each) for each in copies]
    assert bool(said) is (change in ("attribute", "list", "replaced", "set", "child"))


@pytest.mark.parametrize("change", ["attribute", "weight", "child", "number"])
def test_a_module_that_changed_is_looked_at_afresh(change: str) -> None:
    layers: Any = (torch.nn.Sequential(torch.nn.Linear(9, 9, bias=False), torch.nn.ReLU()) for _ in range(2))
    model: Any = torch.nn.Sequential(*layers)
    likes = likes_of(Parts.of(model), tells_which)
    first, second = likes.of(model[0]), likes.of(model[1])
    assert likes.below[id(model[0])] is first
    assert likes.differences(first, second) == frozenset()
    if change == "number":
        model[0][0].in_features = 4
    elif change == "child":
        model[0][1] = torch.nn.Tanh()
    elif change == "weight":
        model[0][0].weight = torch.nn.Parameter(torch.ones(9, 9))
    else:
        model[0].met = torch.ones(1)
    model[0].forward = model[0].forward  # as a wrapper is put there while a model runs
    again = likes.of(model[0])
    assert again is not first
    assert likes.of(model[1]) is second
    if change == "number":
        assert likes.differences(again, second) == frozenset([(1, "in_features")])


def test_the_names_of_a_module_s_own_attributes_are_told_apart() -> None:
    module: Any = torch.nn.Linear(2, 2)
    assert names_beside(module.__dict__) == ["in_features", "out_features"]
    moved = module.__dict__.pop("_forward_hooks")
    module.__dict__["_forward_hooks"] = moved  # which stands last now
    assert names_beside(module.__dict__) == ["in_features", "out_features"]
    assert leading_names(module.__dict__) == ["in_features", "out_features"]
    module.register_forward_hook(lambda *_: None)
    assert "_forward_hooks" in leading_names(module.__dict__)
    module.__dict__["_backward_hooks"] = ()  # no table, though it is as empty as one
    assert "_backward_hooks" in leading_names(module.__dict__)
    del module.__dict__["_backward_hooks"]
    assert "_forward_hooks" in leading_names(module.__dict__)
    other: Any = torch.nn.Linear(2, 2)
    del other.__dict__["training"]  # as of what torch.compile makes of a module
    assert leading_names(other.__dict__) == ["in_features", "out_features"]
