"""Converters of backward operators, prims and ONNX's operators as torch calls them."""
