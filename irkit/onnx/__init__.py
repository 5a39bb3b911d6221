"""ONNX models: read, written, run on ONNX Runtime, and handed over to onnx_ir.

What reads and writes files is `irkit.load` and `irkit.save`. The names below bring in ONNX Runtime when they are asked
for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from irkit.onnx.onnx_ir import from_onnx_ir, to_onnx_ir
    from irkit.onnx.sessions import Session, check_model, run, session

__all__ = ["Session", "check_model", "from_onnx_ir", "run", "session", "to_onnx_ir"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'irkit.onnx' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("irkit.onnx.onnx_ir" if name.endswith("onnx_ir") else "irkit.onnx.sessions"), name)
