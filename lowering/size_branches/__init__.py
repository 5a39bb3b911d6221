"""The ways that a module of a model takes at other sizes than the example's, as branches of the graph."""
