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
VIEWS = ("operators:as_strided*",)

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
    Reason("torch.export late", VIEWS, "torch.export asks nothing of the memory that a view lies in; ONNX Runtime "
           "refuses it, as eager does", "torch", "setStorage"),
    Reason("late", VIEWS, "how large the memory is that a view lies in is not asked of a size of 1; ONNX Runtime "
           "refuses it, as eager does", "irkit", "setStorage"),
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
    Reason("differs", ("modules:nn.MultiMarginLoss.*", "operators:nn.functional.multi*margin_loss"),
           "torch gives what memory held for a mean of no rows", "torch", "NaN stands"),
    Reason("differs", ("operators:index_reduce.*",), "torch asks for a place in a row of which there is none", "torch",
           "IndexError"),
    Reason("differs", ("operators:take_along_dim",), "torch does not look at places of a tensor of one element",
           "torch", "GatherElements"),
    Reason("differs", ("operators:nn.functional.embedding_bag",), "ONNX Runtime gathers nothing of no bags",
           "ONNX Runtime", "must be empty"),
    Reason("differs", ("hops:flex_attention.*",), "torch picks the first of none to trace a function of scores",
           "torch", "select\\(\\): index 0 out of range"),
    Reason("differs", ("hops:associative_scan.*",), "torch stacks rows of lengths that differ where they are empty",
           "torch", "stack expects each tensor"),
    Reason("differs", ("hops:scan.*",), "by torch.export no condition says that what a scan walks along has one "
           "length; ONNX Runtime refuses it, and eager takes the least", "irkit",
           "torch.export at.*inconsistent sequence"),
    Reason("differs", ("operators:linalg.tensorinv",), "two ways to round the inverse of a large random matrix",
           "the data", "1 of 4096 elements"),
    Reason("differs", ("operators:index_add",), "torch takes places in a tensor without columns that it does not have; "
           "ONNX Runtime refuses them", "ONNX Runtime", "out of data bounds"),
    Reason("differs", ("operators:linalg.cond",), "the norm of no singular values has another shape in ONNX Runtime",
           "irkit", "Squeeze"),
    Reason("differs", ("operators:ormqr",), "torch.export records that a count of reflections is free, which eager "
           "compares", "torch", "torch.export at.*tau"),
    Reason("torch.export late", ("operators:linalg.lstsq*", "operators:select", "operators:masked_scatter",
                                 "operators:_unsafe_masked_index_put_accumulate"),
           "torch.export records no condition that eager keeps; ONNX Runtime refuses it, too", "torch"),
    Reason("late", ("operators:masked.median",), "a median of nothing: ONNX Runtime refuses it, as eager does",
           "irkit"),
    Reason("both late", ("operators:_unsafe_masked_index_put_accumulate",), "no condition says how places and what is "
           "put there broadcast; ONNX Runtime refuses it, as eager does", "irkit", "cannot be broadcast"),
    Reason("narrower", ("operators:nn.functional.conv_transpose*",), "direct capture wants two rows and columns where "
           "the example has a transposed convolution of one", "irkit"),
    Reason("narrower", ("operators:linalg.householder_product", "operators:linalg.tensor*",
                        "operators:nn.functional.group_norm"),
           "what torch asks of a count or of a product of sizes is told for the example's sizes only", "irkit"),
    Reason("narrower", ("modules:nn.Bilinear.*",), "torch refuses other sizes of a bilinear layer than its weights, "
           "and direct capture, which finds no reason, fixes them", "irkit"),
    Reason("narrower", ("hops:vmap",), "a size that is mapped over is asked for at 1, where it is free", "irkit"),
    Reason("narrower", ("hops:flex_attention.gqa",), "ONNX Runtime leaves what memory held for heads without features, "
           "where the product is one of swapped matrices", "ONNX Runtime"),
    Reason("narrower", ("operators:slice_scatter",), "sizes that are equal in the example are made one where a slice "
           "ends at a number", "irkit"),
    Reason("narrower", ("operators:nn.functional.pixel_unshuffle",), "direct capture refuses images without pixels, as "
           "torch's kernel does of most", "irkit"),
    Reason("narrower", ("operators:nn.functional.max_unpool*",), "direct capture takes no output size that a size of 1 "
           "gives", "irkit"),
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
