"""torch programs into irkit graphs: capture, converters, the fold."""
