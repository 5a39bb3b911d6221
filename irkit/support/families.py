"""Tables of functions that modules of operator families define, by the operators that they are named for."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from irkit.errors import GraphError


def functions_of(prefix: str, package: str, families: Iterable[str]) -> Mapping[str, Callable[..., Any]]:
    """Every function `<prefix>X` that the families hold, which are modules of a package, by X, the name of an operator.

    A package may lack a family. Names in lower case (`infer_broadcast`) are shared by several operators, and no
    operator's own. Raises GraphError where two functions have one name.
    """
    there = {module.name for module in pkgutil.iter_modules(import_module(package).__path__)}
    found: dict[str, Callable[..., Any]] = {}
    for family in (f for f in families if f in there):
        for name, function in vars(import_module(f"{package}.{family}")).items():
            op = name.removeprefix(prefix)
            own = name.startswith(prefix) and function.__module__.startswith(package) and not op[0].islower()
            if own and found.setdefault(op, function) is not function:
                raise GraphError(f"two functions of {package} are called {name}", hint="rename one of them")
    return MappingProxyType(found)
