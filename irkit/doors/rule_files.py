"""Rules in a Python file of the user's, for commands that take them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from irkit.errors import RewriteError
from irkit.rewriting.rules import Rule, Rules


def rules_in(path: Path) -> Rules:
    """The rules that a Python file makes: at its top level, by themselves or in tuples and lists, in order, each once.

    The file is run for it. Raises RewriteError for a file that cannot be run, and for one without rules.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise RewriteError(f"{path.name} is no Python file", hint="give a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))  # what stands beside it may be imported, as where it is run
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise RewriteError(
            f"{path.name} cannot be run: {type(error).__name__}: {error}", hint="run it by itself"
        ) from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    found: dict[Rule, None] = {}
    for value in vars(module).values():
        found |= dict.fromkeys(each for each in several(value) if isinstance(each, Rule))
    if not found:
        raise RewriteError(f"{path.name} makes no rules", hint="@irkit.rule(pattern) above a function makes one")
    return tuple(found)


def several(value: Any) -> tuple[Any, ...]:
    """What a tuple or list holds; anything else by itself."""
    found: tuple[Any, ...] = (*value,) if isinstance(value, tuple | list) else (value,)  # pyright: ignore[reportUnknownVariableType]
    return found


def chosen_rules(text: str) -> tuple[Rule | str, ...]:
    """The rules that an option names: those in a Python file, or irkit's own by name. Raises RewriteError for a file
    that is not there or has none."""
    if not text.endswith(".py"):
        return (text,) if text else ()
    path = Path(text)
    if not path.is_file():
        raise RewriteError(
            f"there is no file {text}", hint="give a Python file, or names of rules as `irkit rules` has"
        )
    return rules_in(path)
