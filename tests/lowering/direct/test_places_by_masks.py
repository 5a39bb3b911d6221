"""Places that masks choose, beside others and of so many values: what eager refuses is refused, whatever uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import irkit
from irkit.errors import IrkitError
from lowering.program.program import Program

MODELS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "rows": lambda y, m, i: y.index_put_((m,), torch.ones(2, 3)),
    "numbers": lambda y, m, i: y.index_put_((m, torch.tensor(0)), torch.ones(2)),
    "out of place": lambda y, m, i: y.index_put((m,), torch.ones(2, 3)),
    "rows added": lambda y, m, i: y.index_put_((m,), torch.ones(2, 3), accumulate=True),
    "beside places, by one": lambda y, m, i: y.index_put_((m, i), torch.ones(())),
    "beside places": lambda y, m, i: y.index_put_((m, i), torch.ones(2)),
    "columns": lambda y, m, i: y.t().__setitem__((slice(None), m), torch.ones(3, 2)),
    "mask of both axes": lambda y, m, i: y.__setitem__(m[:, None].expand(-1, 3), torch.ones(6)),
    "of another mask": lambda y, m, i: y.__setitem__(~m, y[m]),
    "of the same mask": lambda y, m, i: y.__setitem__(m, y[m] * 2),
    "places found": lambda y, m, i: y.__setitem__(m.nonzero()[:, 0], torch.ones(2, 3)),
    "scattered": lambda y, m, i: y.masked_scatter_(m[:, None], torch.ones(6)),
    "read beside places": lambda y, m, i: y[m, i],
    "read behind places": lambda y, m, i: y[i, m[:3]],
    "divided in place": lambda y, m, i: y.long().floor_divide_(m.sum() - 4),
}  # fmt: skip
MASKS = [[True, False, True, False], [True, True, False, False], [True, True, True, False], [False] * 4, [True] * 4,
         [False, True, False, False]]  # fmt: skip


@pytest.mark.parametrize("way", ["direct", "torch.export"])
@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_counts_that_do_not_fit_are_refused(name: str, used: bool, way: Any) -> None:
    def model(x: torch.Tensor, mask: torch.Tensor, places: torch.Tensor) -> Any:
        y = x.clone()
        made = MODELS[name](y, mask, places)
        return (y if made is None else y + 0 * made.sum()) if used else x + 1

    x, places = torch.arange(12.0).reshape(4, 3), torch.tensor([0, 2])
    try:
        program = irkit.to_onnx(model, (x, torch.tensor(MASKS[0]), places), capture=way)
    except IrkitError:
        assert way == "torch.export" and name.startswith("read")
        return
    taken = [mask for mask in MASKS if agrees(program, model, x, torch.tensor(mask), places)]
    assert taken[:2] == MASKS[:2]


def agrees(program: Program, model: Callable[..., Any], *given: torch.Tensor) -> bool:
    """Whether eager takes inputs; of those the program gives the same, and refuses the others."""
    try:
        wanted = model(*given)
    except (RuntimeError, IndexError):
        with pytest.raises(IrkitError):
            program(*given)
        return False
    torch.testing.assert_close(program(*given), wanted)
    return True


def test_what_the_same_mask_chose_is_not_counted_again() -> None:
    def model(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[mask] = y[mask] * 2
        return y

    program = irkit.to_onnx(model, (torch.ones(4, 3), torch.tensor(MASKS[0])))
    assert not program.checks, program.checks
