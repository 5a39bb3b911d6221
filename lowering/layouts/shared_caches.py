"""Decoders over caches of one size: each attention is GroupQueryAttention, which writes new keys where old ones lie.

A cache that grows is copied at each step. GroupQueryAttention takes one with room for what is to come, given as its
past and its present, and is told by other operands how much of it is in use. A model of half precision has its
attention in float32 on the CPU, and its caches then, too: they hold the same numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

import attrs

from irkit import dims
from irkit.build import call, const, op, shape_vector
from irkit.core.attributes import Given
from irkit.core.ir import Fact, Graph, Value, param
from irkit.core.types import DType, Tensor, types_of
from irkit.core.vocabulary import PARAM
from irkit.core.walk import rebuild_through
from irkit.dims import Dim, Range
from irkit.onnx.writing.materialize import materialize_dims
from irkit.pattern import uniform
from lowering.errors import CaptureError
from lowering.layouts.parts import BATCH, PAST, SEQUENCE
from lowering.layouts.sinks import sunk_attention, uncast
from passes.analysis.questions import axes_of, same_shape
from passes.analysis.reach import is_low
from passes.rules.attention.attention import split_heads

ROOM = "cache_length"
"""The dimension of a cache: how many keys there is room for."""
CACHE = re.compile(r"^past_key_values\.(\d+)\.(key|value)$")
KNOWN = frozenset(("scale", "is_causal", "q_num_heads", "kv_num_heads", "softcap"))
"""Attributes of Attention that GroupQueryAttention has too."""
UNIT = 8
"""Its kernel takes only heads whose size this divides."""
LOW = -1e30
"""What is added to the scores of hidden keys."""
FACTS = (
    Fact("runtime", f"{ROOM} >= {PAST}", "GroupQueryAttention: its caches have room for all keys"),
    Fact(
        "runtime",
        f"({BATCH} == 1) or ({SEQUENCE} == 1) or ({PAST} == 0)",
        "GroupQueryAttention: it reads several tokens behind others for one row only",
    ),
    Fact("note", "attention_mask hides nothing but the ends of rows: GroupQueryAttention takes their lengths alone"),
)


class Unlike(CaptureError):
    """Why an attention is none that GroupQueryAttention computes."""


@attrs.frozen(eq=False)
class Shown:
    """What an attention shows to a query: the keys before it and itself, of these the last `window` alone where that is
    not -1, with `bias` added to the scores."""

    window: int = -1
    bias: Value | None = None


@attrs.frozen(eq=False)
class Layer:
    """The attention of a layer, and the results of the graph that are its further results. Where the graph computes it
    step by step, with `sinks`, it stands in the place of `output`."""

    attention: Value
    presents: tuple[Value, ...]
    output: Value | None = None
    sinks: Value | None = None

    def replaced(self, graph: Graph, made: Sequence[Value]) -> dict[Value, Value]:
        """What stands for the values of a graph, with the results of GroupQueryAttention in the attention's place."""
        swaps = dict(zip(self.presents, made[1:], strict=True))
        if self.output is None:
            return {item: made[item.attribute("index")] for item in graph.users[self.attention]} | swaps
        kind = self.output.dtype
        return {self.output: made[0] if kind is DType.FLOAT else op.Cast(made[0], to=kind)} | swaps


@attrs.frozen(eq=False)
class Ports:
    """The parameters of a decoder: tokens, mask, and each cache by its name."""

    ids: Value
    mask: Value
    caches: Mapping[str, Value]

    @classmethod
    def of(cls, graph: Graph) -> Ports:
        """Those of a graph. Raises Unlike where it lacks some."""
        named = dict(zip((port.name for port in graph.signature.params), graph.params, strict=True))
        if "input_ids" not in named or "attention_mask" not in named:
            raise Unlike("it takes no attention_mask", hint="caches grow")
        return cls(named["input_ids"], named["attention_mask"], {n: v for n, v in named.items() if CACHE.match(n)})


def shared_caches(graph: Graph) -> tuple[Graph, str]:
    """(decoder over caches that grow -> decoder over caches of one size, ""); (the graph itself, why not) where an
    attention is none that GroupQueryAttention computes."""
    try:
        return over_shared(graph), ""
    except Unlike as error:
        return graph, error.what


