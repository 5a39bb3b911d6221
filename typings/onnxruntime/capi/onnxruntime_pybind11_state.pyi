"""What irkit reads of ONNX Runtime's own tables: its schemas, its kernels, and the errors that it raises."""

from collections.abc import Mapping, Sequence
from typing import Any

class OpSchema:
    class FormalParameterOption:
        name: str

    class FormalParameter:
        name: str
        typeStr: str
        types: set[str]
        option: OpSchema.FormalParameterOption
        isHomogeneous: bool

    class Attribute:
        name: str
        type: Any
        required: bool

    class TypeConstraint:
        type_param_str: str
        allowed_type_strs: Sequence[str]

    domain: str
    name: str
    since_version: int
    min_input: int
    max_input: int
    min_output: int
    max_output: int
    type_constraints: Sequence[OpSchema.TypeConstraint]
    attributes: Mapping[str, OpSchema.Attribute]
    inputs: Sequence[OpSchema.FormalParameter]
    outputs: Sequence[OpSchema.FormalParameter]

class KernelDef:
    domain: str
    op_name: str
    provider: str
    version_range: tuple[int, int]
    type_constraints: Mapping[str, Sequence[str]]

def get_all_operator_schema() -> list[OpSchema]: ...
def get_all_opkernel_def() -> list[KernelDef]: ...

def __getattr__(name: str) -> Any: ...  # what bound runs take of what lies below

class Fail(Exception): ...
class InvalidArgument(Exception): ...
class InvalidGraph(Exception): ...
class NotImplemented(Exception): ...
class RuntimeException(Exception): ...
