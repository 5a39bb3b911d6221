"""Graphs as torch modules: what each ONNX operator is in torch, by family, and the module that is made of a graph."""
