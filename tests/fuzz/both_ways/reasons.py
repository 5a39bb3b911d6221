"""What is known to differ between the two ways of capture, why, and whose it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

import attrs

from tests.fuzz.both_ways.verdicts import Verdict


@attrs.frozen
class Reason:
    """Why some programs have an outcome: those whose name fits one of the patterns, where `says` is found in what is
    said of them. `whose` is who would have to change it."""

    outcome: str
    programs: Sequence[str]
    why: str
    whose: str
    says: str = ""


EVERY = ("*",)
OF_DATA = r"out of (bounds|range|DATA)|outside|must be between|must all be smaller|Number of elements of source"
LOSSES = ("modules:nn.*Loss.*", "operators:nn.functional.*loss*", "operators:nn.functional.*cross_entropy*")

REASONS: tuple[Reason, ...] = (
    Reason("more", EVERY, "torch.export fixes or bounds a size that direct capture lets vary, or makes two sizes one "
           "that may be broadcast", "torch"),
    Reason("direct alone", EVERY, "torch has no fake kernel of the operator", "torch",
           r"register a fake implementation|cannot capture \w+: aten\.[\w.]+ in your model|meta"),
    Reason("direct alone", EVERY, "a question about data that torch.export does not answer", "torch",
           "data-dependent|aten.equal.default"),
    Reason("direct alone", ("hops:*",), "torch.export cannot trace the higher-order operator there", "torch",
           "torch.export: (CaptureError|LoweringError)"),
    Reason("direct alone", ("operators:resize_",), "torch.export lets no input change its sizes", "torch"),
    Reason("neither", ("hops:flex_attention_backward.*",), "torch asks for the graph of the gradient, which the sample "
           "does not give", "torch"),
    Reason("neither", ("hops:register_hook.simple", "hops:inline_asm_elementwise.simple"),
           "eager does not run it on tensors of a CPU without gradients", "torch"),
    Reason("both late", EVERY, "numbers that were drawn are no places in so small a tensor; both refuse them, as eager "
           "does", "the data", OF_DATA),
    Reason("late", EVERY, "numbers that were drawn are no places in so small a tensor; it refuses them, as eager does",
           "the data", OF_DATA),
    Reason("differs", ("operators:fft.*",), "torch refuses a transform of no signals, of which irkit gives none",
           "torch", "MKL FFT error"),
    Reason("differs", ("operators:cholesky", "operators:linalg.cholesky*"), "the matrix that was drawn is not positive "
           "definite: torch raises or leaves it, irkit gives NaN", "the data"),
    Reason("differs", ("operators:linalg.eig", "operators:linalg.eigvals"), "eigenvalues have no order", "the data"),
    Reason("differs", ("operators:lu_unpack", "operators:*lu_solve", "operators:*ldl_solve"), "pivots that were drawn "
           "come of no factorization", "the data"),
    Reason("differs", ("operators:nn.functional.ctc_loss", "modules:nn.CTCLoss.*"), "torch reads beyond its memory for "
           "labels that are no classes; irkit refuses them", "torch", "labels of ctc_loss are classes"),
    Reason("differs", ("operators:_segment_reduce.offsets",), "torch reads beyond its memory for offsets that are none",
           "torch"),
    Reason("differs", ("modules:nn.MultiMarginLoss.*", "*:*multi*margin_loss"),
           "torch gives what memory held for a mean of no rows", "torch", "NaN stands"),
    Reason("differs", ("operators:index_reduce.*",), "torch asks for a place in a row of which there is none", "torch",
           "IndexError"),
    Reason("differs", ("operators:take_along_dim",), "torch does not look at places of a tensor of one element",
           "torch", "GatherElements"),
    Reason("differs", ("operators:nn.functional.embedding_bag", "zoo:embedding_bag_offsets"),
           "ONNX Runtime gathers nothing of no bags", "ONNX Runtime", "must be empty"),
    Reason("differs", ("hops:flex_attention.*",), "torch picks the first of none to trace a function of scores",
           "torch", "select\\(\\): index 0 out of range"),
    Reason("differs", ("hops:associative_scan.*",), "torch stacks rows of lengths that differ where they are empty",
           "torch", "stack expects each tensor"),
    Reason("differs", ("operators:linalg.tensorinv",), "two ways to round the inverse of a large random matrix",
           "the data", "1 of 4096 elements"),
    Reason("differs", ("operators:index_add",), "torch takes places in a tensor without columns that it does not have; "
           "ONNX Runtime refuses them", "ONNX Runtime", "out of data bounds"),
    Reason("differs", ("operators:ormqr",), "torch.export records that a count of reflections is free, which eager "
           "compares", "torch", "torch.export at.*tau"),
    Reason("narrower", ("hops:vmap",), "a size that is mapped over is asked for at 1, where it is free", "irkit"),
    Reason("narrower", ("hops:flex_attention.gqa",), "ONNX Runtime leaves what memory held for heads without features, "
           "where the product is one of swapped matrices", "ONNX Runtime"),
    Reason("harness", ("operators:sparse.mm.reduce",), "a sparse tensor, of which the harness copies no storage",
           "the harness"),
)  # fmt: skip


def reason_for(name: str, verdict: Verdict) -> Reason | None:
    """The first reason that fits a program and what became of it; None where it is not known."""
    for reason in REASONS:
        fits = any(fnmatchcase(name, pattern) for pattern in reason.programs)
        if reason.outcome == verdict.outcome and fits and re.search(reason.says, verdict.detail):
            return reason
    return None
