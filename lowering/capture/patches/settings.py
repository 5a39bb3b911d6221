"""Settings and small functions of torch that are other ones while a model is captured or run for comparison."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import compiler
from torch.nn.modules import transformer
from torch.utils._python_dispatch import TorchDispatchMode

from lowering.capture.inputs.contents import Contents, changed_attributes, containers_of
from lowering.capture.inputs.surroundings import own_packages
from lowering.capture.patches.replaced import Replaced, replaced_attributes
from lowering.capture.patches.zero_questions import Heard
from lowering.errors import CaptureError
from lowering.records.torch_internals import LOGGER_OF_SIZES, C, export_tracing, symbolic_config


def oblivious_of_examples(oblivious: bool) -> AbstractContextManager[Any]:
    """A block in which torch shall (not) ignore that the size of an example is 0 or 1 where it can."""
    patch: Any = getattr(symbolic_config, "patch")  # noqa: B009  (torch installs it in the module when that is imported)
    return patch(backed_size_oblivious=oblivious)


@contextmanager
def without_fast_path() -> Iterator[None]:
    """A block in which nn.Transformer and nn.MultiheadAttention do not take their fused kernels; a model that asks for
    that itself is told what it was before, or what it has set since."""
    fused = torch.backends.mha
    flag = Flag(fused.get_fastpath_enabled, fused.set_fastpath_enabled)
    fused.set_fastpath_enabled(False)
    try:
        with replaced_attributes(
            (fused, "get_fastpath_enabled", flag.read), (fused, "set_fastpath_enabled", flag.write)
        ):
            yield
    finally:
        fused.set_fastpath_enabled(flag.told)


def without_questions_of_masks() -> Replaced:
    """A block in which nn.Transformer does not look whether a mask happens to be the causal one.

    It would choose another kernel then, with the same result; torch.export cannot ask what a tensor holds.
    """
    return replaced_attributes((transformer, "_detect_is_causal_mask", is_said_causal))


def is_said_causal(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Whether a mask is said to be the causal one."""
    return is_causal is True


@contextmanager
def write_assertions() -> Iterator[None]:
    """A block in which dynamo writes what it defers to run time into the graph.

    torch.export in strict mode leaves that to a later step, by which dynamo has dropped every `torch._check` that holds
    once the number that it is about is replaced, and the number with it.
    """
    export_trace = export_tracing()
    before = export_trace.DEFAULT_EXPORT_DYNAMO_CONFIG
    export_trace.DEFAULT_EXPORT_DYNAMO_CONFIG = dataclasses.replace(before, do_not_emit_runtime_asserts=False)
    try:
        yield
    finally:
        export_trace.DEFAULT_EXPORT_DYNAMO_CONFIG = before


@contextmanager
def failing_quietly() -> Iterator[None]:
    """A block in which torch.export does not print the whole graph that it had when it failed, nor log that it knows no
    line of the model: the error that is raised says where it was."""
    logger, export_trace = logging.getLogger(LOGGER_OF_SIZES), export_tracing()

    def wanted(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("Unable to find user code")

    logger.addFilter(wanted)
    setattr(export_trace, "print", lambda *_, **__: None)  # noqa: B010  (the module's own, before Python's)
    try:
        yield
    finally:
        delattr(export_trace, "print")
        logger.removeFilter(wanted)


@contextmanager
def backends_told() -> Iterator[None]:
    """A block in which a model that asks whether cudnn or mkldnn is enabled is told what it was before torch.export
    switched both off, or what the model has set since."""
    props: list[Any] = [vars(type(each))["enabled"] for each in (torch.backends.cudnn, torch.backends.mkldnn)]
    held = [(prop, prop.getter, prop.setter) for prop in props]
    flags = [Flag(getter, setter) for _, getter, setter in held]
    replaced: list[tuple[Any, str, Any]] = []
    for prop, flag, name in zip(props, flags, ("cudnn", "mkldnn"), strict=True):
        prop.getter, prop.setter = flag.read, flag.write
        replaced += [(C, f"_get_{name}_enabled", flag.read), (C, f"_set_{name}_enabled", flag.write)]
    try:
        with replaced_attributes(*replaced):
            yield
    finally:
        for prop, getter, setter in held:
            prop.getter, prop.setter = getter, setter
        for flag in flags:
            flag.leave()


class Flag:
    """A setting of torch that a model reads and writes by itself, while torch has it as it needs it to trace."""

    def __init__(self, getter: Callable[[], bool], setter: Callable[[bool], None]) -> None:
        self.getter, self.setter = getter, setter
        self.first = self.told = getter()

    def read(self) -> bool:
        """What it is: to torch's own code what it has set, to others what they have."""
        return self.getter() if asked_by_torch() else self.told

    def write(self, value: bool) -> None:
        """Sets it, for whoever does."""
        if asked_by_torch():
            self.setter(value)
        else:
            self.told = value

    def leave(self) -> None:
        """Has it be what the model leaves."""
        if self.told != self.first:
            self.setter(self.told)


def asked_by_torch() -> bool:
    """Whether torch's own code asks for a flag, rather than what a model calls of torch.backends."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename.startswith((BACKENDS, CONTEXTS)) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(TORCH)


TORCH = f"{Path(torch.__file__).parent}{os.sep}"
BACKENDS, CONTEXTS = f"{TORCH}backends{os.sep}", contextlib.__file__


@contextmanager
def assignments_told(module: Any, heard: Heard) -> Iterator[None]:
    """A block in which the attributes of a module that torch.export finds changed, and puts back, are noted first."""
    export_trace = export_tracing()
    before = export_trace._detect_attribute_assignment

    @contextmanager
    def noted(root: Any) -> Iterator[None]:
        with before(root):
            if module is None:
                yield
                return
            contents = Contents.of(containers_of(module))
            yield
            changed = {id(held): known for held, known in contents.changed()}
            packages = own_packages(map(type, module.modules()))
            heard.changed.extend(changed_attributes(module, changed, packages) if changed else ())

    export_trace._detect_attribute_assignment = noted
    try:
        yield
    finally:
        export_trace._detect_attribute_assignment = before


def saying_that_it_exports() -> Replaced:
    """A block in which torch says that it exports, so that models take the ways that they have for that."""
    return replaced_attributes((compiler, "_is_compiling_flag", True), (compiler, "_is_exporting_flag", True))


def answering_for_the_tracer(answer: Callable[[], bool]) -> Replaced:
    """A block in which `torch.jit.is_tracing()` is what `answer()` says."""
    return replaced_attributes((torch.jit, "is_tracing", answer))


def own_modes_refused() -> Replaced:
    """A block in which a model that enters a TorchDispatchMode of the user's is refused: operators are met above it,
    and what it makes of them would be lost."""
    before = TorchDispatchMode.__enter__

    def enter(mode: Any) -> Any:
        if type(mode).__module__.split(".")[0] not in KNOWN:
            raise CaptureError(
                f"the model enters {type(mode).__name__}, a TorchDispatchMode, below which no capture meets operators",
                hint="compute without the mode, or by a TorchFunctionMode",
            )
        return before(mode)

    return replaced_attributes((TorchDispatchMode, "__enter__", enter))


KNOWN = frozenset(("torch", "lowering", "irkit", "passes"))
"""Packages whose modes are no part of what a model computes."""
