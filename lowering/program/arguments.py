"""The arguments of a call, held against what the model takes: what each one is, and what to give instead."""

from __future__ import annotations

import inspect
from collections.abc import Container, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import torch

from irkit import dims
from irkit.core.types import DType, Tensor
from irkit.dims import symbols_of
from irkit.errors import ContractError
from irkit.support.arguments import type_text
from lowering.records.types import DTYPES, TORCH, array_of


def sequence_of(args: Any) -> Sequence[Any]:
    """The positional arguments; a tensor by itself is the one. Raises ContractError for what is no sequence of them."""
    if isinstance(args, torch.Tensor):
        return (args,)
    if isinstance(args, (str, Mapping)) or not isinstance(args, Sequence):
        raise ContractError(
            f"args is {type_text(args)}, and must be a tuple of positional arguments", hint="write (x,) for one"
        )
    return args


def signature_of(captured: Any) -> inspect.Signature:
    """The parameters of a call of a captured program; None stands for those that were None at capture.

    Where arguments stood behind `*args` there is no name for them, and the signature says no more than that.
    """
    order, only = captured.called.by_position, captured.called.only_so
    none = {
        leaf.path[0] for leaf in captured.leaves if len(leaf.path) == 1 and captured.scalars.get(leaf.name, 0) is None
    }
    known = [name for name in order if name in captured.arguments]
    found: list[inspect.Parameter] = []
    by_name = False
    for name in (*known, *(name for name in captured.arguments if name not in known)):
        by_name = by_name or name not in order or (bool(none & {p.name for p in found}) and name not in none)
        kind = inspect.Parameter.POSITIONAL_ONLY if name in only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = None if name in none else inspect.Parameter.empty
        found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY if by_name else kind, default=default))
    return inspect.Signature(found)


def implied_arrays(
    inputs: Mapping[str, Tensor], absent: Mapping[str, int], sizes: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """The arrays of inputs that a call left out, each with what fills it: of a cache in which nothing is yet, with the
    sizes that other inputs tell and no tokens; of a mask, with sizes that others tell.

    Raises ContractError where the number of tokens does not vary, and for a mask whose sizes nothing tells.
    """
    found: dict[str, np.ndarray] = {}
    known = dict(sizes)
    for name, fill in sorted(absent.items(), key=lambda each: each[1]):  # caches first: they tell that nothing is past
        shape, dtype = inputs[name].shape, inputs[name].dtype
        unknown = {symbol.name for dim in shape for symbol in symbols_of(dim)} - known.keys()
        if fill and unknown:
            raise ContractError(
                f"the call lacks {name!r}", hint=f"give it: no other input tells {', '.join(sorted(unknown))}"
            )
        known |= dict.fromkeys(unknown, 0)
        actual = tuple(dims.evaluate(dim, known) for dim in shape)
        if not fill and actual and 0 not in actual:
            raise ContractError(
                f"the cache is empty, and {name} is {list(actual)} in the model: {inputs[name]!r}",
                hint="capture the model with a cache whose length varies: {2: 'past'} for keys and values",
            )
        found[name] = np.full(actual, fill, dtype.numpy)
    return found


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


def refuse_shared(given: Mapping[str, Any], written: Container[str]) -> None:
    """Raises ContractError where an input that the model writes shares elements in memory with another one: in eager
    the other would change, too."""
    by_memory: dict[int, list[str]] = {}
    for name, each in given.items():
        if isinstance(each, torch.Tensor) and each.layout is torch.strided and each.numel():
            by_memory.setdefault(each.untyped_storage().data_ptr(), []).append(name)
    for name, other in (pair for names in by_memory.values() for pair in permutations(names, 2)):
        if name in written and is_shared(given[name], given[other]):
            raise ContractError(
                f"the model writes into {name}, which shares memory with {other}, and was captured for tensors apart",
                hint=f"give {other}.clone()",
            )


def is_shared(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether some element of one tensor is one of another; also where that takes long to tell."""
    try:
        # numpy's types know of no number but 0 and -1
        return np.shares_memory(array_of(a), array_of(b), max_work=PROBES)  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return True


PROBES = 10_000
"""How long it is looked whether two tensors that interleave in memory have an element in common."""


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
    return type_text(leaf), ""


def name_of(dtype: DType) -> str:
    """torch's name of an element type, `torch.float32`; irkit's where it has none."""
    return str(TORCH.get(dtype, dtype.short))


def array_of_number(name: str, number: Any, wanted: DType) -> np.ndarray:
    """The array of rank 0 of an int or a float that is an input of the model. Raises ContractError for a number of
    another kind, and for what is no number."""
    if type(number) is not int and not (isinstance(number, float) and wanted.is_float):
        kind = "a number" if wanted.is_float else "an int"
        what = described(number, wanted)[0] if not isinstance(number, torch.Tensor) else "a tensor"
        raise ContractError(
            f"{name} is {what}, and the model takes {kind}",
            hint="give it in that form, or capture the model again with an example like it",
        )
    return np.array(number, dtype=wanted.numpy)


def same_scalar(a: Any, b: Any) -> bool:
    """True where two constants are the same, type included (1 is not True, nor 1.0)."""
    return type(a) is type(b) and (a == b or (a != a and b != b))
