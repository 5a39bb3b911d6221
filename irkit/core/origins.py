"""Where a value came from. Part of no key, no digest and no rule."""

from __future__ import annotations

from typing import Any

import attrs


class _Fields:
    """An Origin while it is made. A frozen class sets each of its fields by a call, which takes three times as long."""

    __slots__ = ("module", "node", "rules", "source", "target")


_allocated = object.__new__


@attrs.frozen(init=False, weakref_slot=False)
class Origin(_Fields):
    """Provenance of a value: the FX node, its target, the module path, the user's source line, the rules since."""

    node: str = ""
    target: str = ""
    module: str = ""
    source: str = ""
    rules: tuple[str, ...] = ()

    def __new__(
        cls, node: str = "", target: str = "", module: str = "", source: str = "", rules: tuple[str, ...] = ()
    ) -> Origin:
        return provenance(node, target, module, source, rules)

    def __str__(self) -> str:
        place = " ".join(part for part in (self.source, self.module) if part) or self.node
        return f"{place} <{', '.join(self.rules)}>" if self.rules else place

    def after(self, rule: str) -> Origin:
        """This origin, with `rule` added to the rewrites that the value went through."""
        if rule in self.rules:
            return self
        return provenance(self.node, self.target, self.module, self.source, (*self.rules, rule))


def provenance(
    node: str = "", target: str = "", module: str = "", source: str = "", rules: tuple[str, ...] = ()
) -> Origin:
    """What `Origin(...)` makes, in half the time: a class takes that long to be called."""
    made: Any = _allocated(_Fields)
    made.node, made.target, made.module, made.source, made.rules = node, target, module, source, rules
    made.__class__ = Origin  # from here on nothing can be set
    return made


NOWHERE = Origin()
"""The origin of a value that nobody has placed yet."""
