"""A function of onnxscript, which reads its own source, in a module that nothing else stands in."""

from onnxscript import opset18, script
from onnxscript.values import Opset

theirs = Opset("theirs", 1)


@script(theirs, default_opset=opset18)
def scaled(x, by: float = 2.0):
    """x * by"""
    factor = opset18.Constant(value_float=by)
    return opset18.Mul(x, factor)  # pyright: ignore[reportArgumentType]
