"""Rules, the driver that applies them, passes, pipelines, and what tells which rule did what."""
