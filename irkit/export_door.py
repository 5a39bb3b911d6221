"""A door on the roof: `irkit.to_onnx` and the command line reach the packages above through here, when called."""

from __future__ import annotations

import importlib
from typing import Any

from irkit.errors import IrkitError


def upstairs(module: str) -> Any:
    """The module of that name above irkit. Raises IrkitError, saying what to install, where torch is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name in ("torch", "transformers"):
            raise IrkitError(
                f"{module} needs {error.name}, which is not installed", hint="pip install 'irkit[torch]'"
            ) from error
        raise


def to_onnx(*args: Any, **kwargs: Any) -> Any:
    """`lowering.export.to_onnx`: an ONNX program for a torch model (see there for the arguments)."""
    return upstairs("lowering.export").to_onnx(*args, **kwargs)
