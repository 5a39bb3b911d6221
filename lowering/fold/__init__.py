"""The fold over FX nodes: arguments, converters, writes, control flow, checks."""
