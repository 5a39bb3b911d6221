"""Runtimes that list no kernels of their own: which operators and element types each takes, as was measured.

`kernels_openvino.json` and the others beside it hold, for each operator, rows of (first version, last version, what
each type variable may be), and the version of the runtime that was measured; `make runtime-kernels` writes them. What
is missing does not run: legalization writes it in other words, or in other element types. What runs and is wrong is in
`passes.legal.others.quirks`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from irkit.ops.schemas import split_domain

OPENVINO, TRACT, REFERENCE, WEB = "OpenVINO", "tract", "onnx.reference", "onnxruntime-web"
"""What targets of these runtimes have as their provider."""

MEASURED: Mapping[str, str] = MappingProxyType({
    OPENVINO: "kernels_openvino.json", TRACT: "kernels_tract.json", REFERENCE: "kernels_onnx_reference.json",
})  # fmt: skip
"""The files by provider. onnxruntime-web is ONNX Runtime itself, made for WebAssembly, with the kernels of its CPU
provider: the installed ONNX Runtime lists them."""

FOREVER = 2**31 - 1
"""The end of a kernel's range of versions that is left open."""

Bound = Mapping[str, frozenset[str]]
Kernel = tuple[int, int, Bound]
"""First version, last version, and what each type variable may be."""


@lru_cache(maxsize=8)
def measured_table(provider: str) -> Mapping[str, Any]:
    """The file: the `runtime` and `version` that were measured, the newest `opset`, and `kernels` by operator."""
    return json.loads(resources.files("passes.targets").joinpath(MEASURED[provider]).read_text(encoding="utf-8"))


def measured_version(provider: str) -> str:
    """The version of the runtime that was measured."""
    return str(measured_table(provider)["version"])


def measured_kernels(provider: str) -> Mapping[tuple[str, str], tuple[Kernel, ...]]:
    """The kernels by (domain, operator)."""
    rows: Mapping[str, list[tuple[int, int, Mapping[str, list[str]]]]] = measured_table(provider)["kernels"]
    return MappingProxyType(
        {
            split_domain(op): tuple(
                (first, last, {name: frozenset(types) for name, types in bound.items()}) for first, last, bound in each
            )
            for op, each in rows.items()
        }
    )
