"""What was measured of fused operators: how long each takes beside the same written out.

`costs.json` holds ratios of times, fused by written out, on ONNX Runtime with its own optimizations on, in one thread:
for each fusion and element type one number for each class of sizes. `benchmarks/kernel_costs.py` writes it.

A fusion pays where

- the geometric mean over the classes is at most `GAIN`: faster beyond what two measurements of one thing differ; or
- it is at most `EVEN`, which no measurement tells from 1: as fast, and with fewer nodes,

and in no class the ratio is above `WORST`: a model has sizes of one class, and must not become slower for the mean's
sake. One class is measured less surely than the mean of several, so that `WORST` leaves more room than `EVEN`. What was
not measured, on a provider or in an element type, does not pay: every element type has a row of its own, as kernels of
float64 and of the half types are others, or run between casts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from irkit.core.ir import Value
from irkit.core.types import DType, Tensor, Tuple
from irkit.ops.schemas import split_domain

GAIN, EVEN, WORST = 0.98, 1.02, 1.05
"""Ratios of times; see above."""

SWITCHES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "FusedMatMul": ("transA", "transB", "transBatchA", "transBatchB"),
        "FusedConv": ("activation",),
        "FusedGemm": ("activation",),
        "GroupQueryAttention": ("do_rotary",),
        "MultiHeadAttention": ("unidirectional",),
        "Attention": ("unidirectional",),
        "CausalConvWithState": ("activation",),
        "LinearAttention": ("update_rule",),
        "MoE": ("activation_type",),
    }
)
"""Attributes that make another kernel of an operator, or another path through it: each is measured for itself."""

OPERANDS: Mapping[str, tuple[tuple[int, str], ...]] = MappingProxyType(
    {
        "CausalConvWithState": ((3, "past"),),
        "FusedConv": ((3, "sum"),),
        "GroupQueryAttention": ((3, "past"),),
        "MultiHeadAttention": ((3, "bias"), (4, "mask"), (5, "attention_bias"), (6, "past")),
        "Attention": ((3, "mask"), (4, "past"), (5, "attention_bias")),
        "SkipLayerNormalization": ((4, "bias"),),
        "SkipSimplifiedLayerNormalization": ((3, "bias"),),
        "FastGelu": ((1, "bias"),),
    }
)
"""Optional operands that do."""

TOKENS: Mapping[str, int] = MappingProxyType({"CausalConvWithState": 2, "LinearAttention": 1})
"""The axis of tokens, where one token takes another time than several."""


def fusion_of(value: Value) -> str:
    """What a fused value is called in the table: its operator, and in brackets what makes a difference."""
    name = split_domain(value.op)[1]
    found: list[str] = []
    for switch in SWITCHES.get(name, ()):
        given = value.attribute(switch)
        if given:
            found.append(given if isinstance(given, str) else switch)
    if name == "FusedMatMul" and value.attribute("alpha", 1.0) != 1.0:
        found.append("alpha")
    if name == "MultiHeadAttention" and value.inputs[1] is not None and value.inputs[1].rank == 4:
        found.append("keys apart")
    if name == "LinearAttention" and len(value.inputs) > 4 and is_by_key(value):
        found.append("keys")
    for index, operand in OPERANDS.get(name, ()):
        if index < len(value.inputs) and value.inputs[index] is not None:
            found.append(operand)
    if name in TOKENS and is_token(value):
        found.append("step")
    return f"{name}[{','.join(found)}]" if found else name


def is_by_key(value: Value) -> bool:
    """True for states each of whose keys has a decay of its own."""
    decay = value.inputs[4]
    return decay is not None and decay.shape[-1] != value.attribute("kv_num_heads")


def is_token(value: Value) -> bool:
    """True for what is surely of one token."""
    x = value.inputs[0]
    axis = TOKENS[split_domain(value.op)[1]]
    return x is not None and x.shape[1 if value.attribute("channels_last") else axis] == 1


def dtype_of(value: Value) -> DType:
    """The element type that a fused value computes in: that of its first result."""
    first = value.type.items[0] if isinstance(value.type, Tuple) else value.type
    return first.dtype if isinstance(first, Tensor) else DType.FLOAT


@cache
def table() -> Mapping[str, Any]:
    """The file: `onnxruntime` and `provider` that were measured, and `ratios` by fusion, element type and class."""
    return json.loads(resources.files("passes.targets").joinpath("costs.json").read_text(encoding="utf-8"))


def ratios(fusion: str, dtype: DType, provider: str) -> Mapping[str, float]:
    """The measured ratios by class of sizes; empty where nothing was measured."""
    if provider != table()["provider"]:
        return {}
    return table()["ratios"].get(fusion, {}).get(dtype.short, {})


def mean(found: Mapping[str, float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, found.values())) / len(found))


@lru_cache(maxsize=1 << 12)
def pays(fusion: str, dtype: DType, provider: str) -> tuple[bool, str]:
    """(whether the fusion is worth having, the measured ratio as text)"""
    found = ratios(fusion, dtype, provider)
    if not found:
        return False, f"{fusion} in {dtype.short} was not measured on {provider or 'any runtime'}"
    average, worst = mean(found), max(found, key=lambda name: found[name])
    text = f"{fusion} takes {average:.2f} of the time of what it stands for, {found[worst]:.2f} at worst ({worst})"
    return average <= EVEN and found[worst] <= WORST, text + other_version()


@cache
def other_version() -> str:
    """What to say where the installed ONNX Runtime is not the one that was measured; empty where it is."""
    import onnxruntime

    measured, installed = table()["onnxruntime"], onnxruntime.__version__
    return "" if measured == installed else f"; measured on ONNX Runtime {measured}, and {installed} is installed"


@lru_cache(maxsize=1 << 12)
def is_slow(op: str, dtype: DType, provider: str) -> bool:
    """True where an operator of ONNX's own was measured, and takes longer than others that say the same."""
    found = ratios(f"onnx.{op}", dtype, provider)
    return bool(found) and mean(found) > EVEN
