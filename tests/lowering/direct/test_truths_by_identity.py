"""`(n > 4) is True`, which no symbol is: in code with and without source, of helpers elsewhere, by any name."""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.right_or_refused import first_wrong

NUMBERS = itertools.count()
ASKED = {
    "itself": "(x.shape[0] > 4) is True",
    "not": "(x.shape[0] > 4) is not False",
    "a helper": "large(x.shape[0]) is True",
    "of data": "(x.sum().item() > 0) is True",
    "of data by a helper": "large(x.sum().item()) is True",
    "each": "any(each is True for each in [x.shape[0] > 4])",
    "a variable": "(x.shape[0] > 4) is YES",
    "a function": "operator.is_(x.shape[0] > 4, True)",
}
"""What a model asks by the identity of a truth, by name."""


@pytest.mark.parametrize("way", ["direct", "torch.export"])
@pytest.mark.parametrize("where", ["a file", "two files", "no file"])
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_a_truth_that_is_asked_for_by_identity_is_pythons_own(
    asked: str, where: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = "import operator\nYES = True\ndef large(n):\n    return n > 4\n"
    model = f"def f(x):\n    return x * 2 if {asked} else x\n"
    names: dict[str, Any] = {}
    if where == "no file":
        exec(helper + model, names)
    else:
        number = next(NUMBERS)
        monkeypatch.syspath_prepend(str(tmp_path))
        imported = f"from asked_{number}_helper import *\nimport operator\n" if where == "two files" else helper
        (tmp_path / f"asked_{number}_helper.py").write_text(helper)
        (tmp_path / f"asked_{number}.py").write_text(imported + model)
        importlib.invalidate_caches()
        names = vars(importlib.import_module(f"asked_{number}"))
        for name in (f"asked_{number}", f"asked_{number}_helper"):
            sys.modules.pop(name, None)
    inputs = (sign * torch.rand(rows, 3) for rows in (12, 5, 3, 1) for sign in (1, -1))
    assert first_wrong(names["f"], torch.rand(12, 3), way, inputs) is None
