"""Where a model that is being captured decides by data: the place in its source, found by the frame that runs."""

from __future__ import annotations

import ast
import gc
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import attrs
import torch

from lowering.control_flow.comprehensions import (
    elements_gone_over,
    inner_elements,
    is_counting,
    is_parting,
    tests_of_elements,
)
from lowering.control_flow.decisions import is_opening
from lowering.control_flow.sources import Place, decisions_in, definition_at, is_refusing, own_nodes, place_of
from lowering.errors import CaptureError
from lowering.records.source_lines import short_path

HERE = f"{Path(__file__).parents[1]}{os.sep}"
TORCH = f"{Path(torch.__file__).parent}{os.sep}"
STDLIB = sysconfig.get_paths()["stdlib"]
ASKING = (
    "_ops.py", "_library/", "_tensor.py", "overrides.py", "__init__.py", "functional.py", "fx/experimental/", "utils/_",
)  # fmt: skip
"""The files of torch through which Python asks a tensor or a symbolic number for a truth or a length."""
PLUMBING = tuple(f"{TORCH}{each}" for each in ASKING)


@attrs.frozen
class Site:
    """A decision in a function: its file, the first line and the qualified name of the function, and its place.
    `opens` says that it makes a list, which may as well be as long as it is for the example, `counts` that it only
    counts elements, which makes no loop, `parts` that it gives parts of a tensor, which may be as many as they are for
    the example; `around` are the globals of the function."""

    file: str
    first: int
    name: str
    place: Place
    opens: bool = False
    counts: bool = False
    parts: bool = False
    around: Any = attrs.field(default=None, eq=False, repr=False)


class Reached(BaseException):
    """A decision on data, or a loop over a size, that can be rewritten: capture begins anew, with it rewritten."""

    def __init__(self, site: Site, is_loop: bool = False) -> None:
        super().__init__(site.name)
        self.site, self.is_loop = site, is_loop


class Declined(BaseException):
    """A decision that is rewritten and makes something that no program has: capture begins anew, with it left as it is,
    so that what it is for the example is a condition."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.name)
        self.site = site


def site_at(source: str, sites: Sequence[Site]) -> Site | None:
    """The innermost of some decisions that a line of a model is in, `folder/model.py:12 x = f(y)`; None where it is in
    none."""
    file, _, rest = source.partition(":")
    number = rest.partition(" ")[0]
    line = int(number) if number.isdigit() else 0
    found = [each for each in sites if short_path(each.file) == file]
    around = [each for each in found if each.place[0] <= line <= each.place[1]]
    return min(around, key=lambda each: each.place[1] - each.place[0], default=None)


def site_here(chosen: Callable[[Site], bool], loops: bool = False, branches: bool = False) -> Site | None:
    """The decision that is being made, in the innermost frame that is neither torch's nor irkit's; None where it is no
    statement or expression of a function that is chosen, or no `for`, or none with two ways, where only these are
    looked for."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(HERE):
            if not file.startswith(TORCH):
                site = site_in(frame, frame.f_lasti, loops, branches)
                return site if site is not None and chosen(site) else None
            if not file.startswith(PLUMBING):
                return None  # torch decides, not the model
        frame = frame.f_back
    return None


def site_of(error: BaseException, chosen: Callable[[Site], bool]) -> Site | None:
    """The decision at which torch.export failed, in the innermost frame of a user's; None where there is none."""
    innermost: BaseException = error
    while innermost.__cause__ is not None:
        innermost = innermost.__cause__
    for frame, last in reversed([(t.tb_frame, t.tb_lasti) for t in tracebacks(innermost)]):
        file = frame.f_code.co_filename
        if not file.startswith((HERE, TORCH, "<")):
            site = site_in(frame, last)
            return site if site is not None and chosen(site) else None
    return None


