"""Control flow by rewriting: `if`, `while` and `for` on what tensors hold become branches and loops of the graph.

`rewritten(function)` rewrites one function; `irkit.to_onnx(..., rewrite=True)` those of a model that need it.
docs/guide/control_flow.md has examples.
"""

from lowering.control_flow.rewriting import rewritten

__all__ = ["rewritten"]
