"""The pipelines, as data, and rule sets chosen by text."""
