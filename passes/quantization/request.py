"""What is asked of a quantization: which integers, for what, and how their scales are found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs

from irkit.core.types import DType
from irkit.errors import RewriteError
from irkit.evaluation.interpreter import Feeds
from passes.precision import patterns

INTEGERS: Mapping[str, DType] = MappingProxyType(
    {"int4": DType.INT4, "uint4": DType.UINT4, "int8": DType.INT8, "uint8": DType.UINT8}
)
"""The integers that numbers may become."""

ACTIVATIONS = (None, "dynamic", "static")
RANGES = ("minmax", "percentile", "mse")
ROUNDINGS = ("nearest", "gptq")


def among(known: Sequence[Any]) -> Any:
    """A validator that raises RewriteError for a value that is not among those known."""

    def check(_: object, field: attrs.Attribute[Any], given: object) -> None:
        if given not in known:
            raise RewriteError(
                f"{field.name} of a quantization is {given!r}", hint=f"write one of {', '.join(map(repr, known))}"
            )

    return check


def positive_or_none(_: object, field: attrs.Attribute[Any], given: object) -> None:
    """Raises RewriteError for a size of blocks that is none of those that ONNX Runtime takes."""
    if given is not None and (type(given) is not int or given < 16 or given & (given - 1)):
        raise RewriteError(f"blocks of {given!r} numbers cannot be had", hint="give 16, 32, 64, 128 or 256, or None")


def fraction(_: object, field: attrs.Attribute[Any], given: object) -> None:
    """Raises RewriteError for what is no number from 0 to 1."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise RewriteError(f"{field.name} of a quantization is {given!r}", hint="give a number from 0 to 1")


def truth(_: object, field: attrs.Attribute[Any], given: object) -> None:
    """Raises RewriteError for what is neither True nor False."""
    if not isinstance(given, bool):
        raise RewriteError(f"{field.name} of a quantization is {given!r}", hint="give True or False")


def count(_: object, field: attrs.Attribute[Any], given: object) -> None:
    """Raises RewriteError for what is no whole number from 0 up."""
    if type(given) is not int or given < 0:
        raise RewriteError(f"{field.name} of a quantization is {given!r}", hint="give a whole number from 0 up")


