"""The drawings of docs/understand/house.md: the folders of each package by floor, read off the imports.

`python -m tests.tables.house` writes them; tests/whole/test_house.py says when they are out of date.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "understand" / "house.md"
PACKAGES = ("irkit", "passes", "lowering")
ABOVE_ALL = ("irkit/doors",)
"""Folders that may reach up, and are drawn at the top."""

AS_ONE = ("lowering/aten",)
"""Folders whose folders are drawn as one: the families of converters, which import one another."""

Graph = Mapping[str, frozenset[str]]
"""Folder -> the folders of its package that it imports."""


def python_files(package: str) -> list[Path]:
    """The modules of a package that stand in a folder of it; those of its root are errors and faces."""
    return [path for path in sorted((ROOT / package).rglob("*.py")) if path.parent != ROOT / package]


def imported_modules(path: Path) -> Iterator[str]:
    """The modules that a file imports, late imports and those for type checkers included; `a.b.c` for
    `from a.b import c` too, which may be a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def drawn_folder(path: Path) -> str:
    """The folder that a file is drawn in."""
    folder = path.parent.relative_to(ROOT).as_posix()
    return next((whole for whole in AS_ONE if folder.startswith(f"{whole}/")), folder)


def folder_graph(package: str) -> Graph:
    """The folders of a package, with what each imports."""
    files = python_files(package)
    folder_of = {}
    for path in files:
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        folder_of[name] = drawn_folder(path)
    found: dict[str, set[str]] = {folder: set() for folder in folder_of.values()}
    for path in files:
        own = drawn_folder(path)
        for module in imported_modules(path):
            other = folder_of.get(module, own)
            if other != own and own not in ABOVE_ALL:
                found[own].add(other)
    return {folder: frozenset(others) for folder, others in sorted(found.items())}


def floors(graph: Graph) -> dict[str, int]:
    """The floor of each folder: one above the highest that it imports; doors stand on the top."""
    found: dict[str, int] = {}
    for folder in TopologicalSorter(graph).static_order():
        found[folder] = max((found[other] + 1 for other in graph[folder]), default=0)
    top = max(found.values())
    return {folder: top + 1 if folder in ABOVE_ALL else floor for folder, floor in found.items()}


def direct_arrows(graph: Graph) -> list[tuple[str, str]]:
    """The imports that no way through other folders already says."""
    reached: dict[str, frozenset[str]] = {}
    for folder in TopologicalSorter(graph).static_order():
        reached[folder] = graph[folder].union(*(reached[other] for other in graph[folder]))
    return [
        (folder, other)
        for folder, others in graph.items()
        for other in sorted(others)
        if not any(other in reached[between] for between in others - {other})
    ]


def drawing(package: str) -> str:
    """The folders of a package as a mermaid flowchart, the highest floor first."""
    graph = folder_graph(package)
    floor_of = floors(graph)
    lines = ["```mermaid", "flowchart TB"]
    for floor in sorted(set(floor_of.values()), reverse=True):
        rooms = [folder for folder in graph if floor_of[folder] == floor]
        lines.append(f"    subgraph {package}_floor_{floor} [floor {floor}]")
        lines += [f"        {room(folder)}" for folder in rooms]
        lines.append("    end")
    lines += [f"    {identifier(a)} --> {identifier(b)}" for a, b in direct_arrows(graph)]
    return "\n".join([*lines, "```"])


def identifier(folder: str) -> str:
    """The name of a folder in the drawing."""
    return folder.replace("/", "_")


def room(folder: str) -> str:
    """The box of a folder: its path in the package, and how many modules stand in it."""
    deep = "**/*.py" if folder in AS_ONE else "*.py"
    count = sum(1 for path in (ROOT / folder).glob(deep) if path.name != "__init__.py")
    return f'{identifier(folder)}["{folder.partition("/")[2]} ({count})"]'


def drawings() -> str:
    """All that the script writes into the page."""
    parts = []
    for package in PACKAGES:
        graph = folder_graph(package)
        arrows = sum(map(len, graph.values()))
        count = max(floors(graph).values()) + 1
        parts.append(f"### {package}: {len(graph)} folders on {count} floors, {arrows} arrows\n\n{drawing(package)}")
    return "\n\n".join(parts)


def with_drawings(text: str, drawn: str) -> str:
    """The page with these drawings between its marks."""
    between = re.compile(r"(<!-- drawings:begin -->\n).*(<!-- drawings:end -->)", re.S)
    return between.sub(lambda marks: f"{marks[1]}\n{drawn}\n\n{marks[2]}", text)


def places_of(text: str) -> Sequence[tuple[str, str]]:
    """(file, function) of each row of the walk: a row ends with `file.py` and `function`."""
    return re.findall(r"`([\w/]+\.py)` \| `(\w+)`", text)


if __name__ == "__main__":
    PAGE.write_text(with_drawings(PAGE.read_text(encoding="utf-8"), drawings()), encoding="utf-8")
