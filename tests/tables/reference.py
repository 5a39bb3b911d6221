"""The pages of docs/reference: what each face offers, in its groups, for mkdocstrings to fill in.

`python -m tests.tables.reference` writes them; tests/whole/test_surface.py says when they are out of date.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"
PAGES: Mapping[str, tuple[str, ...]] = {
    "irkit": ("irkit",),
    "irkit_faces": ("irkit.dims", "irkit.build", "irkit.pattern", "irkit.rewriting", "irkit.testing", "irkit.onnx"),
    "passes": ("passes", "passes.precision", "passes.targets"),
    "lowering": ("lowering", "lowering.control_flow", "lowering.tensors", "lowering.errors"),
}
"""The faces that each page is about."""


def groups_of(face: str) -> list[tuple[str, list[str]]]:
    """(title, names) of each group of what a face offers; one group without a title where it has no groups."""
    module = importlib.import_module(face)
    listed = re.search(r"^__all__ = \[.*?$(.*?)^\]", inspect.getsource(module), re.S | re.M)
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in listed[1].split("\n") if listed else ():
        if line.strip().startswith("#"):
            found.append((capitalized(line.strip(" #")), []))
        elif line.strip():
            found[-1][1].append(line.strip(' ",'))
    if listed is None:
        found[0][1].extend(n for n, v in vars(module).items() if getattr(v, "__module__", "") == face)
    return [(title, [n for n in names if shown(getattr(module, n))]) for title, names in found if names]


def capitalized(text: str) -> str:
    """The text with a capital first letter, and the others as they are."""
    return text[:1].upper() + text[1:]


def shown(thing: object) -> bool:
    """True for functions and classes; constants and modules stand in the sources."""
    return inspect.isroutine(thing) or inspect.isclass(thing)


def page(title: str, faces: tuple[str, ...]) -> str:
    """The text of one page."""
    parts = [f"# {title}" if len(faces) == 1 else f"# {title.partition('_')[0]}: its faces"]
    for face in faces:
        level = "###" if len(faces) > 1 else "##"
        parts.append(f"## {face}" if len(faces) > 1 else f"`import {face}`")
        for group, names in groups_of(face):
            if group:
                parts.append(f"{level} {group}")
            parts += [f"::: {face}.{name}\n    options: {{heading_level: {len(level) + 1}}}" for name in names]
    return "\n\n".join(parts) + "\n"


def pages() -> dict[Path, str]:
    """All pages by path."""
    return {FOLDER / f"{title}.md": page(title, faces) for title, faces in PAGES.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
