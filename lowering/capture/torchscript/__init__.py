"""TorchScript as Python: its modules and functions run by an interpreter of their graphs, which tracing looks into."""
