"""What Intel's neural compressor makes of an ONNX file: run by the Python of an environment of its own.

`PYTHON benchmarks/neural_compressor_files.py WAY SOURCE OUTPUT SAMPLES`, with onnx-neural-compressor 1.0 in it, the
part of neural-compressor that takes ONNX files: neural-compressor itself has none of it from 3.0 on. SAMPLES is a .npz
with an array for each call, named INPUT.0, INPUT.1 and so on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np


def feeds_in(path: str) -> list[Mapping[str, np.ndarray]]:
    """The inputs of each call."""
    held = np.load(path)
    return [{name.rpartition(".")[0]: held[name]} for name in held.files]


def reader_of(path: str) -> Any:
    """The sample inputs, as the package takes them."""
    package = import_module("onnx_neural_compressor.data_reader")  # an extra

    class Reader(package.CalibrationDataReader):
        """The inputs of one call after the other."""

        def __init__(self) -> None:
            self.left: Iterator[Mapping[str, np.ndarray]] = iter(feeds_in(path))

        def get_next(self) -> Mapping[str, np.ndarray] | None:
            """The next inputs; None after the last."""
            return next(self.left, None)

        def rewind(self) -> None:
            """Begins anew."""
            self.left = iter(feeds_in(path))

    return Reader()


def main(way: str, source: str, output: str, samples: str) -> None:
    """Writes the file. Raises ValueError for a way that the package does not have."""
    quantization: Any = import_module("onnx_neural_compressor.quantization")  # an extra
    config: Any = import_module("onnx_neural_compressor.quantization.config")  # an extra
    by_algorithm: Any = import_module("onnx_neural_compressor.quantization.algorithm_entry")  # an extra
    kinds = quantization.QuantType
    if way in ("int4", "gptq"):
        settings = {"weight_bits": 4, "weight_group_size": 32, "weight_sym": False}
        if way == "int4":
            made = by_algorithm.rtn_quantize_entry(source, config.RTNConfig(**settings))
        else:
            made = by_algorithm.gptq_quantize_entry(source, config.GPTQConfig(**settings), reader_of(samples))
        import_module("onnx").save(made, output)
    elif way == "dynamic":
        wanted = config.DynamicQuantConfig(weight_type=kinds.QInt8, per_channel=True)  # it knows no dynamic Gemm
        quantization.quantize(source, output, wanted)
    elif way in ("static", "smooth"):
        wanted = config.StaticQuantConfig(
            calibration_data_reader=reader_of(samples),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=kinds.QUInt8,
            weight_type=kinds.QInt8,
            per_channel=True,
            extra_options={"SmoothQuant": True} if way == "smooth" else {},
        )
        quantization.quantize(source, output, wanted)
    else:
        raise ValueError(f"there is no way {way!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
