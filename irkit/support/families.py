"""Tables of functions that modules of operator families define, by the operators that they are named for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from irkit.errors import GraphError


def functions_of(prefix: str, package: str, families: Iterable[ModuleType]) -> Mapping[str, Callable[..., Any]]:
    """Every function `<prefix>X` that modules of a package hold, by X, the name of an operator.

    Names in lower case (`infer_broadcast`) are shared by several operators, and no operator's own. Raises GraphError
    where two functions have one name.
    """
    found: dict[str, Callable[..., Any]] = {}
    for family in families:
        for name, function in vars(family).items():
            op = name.removeprefix(prefix)
            own = name.startswith(prefix) and function.__module__.startswith(package) and not op[0].islower()
            if own and found.setdefault(op, function) is not function:
                raise GraphError(f"two functions of {package} are called {name}")
    return MappingProxyType(found)
