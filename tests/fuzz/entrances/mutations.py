"""Damage: to bytes, to texts, to JSON, and to protobuf messages by their structure. All of it is drawn from a seed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import EncodeError, Message

NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    8,
    16,
    63,
    64,
    127,
    128,
    255,
    256,
    65535,
    2**24 + 1,
    2**31 - 1,
    2**31,
    2**32,
    2**40,
    2**53 + 1,
    2**62,
    2**63 - 1,
    -(2**31),
    -(2**62),
    -(2**63),
    -2,
    -3,
    10**6,
)
"""Where integers end, and what lies beside."""
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 3.4e38, float("inf"), float("-inf"), float("nan"), 1e300, 2.0**31)
WORDS = (
    "",
    "x",
    "y",
    " ",
    "\0",
    "é",
    "\ud7ff",
    "🂡",
    "a" * 300,
    "%0",
    "-1",
    "0",
    "1e400",
    "n",
    "n*m",
    "2*n + 1",
    "n//0",
    "n%0",
    "ai.onnx",
    "com.microsoft",
    "Add",
    "If",
    "Loop",
    "Constant",
    "Reshape",
    "__class__",
    "../x",
    "9" * 40,
    "[",
    "{",
    '"',
    "float16",
    "none",
    "None",
    "true",
    "inf",
    "nan",
    "body",
    "axis",
    "then_branch",
)
"""Texts that mean something somewhere."""
MARK = b"\x01irkit-mark\x02"
"""What stands for bytes that are no UTF-8 until the message has been written."""
BROKEN = b"\xff\xfeirkit\xc3\x28\x80\xed"
"""As long, and no UTF-8."""


def damaged_bytes(data: bytes, random: Random) -> bytes:
    """The bytes with one to four things wrong."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(len(found) + 1)
        kind = random.randrange(7)
        if kind == 0 and found:
            found[at % len(found)] ^= 1 << random.randrange(8)
        elif kind == 1 and found:
            found[at % len(found)] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        elif kind == 2:
            del found[at : at + random.choice((1, 1, 2, 8, 64))]
        elif kind == 3:
            found[at:at] = random.randbytes(random.choice((1, 2, 9)))
        elif kind == 4:
            other = random.randrange(len(found) + 1)
            length = random.choice((1, 4, 16, 100))
            found[at : at + length] = found[other : other + length]
        elif kind == 5:
            length = random.choice((4, 16, 60))
            found[at:at] = found[at : at + length] * random.choice((1, 2, 40))
        else:
            del found[at:]
    return bytes(found)


def damaged_text(text: str, random: Random, words: Sequence[str]) -> str:
    """The text with one to three pieces changed; `words` are pieces that its language has."""
    for _ in range(random.choice((1, 1, 2, 3))):
        pieces = split(text)
        if not pieces:
            return random.choice(words)
        at = random.randrange(len(pieces))
        kind = random.randrange(7)
        if kind == 0:
            del pieces[at]
        elif kind == 1:
            pieces[at] = random.choice(words)
        elif kind == 2:
            pieces[at] = random.choice(pieces)
        elif kind == 3:
            pieces.insert(at, random.choice((*words, *WORDS)))
        elif kind == 4:
            pieces[at] = str(random.choice((*NUMBERS, *FLOATS)))
        elif kind == 5:
            lines = text.split("\n")
            i, j = random.randrange(len(lines)), random.randrange(len(lines))
            lines[i], lines[j] = (lines[j], lines[i]) if random.random() < 0.5 else (lines[j], lines[j])
            text = "\n".join(lines)
            continue
        else:
            letter = chr(random.choice((0, 9, 10, 34, 39, 92, 127, 0x2028, 0xD800, 0x1F600, random.randrange(0xD7FF))))
            pieces[at] = pieces[at][:1] + letter + pieces[at][1:]
        text = "".join(pieces)
    return text


def split(text: str) -> list[str]:
    """Runs of letters and digits, and every other character by itself."""
    found: list[str] = []
    for letter in text:
        if found and letter.isalnum() and found[-1][-1].isalnum():
            found[-1] += letter
        else:
            found.append(letter)
    return found


# ---------------------------------------------------------------------------------------------- JSON


def damaged_json(source: Any, random: Random) -> Any:
    """The plain data with one or two places changed."""
    found = json.loads(json.dumps(source))
    for _ in range(random.choice((1, 1, 2))):
        places = list(places_in([found], 0))
        if not places:
            return any_json(random)
        holder, key = random.choice(places)
        kind = random.randrange(4)
        if kind == 0 and isinstance(holder, dict):
            del holder[key]
        elif kind == 1:
            other, where = random.choice(places)
            holder[key] = json.loads(json.dumps(other[where]))
        elif kind == 2 and isinstance(holder, list):
            holder.insert(key, any_json(random))
        else:
            holder[key] = any_json(random)
    return found


