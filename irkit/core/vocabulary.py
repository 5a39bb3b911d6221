"""The ops that irkit has beside ONNX's own."""

PARAM = "Param"
"""A parameter of a graph: a fresh identity."""

CONSTANT = "Constant"
"""ONNX's own operator, with its content, a blob, in attribute `value`."""

ITEM = "Item"
"""Result number `index` of an operator with several results."""

SHAPE_VECTOR = "ShapeVector"
"""The dimensions `dims` as a vector of int64; operands, if any, are what binds data-dependent symbols in them."""

CALL = "Call"
"""The application of its only body, a graph, to its operands."""

LEAVES = frozenset((PARAM, CONSTANT))
"""Ops that have no operands and cost nothing."""
