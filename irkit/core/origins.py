"""Where a value came from. Part of no key, no digest and no rule."""

from __future__ import annotations

from typing import Any

import attrs

NAME_NOTE, DOC_NOTE = "irkit.name", "irkit.doc_string"
"""Keys of notes of an origin for what a file has in fields of a node of their own."""
REPEAT = "@"
"""What stands before the number of a call in the path of a module that is called more than once: `layer@1`."""


def plain(path: str) -> str:
    """The path of a module without the numbers of its calls."""
    return ".".join(part.partition(REPEAT)[0] for part in path.split(".")) if REPEAT in path else path


class _Fields:
    """An Origin while it is made. A frozen class sets each of its fields by a call, which takes three times as long."""

    __slots__ = ("module", "node", "notes", "rules", "source", "target")


@attrs.frozen(init=False, weakref_slot=False)
class Origin(_Fields):
    """Provenance of a value: the FX node, its target, the module path, the user's source line, the rules since.

    `notes` is what else a file says of its node, and gets back when it is written again: metadata by key, its name
    under `NAME_NOTE` where that is not the name of its first result, its text under `DOC_NOTE`.
    """

    node: str = ""
    target: str = ""
    module: str = ""
    source: str = ""
    rules: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()

    def __new__(
        cls,
        node: str = "",
        target: str = "",
        module: str = "",
        source: str = "",
        rules: tuple[str, ...] = (),
        notes: tuple[tuple[str, str], ...] = (),
    ) -> Origin:
        return provenance(node, target, module, source, rules, notes)

    def __str__(self) -> str:
        place = " ".join(part for part in (self.source, self.module) if part) or self.node
        return f"{place} <{', '.join(self.rules)}>" if self.rules else place

    def after(self, rule: str) -> Origin:
        """This origin, with `rule` added to the rewrites that the value went through."""
        if rule in self.rules:
            return self
        return provenance(self.node, self.target, self.module, self.source, (*self.rules, rule), self.notes)


def provenance(
    node: str = "",
    target: str = "",
    module: str = "",
    source: str = "",
    rules: tuple[str, ...] = (),
    notes: tuple[tuple[str, str], ...] = (),
) -> Origin:
    """What `Origin(...)` makes, in half the time: a class with a `__new__` takes that long to be called."""
    made: Any = _Fields()
    made.node, made.target, made.module, made.source, made.rules = node, target, module, source, rules
    made.notes = notes
    made.__class__ = Origin  # from here on nothing can be set
    return made


NOWHERE = Origin()
"""The origin of a value that nobody has placed yet."""
