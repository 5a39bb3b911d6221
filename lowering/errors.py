"""Errors of capture and lowering."""

from __future__ import annotations

from irkit.errors import IrkitError


class CaptureError(IrkitError, ValueError):
    """torch cannot capture the program as asked."""


class LoweringError(IrkitError, ValueError):
    """A captured program that cannot be lowered, or whose lowering contradicts what torch recorded."""


class WrongConverter(LoweringError):
    """A converter that the caller handed in contradicts torch, whichever way the program was captured."""


class FailsForExports(LoweringError):
    """A model that eager takes raises for the example by the ways that it has for exports, whoever exports it."""


class Unsupported(Exception):
    """Raised by a converter for arguments it has no ONNX form for; the reason is its only argument."""


class MissingConverters(LoweringError):
    """Operators without a converter, all of them at once: `missing` pairs each with how often it occurs."""

    def __init__(self, what: str, *, missing: tuple[tuple[str, int], ...] = (), **parts: str) -> None:
        super().__init__(what, **parts)
        self.missing = missing