def tracebacks(error: BaseException) -> Iterator[types.TracebackType]:
    """The frames that an error went through, outer ones first."""
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def site_in(frame: types.FrameType, last: int, loops: bool = False, branches: bool = False) -> Site | None:
    """The decision at an instruction of the function of a frame, or only a `for`, or only one with two ways; None where
    there is none."""
    code = frame.f_code
    place: Any = tuple(code.co_positions())[last // 2]
    if None in place:
        return None
    found = definition_at(code.co_filename, place[0])
    node = None if found is None else decision_at(found.node, place)
    if found is not None and node is None and branches:
        node = comparing_call(found.node, place)
    if found is None or node is None or is_refusing(node):
        return None
    if loops and elements_gone_over(node) is None and not is_opening(node):
        return None
    if branches and not (isinstance(node, BRANCHES) or is_comparing(node)):
        return None
    kinds = is_opening(node), is_counting(node), is_parting(node)
    return Site(code.co_filename, found.first, found.name, place_of(node), *kinds, around=frame.f_globals)


BRANCHES = (ast.If, ast.IfExp, ast.BoolOp, ast.Compare, ast.UnaryOp)
"""The decisions that have two ways."""
COMPARING = frozenset({"min", "max"})
"""Functions of Python's that compare what they are given, and so have a way for each answer."""


def is_comparing(node: ast.AST) -> bool:
    """Whether a node calls one of these."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in COMPARING


@lru_cache(maxsize=1024)
def comparing_call(function: ast.FunctionDef, place: Place) -> ast.AST | None:
    """The call at a place of a function that compares what it is given; None where there is none."""
    return next((each for each in own_nodes(function) if is_comparing(each) and place_of(each) == place), None)


@lru_cache(maxsize=1024)
def decision_at(function: ast.FunctionDef, place: Place) -> ast.AST | None:
    """The innermost decision at a place of a function, or around it where that is no decision itself."""
    within = [each for each in own_nodes(function) if hasattr(each, "lineno") and covers(place_of(each), place)]
    decisions = set(decisions_in(function))
    found = [each for each in within if each in decisions]
    exact = [each for each in found if place_of(each) == place]
    exact += [each for each in found if any(place_of(part) == place for part in tests_of(each))]
    if exact and not is_parting(exact[0]):
        return exact[0]
    # The elements of a for, or its range, are asked for at their own place.
    pairs = [(each, elements_gone_over(each)) for each in found]
    loops = [each for each, elements in pairs if elements is not None and covers(place_of(elements), place)]
    loops += [each for each in found if isinstance(each, ast.Call) and place in map(place_of, generators_of(each))]
    loops += [each for each in found if any(covers(place_of(part), place) for part in inner_elements(each))]
    return min((each for each in loops if each not in exact), key=extent, default=exact[0] if exact else None)


def generators_of(node: ast.Call) -> list[ast.AST]:
    """The generator expressions among the arguments of a call, whose own place asks for what they go over."""
    return [each for each in node.args if isinstance(each, ast.GeneratorExp)]


def extent(node: ast.AST) -> tuple[int, int]:
    """How many lines a node has, and how wide it is where it has one."""
    first, last, left, right = place_of(node)
    return last - first, right - left


def tests_of(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions of whose truth a decision asks."""
    if isinstance(node, ast.If | ast.While | ast.Assert | ast.IfExp):
        yield node.test
        yield from tests_of(node.test)
    elif isinstance(node, ast.ListComp | ast.Call):
        for each in tests_of_elements(node):
            yield each
            yield from tests_of(each)
    elif isinstance(node, ast.BoolOp):
        for each in node.values:
            yield each
            yield from tests_of(each)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
        yield from tests_of(node.operand)


def covers(outer: Place, inner: Place) -> bool:
    """Whether one place holds another."""
    begins = (outer[0], outer[2]) <= (inner[0], inner[2])
    return begins and (inner[1], inner[3]) <= (outer[1], outer[3])


# ---------------------------------------------------------------------------------------------- functions


def functions_of(file: str, spaces: Sequence[dict[str, Any]]) -> list[types.FunctionType]:
    """All functions that live whose code stands in a file, and whose globals are these, or those of a module of that
    file."""
    kind = types.FunctionType
    held = [getattr(each, "__dict__", None) for each in [*sys.modules.values()]]  # None, say, where none is to be found
    modules = [space for space in held if type(space) is dict and space.get("__file__") == file]
    found = {id(space): space for space in (*spaces, *modules)}
    around = gc.get_referrers(*found.values())  # a third of the time that going over all objects takes
    return [each for each in around if type(each) is kind and each.__code__.co_filename == file]


def inner_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The codes of functions inside, at any depth."""
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield each
            yield from inner_codes(each)


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code, and those inside it."""
    yield code
    yield from inner_codes(code)


def is_users(site: Site) -> bool:
    """Whether a decision is in a function of a user's, or of a library of models: neither torch's, nor irkit's, nor
    Python's own."""
    file = site.file
    if file.startswith(("<", HERE, TORCH)):
        return False
    return not file.startswith(STDLIB) or "site-packages" in file


def chosen_by(rewrite: Any) -> Callable[[Site], bool]:
    """Which functions are rewritten: all of the user's for True, else those that are named, also by their module or
    class, with the functions inside them. Raises CaptureError for what is none of these."""
    if rewrite is True:
        return is_users
    for each in as_sequence(rewrite):
        if not callable(each):
            raise CaptureError(
                f"rewrite names {each!r}, which is no function, class or module",
                hint="rewrite=True for all functions of the model, or a list of functions, methods, classes or modules",
            )
    named = [code for each in as_sequence(rewrite) for code in codes_of(each)]
    known = {(c.co_filename, c.co_firstlineno) for code in named for c in codes_in(code)}
    return lambda site: (site.file, site.first) in known


def as_sequence(rewrite: Any) -> Sequence[Any]:
    """What is named, as a sequence."""
    several = isinstance(rewrite, Sequence | set) and not isinstance(rewrite, str)
    return list(rewrite) if several else [rewrite]


def codes_of(named: Any) -> Iterator[types.CodeType]:
    """The codes of a function, a method, or those that a class, or the class of a module, defines itself."""
    named = getattr(named, "__func__", named)
    while hasattr(named, "__wrapped__"):
        if hasattr(named, "__code__"):
            yield named.__code__
        named = named.__wrapped__
    if hasattr(named, "__code__"):
        yield named.__code__
        return
    owner = type(named) if isinstance(named, torch.nn.Module) else named
    if isinstance(owner, type):
        for each in vars(owner).values():
            inner = getattr(each, "__func__", each)
            if callable(inner) and (hasattr(inner, "__code__") or hasattr(inner, "__wrapped__")):
                yield from codes_of(inner)
