"""The wing of `lowering` that knows no torch can be imported without it, and algorithms are loaded when asked for."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import lowering
import lowering.fold.registry as registry

ROOT = Path(__file__).resolve().parents[2]
WING = ("lowering.tensors", "lowering.algorithms", "lowering.aten")


def in_a_fresh_interpreter(script: str) -> str:
    """What the script prints."""
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_module_of_the_wing_is_importable_where_torch_is_not() -> None:
    found = pkgutil.walk_packages(lowering.__path__, "lowering.")
    names = [info.name for info in found if info.name.startswith(WING)]
    assert len(names) > 60
    absent = "import sys, importlib; sys.modules['torch'] = None"  # any import of torch then raises ImportError
    in_a_fresh_interpreter(f"{absent}; [importlib.import_module(name) for name in {names!r}]")


def test_algorithms_and_the_converters_made_of_them_are_loaded_late() -> None:
    said = in_a_fresh_interpreter("import lowering.fold.lower, sys; print(*sys.modules)")
    loaded = set(said.split())
    assert "lowering.aten.elementwise.arithmetic" in loaded
    assert sorted(loaded & registry.LOADED_LATE) == []
    assert sorted(name for name in loaded if name.startswith("lowering.algorithms.")) == []


def test_a_converter_of_a_module_that_is_loaded_late_is_found() -> None:
    names = ("aten__linalg_eigh_Tensor", "aten__linalg_eigh")
    found = registry.standard_converter(names)
    assert found is not None
    assert found.__module__ == "lowering.aten.linear_algebra.spectral"
    assert registry.standard_converter(("aten_no_such_operator",)) is None


def test_all_modules_together_define_no_converter_twice() -> None:
    every = registry.gather_converters(*registry.load_modules(registry.converter_modules()))
    assert every == registry.STANDARD.update(registry.late_converters())
