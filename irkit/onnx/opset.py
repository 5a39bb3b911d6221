"""The constructors of ONNX's operators by name; `opset.pyi`, made by `irkit.onnx.stubs`, lists them for editors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from irkit.onnx.schemas import names


class Operators:
    """`op.Gemm(a, b, c, transB=1)`: every ONNX operator as a function from values to a value.

    `construct(name, operands, attributes, outputs=n)` is what makes the value: `irkit.build.call`.
    """

    def __init__(self, construct: Callable[..., Any]) -> None:
        self.__dict__["_construct"] = construct

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        construct = self._construct

        def operator(*inputs: Any, outputs: int | None = None, **attributes: Any) -> Any:
            return construct(name, inputs, attributes, outputs=outputs)

        operator.__name__ = operator.__qualname__ = name
        self.__dict__[name] = operator  # found without __getattr__ from now on; the same function every time
        return operator

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *names()]