def over_shared(graph: Graph) -> Graph:
    """The decoder over caches of one size. Raises Unlike."""
    ports = Ports.of(graph)
    rooms: dict[str, Value] = {}
    swaps: dict[Value, Value] = {}
    lengths = row_lengths(ports)
    for i in sorted({int(CACHE.match(name)[1]) for name in ports.caches}):  # type: ignore[index]
        names = [f"past_key_values.{i}.{each}" for each in ("key", "value")]
        caches = [ports.caches.get(name) for name in names]
        layer = attention_over(graph, i, *caches)
        own = {name: room_for(cache, DType.FLOAT) for name, cache in zip(names, caches, strict=True)}
        made = grouped(layer, ports, lengths, list(own.values()), [cache.dtype for cache in caches if cache])
        swaps |= layer.replaced(graph, made)
        rooms |= own
    for name, cache in ports.caches.items():
        for user in readers_of(graph, cache):
            if user.op == "Shape":
                swaps[user] = known_sizes(user, ports)
            elif user.op != "Attention" and user not in swaps:
                raise Unlike(f"{name} is read by {user.op} too", hint="caches grow")
    new = rebuild_through(graph.results, swaps)
    changed = {cache: rooms[name] for name, cache in ports.caches.items()}
    found = attrs.evolve(
        graph,
        params=tuple(changed.get(value, value) for value in graph.params),
        results=tuple(new[value] for value in graph.results),
        symbols={**graph.symbols, ROOM: Range(0)},
        signature=attrs.evolve(graph.signature, facts=(*graph.signature.facts, *FACTS)),
    )
    return materialize_dims(found)


def refuse(what: str) -> NoReturn:
    """Raises Unlike."""
    raise Unlike(what, hint="caches grow")


def room_for(cache: Value | None, dtype: DType) -> Value:
    """The parameter that stands for a cache: with room for more keys than there are, of this element type."""
    if cache is None or not isinstance(cache.type, Tensor) or cache.rank != 4:
        refuse(f"a cache is {None if cache is None else cache.type}")
    batch, heads, _, size = cache.shape
    if type(size) is not int or size % UNIT:
        refuse(f"the size of a head is {size}, and its kernel takes only those that {UNIT} divides")
    return param(Tensor(dtype, (batch, heads, dims.symbol(ROOM), size)))


def row_lengths(ports: Ports) -> tuple[Value, Value]:
    """(for each row how many keys it has in the end, less one; how many the longest has), as i32."""
    each = op.Sub(op.ReduceSum(ports.mask, [1], keepdims=0), 1)
    whole = op.Squeeze(shape_vector(ports.mask.shape[1:], ports.mask), [0])
    return op.Cast(each, to=DType.INT32), op.Cast(whole, to=DType.INT32)


def known_sizes(shape: Value, ports: Ports) -> Value:
    """What the Shape of a cache held, of the parameters that still say it."""
    source = shape.inputs[0]
    start, end = shape.attribute("start", 0), shape.attribute("end", None)
    known: tuple[Dim, ...] = source.shape if source is not None else ()
    used = op.Sub(shape_vector(ports.mask.shape[1:], ports.mask), shape_vector(ports.ids.shape[1:], ports.ids))
    parts = [used if i == 2 else shape_vector((size,), ports.ids) for i, size in enumerate(known)][start:end]
    return parts[0] if len(parts) == 1 else op.Concat(*parts, axis=0)


def readers_of(graph: Graph, value: Value) -> list[Value]:
    """What reads a value, or what it is as another floating-point number."""
    found = list[Value]()
    for user in graph.users.get(value, ()):
        found += readers_of(graph, user) if user.op == "Cast" and user.dtype.is_float else [user]
    return found


def rounded(value: Value, dtype: DType) -> Value:
    """A value as numbers of an element type, in its own: itself where it was made of such."""
    source = value.inputs[0] if value.op == "Cast" else None
    if value.dtype is dtype or (source is not None and source.dtype is dtype):
        return value
    return op.Cast(op.Cast(value, to=dtype), to=value.dtype)


# ---------------------------------------------------------------------------------------------- attention


def attention_over(graph: Graph, layer: int, keys: Value | None, values: Value | None) -> Layer:
    """The attention that reads the caches of a layer."""
    named = dict(zip((port.name for port in graph.signature.results), graph.results, strict=True))
    given_back = [named.get(f"present.{layer}.{each}") for each in ("key", "value")]
    if keys is not None and values is not None and (sunk := with_sinks(graph, (keys, values), given_back)):
        return sunk
    present = [uncast(each) for each in given_back]
    found = {item.inputs[0] for item in present if item is not None and item.op == "Item"}
    attention = found.pop() if len(found) == 1 else None
    if attention is None or attention.op != "Attention" or any(p is None or p.op != "Item" for p in present):
        refuse(f"the caches of layer {layer} are not those of an attention that ONNX's Attention computes")
    past = [uncast(each) for each in [*attention.inputs[4:6], None, None][:2]]
    indices = [None if p is None else p.attribute("index") for p in present]
    if indices != [1, 2] or past[0] is not keys or past[1] is not values or keys is None or values is None:
        refuse(f"the attention of layer {layer} does not read its caches as they are")
    if not same_shape(keys.shape, values.shape) or len(attention.inputs) > 6:
        refuse(f"the attention of layer {layer} has values of another size than keys")
    if set(dict(attention.attributes)) - KNOWN or len(types_of(attention.type)) > 3:
        refuse(f"the attention of layer {layer} is a special one")
    if any(each is not None and each.dtype is not DType.FLOAT for each in attention.inputs[:3]):
        refuse(f"the attention of layer {layer} is not of float32, as that on the CPU is")
    return Layer(attention, tuple(each for each in given_back if each is not None))


