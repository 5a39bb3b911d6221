"""Functions with their decisions on data rewritten: one function by itself, or those of a model while it is captured.

A capture with `rewrite` is made as any other, until the model decides by data at a place that can be rewritten. The
function that decides gets the code in which that decision is computed, and capture begins anew; so only what needs it
is rewritten. Functions have their own code again when capture is over.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, cast

import attrs

from irkit.errors import IrkitError
from irkit.support.arguments import type_text
from lowering.capture.patches.table import LOCK
from lowering.control_flow import flow  # noqa: F401 - rewritten functions import it, which must not be traced
from lowering.control_flow.sites import (
    Declined,
    Reached,
    Site,
    chosen_by,
    codes_in,
    functions_of,
    site_at,
    site_here,
    site_of,
)
from lowering.control_flow.sources import Place, Rewritten, rewritten_code
from lowering.errors import CaptureError
from lowering.records.sizes import is_unbacked

Result = TypeVar("Result")
MOST = 200
"""How many decisions of a model are rewritten."""


class RewrittenFunction(Protocol):
    """A function with its new source, and a unified diff of both."""

    __source__: str
    __diff__: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function that was given gives."""


def rewritten(function: Callable[..., Any]) -> RewrittenFunction:
    """A function like the given one, whose decisions may hang on data when it is captured.

    Args:
        function: a function or a method, with its source at hand. Decorators on it are left as they are.

    Every `if`, `while`, `for`, `assert`, `and`, `or`, `not`, chained comparison and `x if c else y` of it, and of
    functions inside it, is rewritten that might ask a tensor; what it calls is not. Called in eager, it gives what the
    function gives. `__source__` is its new source, `__diff__` a unified diff. The given function is left as it is.

    Raises CaptureError where there is no source, or something that cannot be rewritten, with its line.
    """
    if isinstance(function, types.MethodType):
        return cast(RewrittenFunction, types.MethodType(rewritten(function.__func__), function.__self__))
    if not isinstance(function, types.FunctionType):
        raise CaptureError(f"{type_text(function)} is no function to rewrite", hint="give a function or a method")
    found = rewritten_code(function.__code__)
    code = function.__code__ if found is None else found.code
    made = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__, made.__annotations__ = function.__kwdefaults__, function.__annotations__
    made.__dict__.update(function.__dict__)
    made.__qualname__, made.__doc__ = function.__qualname__, function.__doc__
    made.__source__ = "" if found is None else found.after  # type: ignore[attr-defined]
    made.__diff__ = "" if found is None else found.diff  # type: ignore[attr-defined]
    return cast(RewrittenFunction, made)


@attrs.frozen(eq=False)
class Rewriting:
    """The decisions of a model that are rewritten so far; `loops` are those among them, and those that were, which are
    a `for` over a size. `memory` has what captures learned that ended where a further one was reached."""

    chosen: Callable[[Site], bool]
    sites: tuple[Site, ...] = ()
    loops: tuple[Site, ...] = ()
    memory: dict[Any, Any] = attrs.field(factory=dict)

    def reached(self, condition: Any) -> None:
        """Is told that the model decides: by data where `condition` is None, or hangs on data; by sizes otherwise, of
        which only a `for` is rewritten. Raises Reached where that can be rewritten, and is not yet."""
        symbols = getattr(condition, "free_symbols", ())
        if condition is not None and not symbols:
            return
        of_data = condition is None or any(is_unbacked(s.name) or s.name.startswith("zuf") for s in symbols)
        site = site_here(self.chosen, loops=not of_data)
        if site is not None and site not in self.sites:
            raise Reached(site, is_loop=site.opens or not (of_data or site.counts))

    def learned(self, key: Any, new: Any) -> Any:
        """What was learned under a key; `new`, from now on, where nothing was."""
        return self.memory.setdefault(key, new)

    def decides(self) -> bool:
        """Whether code that is rewritten decides now, as the frames tell."""
        return site_here(self.chosen, branches=True) is not None

    def declined(self, source: str) -> None:
        """Is told that what a line makes is nothing that a program has. Raises Declined where a decision makes it that
        is rewritten."""
        site = site_at(source, self.sites)
        if site is not None:
            raise Declined(site)

    def failed(self, error: BaseException) -> None:
        """Is told that torch.export failed. Raises Reached where it did at a decision that can be rewritten, and is not
        yet."""
        site = site_of(error, self.chosen)
        if site is not None and site not in self.sites:
            raise Reached(site)


