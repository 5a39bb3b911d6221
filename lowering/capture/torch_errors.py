"""torch's errors in the user's words: what is wrong, in the user's names of dimensions, the line, and what to try."""

from __future__ import annotations

import re
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import torch
from torch.fx import Proxy

from lowering.capture.guards.guards import HERE, TORCH
from lowering.errors import CaptureError
from lowering.records.dynamic_shapes import Leaf, Place
from lowering.records.programs import first_line
from lowering.records.torch_internals import FakeTensorMode, ShapeEnv, dynamo_class

STDLIB = sysconfig.get_path("stdlib")
_SYMBOL = re.compile(r"\bs\d+\b(: hint = -?\d+)?")
_WITHIN = re.compile(r"""got \w+\((["'])(.*)\1\)$""", re.MULTILINE)
_UNDECIDED = re.compile(r"Could not guard on data-dependent expression .* \(unhinted: (.*)\)\.  \(Size-like")
_OPERAND = re.compile(r"L\['(\w+)'\]((?:\[\d+\])*)\.size\(\)\[(\d+)\]")
_FLAT = "flat_args"

BY_TEXT = (
    ("is not a known type", "return tensors, or tuples, lists, dicts and dataclasses of them"),
    ("Unsupported input type <class 'numpy.ndarray'>", "give tensors: torch.from_numpy(array)"),
    (
        "does not have a field with name '__obj_flatten__'",
        "this is an object of C++, such as the packed weights of torch.ao's quantized modules, which direct capture "
        "takes: leave capture='torch.export' out",
    ),
    ("to make the two branches have the same contiguousness.", "end each branch of torch.cond with .contiguous()"),
    (
        "at least two devices, cpu and meta!",
        "weights on the meta device have no numbers: load them, or look at the graph, with inputs of that device",
    ),
)
"""What torch says at greater length than it helps, up to these words, and what to try."""


HINTS = {
    "GuardOnDataDependentSymNode": "the model branches on numbers in a tensor: use torch.where or torch.cond there, or "
    "torch._check to say what is always true",
    "UserError": "name the dimension by a string, which lets torch find its range, or follow torch's suggested fixes",
    "ConstraintViolationError": "name the dimension by a string, which lets torch find its range, or make it static",
    "DynamicOutputShapeException": "the shape of a result depends on numbers in a tensor, in a way torch cannot trace",
    "UnsupportedOperatorException": "register a fake implementation of the operator: torch.library.register_fake",
}
OTHERWISE = "run the model on these arguments; then see torch's error (the cause)"
IN_A_BRANCH = (
    "torch traces both branches of torch.cond at the sizes of the example, that which is not taken there too: give an "
    "example that both can run on, or write the branch so that it takes every size"
)


def explain_error(name: str, error: Exception, places: Sequence[Place], leaves: Sequence[Leaf]) -> CaptureError:
    """torch's error about the module of this name as a CaptureError: what is wrong, in the names of these places and
    leaves, the user's line, and what to try."""
    said = message(error, places, leaves)
    by_text = next((each for each in BY_TEXT if each[0] in said), None)
    if by_text is not None:
        said, hint = said[: said.index(by_text[0]) + len(by_text[0])], by_text[1]
    else:
        hint = HINTS.get(type(error).__name__) or (IN_A_BRANCH if is_in_a_branch(error) else OTHERWISE)
    return CaptureError(f"torch.export cannot capture {name}: {said}", source=user_frames(error), hint=hint)


def message(error: Exception, places: Sequence[Place], leaves: Sequence[Leaf]) -> str:
    """What an error of torch's says, in one line, with the user's names for dimensions in place of torch's symbols."""
    said = first_line(error)
    undecided, within = _UNDECIDED.match(said), _WITHIN.search(str(error))
    if undecided is not None:
        said = f"Could not guard on data-dependent expression {undecided[1]}"
    elif said.startswith("RuntimeError when making fake tensor call") and within is not None:
        said = within[2]
    elif said.endswith("Got graph break/error:"):
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = f"{said} {lines[1]}" if len(lines) > 1 else said
    if _SYMBOL.search(said) is None:
        return said
    return in_words(said, symbols_in(error, places, leaves))


def is_in_a_branch(error: Exception) -> bool:
    """Whether torch was tracing a branch of torch.cond."""
    return any(f.f_code.co_filename.endswith("_higher_order_ops/cond.py") for f in frames_of(error))