def places_in(holder: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    """(list or dict, index or key) of every place in plain data."""
    keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
    for key in keys:
        if depth:
            yield holder, key
        yield from places_in(holder[key], depth + 1)
    if not depth and not isinstance(holder[0], (dict, list)):
        yield holder, 0


def any_json(random: Random) -> Any:
    """Some plain data."""
    plain = (None, True, False, random.choice(NUMBERS), random.choice(FLOATS), random.choice(WORDS), [], {}, [[]])
    return random.choice((*plain, [random.choice(plain)], {random.choice(WORDS): random.choice(plain)}))


# ---------------------------------------------------------------------------------------------- protobuf


def damaged_message(message: Message, random: Random, times: int | None = None) -> bytes:
    """The bytes of a copy of the message with one to three fields of it changed."""
    found = type(message)()
    found.CopyFrom(message)
    places = list(messages_in(found))
    for _ in range(times or random.choice((1, 1, 2, 3))):
        damage(random.choice(places), places, random)
        places = list(messages_in(found))
    try:
        data = found.SerializeToString()
    except (EncodeError, ValueError):
        data = b""
    return data.replace(MARK, BROKEN)


def messages_in(message: Message) -> Iterator[Message]:
    """The message and every message in it."""
    waiting = [message]
    while waiting:
        taken = waiting.pop()
        yield taken
        for field, value in taken.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                waiting.extend(value if is_repeated(field) else [value])


def is_repeated(field: Any) -> bool:
    """True for a field that holds many."""
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == FieldDescriptor.LABEL_REPEATED


def damage(message: Message, places: Sequence[Message], random: Random) -> None:
    """Changes one field of a message."""
    present = [field for field, _ in message.ListFields()]
    anywhere = list(message.DESCRIPTOR.fields)
    field = random.choice(present) if present and random.random() < 0.7 else random.choice(anywhere)
    if random.random() < 0.12:
        message.ClearField(field.name)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        damage_messages(message, field, places, random)
    elif is_repeated(field):
        damage_scalars(getattr(message, field.name), field, random)
    else:
        setattr(message, field.name, any_scalar(field, getattr(message, field.name), random))


def damage_messages(message: Message, field: Any, places: Sequence[Message], random: Random) -> None:
    """Changes a field that holds messages: one more, from somewhere else in the file; one less; another order."""
    alike = [each for each in places if each.DESCRIPTOR is field.message_type and each.ByteSize() < 100_000]
    if not is_repeated(field):
        if alike:
            other = type(message)()
            getattr(other, field.name).CopyFrom(random.choice(alike))
            message.MergeFrom(other)
        else:
            getattr(message, field.name).SetInParent()
        return
    held = getattr(message, field.name)
    kind = random.randrange(5)
    if kind == 0 and held:
        del held[random.randrange(len(held))]
    elif kind == 1 and len(held) > 1:
        rows = [type(each)() for each in held]
        for row, each in zip(rows, held, strict=True):
            row.CopyFrom(each)
        random.shuffle(rows)
        del held[:]
        held.extend(rows)
    elif kind == 2:
        held.add()
    elif alike:
        other = type(random.choice(alike))()
        other.CopyFrom(random.choice(alike))
        held.add().CopyFrom(other)


def damage_scalars(held: Any, field: Any, random: Random) -> None:
    """Changes a field that holds several numbers or texts."""
    kind = random.randrange(5)
    if kind == 0 and held:
        del held[random.randrange(len(held))]
    elif kind == 1 and held:
        held[random.randrange(len(held))] = any_scalar(field, held[0], random)
    elif kind == 2 and len(held) > 1:
        held[0], held[-1] = held[-1], held[0]
    elif kind == 3 and held:
        held.extend([random.choice(list(held))] * random.choice((1, 1, 3, 100)))
    else:
        held.append(any_scalar(field, held[0] if held else None, random))


def any_scalar(field: Any, now: Any, random: Random) -> Any:
    """Some value for a field."""
    kinds = FieldDescriptor
    if field.type in (kinds.TYPE_FLOAT, kinds.TYPE_DOUBLE):
        return random.choice(FLOATS)
    if field.type == kinds.TYPE_BOOL:
        return not now
    if field.type == kinds.TYPE_ENUM:
        return random.choice(field.enum_type.values).number
    if field.type == kinds.TYPE_BYTES:
        held = bytes(now or b"")
        return random.choice((b"", damaged_bytes(held, random), held + held, random.randbytes(8), MARK))
    if field.type == kinds.TYPE_STRING:
        held = now if isinstance(now, str) else "x"
        return random.choice((*(word for word in WORDS if word != "\ud800"), held + "_", held, held, MARK.decode()))
    number = random.choice((*NUMBERS, random.randrange(28), (now or 0) + random.choice((-1, 1))))
    bits = 32 if field.type in (kinds.TYPE_INT32, kinds.TYPE_UINT32) else 64
    if field.type in (kinds.TYPE_UINT32, kinds.TYPE_UINT64):
        return number % 2**bits
    return (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