def with_rewriting(rewrite: Any, capture: Callable[[Rewriting | None], Result]) -> tuple[Result, tuple[Rewritten, ...]]:
    """(what `capture` gives, the functions that were rewritten for it). Loops over sizes are left as they are where the
    model is not captured with them rewritten: each then runs as often as it does for the example."""
    if not rewrite:
        return capture(None), ()
    state = Rewriting(chosen_by(rewrite))
    known = Known()
    failed: IrkitError | None = None
    for _ in range(MOST):
        with LOCK, applied(state.sites, known) as made:
            try:
                return capture(state), tuple(made)
            except Reached as told:
                site, loop = told.site, told.is_loop
            except Declined as told:
                state = without(state, (told.site,))
                continue
            except IrkitError as error:
                if failed is not None:
                    raise failed  # noqa: B904 - its own cause is torch's error
                if not any(site in state.loops for site in state.sites):
                    raise
                if parting := tuple(site for site in state.sites if site.parts):
                    state = without(state, parting)
                    continue
                failed, state = error, without(state, state.loops)
                continue
        loops = (*state.loops, site) if loop else state.loops
        state = attrs.evolve(state, sites=(*state.sites, site), loops=loops)
    raise CaptureError(f"the model decides by data at more than {MOST} places", hint="name functions in rewrite")


def without(state: Rewriting, some: tuple[Site, ...]) -> Rewriting:
    """The same decisions but for some, which are left as they are from now on."""
    sites = tuple(site for site in state.sites if site not in some)
    return Rewriting(lambda site: site not in some and state.chosen(site), sites, state.loops)


@attrs.frozen(eq=False)
class Known:
    """What the captures of a model found out, for those after them: the functions of files that `live`, and the codes
    that were `rewritten`, by the file, the code, and which of its decisions."""

    live: dict[tuple[str, frozenset[int]], list[types.FunctionType]] = attrs.field(factory=dict)
    rewritten: dict[tuple[str, types.CodeType, frozenset[Place]], Rewritten | None] = attrs.field(factory=dict)

    def functions(self, file: str, sites: tuple[Site, ...]) -> list[types.FunctionType]:
        """The functions of a file, in which some decisions stand, that lived when it was asked for first."""
        spaces = {id(site.around): site.around for site in sites if site.file == file and site.around is not None}
        key = (file, frozenset(spaces))
        if key not in self.live:
            self.live[key] = functions_of(file, [*spaces.values()])
        return self.live[key]

    def new(self, code: types.CodeType, places: frozenset[Place]) -> Rewritten | None:
        """A code with its decisions at some places rewritten; None where none is there."""
        key = (code.co_filename, code, places)
        if key not in self.rewritten:
            self.rewritten[key] = rewritten_code(code, places)
        return self.rewritten[key]


@contextmanager
def applied(sites: tuple[Site, ...], known: Known) -> Iterator[list[Rewritten]]:
    """A block in which the functions of these decisions have the code that computes them. Gives what is rewritten."""
    places: dict[tuple[str, int, str], set[Place]] = {}
    for site in sites:
        places.setdefault((site.file, site.first, site.name), set()).add(site.place)
    made: list[Rewritten] = []
    before: list[tuple[types.FunctionType, types.CodeType]] = []
    try:
        for at, chosen in places.items():
            codes: list[Rewritten] = []
            for function in known.functions(at[0], sites):
                new = with_new(function.__code__, at, frozenset(chosen), known, codes)
                if new is not function.__code__:
                    before.append((function, function.__code__))
                    function.__code__ = new
            made += codes[:1]
        yield made
    finally:
        for function, code in reversed(before):
            function.__code__ = code


def with_new(
    code: types.CodeType,
    at: tuple[str, int, str],
    places: frozenset[Place],
    known: Known,
    made: list[Rewritten],
) -> types.CodeType:
    """A code with that of the function at a place rewritten, be it the code itself or one inside it; `made` is told."""
    if (code.co_filename, code.co_firstlineno, code.co_qualname) == at:
        found = known.new(code, places)
        if found is None:
            return code
        made.append(found)
        return found.code
    if not any((c.co_filename, c.co_firstlineno, c.co_qualname) == at for c in codes_in(code)):
        return code
    consts = tuple(
        with_new(each, at, places, known, made) if isinstance(each, types.CodeType) else each for each in code.co_consts
    )
    return code.replace(co_consts=consts)


def diffs(made: tuple[Rewritten, ...]) -> tuple[str, ...]:
    """What was changed, as unified diffs."""
    return tuple(each.diff for each in made)
