"""Tiny models of many architectures, made in code, and their validation: built, exported, compared with eager."""

from lowering.architectures.catalogue import ARCHITECTURES, Architecture, architecture
from lowering.architectures.inputs import Sets
from lowering.architectures.sweep import sweep
from lowering.architectures.validation import SetResult, Validation, validate

__all__ = ["ARCHITECTURES", "Architecture", "SetResult", "Sets", "Validation", "architecture", "sweep", "validate"]
