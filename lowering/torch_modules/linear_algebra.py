"""Products of matrices."""

from __future__ import annotations

import torch


def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> torch.Tensor:
    """alpha * a @ b + beta * c."""
    a, b = a.t() if transA else a, b.t() if transB else b
    if c is not None and alpha == beta == 1.0 and a.is_floating_point():
        return torch.addmm(c, a, b)
    found = a @ b
    found = found if alpha == 1.0 else (alpha * found).to(a.dtype)
    if c is None:
        return found
    return found + (c if beta == 1.0 else (beta * c).to(a.dtype))


def einsum(*xs: torch.Tensor, equation: str) -> torch.Tensor:
    """The sum of products that an equation says."""
    return torch.einsum(equation.replace(" ", ""), *xs)


def matmul_integer(
    a: torch.Tensor, b: torch.Tensor, zero_a: torch.Tensor | None = None, zero_b: torch.Tensor | None = None
) -> torch.Tensor:
    """The product of small integers without their zero points, as int32."""
    x, y = a.to(torch.int32), b.to(torch.int32)
    if zero_a is not None:
        x = x - (zero_a.to(torch.int32).unsqueeze(-1) if zero_a.dim() == 1 and zero_a.numel() > 1 else zero_a)
    return torch.matmul(x, y if zero_b is None else y - zero_b)


TABLE = {
    "Det": torch.det, "Einsum": einsum, "Gemm": gemm, "MatMul": torch.matmul, "MatMulInteger": matmul_integer,
}  # fmt: skip
