"""Where a value came from. Part of no key, no digest and no rule."""

from __future__ import annotations

import attrs


@attrs.frozen
class Origin:
    """Provenance of a value: the FX node, its target, the module path, the user's source line, the rules since."""

    node: str = ""
    target: str = ""
    module: str = ""
    source: str = ""
    rules: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = " ".join(part for part in (self.source, self.module) if part) or self.node
        return f"{place} <{', '.join(self.rules)}>" if self.rules else place

    def after(self, rule: str) -> Origin:
        """This origin, with `rule` added to the rewrites that the value went through."""
        if rule in self.rules:
            return self
        return Origin(self.node, self.target, self.module, self.source, (*self.rules, rule))


NOWHERE = Origin()
"""The origin of a value that nobody has placed yet."""
