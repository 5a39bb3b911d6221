"""The arguments of the call, dimensions that vary, and scalars."""