@attrs.frozen(kw_only=True)
class Quantization:
    """What becomes integers, and how.

    Args:
        weights: the integers of weights: "int4", "uint4", "int8" or "uint8". Those with an unsigned type have a zero
            point each; those with a signed one are symmetric around 0.
        block: so many numbers of a row share a scale; None gives each output channel one scale, or, where
            `per_channel` is False, each weight.
        activations: None leaves what is computed in floating point and quantizes weights alone; "dynamic" quantizes the
            operands of products by their own range at each call; "static" by ranges that `feeds` show.
        ranges: how a range is found: from the least to the largest number; by a percentile that leaves out outliers;
            or by the least square error. For "static" activations, and for weights ("percentile" is "minmax" there).
        rounding: "nearest", or "gptq", which makes up for what was rounded in the weights that follow (Frantar et al.,
            2022). It needs `feeds`.
        smooth: how much of the outliers of activations is moved into weights, from 0 (nothing) to 1 (SmoothQuant, Xiao
            et al., 2022). It needs `feeds`.
        reduced: weights take 7 bits of 8. For processors without VNNI, on which ONNX Runtime's kernels of unsigned by
            signed numbers overflow.
        accuracy: what ONNX Runtime computes products with weights of few bits in, where its own operator is used:
            "float32", or "int8", which is faster and rounds activations to 8 bits by blocks.
        keep: patterns of what stays as it is, as in `passes.mixed_precision`.
        smallest: weights of fewer numbers stay as they are: 1024 if not given, and 64 with static activations, where
            an operator in floating point would part stretches of integers.
        feeds: sample inputs of the graph, or a list of them.
        room: how far results may be off those in floating point where a program is checked, as a part of the largest
            number: 0.1 with weights of 8 bits and 0.5 with weights of 4 if not given.

    Raises RewriteError for what none of these is, and where `feeds` is missing.
    """

    weights: str = attrs.field(default="int8", validator=among(tuple(INTEGERS)))
    block: int | None = attrs.field(default=None, validator=positive_or_none)
    per_channel: bool = attrs.field(default=True, validator=truth)
    activations: str | None = attrs.field(default=None, validator=among(ACTIVATIONS))
    ranges: str = attrs.field(default="minmax", validator=among(RANGES))
    rounding: str = attrs.field(default="nearest", validator=among(ROUNDINGS))
    smooth: float = attrs.field(default=0.0, validator=fraction)
    reduced: bool = attrs.field(default=False, validator=truth)
    accuracy: str = attrs.field(default="float32", validator=among(("float32", "int8")))
    keep: tuple[str, ...] = attrs.field(default=(), converter=patterns)
    smallest: int | None = attrs.field(default=None, validator=attrs.validators.optional(count))
    feeds: Feeds | Sequence[Feeds] | None = attrs.field(default=None, eq=False)
    room: float | None = attrs.field(default=None, validator=attrs.validators.optional(fraction))

    def __attrs_post_init__(self) -> None:
        wanting = [
            name
            for name, asked in (
                ("static activations", self.activations == "static"),
                ("rounding='gptq'", self.rounding == "gptq"),
                ("smooth", self.smooth > 0),
            )
            if asked and self.feeds is None
        ]
        if wanting:
            raise RewriteError(
                f"{wanting[0]} cannot be had without sample inputs",
                hint="give feeds=[...], arrays as the graph's inputs want them, or a list of such lists",
            )
        if self.activations is not None and self.bits == 4:
            raise RewriteError(
                "weights of 4 bits with activations of 8 have no kernels",
                hint="leave activations out, or take weights of 8 bits",
            )
        if self.activations is not None and self.block is not None:
            raise RewriteError(
                "scales by blocks are for weights alone", hint="leave block out where activations are quantized"
            )

    @property
    def dtype(self) -> DType:
        """The element type of quantized weights."""
        return INTEGERS[self.weights]

    @property
    def bits(self) -> int:
        """How many bits a weight takes."""
        return 4 if self.weights.endswith("4") else 8

    @property
    def tolerance(self) -> float:
        """How far results may be off where a program is checked, as a part of the largest number."""
        return self.room if self.room is not None else 0.5 if self.bits == 4 else 0.1

    @property
    def is_symmetric(self) -> bool:
        """Whether weights have no zero points."""
        return not self.weights.startswith("u")

    @property
    def least(self) -> int:
        """The least size of a weight that is quantized."""
        return self.smallest if self.smallest is not None else 64 if self.activations == "static" else 1024

    @property
    def samples(self) -> list[Feeds]:
        """The sample inputs, as a list."""
        given = self.feeds
        if given is None:
            return []
        if isinstance(given, list) and given and isinstance(given[0], list | tuple | Mapping):
            return list(given)
        return [given]

    @classmethod
    def of(cls, wanted: Quantization | str) -> Quantization:
        """What a user asks for by name, or in full. Raises RewriteError for another name."""
        if isinstance(wanted, Quantization):
            return wanted
        if not isinstance(wanted, str) or wanted not in NAMED:  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's
            raise RewriteError(
                f"there is no quantization {wanted!r}",
                hint=f"known: {', '.join(NAMED)}, and a passes.Quantization for all else, 'static' with its feeds",
            )
        return NAMED[wanted]


NAMED: Mapping[str, Quantization] = MappingProxyType(
    {
        "int4": Quantization(weights="uint4", block=32),
        "int8": Quantization(weights="int8"),
        "dynamic": Quantization(weights="int8", activations="dynamic"),
    }
)
"""What can be asked for by name."""
