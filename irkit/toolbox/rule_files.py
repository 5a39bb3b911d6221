"""The rules in a Python file of the user's own."""

from __future__ import annotations

import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import cast

from irkit.errors import IrkitError, RewriteError
from irkit.rewriting.face import Rule, Rules


def names_file(text: str) -> bool:
    """True for a text that names a file of rules, `mine.py` or `mine.py:name`, and no rules of irkit."""
    path, _, name = text.rpartition(":")
    return text.endswith(".py") or (path.endswith(".py") and name.isidentifier())


def rules_in(text: str) -> Rules:
    """The rules that `mine.py` defines, in its order, or with `mine.py:name` the rule or the rules of that name.

    The file is run, as an import would. Raises RewriteError where it fails, with its line, or has no such rule.
    """
    path, name = (Path(text), "") if text.endswith(".py") else (Path(text.rpartition(":")[0]), text.rpartition(":")[2])
    module = run_file(path)
    if name:
        if not hasattr(module, name):
            raise RewriteError(f"{path.name} has no {name!r}", hint=f"its rules are: {names_of(module) or 'none'}")
        found = rules_of(getattr(module, name))
    else:
        found = [rule for each in vars(module).values() for rule in rules_of(each)]
    if not found:
        raise RewriteError(f"{path.name} makes no rules", hint="irkit new-rule NAME writes one to begin with")
    return tuple(dict.fromkeys(found))


def run_file(path: Path) -> ModuleType:
    """The module of a file, which no import finds. Raises RewriteError where it cannot be read or run."""
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise RewriteError(f"there is no file {str(path)!r}", hint="give the path of a file of rules, mine.py")
    module = module_from_spec(spec)
    beside = str(path.resolve().parent)
    sys.path.insert(0, beside)  # what stands beside the file may be imported by it
    try:
        spec.loader.exec_module(module)
    except IrkitError:
        raise
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
        line = f"{path.name}:{frames[-1].lineno} {frames[-1].line}" if frames else ""
        raise RewriteError(
            f"{path.name} cannot be run: {type(error).__name__}: {error}", source=line, hint="python runs it alone, too"
        ) from error
    finally:
        sys.path.remove(beside)
    return module


def rules_of(given: object) -> list[Rule]:
    """The rules that an object is, or holds in a tuple or list."""
    if isinstance(given, Rule):
        return [given]
    several = cast("tuple[object, ...]", given if isinstance(given, tuple | list) else ())
    return [each for each in several if isinstance(each, Rule)]


def names_of(module: ModuleType) -> str:
    """The names of the rules of a module."""
    return ", ".join(name for name, each in vars(module).items() if rules_of(each))
