"""A model piece by piece: what each module was called with, which of them cannot be exported, and why."""
