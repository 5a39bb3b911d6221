"""What each operator of a model gives in eager mode, with its module and its line, as direct capture names them."""

from __future__ import annotations

import linecache
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
import torch
from torch.nn.modules.module import register_module_forward_hook

from lowering.capture.inputs.contents import keep_unchanged
from lowering.direct.modes import follow_modules
from lowering.direct.tracer import HERE, IRKIT, TORCH
from lowering.records.pytrees import register_classes
from lowering.records.source_lines import short_path
from lowering.records.torch_internals import PROXY_KEY, ProxyTorchDispatchMode, enable_python_dispatcher, pytree


@attrs.define(eq=False)
class Seen:
    """A tensor that an operator gave. `node` counts its operator as capture does; `returned` are the modules whose
    result it is."""

    node: str
    target: str
    module: str
    source: str
    index: int
    tensor: torch.Tensor
    content: torch.Tensor
    returned: list[str] = attrs.field(factory=list)


class Recorder(ProxyTorchDispatchMode):
    """Meets operators where direct capture does, before torch takes composite ones apart, and lets them run."""

    _mode_key = PROXY_KEY

    def __init__(self) -> None:
        super().__init__(None, "symbolic", pre_dispatch=True)  # pyright: ignore[reportArgumentType]
        self.modules: list[str] = []
        self.seen: list[Seen] = []
        self.latest: dict[int, Seen] = {}
        self.counts: Counter[str] = Counter()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        schema = getattr(func, "_schema", None)
        if schema is None:
            return result
        base = schema.name.rpartition("::")[2]
        count = self.counts[base]
        self.counts[base] += 1
        node, module, source = f"{base}_{count}" if count else base, self.modules[-1] if self.modules else "", line()
        results = result if isinstance(result, tuple | list) else [result]
        for index, each in enumerate(results):
            if isinstance(each, torch.Tensor):
                made = Seen(node, func.name(), module, source, index, each, each.detach().clone())
                self.seen.append(made)
                self.latest[id(each)] = made
        return result


def line() -> str:
    """The user's line that is being run: the innermost that is neither torch's nor irkit's; "" where none is."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((TORCH, HERE, IRKIT, "<")):
            text = linecache.getline(file, frame.f_lineno).strip()
            return f"{short_path(file)}:{frame.f_lineno} {text}"
        frame = frame.f_back
    return ""


def record(module: torch.nn.Module, args: Any, kwargs: Mapping[str, Any]) -> tuple[list[Seen], Any]:
    """(each tensor that an operator gave, the result) of a call of a module."""
    recorder = Recorder()
    with torch.no_grad(), keep_unchanged(module), listening(recorder, module):
        result = module(*args, **kwargs)
    return recorder.seen, result


@contextmanager
def listening(recorder: Recorder, module: torch.nn.Module) -> Iterator[None]:
    """A block in which operators are recorded, and the modules that give what they made."""
    modules = list(module.named_modules())
    paths = {id(each): path for path, each in modules}
    compiled = any("_orig_mod" in each._modules for _, each in modules)

    def after(each: Any, _: Any, output: Any) -> None:
        with register_classes(output):
            for leaf in pytree.tree_leaves(output):
                made = recorder.latest.get(id(leaf))
                if made is not None and id(each) in paths:
                    made.returned.append(paths[id(each)])

    hook = register_module_forward_hook(after)
    try:
        with follow_modules(recorder, paths, compiled), enable_python_dispatcher(), recorder:  # pyright: ignore[reportArgumentType]
            yield
    finally:
        hook.remove()