def with_sinks(graph: Graph, past: Sequence[Value], present: Sequence[Value | None]) -> Layer | None:
    """The attention of a layer that has sinks; None for one that ONNX's Attention computes, and for every other."""
    known = [each for each in present if each is not None]
    plain = [source for each in known if (source := uncast(each)) is not None]
    if len(plain) < 2 or not same_shape(past[0].shape, past[1].shape):
        return None
    found = sunk_attention(graph, past, plain)
    return None if found is None else Layer(found.attention, tuple(known), found.output, found.sinks)


def grouped(
    layer: Layer, ports: Ports, lengths: tuple[Value, Value], rooms: Iterable[Value], kept: Sequence[DType]
) -> tuple[Value, ...]:
    """The results of GroupQueryAttention in the place of an attention, whose caches were `kept` in these element types:
    new keys and values are numbers of them, as those that are read back were."""
    given = dict(layer.attention.attributes)
    q, k, v, mask = (*layer.attention.inputs, None)[:4]
    if q is None or k is None or v is None or given.get("scale") == 0:
        refuse("its scale is 0, by which GroupQueryAttention means another")
    k, v = (rounded(each, dtype) for each, dtype in zip((k, v), kept, strict=True))
    shown = what_is_shown(mask, bool(given.get("is_causal")), ports)
    heads = given.get("q_num_heads") or q.shape[1]
    shared = given.get("kv_num_heads") or k.shape[1]
    if type(heads) is not int or type(shared) is not int:
        refuse("how many heads there are is no number")
    softcap = given.get("softcap") or 0.0
    if softcap and shown.bias is not None:
        refuse("scores are bounded and have a bias, which ONNX and GroupQueryAttention do in another order")
    asked: Given = {"num_heads": heads, "kv_num_heads": shared, "scale": given.get("scale")}
    asked = {**asked, **({"softcap": softcap} if softcap else {})}
    asked = {**asked, **({"local_window_size": shown.window} if shown.window >= 0 else {})}
    sides = [joined(each) for each in (q, k, v)]
    operands = [*sides, *rooms, *lengths, None, None, None, shown.bias, layer.sinks]
    while operands[-1] is None:
        operands.pop()
    made = call("com.microsoft::GroupQueryAttention", operands, asked, outputs=3)
    return (made[0] if q.rank == 3 else parted(made[0], q), *made[1:])


def joined(value: Value) -> Value:
    """A value of (batch, heads, length, size) as one of (batch, length, heads * size); such a one as it is."""
    if value.rank == 3:
        return value
    known = split_heads(value)
    if known is not None:
        return known[0]
    heads, size = value.shape[1], value.shape[3]
    return op.Reshape(op.Transpose(value, perm=(0, 2, 1, 3)), const([0, 0, dims.mul(heads, size)]))


def parted(value: Value, like: Value) -> Value:
    """A value of (batch, length, heads * size) as `like`, of (batch, heads, length, size)."""
    return op.Transpose(op.Reshape(value, const([0, 0, like.shape[1], like.shape[3]])), perm=(0, 2, 1, 3))


# ---------------------------------------------------------------------------------------------- masks


def what_is_shown(mask: Value | None, is_causal: bool, ports: Ports) -> Shown:
    """What a mask shows. Raises Unlike where a query may see keys that come after it."""
    if mask is None:
        return Shown() if is_causal else refuse("a query sees the keys after it")
    if mask.dtype is DType.BOOL:
        window, others = read_parts(mask, is_causal, ports)
        return Shown(window) if not others else Shown(-1, whole(op.Where(mask, 0.0, LOW), ports))
    if mask.op == "Where" and is_low(mask.inputs[2]) and mask.inputs[0] is not None:
        window, others = read_parts(mask.inputs[0], is_causal, ports)
        if not others and mask.inputs[1] is not None and uniform(mask.inputs[1]) == 0:
            return Shown(window)
        return Shown(-1, whole(mask, ports))
    if not is_causal and not hides_later(mask, ports):
        refuse("a query may see the keys after it")
    return Shown(-1, whole(mask, ports))


