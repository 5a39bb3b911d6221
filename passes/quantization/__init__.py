"""Weights and activations as integers: by blocks, by channels, by ranges that samples show."""

from passes.quantization.quantize import LayerReport, Quantized, quantize
from passes.quantization.request import Quantization

__all__ = ["LayerReport", "Quantization", "Quantized", "quantize"]
