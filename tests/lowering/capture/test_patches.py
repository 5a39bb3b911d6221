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
