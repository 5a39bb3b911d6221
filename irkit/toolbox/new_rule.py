"""A rule to begin with: its file, its test and its golden pair, which pass as they are written."""

from __future__ import annotations

import keyword
from importlib.resources import files
from pathlib import Path

from irkit.errors import IrkitError

TEMPLATES = {
    "rule.py.txt": "NAME.py",
    "test_rule.py.txt": "test_NAME.py",
    "before.irkit": "NAME.before.irkit",
    "after.irkit": "NAME.after.irkit",
}
"""Each template, and the file that it becomes."""


def files_of_rule(name: str) -> dict[str, str]:
    """The files of a new rule, by name. Raises IrkitError for what cannot be the name of a rule."""
    if not name.isidentifier() or keyword.iskeyword(name) or not name.islower():
        raise IrkitError(f"{name!r} cannot be the name of a rule", hint="write it as a function: square_of_sqrt")
    here = files("irkit.toolbox") / "templates"
    return {
        made.replace("NAME", name): (here / template).read_text(encoding="utf-8").replace("NAME", name)
        for template, made in TEMPLATES.items()
    }


def write_rule(name: str, folder: Path) -> list[Path]:
    """Writes the files of a new rule into a folder, and returns their paths. Raises IrkitError where one is there
    already, and writes none then."""
    made = {folder / file: text for file, text in files_of_rule(name).items()}
    there = [path.name for path in made if path.exists()]
    if there:
        raise IrkitError(f"there already: {', '.join(there)}", hint="choose another name, or another --folder")
    if not folder.is_dir():
        raise IrkitError(f"there is no folder {str(folder)!r}", hint="make it first, or choose another one")
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    return list(made)
