"""The arguments of a call, held against what the model takes: what each one is, and what to give instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from irkit.errors import ContractError
from irkit.types import DType, Tensor
from lowering.fx_types import DTYPES, TORCH


def require_sequence(args: Any) -> None:
    """Raises ContractError for positional arguments that are no sequence of them, such as one tensor by itself."""
    if isinstance(args, (str, Mapping)) or not isinstance(args, Sequence):
        raise ContractError(
            f"args is a {type(args).__name__}, and must be a tuple of positional arguments", hint="write (x,) for one"
        )


def require_tensor(name: str, leaf: Any, wanted: DType, type_: Tensor) -> None:
    """Raises ContractError for what is no tensor of the element type `wanted`; `type_` is what the model takes."""
    if not isinstance(leaf, torch.Tensor):
        what, hint = described(leaf, wanted)
        raise ContractError(f"{name} is {what}, and the model takes a tensor {type_!r}", hint=hint)
    if DTYPES.get(leaf.dtype) is not wanted:
        hint = f"give it as {name_of(wanted)}, by .to, or capture the model again with {leaf.dtype}"
        raise ContractError(f"{name} is {leaf.dtype}, and the model takes {wanted.short}", hint=hint)
    if leaf.is_meta:
        raise ContractError(f"{name} is on the meta device and has no numbers", hint="give a tensor that has")


def described(leaf: Any, wanted: DType) -> tuple[str, str]:
    """(what, hint): what something that is no tensor is, and what to give instead."""
    if leaf is None:
        return "None", "give a tensor, or capture the model again with None in its place"
    if isinstance(leaf, np.ndarray | np.generic):
        kind, size = ("array", list(leaf.shape)) if isinstance(leaf, np.ndarray) else ("number", "")
        as_wanted = "" if leaf.dtype == wanted.numpy else f".to({name_of(wanted)})"
        made = "torch.from_numpy(array)" if isinstance(leaf, np.ndarray) else "torch.tensor(number)"
        return f"a numpy {kind} of {leaf.dtype}{size}", f"give {made}{as_wanted}"
    if isinstance(leaf, bool | int | float | complex):
        return f"the number {leaf!r}", f"give a tensor, or capture the model again with {leaf!r} in its place"
    return f"a {type(leaf).__name__}", ""


def name_of(dtype: DType) -> str:
    """torch's name of an element type, `torch.float32`; irkit's where it has none."""
    return str(TORCH.get(dtype, dtype.short))


def array_of_number(name: str, number: Any, wanted: DType) -> np.ndarray:
    """The array of rank 0 of an int or a float that is an input of the model. Raises ContractError for a number of
    another kind, and for what is no number."""
    if type(number) is not int and not (isinstance(number, float) and wanted.is_float):
        kind = "a number" if wanted.is_float else "an int"
        what = described(number, wanted)[0] if not isinstance(number, torch.Tensor) else "a tensor"
        raise ContractError(f"{name} is {what}, and the model takes {kind}")
    return np.array(number, dtype=wanted.numpy)
