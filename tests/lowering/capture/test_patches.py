"""The table of the patches of torch: each is made inside the one block, undone after it, and described in the docs."""

from __future__ import annotations

import sys
import threading
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import torch

from lowering.capture.patches.table import TABLE, Occasion, Patch, patch_torch
from lowering.direct.sizes import Laid
from lowering.records import torch_internals

PAGE = Path(__file__).parents[3] / "docs" / "understand" / "capture.md"
OCCASIONS = (
    Occasion("torch.export"), Occasion("torch.export", dynamo=True), Occasion("direct"), Occasion("decomposition"),
    Occasion("comparison"),
)  # fmt: skip
UNSEEN = ("torch._dynamo.", "torch.backends.mha.set", "torch.fx.experimental._config.")
"""What is set by a call, and what is only there once dynamo is imported."""


def held(patch: Patch) -> dict[str, Any]:
    """What torch has at the places that a patch names by a path."""
    paths = [each for each in patch.what if each.startswith("torch.") and not set(each) & set(" [")]
    return {path: resolved(path) for path in paths if not path.startswith(UNSEEN)}


def resolved(path: str) -> Any:
    """What stands at a path in torch; None where nothing does."""
    module, _, name = path.rpartition(".")
    if module in sys.modules:  # which a function of the same name may hide
        return getattr(sys.modules[module], name, None)
    try:
        return attrgetter(path.removeprefix("torch."))(torch)
    except AttributeError:
        return None


def settings() -> tuple[Any, ...]:
    """The settings of torch that patches change by a call."""
    return torch.backends.mha.get_fastpath_enabled(), torch_internals.symbolic_config.backed_size_oblivious


@pytest.mark.parametrize("occasion", OCCASIONS, ids=lambda at: f"{at.deed}{'-dynamo' * at.dynamo}")
def test_what_the_table_names_is_other_inside_the_block_and_the_same_after_it(occasion: Occasion) -> None:
    torch_internals.export_tracing()  # which the patches load that need it
    made = [patch for patch in TABLE if patch.when(occasion)]
    before, set_before = [held(patch) for patch in TABLE], settings()
    kernels = dict(torch_internals.fake_impls.op_implementations_dict)
    with patch_torch(occasion):
        for patch, known in zip(TABLE, before, strict=True):
            now = held(patch)
            changed = [path for path, value in known.items() if now[path] is not value]
            assert changed == (list(known) if patch in made else []), patch.name
    assert [held(patch) for patch in TABLE] == before and settings() == set_before
    with pytest.raises(KeyError), patch_torch(occasion):
        raise KeyError
    assert [held(patch) for patch in TABLE] == before and settings() == set_before
    assert dict(torch_internals.fake_impls.op_implementations_dict) == kernels


def test_each_patch_is_made_on_some_occasion_and_says_why() -> None:
    run = Occasion("direct", torch.nn.Linear(2, 2), keeping=True, traces=bool, chooses=lambda holder, place: None)
    for patch in TABLE:
        assert any(map(patch.when, (*OCCASIONS, run))), patch.name
        assert patch.what and patch.why and patch.seen, patch.name
    assert len({patch.name for patch in TABLE}) == len(TABLE)


def test_one_thread_at_a_time_is_in_the_block_and_may_enter_it_again() -> None:
    inside: list[int] = []
    most: list[int] = []

    def run() -> None:
        with patch_torch(Occasion("direct")), patch_torch(Occasion("decomposition")):
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8
    assert not torch.compiler.is_exporting()


@pytest.mark.parametrize("patch", TABLE, ids=lambda patch: patch.name)
def test_the_docs_list_each_patch_with_what_it_replaces_and_why(patch: Patch) -> None:
    (line,) = [each for each in PAGE.read_text(encoding="utf-8").splitlines() if each.startswith(f"| `{patch.name}`")]
    assert patch.why in line and patch.seen in line


# ---------------------------------------------------------------------------------------------- the first number

NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
OF_NUMBERS = tuple(patch for patch in TABLE if patch.of_numbers)


def own_of_numbers() -> list[dict[str, Any]]:
    """What torch's classes of numbers have of their own; the text of a class is written anew where it is patched."""
    return [{name: each for name, each in vars(kind).items() if name != "__doc__"} for kind in NUMBERS]


def is_patched() -> bool:
    """Whether numbers are told to be what they are in eager, and take divmod."""
    return "__class__" in vars(torch.SymInt) and "__divmod__" in vars(torch.SymFloat)


def number(kind: Any) -> Any:
    """A number of torch's, as its C++ makes it of a node."""
    return kind(object())


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_are_patched_from_the_first_on_and_to_the_end_of_all_runs(kind: Any) -> None:
    before = own_of_numbers()
    with patch_torch(Occasion("trials")):
        with patch_torch(Occasion("direct")):
            assert not is_patched()
        with patch_torch(Occasion("direct")):
            made = number(kind)
            assert is_patched() and vars(made).keys() == {"node"}
        assert "__class__" in vars(torch.SymInt) and "__divmod__" not in vars(torch.SymFloat)
        with patch_torch(Occasion("direct")):  # a number of the run before may be met again
            assert is_patched()
    assert own_of_numbers() == before


@pytest.mark.parametrize("inner", [Occasion("torch.export"), Occasion("direct"), Occasion("trials")], ids=str)
@pytest.mark.parametrize("makes", ["before", "inside", "after", "never"])
def test_what_is_patched_inside_a_run_is_put_back_in_order(inner: Occasion, makes: str) -> None:
    before = own_of_numbers()
    with patch_torch(Occasion("trials")), patch_torch(Occasion("direct")):
        if makes == "before":
            number(torch.SymInt)
        with patch_torch(inner):
            if makes == "inside":
                number(torch.SymBool)
            assert is_patched() == (makes in ("before", "inside") or inner.exports)
        if makes == "after":
            number(torch.SymFloat)
        assert is_patched() == (makes != "never" or inner.exports)
    assert own_of_numbers() == before


def test_where_no_runs_are_ahead_numbers_are_patched_at_once() -> None:
    assert OF_NUMBERS
    with patch_torch(Occasion("direct")):
        assert is_patched()
    assert not is_patched()


def test_a_number_of_another_thread_counts_and_an_error_leaves_nothing() -> None:
    before = own_of_numbers()
    with pytest.raises(KeyError), patch_torch(Occasion("trials")), patch_torch(Occasion("direct")):
        thread = threading.Thread(target=number, args=(torch.SymInt,))
        thread.start()
        thread.join()
        assert is_patched()
        raise KeyError
    assert own_of_numbers() == before
    with pytest.raises(KeyError), patch_torch(Occasion("trials")):
        raise KeyError
    assert own_of_numbers() == before


def test_the_sizes_that_torch_lays_tensors_out_by_are_no_first_number() -> None:
    with patch_torch(Occasion("trials")), patch_torch(Occasion("direct")):
        node: Any = object()
        assert Laid(node).node is node and not is_patched()
