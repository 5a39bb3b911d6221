"""The way up: modules of the packages above irkit, imported when they are asked for."""

from __future__ import annotations

import importlib
from typing import Any

from irkit.errors import IrkitError
from irkit.support.uncollected import collector_paused


def upstairs(module: str) -> Any:
    """The module of that name above irkit. Raises IrkitError, saying what to install, where torch is missing."""
    try:
        with collector_paused():
            return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name in ("torch", "transformers"):
            raise IrkitError(
                f"{module} needs {error.name}, which is not installed", hint=f"pip install {error.name}"
            ) from error
        raise
