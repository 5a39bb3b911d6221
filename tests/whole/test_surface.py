"""What users import: faces whose names can be listed, explained and resolved, and nothing deeper in the docs."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import irkit
import lowering
import passes
from irkit import op, p
from irkit.ops.schemas import names
from tests.tables import reference
from tests.whole.test_docs import PAGES, ROOT, blocks_of

PACKAGES = (irkit, passes, lowering)
FACES = (
    "irkit", "irkit.build", "irkit.dims", "irkit.errors", "irkit.onnx", "irkit.pattern", "irkit.rewriting",
    "irkit.runtimes", "irkit.testing", "irkit.transformers", "passes", "passes.precision", "passes.saturation",
    "passes.targets", "lowering", "lowering.control_flow", "lowering.errors", "lowering.tensors",
)  # fmt: skip


INSIDE = {"docs/understand/capture.md": ("lowering.fold.arguments", "lowering.fold.registry")}
"""Pages that show a small version of what is inside, made of its parts, and the modules of these."""


def imports_of(code: str) -> Iterator[tuple[str, str]]:
    """(module, name) of each import from the packages; the name is empty where the module itself is imported."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def offered(module: ModuleType) -> set[str]:
    """What a face offers; of a module without `__all__`, what it defines."""
    own = {n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__}
    return set(getattr(module, "__all__", own))


def is_offered(module: str, name: str) -> bool:
    """True where a page may import this."""
    face = module if name == "" or f"{module}.{name}" not in FACES else f"{module}.{name}"
    known = face.partition(".")[0] not in ("irkit", "passes", "lowering") or face in FACES
    return known and (
        not name or face != module or module not in FACES or name in offered(importlib.import_module(module))
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_import_from_faces_only(page: Path) -> None:
    found = [
        each
        for block in blocks_of(page.read_text(encoding="utf-8"))
        if block.language == "python" and block.not_run is None
        for each in imports_of(block.code)
    ]
    inside = INSIDE.get(page.relative_to(ROOT).as_posix(), ())
    assert [each for each in found if not is_offered(*each) and each[0] not in inside] == []


def test_a_deep_import_would_be_seen() -> None:
    assert is_offered("irkit", "dims") and is_offered("passes", "optimize") and is_offered("numpy.linalg", "norm")
    assert not is_offered("passes.legal.legalize", "legalize")
    assert not is_offered("passes", "no_such_name")
    assert not is_offered("irkit.core.ir", "Graph")


@pytest.mark.parametrize("face", FACES)
def test_what_a_face_offers_is_there_once_and_is_no_submodule_by_another_meaning(face: str) -> None:
    module = importlib.import_module(face)
    names_of = list(getattr(module, "__all__", ()))
    assert [name for name, count in Counter(names_of).items() if count > 1] == []
    assert [name for name in names_of if not hasattr(module, name)] == []
    below = {info.name for info in pkgutil.iter_modules(getattr(module, "__path__", ()))}
    assert [n for n in names_of if n in below and not inspect.ismodule(getattr(module, n))] == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_what_a_package_offers_has_a_docstring(package: ModuleType) -> None:
    data = {"p", "op", "Rules", "Type", "Sequence", "__version__"}
    silent = [n for n in package.__all__ if n not in data and not inspect.getdoc(getattr(package, n))]
    assert silent == []


def test_names_of_irkit_stand_in_groups_and_differ_by_more_than_case() -> None:
    source = (ROOT / "irkit" / "__init__.py").read_text(encoding="utf-8")
    groups = re.search(r"__all__ = \[(.*?)\n\]", source, re.S)
    assert groups is not None
    assert groups[1].count("\n    # ") >= 8
    shared = {name.lower() for name, count in Counter(n.lower() for n in irkit.__all__).items() if count > 1}
    # Five types with what makes them, the decorator of a rule.
    assert shared == {"blob", "tensor", "rule", "equation", "operator", "dialect"}


def test_operators_are_listed_and_explained() -> None:
    assert set(names()) <= set(dir(op))
    assert set(names()) <= set(dir(p))
    assert "Gelu" in dir(op.com_microsoft)
    assert str(inspect.signature(op.Softmax)) == "(input, /, *, axis=-1)"
    assert "normalized exponential" in (inspect.getdoc(op.Softmax) or "")
    assert str(inspect.signature(op.Split)) == "(input, split=None, /, *, num_outputs=None, axis=0, outputs=None)"
    assert all(inspect.getdoc(getattr(op, name)) for name in names())


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_packages_say_that_they_are_typed(package: ModuleType) -> None:
    assert package.__file__ is not None
    assert Path(package.__file__).with_name("py.typed").exists()


def test_the_pages_of_the_reference_list_what_is_offered() -> None:
    written = {path: path.read_text(encoding="utf-8") for path in reference.pages()}
    assert written == reference.pages(), "python -m tests.tables.reference writes them anew"
