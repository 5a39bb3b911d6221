"""Every patch of torch that irkit makes, in one table, and the one block that applies them.

A patch is torch's own object replaced for a while, in this process: the block holds a lock, so that of several threads
one at a time sees it. What only this thread sees (a mode, `torch.no_grad`) is no patch, nor is a hook on the very
module that is captured.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Literal

import attrs
import torch

from lowering.capture.patches import settings
from lowering.capture.patches.arrays_of_tensors import arrays_of_tensors
from lowering.capture.patches.asked_texts import texts_asked
from lowering.capture.patches.batch_rules import batch_rules
from lowering.capture.patches.chosen_modules import modules_chosen
from lowering.capture.patches.counted_calls import calls_counted
from lowering.capture.patches.fresh_dynamo import compiled_afresh
from lowering.capture.patches.functions_of_numbers import divided_numbers
from lowering.capture.patches.kept_sizes import kinds_of_export, sizes_kept
from lowering.capture.patches.kinds_of_numbers import hashes_heard, kinds_told, sizes_hashed, types_told
from lowering.capture.patches.open_conditions import conditions_left_open
from lowering.capture.patches.packed_sequences import packed_sequences
from lowering.capture.patches.regions import regions_run_in_place
from lowering.capture.patches.replaced import at_first_number, what_waits
from lowering.capture.patches.set_data import converting_modules
from lowering.capture.patches.shape_kernels import shape_kernels
from lowering.capture.patches.zero_questions import Heard, hear_questions

Deed = Literal["torch.export", "direct", "trials", "decomposition", "comparison", "example", "example for exports"]
EXAMPLES: tuple[Deed, ...] = ("example", "example for exports")
"""A plain run of a module, by the ways that it has for exports, too."""
LOCK = threading.RLock()
"""Held while torch is patched."""


@attrs.frozen(eq=False)
class Occasion:
    """What torch is patched for: what is done, to which module, and how. "direct" is one run of a module, "trials" all
    runs of one capture, "example" a plain one, for the example.

    `oblivious` says that sizes 0 and 1 of examples shall mean nothing, `keeping` that int(), min() and the like in the
    module's code shall keep sizes, and in that whose globals are `places`, `dynamo` that torch.export traces by it,
    `nested` that torch.compile traces around it. `heard` is filled with what is asked of sizes; `traces` answers
    whether TorchScript's tracer is at work, `chooses` which module of a list is meant by a place that data tells;
    `as_eager` leaves out that torch says that it exports; `unrecorded` says that no gradients are recorded, as they
    would be in eager.
    """

    deed: Deed
    module: torch.nn.Module | None = None
    oblivious: bool = True
    keeping: bool = False
    dynamo: bool = False
    nested: bool = False
    places: Sequence[Any] = ()
    heard: Heard = attrs.field(factory=Heard)
    traces: Callable[[], bool] | None = None
    chooses: Callable[[Any, Any], Any] | None = None
    as_eager: bool = False
    unrecorded: bool = False

    @property
    def exports(self) -> bool:
        """Whether torch.export runs."""
        return self.deed == "torch.export"


@attrs.frozen(eq=False)
class Patch:
    """One patch: what of torch it replaces, why, the versions of torch in which that was seen to be needed, when it
    applies, and the block that does it; and whether it is `of_numbers` that vary alone, so that direct capture makes it
    with the first of them."""

    name: str
    what: tuple[str, ...]
    why: str
    seen: str
    when: Callable[[Occasion], bool]
    block: Callable[[Occasion], AbstractContextManager[Any]]
    of_numbers: bool = False


TABLE: tuple[Patch, ...] = (
    Patch(
        "oblivious_of_examples",
        ("torch.fx.experimental._config.backed_size_oblivious",),
        "torch takes sizes 0 and 1 of an example for fixed",
        "2.13",
        lambda at: at.deed in ("torch.export", "decomposition"),
        lambda at: settings.oblivious_of_examples(at.oblivious),
    ),
    Patch(
        "without_fast_path",
        ("torch.backends.mha.set_fastpath_enabled", "torch.backends.mha.get_fastpath_enabled"),
        "fused kernels of nn.Transformer and nn.MultiheadAttention have no meaning but in torch",
        "2.13",
        lambda at: at.exports or at.deed == "comparison",
        lambda at: settings.without_fast_path(),
    ),
    Patch(
        "without_questions_of_masks",
        ("torch.nn.modules.transformer._detect_is_causal_mask",),
        "nn.Transformer asks what a mask holds, which torch.export cannot answer; the result does not hang on it",
        "2.13",
        lambda at: at.exports or at.deed == "direct",
        lambda at: settings.without_questions_of_masks(),
    ),
    Patch(
        "saying_that_it_exports",
        ("torch.compiler._is_compiling_flag", "torch.compiler._is_exporting_flag"),
        "models have ways of their own for export, which direct capture wants them to take",
        "2.13",
        lambda at: (at.deed == "direct" and not at.as_eager) or at.deed == "example for exports",
        lambda at: settings.saying_that_it_exports(),
    ),
    Patch(
        "answering_for_the_tracer",
        ("torch.jit.is_tracing",),
        "for TorchScript's tracer models have ways that ask nothing of sizes, to be taken where others left conditions",
        "2.13",
        lambda at: at.traces is not None,
        lambda at: settings.answering_for_the_tracer(at.traces),  # type: ignore[arg-type]
    ),
    Patch(
        "regions_run_in_place",
        (
            "torch._higher_order_ops.invoke_subgraph.invoke_subgraph_placeholder",
            "torch._higher_order_ops.associative_scan.generic_associative_scan",
            "torch._export.wrappers._emit_flat_apply_call", "torch._functorch.apis.vmap_impl",
            "torch._functorch.eager_transforms.lazy_dynamo_disallow",
            "torch._functorch.eager_transforms._vjp_with_argnums",
        ),
        "a region that is to be compiled once compiles itself, an associative scan takes other steps for each length, "
        "functions with a gradient of their own are written into torch.export's graph, chunks of a batch are counted, "
        "what is linear is recorded at fixed sizes, and vjp in forward mode differentiates what is recorded alone",
        "2.13",
        lambda at: at.deed == "direct",
        lambda at: regions_run_in_place(at.unrecorded),
    ),
    Patch(
        "batch_rules",
        (
            "torch._functorch.predispatch._vmap_increment_nesting_impl",
            "OpOverload.py_kernels of the operators in batch_rules.KERNELS, for tensors that torch.func.vmap batches",
        ),
        "rules of vmap in C++ make a number of a batch that varies",
        "2.13",
        lambda at: at.deed == "direct",
        lambda at: batch_rules(),
    ),
    Patch(
        "arrays_of_tensors",
        ("torch.from_numpy",),
        "what .numpy() gives of a tensor without numbers is no array of NumPy's",
        "2.13",
        lambda at: at.deed == "direct",
        lambda at: arrays_of_tensors(),
    ),
    Patch(
        "modules_chosen",
        (
            "torch.nn.ModuleList.__getitem__", "torch.nn.ModuleDict.__getitem__", "torch.nn.Sequential.__getitem__",
        ),
        "a place among modules that data tells is made a number, or the text of one",
        "2.13",
        lambda at: at.chooses is not None,
        lambda at: modules_chosen(at.chooses),  # type: ignore[arg-type]
    ),
    Patch(
        "packed_sequences",
        (
            "torch.nn.RNN.forward", "torch.nn.LSTM.forward", "torch.nn.GRU.forward",
            "torch.nn.RNNBase.check_forward_args", "torch.nn.LSTM.check_forward_args", "torch._VF._pad_packed_sequence",
            "torch._subclasses.fake_impls.op_implementations_dict[aten._pack_padded_sequence]",
        ),
        "recurrent modules ask what the lengths of packed sequences are, and torch records their sizes wrong",
        "2.13",
        lambda at: at.exports or at.deed == "direct",
        lambda at: packed_sequences(),
    ),
    Patch(
        "shape_kernels",
        (
            "OpOverload.py_kernels of the operators in shape_kernels.KERNELS",
            "torch._subclasses.fake_impls.op_implementations_dict of those in shape_kernels.FAKE_KERNELS",
        ),
        "kernels of torch make numbers of sizes that vary, or know no shape at all",
        "2.13",
        lambda at: at.exports,
        lambda at: shape_kernels(),
    ),
    Patch(
        "sizes_kept",
        (
            "`int`, `float`, `len`, `min`, `max`, `sorted`, `math` and `numpy` in the modules of Python that the "
            "model's code stands in",
            "`torch.LongTensor`, `IntTensor`, `FloatTensor`, `DoubleTensor`; `type`, `shape` and `size` of "
            "torch.Tensor",
        ),
        "int(size) is a number to Python, which no longer varies, min(size, 5) one of both; for models that fail or "
        "fix a size otherwise",
        "2.13",
        lambda at: at.keeping and at.module is not None,
        lambda at: sizes_kept(at.module, at.places),  # type: ignore[arg-type]
    ),
    Patch(
        "kinds_of_export",
        ("torch.export._trace._override_builtin_ops", "torch.Tensor.item"),
        "torch.export's own max of an integer and a float is a float, its math.pow of integers an integer, and a truth "
        "that it takes out of a tensor is never True itself",
        "2.13",
        lambda at: at.exports and not at.dynamo,
        lambda at: kinds_of_export(),
    ),
    Patch(
        "divided_numbers",
        (
            "`__divmod__`, `__rdivmod__`, `sqrt`, `log`, ... of torch.SymInt and torch.SymFloat, which have none",
            "`__invert__`, `__round__`, `__pow__` and `bit_length` of torch.SymInt",
            "arithmetic and comparisons of torch.SymInt and torch.SymFloat, and of torch.SymBool",
        ),
        "divmod(size, 8) and numpy.sqrt(size) are refused by Python, and round(size, -1) is the size; truths are no "
        "numbers, nor True itself, and 1 // 0.1 is 10",
        "2.13",
        lambda at: at.deed in ("torch.export", "direct"),
        lambda at: divided_numbers(),
        of_numbers=True,
    ),
    Patch(
        "types_told",
        (
            "`type` in the modules of Python whose code names it, but for Python's own library, torch, irkit and what "
            "irkit computes with",
        ),
        "type(size) is int and type(x) is torch.Tensor in eager, where the model would take another way",
        "2.13",
        lambda at: at.deed in ("direct", "trials") or (at.exports and not at.dynamo),
        lambda at: types_told(at.module, at.places, within=at.deed == "direct"),
    ),
    Patch(
        "kinds_told",
        (
            "`__class__` of numbers of torch.SymInt, torch.SymFloat and torch.SymBool",
            "`__copy__`, `__deepcopy__`, and attributes of int, float and bool that these lack",
        ),
        "isinstance(size, int) is False, where the model would take another way in eager, and a copy of a size has "
        "conditions of its own",
        "2.13",
        lambda at: at.deed in ("direct", "trials") or (at.exports and not at.dynamo),
        lambda at: kinds_told(),
        of_numbers=True,
    ),
    Patch(
        "sizes_hashed",
        ("torch.SymInt.__hash__", "enum.EnumMeta.__call__"),
        "a size that varies is refused by sets and dicts of the model's, which shall take its number, and an IntFlag "
        "would keep it among its members; by torch.export it is heard that the model may catch that",
        "2.13",
        lambda at: at.deed == "direct" or at.exports,
        lambda at: sizes_hashed() if at.deed == "direct" else hashes_heard(at.heard.raised),
        of_numbers=True,
    ),
    Patch(
        "texts_asked",
        (
            "torch.SymInt.__repr__", "torch.SymInt.__format__", "torch.SymInt.__int__", "torch.SymFloat.__repr__",
            "torch.SymFloat.__format__", "torch.SymFloat.__int__", "torch.SymFloat.__float__", "torch.SymBool.__repr__",
            "torch.SymBool.__format__", "FakeTensor.__repr__", "FunctionalTensor.__repr__", "torch.Tensor.__format__",
        ),
        "the text of a number that data or sizes tell is the name of a symbol, by which a model would decide, and that "
        "of a tensor without numbers holds none; one that `%` puts into a message is fixed",
        "2.13",
        lambda at: at.deed in ("torch.export", "direct"),
        lambda at: texts_asked(at.heard.raised),
        of_numbers=True,
    ),
    Patch(
        "calls_counted",
        (
            "torch.nn.modules.batchnorm._BatchNorm.forward",
            "torch.optim.swa_utils.AveragedModel.update_parameters",
            "the steps of torch.optim.RAdam and ASGD",
            "max and min in torch.optim._adafactor",
            "torch.optim.LBFGS._gather_flat_grad",
            "torch._amp_foreach_non_finite_check_and_unscale_, torch._amp_update_scale_",
            "GradScaler._maybe_opt_step, GradScaler._lazy_init_scale_growth_tracker of torch.amp",
        ),
        "how many batches, models or steps there were, or whether a gradient is infinite, is made a number, or asked, "
        "where it is another in each call; LBFGS loops by numbers",
        "2.13",
        lambda at: at.deed == "direct",
        lambda at: calls_counted(),
    ),
    Patch(
        "conditions_left_open",
        ("torch.fx.experimental.symbolic_shapes.DimConstraints.solve",),
        "torch.export fails where sympy cannot solve an equation of one size; it stays a condition instead",
        "2.13",
        lambda at: at.exports and not at.dynamo,
        lambda at: conditions_left_open(),
    ),
    Patch(
        "converting_modules",
        ("torch.nn.Module._apply",),
        "a module that converts itself while it runs would swap the contents of tensors that torch traces",
        "2.13",
        lambda at: at.deed in ("direct", *EXAMPLES) or (at.exports and not at.dynamo),
        lambda at: converting_modules(),
    ),
    Patch(
        "asserting",
        ("torch.export._trace.DEFAULT_EXPORT_DYNAMO_CONFIG",),
        "in strict mode torch.export drops conditions on numbers that it has replaced",
        "2.13",
        lambda at: at.exports and at.dynamo,
        lambda at: settings.write_assertions(),
    ),
    Patch(
        "own_modes_refused",
        ("torch.utils._python_dispatch.TorchDispatchMode.__enter__",),
        "operators are met above the modes of a model, and what these make of them would be lost",
        "2.13",
        lambda at: at.exports or at.deed == "direct",
        lambda at: settings.own_modes_refused(),
    ),
    Patch(
        "compiled_afresh",
        (
            "torch._dynamo.pgo._CODE_STATE", "torch._dynamo.pgo._INIT_CODE_STATE",
            "torch._dynamo.convert_frame.FRAME_COUNTER", "torch._dynamo.convert_frame.FRAME_COMPILE_COUNTER",
            "torch._dynamo.eval_frame.cached_backends", "what dynamo compiled of torch's own functions for regions",
        ),
        "what dynamo compiled before, at other sizes, changes what is exported",
        "2.13",
        lambda at: at.exports and not at.nested,
        lambda at: compiled_afresh(),
    ),
    Patch(
        "failing_quietly",
        ("torch.export._trace.print", "a filter of the logger torch.fx.experimental.symbolic_shapes"),
        "torch.export prints its whole graph where it fails; the error says where it was",
        "2.13",
        lambda at: at.exports,
        lambda at: settings.failing_quietly(),
    ),
    Patch(
        "backends_told",
        ("`enabled` of torch.backends.cudnn and torch.backends.mkldnn",),
        "torch.export switches both off, and a model that asks would be told so",
        "2.13",
        lambda at: at.exports,
        lambda at: settings.backends_told(),
    ),
    Patch(
        "assignments_told",
        ("torch.export._trace._detect_attribute_assignment",),
        "torch.export puts back what a model sets, so that no note would tell of it",
        "2.13",
        lambda at: at.exports and not at.dynamo,
        lambda at: settings.assignments_told(at.module, at.heard),
    ),
    Patch(
        "listening",
        (
            "the comparisons, divisions and answers of torch.fx.experimental.sym_node.SymNode",
            "torch.fx.experimental.symbolic_shapes.ShapeEnv._get_sloc",
            "torch.fx.experimental.symbolic_shapes.ShapeEnv.guard_or_defer_runtime_assert",
            "torch.Tensor.stride", "torch.Tensor.is_contiguous",
        ),
        "torch answers questions about size 0 without a trace, forgets what is divided by and what a model catches, "
        "takes the remainder of 3 / 2 for a whole number, and notes its own lines rather than the model's",
        "2.13",
        lambda at: at.exports,
        lambda at: hear_questions(at.heard),
    ),
)  # fmt: skip
"""The patches, in the order in which they are made."""


@contextmanager
def patch_torch(occasion: Occasion) -> Iterator[None]:
    """A block in which torch has the patches that an occasion calls for; one thread at a time is in one. Those of
    numbers wait, in the runs of one capture, for the first of them."""
    with LOCK, ExitStack() as blocks:
        waiting = what_waits()
        waits = occasion.deed == "trials" or (occasion.deed == "direct" and waiting is not None)
        made = [patch for patch in TABLE if patch.when(occasion)]
        later = [patch for patch in made if patch.of_numbers] if waits else []
        if waiting is not None and not waits and any(patch.of_numbers for patch in made):
            waiting.begin()  # what is patched last is put back first

        def begin() -> None:
            for patch in later:
                blocks.enter_context(patch.block(occasion))

        for patch in made:
            if patch not in later:
                blocks.enter_context(patch.block(occasion))
        with at_first_number(begin) if later else nullcontext():
            yield
