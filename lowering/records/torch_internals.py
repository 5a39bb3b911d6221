"""Every private name of torch that irkit touches, imported here and nowhere else.

torch promises nothing of them. All were seen in torch 2.13, the version that the whole suite was run with; where
another version lacks one, its import fails here, in this line, rather than somewhere in an export. What irkit replaces
for a while is in `lowering.capture.patches.table`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import torch
from torch import _VF
from torch._decomp import decomposition_table
from torch._decomp.decompositions import _rnn_helper as lstm_layers
from torch._decomp.decompositions import gather_params as lstm_parameters
from torch._decomp.decompositions import one_layer_lstm as lstm_layer
from torch._dispatch.python import enable_python_dispatcher
from torch._functorch import predispatch as functorch_calls
from torch._functorch.vmap import _process_batched_inputs as samples_of_batch
from torch._guards import SLoc, TracingContext, tracing
from torch._higher_order_ops.flex_attention import math_attention
from torch._ops import HigherOrderOperator, OperatorBase, OpOverload, OpOverloadPacket
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import (
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import grad_mode
from torch.fx import _pytree as fx_pytree
from torch.fx.experimental import _config as symbolic_config
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, make_fx
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import (
    DimConstraints,
    ShapeEnv,
    _constrain_range_for_size,
    canonicalize_bool_expr,
    statically_known_true,
)
from torch.jit._recursive import wrap_cpp_module
from torch.nn.modules.module import _has_any_global_hook as has_global_hooks
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._sympy import functions as torch_functions

C: Any = torch._C
"""torch's own extension module: dispatch keys and their tables."""
DEFAULT_DEVICE: Any = torch._GLOBAL_DEVICE_CONTEXT
"""Where torch keeps what `torch.set_default_device` was given, for each thread."""
MODULES_OF_TRACING = ("torch._subclasses", "torch.fx", "torch._dynamo", "torch._export", "torch.export", "torch.utils")
"""The modules of torch whose errors are those of tracing, which eager does not raise."""
to_dlpack: Any = C._to_dlpack
"""The DLPack capsule of a tensor, which torch.utils.dlpack offers without naming it."""
from_capsule: Any = C._from_dlpack
"""The tensor of such a capsule, which torch.utils.dlpack.from_dlpack gives after it has asked whether it is one."""
constrain_range_for_size = _constrain_range_for_size
PROXY_KEY: Any = C._TorchDispatchModeKey.PROXY
"""The key of the only modes that torch lets meet operators above autograd."""
MADE_OF_OTHERS, MADE_OF_OTHERS_BUT_FOR_GRADIENTS = (
    C.DispatchKey.CompositeImplicitAutograd,
    C.DispatchKey.CompositeExplicitAutograd,
)
"""The keys under which torch keeps kernels that call other operators."""

LOGGER_OF_SIZES = "torch.fx.experimental.symbolic_shapes"
LOGGER_OF_FAKE_TENSORS = "torch._subclasses.fake_tensor"
LOGGERS_OF_PROGRAMS = ("torch.export", "torch.export.pt2_archive._package", "torch._export.serde.serialize")
"""Where torch logs what it meets while it reads a program."""
FUNCTORCH: Any = C._functorch
"""torch.func's own part of that module: levels of transforms, and the tensors that they wrap."""
PREDISPATCH: Any = functorch_calls
"""torch.func's calls of that part, which begin and end levels."""
BATCHED: Any = C.DispatchKey.FuncTorchBatched
"""The key of tensors that torch.func.vmap batches."""
views_by_their_functions = grad_mode._force_original_view_tracking
"""A block, in this thread, in which autograd computes a view that was written by the functions that made it."""
TRANSFORMS = "torch._functorch.predispatch"
"""The module of the calls that torch.func leaves in a graph."""


def end_library(library: torch.library.Library) -> None:
    """Takes out of torch's tables what a library has put there."""
    library._destroy()


def aot_functions() -> tuple[Any, Any]:
    """`aot_module_simplified` and `make_boxed_func`, which are imported when they are asked for: that takes seconds."""
    from torch._functorch._aot_autograd.utils import make_boxed_func
    from torch._functorch.aot_autograd import aot_module_simplified

    return aot_module_simplified, make_boxed_func


def export_tracing() -> Any:
    """torch.export's own module, which is imported when it is asked for: direct capture does without it."""
    from torch.export import _trace

    return _trace


def dynamo_frames() -> ModuleType | None:
    """dynamo's module of what it compiled; None before dynamo is imported, which takes seconds."""
    return sys.modules.get("torch._dynamo.convert_frame")


def dynamo_class(module: str, name: str) -> tuple[type, ...]:
    """One of dynamo's classes, for `isinstance`; none where its module is not imported, so that nothing is of it."""
    loaded = sys.modules.get(f"torch._dynamo.{module}")
    return () if loaded is None else (getattr(loaded, name),)


def dynamo_module(name: str) -> Any:
    """One of dynamo's modules, which is imported where it is not yet."""
    return importlib.import_module(f"torch._dynamo.{name}")


__all__ = [
    "BATCHED",
    "FUNCTORCH",
    "LOGGERS_OF_PROGRAMS",
    "LOGGER_OF_FAKE_TENSORS",
    "LOGGER_OF_SIZES",
    "MADE_OF_OTHERS",
    "MADE_OF_OTHERS_BUT_FOR_GRADIENTS",
    "MODULES_OF_TRACING",
    "PREDISPATCH",
    "PROXY_KEY",
    "TRANSFORMS",
    "_VF",
    "C",
    "DimConstraints",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "FunctionalTensor",
    "HigherOrderOperator",
    "OpOverload",
    "OpOverloadPacket",
    "OperatorBase",
    "ProxyTorchDispatchMode",
    "SLoc",
    "ShapeEnv",
    "SymNode",
    "TracingContext",
    "aot_functions",
    "canonicalize_bool_expr",
    "constrain_range_for_size",
    "decomposition_table",
    "dynamo_class",
    "dynamo_frames",
    "dynamo_module",
    "enable_python_dispatcher",
    "end_library",
    "export_tracing",
    "fake_impls",
    "fx_pytree",
    "has_global_hooks",
    "is_traceable_wrapper_subclass",
    "lstm_layer",
    "lstm_layers",
    "lstm_parameters",
    "make_fx",
    "math_attention",
    "pytree",
    "samples_of_batch",
    "statically_known_true",
    "symbolic_config",
    "torch_functions",
    "tracing",
    "unset_fake_temporarily",
    "wrap_cpp_module",
]