def whole(bias: Value, ports: Ports) -> Value:
    """A bias of scores, of all queries and keys."""
    sizes = (ports.ids.shape[1], ports.mask.shape[1])
    if bias.rank != 4 or not same_shape(bias.shape[2:], sizes) or bias.dtype is not DType.FLOAT:
        refuse("the mask is repeated for queries or keys, or is of half precision")
    return bias


def hides_later(mask: Value, ports: Ports) -> bool:
    """Whether a sum has a part that hides the keys after a query."""
    if mask.op == "Add":
        return any(each is not None and hides_later(each, ports) for each in mask.inputs)
    if mask.op != "Where" or not is_low(mask.inputs[2]) or mask.inputs[0] is None:
        return False
    return any(is_causal_part(part, ports) for part in parts_of(mask.inputs[0]))


def read_parts(mask: Value, is_causal: bool, ports: Ports) -> tuple[int, list[Value]]:
    """(the window, -1 for none; the parts that are neither that, nor the order of tokens, nor attention_mask) of a mask
    of bools. Raises Unlike where a query may see keys that come after it."""
    window, others = -1, list[Value]()
    for part in parts_of(mask):
        if is_causal_part(part, ports):
            is_causal = True
        elif (length := window_of(part, ports)) is not None:
            window = length if window < 0 else min(window, length)
        elif not is_padding(part, ports):
            others.append(part)
    if not is_causal:
        refuse("a query may see the keys after it")
    return window, others


def parts_of(mask: Value) -> list[Value]:
    """What a mask of bools is the conjunction of."""
    if mask.op == "And":
        return [part for each in mask.inputs if each is not None for part in parts_of(each)]
    if mask.op == "Expand" and mask.inputs[0] is not None:
        return parts_of(mask.inputs[0])
    return [mask]


def is_padding(part: Value, ports: Ports) -> bool:
    """Whether a part of a mask is attention_mask, for all heads and queries."""
    if part.op != "Unsqueeze" or axes_of(part.inputs[1]) != (1, 2) or part.inputs[0] is None:
        return False
    told = part.inputs[0]
    return told.op == "Cast" and told.dtype is DType.BOOL and told.inputs[0] is ports.mask


def is_causal_part(part: Value, ports: Ports) -> bool:
    """Whether a part of a mask shows the keys up to the query."""
    if part.op not in ("LessOrEqual", "GreaterOrEqual"):
        return False
    keys, queries = part.inputs if part.op == "LessOrEqual" else reversed(part.inputs)
    return is_keys(keys, ports) and is_queries(queries, ports)


def window_of(part: Value, ports: Ports) -> int | None:
    """The window where a part of a mask shows the keys that are less than so many before the query; else None."""
    if part.op not in ("Less", "Greater"):
        return None
    keys, first = part.inputs if part.op == "Greater" else reversed(part.inputs)
    if not is_keys(keys, ports) or first is None or first.op != "Sub" or not is_queries(first.inputs[0], ports):
        return None
    length = uniform(first.inputs[1]) if first.inputs[1] is not None else None
    return length if type(length) is int and length > 0 else None


def is_keys(value: Value | None, ports: Ports) -> bool:
    """Whether a value is the place of each key, along the last of four axes."""
    found = counted(value, (0, 1, 2))
    start = None if found is None or found.inputs[0] is None else uniform(found.inputs[0])
    return found is not None and type(start) is int and start == 0 and same_shape(found.shape, ports.mask.shape[1:])


def is_queries(value: Value | None, ports: Ports) -> bool:
    """Whether a value is the place of each query, along the third of four axes."""
    found = counted(value, (0, 1, 3))
    start = None if found is None else found.inputs[0]
    if found is None or start is None or start.op != "Squeeze" or not same_shape(found.shape, ports.ids.shape[1:]):
        return False
    shape = start.inputs[0]
    source = shape.inputs[0] if shape is not None and shape.op == "Shape" else None
    if shape is None or source is None or source.op != PARAM or not any(source is c for c in ports.caches.values()):
        return False
    return shape.attribute("start", 0) == 2 and shape.attribute("end", None) == 3


def counted(value: Value | None, axes: tuple[int, ...]) -> Value | None:
    """The Range by ones that a value is with axes of 1 at these places; None for every other."""
    if value is None or value.op != "Unsqueeze" or axes_of(value.inputs[1]) != axes:
        return None
    found = value.inputs[0]
    step = None if found is None or found.op != "Range" or found.inputs[2] is None else uniform(found.inputs[2])
    return found if type(step) is int and step == 1 else None