def user_frames(error: Exception) -> str:
    """The innermost line outside torch and Python itself that an error went through; empty where there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        of_python = frame.filename.startswith(STDLIB) and "site-packages" not in frame.filename
        if not of_python and not frame.filename.startswith((TORCH, HERE, "<")):
            return f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"
    return ""


# ---------------------------------------------------------------------------------------------------------------------
# The user's names for the symbols of an error
# ---------------------------------------------------------------------------------------------------------------------


def symbols_in(error: Exception, places: Sequence[Place], leaves: Sequence[Leaf]) -> dict[str, str]:
    """torch's symbol -> the user's name for the dimension, or `x.shape[0]` where there is none, for all that torch knew
    where it failed.

    torch keeps the symbols with what they stand for in ShapeEnvs, which the frames of the error still hold. Operands of
    torch.cond get symbols of their own, in another one: these are what the operands' sizes are called outside.
    """
    frames = list(frames_of(error))
    sources = {symbol: source for env in envs_of(frames) for symbol, source in sources_of(env)}
    own = names_of_sources(places, leaves)
    names = {symbol: own[source] for symbol, source in sources.items() if source in own}
    for symbol, source in sources.items():
        sizes = () if symbol in names else sizes_within(frames, source)
        words = (in_words(size, names) for size in sizes)
        found = next((each for each in words if _SYMBOL.search(each) is None), None)
        names |= {} if found is None else {symbol: found}
    return names


def in_words(text: str, names: Mapping[str, str]) -> str:
    """A text of torch's with names in place of its symbols."""
    return _SYMBOL.sub(lambda found: names.get(found[0].partition(":")[0], found[0]), text)


def frames_of(error: BaseException) -> Iterator[FrameType]:
    """The frames that an error went through, and those of the errors that it comes from, the innermost first."""
    found: BaseException | None = error
    while found is not None:
        trace, frames = found.__traceback__, []
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        yield from reversed(frames)
        found = found.__cause__ or found.__context__


def envs_of(frames: Iterable[FrameType]) -> Iterator[ShapeEnv]:
    """The ShapeEnvs that torch's own frames hold."""
    translators = dynamo_class("symbolic_convert", "InstructionTranslatorBase")
    holders = (FakeTensorMode, *dynamo_class("output_graph", "OutputGraph"))
    for frame in frames:
        if frame.f_code.co_filename.startswith(TORCH):
            for held in frame.f_locals.values():
                held = held.output if isinstance(held, translators) else held
                env = held.shape_env if isinstance(held, holders) else held
                if isinstance(env, ShapeEnv):
                    yield env


def sources_of(env: ShapeEnv) -> Iterator[tuple[str, str]]:
    """(symbol, torch's name for where its size is found first) of a ShapeEnv."""
    known: Mapping[Any, Any] = getattr(env, "var_to_sources", None) or {}
    for symbol, found in known.items():
        yield from ((symbol.name, str(each.name)) for each in found[:1])


def names_of_sources(places: Sequence[Place], leaves: Sequence[Leaf]) -> dict[str, str]:
    """torch's name for where a size is found -> the user's name for it: in strict mode the leaves are numbered."""
    named = {(place.leaf, place.axis): place.text for place in places if place.is_plain}
    named |= {(place.leaf, place.axis): f"({place.text})" for place in places if not place.is_plain}
    found: dict[str, str] = {}
    for i, leaf in enumerate(leaves):
        for axis in range(leaf.value.dim()) if isinstance(leaf.value, torch.Tensor) else (-1,):
            text = named.get((i, axis)) or (f"{leaf.name}.shape[{axis}]" if axis >= 0 else leaf.name)
            end = f".size()[{axis}]" if axis >= 0 else ""
            found |= {f"{leaf.source}{end}": text, f"L['{_FLAT}'][{i}]{end}": text}
    return found


def sizes_within(frames: Sequence[FrameType], source: str) -> Iterator[str]:
    """The sizes at `L['args'][3][0].size()[1]`, by the frames that have such a variable, the innermost first: the
    operands themselves, whose sizes have the symbols that are asked for, and what they were made of outside."""
    found = _OPERAND.fullmatch(source)
    if found is None:
        return
    for frame in frames:
        value: Any = frame.f_locals.get(found[1]) if frame.f_code.co_filename.startswith(TORCH) else None
        for index in map(int, re.findall(r"\d+", found[2])):
            value = value[index] if isinstance(value, tuple | list) and index < len(value) else None
        value = value.node.meta.get("example_value") if isinstance(value, Proxy) else value
        if isinstance(value, torch.Tensor) and int(found[3]) < value.dim():
            size = value.shape[int(found[3])]
            yield str(size.node.expr) if isinstance(size, torch.SymInt) else str(size)
