"""torch programs into irkit graphs: capture, converters, the fold, and the export that runs."""

from lowering.fold.lower import lower

__all__ = ["lower"]
