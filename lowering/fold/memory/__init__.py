"""Tensors that share their memory: elements that are one, and names of one tensor."""
