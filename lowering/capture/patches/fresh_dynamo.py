"""Runs in which dynamo compiles nothing, and exports that know nothing of what it compiled before, and of which it
remembers nothing afterwards.

torch.cond, while_loop, scan and their like are compiled by dynamo, when a model runs as when it is exported. It asks of
what it compiled before whether it fits, and these questions become guards of the program; and it remembers which sizes
have changed. So a model that ran, or was exported, at other sizes would be exported otherwise.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import torch
from torch import compiler

from lowering.records.torch_internals import C, dynamo_frames, dynamo_module

REGIONS = tuple(str(Path(torch.__file__).parent / each) for each in ("_higher_order_ops", "nn/attention"))
"""Where torch's own functions stand that call dynamo for what a region holds."""


@contextmanager
def nothing_compiled() -> Iterator[None]:
    """A block in which what was given to torch.compile runs as it is written, and dynamo remembers nothing of it.

    To load dynamo takes longer than to export a small model, which has no use for it. So it is told where it is there,
    and else as soon as something loads it.
    """
    with ExitStack() as blocks:

        def tell() -> None:
            blocks.enter_context(compiler.set_stance("force_eager"))

        if DYNAMO in sys.modules:
            tell()
        else:
            finder = Awaited(tell)
            sys.meta_path.insert(0, finder)
            blocks.callback(finder.forget)
        yield


DYNAMO = "torch._dynamo"


class Awaited(MetaPathFinder):
    """Finds dynamo where Python does, and calls `then` once it is loaded, until it shall forget that."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.then: Callable[[], None] | None = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where dynamo stands; None for any other module."""
        if fullname != DYNAMO:
            return None
        self.leave()
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = Telling(spec.loader, self)
        return spec

    def leave(self) -> None:
        """Takes it from where Python looks for modules."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def forget(self) -> None:
        """The same, and calls nothing any more: another thread may be loading dynamo still."""
        self.leave()
        self.then = None

    def loaded(self) -> None:
        """Calls `then`."""
        if self.then is not None:
            self.then()


class Telling(Loader):
    """Loads a module as another loader does, as which it leaves that behind, and then tells a finder."""

    def __init__(self, loader: Loader, finder: Awaited) -> None:
        self.loader, self.finder = loader, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """What the other one makes."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Runs the code of the module."""
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.finder.loaded()


@contextmanager
def compiled_afresh() -> Iterator[None]:
    """A block in which dynamo knows nothing of the sizes that it saw before, nor of regions that it compiled, and after
    which it forgets what it compiled there.

    What it compiled for the user stays; only regions of control flow are compiled anew when they next run.
    """
    if dynamo_frames() is None:  # its import takes seconds, and the block may not need it
        try:
            yield
        finally:
            forget_since(frozenset())
        return
    frames, sizes, backends = tables()
    known = compiled()
    for code in known.values():
        if code.co_filename.startswith(REGIONS):
            forget(code)
    counts = frames.FRAME_COUNTER, frames.FRAME_COMPILE_COUNTER.copy()
    seen = sizes._CODE_STATE, sizes._INIT_CODE_STATE
    held = dict(backends.cached_backends)
    sizes._CODE_STATE, sizes._INIT_CODE_STATE = defaultdict(sizes.CodeState), None
    try:
        yield
    finally:
        forget_since(known.keys())
        sizes._CODE_STATE, sizes._INIT_CODE_STATE = seen
        frames.FRAME_COUNTER = counts[0]
        replace(frames.FRAME_COMPILE_COUNTER, counts[1])
        replace(backends.cached_backends, held)


def forget_since(known: Any) -> None:
    """Forgets what dynamo compiled of functions that are not among these, and of torch's own for regions."""
    for key, code in compiled().items():
        if key not in known or code.co_filename.startswith(REGIONS):
            forget(code)
    if not known and dynamo_frames() is not None:
        frames, sizes, _ = tables()
        frames.FRAME_COMPILE_COUNTER.clear()
        sizes.reset_code_state()


def tables() -> tuple[Any, Any, Any]:
    """dynamo's modules that hold what it compiled, the sizes that it saw, and who compiled for it."""
    return dynamo_module("convert_frame"), dynamo_module("pgo"), dynamo_module("eval_frame")


def compiled() -> dict[int, CodeType]:
    """The code of each function that dynamo has compiled, by its identity; nothing before dynamo is imported."""
    frames = dynamo_frames()
    held = (each() for tracker in (frames.input_codes, frames.output_codes) for each in tracker.seen) if frames else ()
    return {id(code): code for code in held if code is not None}


def forget(code: CodeType) -> None:
    """Takes away what dynamo compiled of a function."""
    C._dynamo.eval_frame.reset_code(code)


def replace(table: Any, content: Any) -> None:
    """Gives a table this content."""
    table.clear()
    table.update(content)
