"""How a value is made: operands coerced, attributes normalized, the type inferred, bodies closed, calls typed."""
