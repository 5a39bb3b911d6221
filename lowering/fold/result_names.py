"""Public names of results: the user's, or the path in the model's own output structure, or torch's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from irkit.support.counts import count_text
from lowering.errors import LoweringError
from lowering.records.pytrees import is_names

if TYPE_CHECKING:
    from lowering.capture.capture import Captured


def output_names_of(
    captured: Captured,
    leaves: Sequence[int],
    fx_names: Sequence[str],
    names: Sequence[str] | None,
    taken: Iterable[str],
) -> list[str]:
    """One name for each output tensor.

    The rule: names given by the user are kept as they are. Else a leaf below a named field is called by its path
    (`logits`, `past_key_values.0.key`), with `output.` before it where an input has that name; any other leaf is called
    as its FX node. Raises LoweringError where too many names are given, or one twice, one that an input has, or none.
    """
    if not is_names(names or ()):
        raise LoweringError(f"output_names is {names!r}", hint='give a list of names: ["logits"]')
    used = set(taken)
    given = list(names or ())
    if len(given) > len(leaves):
        raise LoweringError(
            f"{len(given)} output names were given, and the model returns {count_text(len(leaves), 'tensor')}",
            hint=f"the outputs are {', '.join(fx_names)}",
        )
    for name in given:
        if name in used:
            raise LoweringError(f"the output name {name!r} is taken by an input or another output", hint="rename it")
        used.add(name)
    for leaf, fx_name in list(zip(leaves, fx_names, strict=True))[len(given) :]:
        path = captured.output_names[leaf] if leaf < len(captured.output_names) else ""
        wanted = path or fx_name
        if wanted in used and path:
            wanted = f"output.{path}"
        name = unique(wanted, used)
        used.add(name)
        given.append(name)
    return given


def unique(name: str, used: Iterable[str]) -> str:
    """`name`, or the first of `name_1`, `name_2`, ... that is not used."""
    known = set(used)
    if name not in known:
        return name
    return next(f"{name}_{i}" for i in range(1, len(known) + 2) if f"{name}_{i}" not in known)
