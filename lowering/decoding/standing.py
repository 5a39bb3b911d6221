"""How a model stands that was captured: its modules, their tensors, attributes and hooks, and the configurations that
they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import torch

from irkit.errors import StaleError

TABLES = ("_modules", "_forward_hooks", "_forward_pre_hooks", "forward")
"""What of a module's own says, beside plain attributes and tensors, what its forward computes."""
PLAIN = (bool, int, float, str, type(None), torch.dtype)
"""Values that are compared; others that a model keeps may change as it is called."""
REMEMBERED = frozenset(("max_seq_len_cached",))
"""What models note of the calls so far: the length that rotations are scaled for."""
CONFIGURATION = "config"


@attrs.frozen(eq=False)
class Standing:
    """What a model is made of, by where it is in the model; and the model, which is asked again."""

    model: torch.nn.Module
    held: Mapping[str, Any]

    @classmethod
    def of(cls, model: torch.nn.Module) -> Standing:
        """How a model stands now."""
        return cls(model, dict(parts_of(model)))

    def require(self) -> None:
        """Raises StaleError where the model stands otherwise now."""
        now = dict(parts_of(self.model))
        changed = [path for path in {**self.held, **now} if not same_part(self.held, now, path)]
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            raise StaleError(
                f"{changed[0]}{more} of {type(self.model).__name__} changed since its programs were captured",
                hint="make the generation anew of the model as it is, or have the model as it was",
            )


def same_part(held: Mapping[str, Any], now: Mapping[str, Any], path: str) -> bool:
    """Whether a part is what it was."""
    if (path in held) is not (path in now):
        return False
    one, other = held[path], now[path]
    return one is other or (isinstance(one, (*PLAIN, tuple)) and type(one) is type(other) and one == other)


def parts_of(model: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """The children, hooks, and plain attributes of all modules, and what configurations say, by their paths."""
    configurations: dict[int, Any] = {}
    for path, each in model.named_modules():
        inside = f"{path}." if path else ""
        for name, value in each.__dict__.items():
            if name in TABLES:
                known = value.items() if isinstance(value, dict) else [("", value)]
                yield from ((f"{inside}{name}.{key}", held) for key, held in known if not is_of_transformers(held))
            elif isinstance(value, PLAIN) and name not in REMEMBERED and not name.startswith("_"):
                yield f"{inside}{name}", value  # the others are transformers' own notes of a generation
        passing = each._non_persistent_buffers_set  # which models compute anew as they are called
        buffers = [(name, tensor) for name, tensor in each._buffers.items() if name not in passing]
        tensors = [*each._parameters.items(), *buffers]
        yield from ((f"{inside}{name}", mark_of(tensor)) for name, tensor in tensors if tensor is not None)
        config = each.__dict__.get(CONFIGURATION)
        if config is not None and id(config) not in configurations:
            configurations[id(config)] = config
            yield from ((f"{inside}{CONFIGURATION}.{name}", value) for name, value in said_by(config))


def is_of_transformers(hook: Any) -> bool:
    """Whether a hook is one that transformers' models add to themselves when they are called, to record results."""
    return (getattr(hook, "__module__", None) or "").startswith("transformers.") and not isinstance(
        hook, torch.nn.Module
    )


def mark_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Which tensor it is, and how often torch saw it written."""
    return id(tensor), 0 if tensor.is_inference() else tensor._version


def said_by(config: Any) -> Iterator[tuple[str, Any]]:
    """The plain values of a configuration, those in its lists and dicts among them."""
    for name, value in getattr(config, "__dict__", {}).items():
        if isinstance(value, PLAIN):
            yield name, value
        elif isinstance(value, list | tuple):
            yield from ((f"{name}[{i}]", each) for i, each in enumerate(value) if isinstance(each, PLAIN))
        elif isinstance(value, dict):
            yield from ((f"{name}[{key!r}]", each) for key, each in value.items() if isinstance(each, PLAIN))
