"""Classes of values that are equal, over classes of operands: an e-graph, local to one call.

Each class holds nodes; a node is an operator over classes, and has a value that stands for it. Values are hash-consed
by operator, attributes, bodies and the classes of their operands, in any order where that changes no bit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

import attrs

from irkit.core import attributes
from irkit.core.ir import Value
from irkit.core.types import Tensor, same_types
from irkit.core.vocabulary import CONSTANT
from irkit.core.walk import post_order
from irkit.errors import RewriteError
from irkit.ops.schemas import keeps_bits_in_any_order
from irkit.rewriting.numbering import UNSHARED, is_random
from irkit.rewriting.rules import Rule


@attrs.frozen(eq=False)
class Node:
    """An operator over classes, which are those of its operands when it was made; `value` stands for it."""

    number: int
    head: Hashable
    children: tuple[int | None, ...]
    value: Value


@attrs.define(eq=False)
class Class:
    """Nodes whose values are equal; the value of the first stands for all of them."""

    nodes: list[Node]
    is_constant: bool = False
    """Whether nothing in it hangs on a parameter, so that it can be computed beforehand."""

    @property
    def value(self) -> Value:
        """What stands for the class."""
        return self.nodes[0].value


@attrs.frozen(eq=False)
class Link:
    """Why two values are equal: the rule that made the second one of the first; None where they are one operator over
    operands that links before this one make equal."""

    first: Value
    second: Value
    rule: Rule | None


def head_of(value: Value) -> Hashable:
    """What two values over equal operands must share to be equal; None for a value that equals no other."""
    if value.op in UNSHARED or (value.bodies and is_random(value)):
        return None
    bodies = tuple((b.token, b.symbols_used) for b in value.bodies)
    given = value.attributes[0][1].key if value.op == CONSTANT else attributes.key(value.attributes)
    return value.op, given, bodies


class EGraph:
    """The classes. What is added and what is found equal is kept until the call that made it is over."""

    def __init__(self) -> None:
        self._above: list[int] = []
        self.classes: dict[int, Class] = {}
        self._known: dict[Hashable, Node] = {}
        self._place: dict[Value, int] = {}
        self._home: list[int] = []
        self._first: dict[int, Node] = {}
        self.count = 0
        self.links: list[Link] = []
        """Why what is equal is so, in the order in which that was found."""

    def find(self, number: int) -> int:
        """The number of the class that a class became part of."""
        above = self._above
        while above[number] != number:
            above[number] = above[above[number]]
            number = above[number]
        return number

    def __contains__(self, value: Value) -> bool:
        """Whether a value was added."""
        return value in self._place

    def class_of(self, value: Value) -> int:
        """The class of a value that was added."""
        return self.find(self._place[value])

    def choice_of(self, values: Iterable[Value]) -> dict[int, Node]:
        """The nodes by which values were added, operands before users: the first one for each class."""
        found: dict[int, Node] = {}
        for value in values:
            found.setdefault(self.class_of(value), self._first[self._place[value]])
        return found

    def home(self, node: Node) -> int:
        """The class of a node."""
        return self.find(self._home[node.number])

    def children(self, node: Node) -> tuple[int | None, ...]:
        """The classes of the operands of a node."""
        return tuple(None if c is None else self.find(c) for c in node.children)

    def operand(self, number: int | None) -> Value | None:
        """The value that stands for a class."""
        return None if number is None else self.classes[self.find(number)].value

    def nodes(self) -> Iterator[tuple[int, Node]]:
        """All nodes, with the number of their class."""
        for number, each in tuple(self.classes.items()):
            for node in each.nodes:
                yield number, node

    # ------------------------------------------------------------------------------------------ adding

    def add(self, value: Value) -> int:
        """The class of a value, which is added with all that it is made of."""
        for each in post_order([value], stop=self._place.__contains__):
            if each not in self._place:
                self._place[each] = self._add(each)
        return self.find(self._place[value])

    def _add(self, value: Value) -> int:
        children = tuple(None if v is None else self.class_of(v) for v in value.inputs)
        head = head_of(value)
        key = self._key(head, value, children)
        found = None if key is None else self._known.get(key)
        if found is not None and same_types(found.value.type, value.type) is True:
            self.links.append(Link(found.value, value, None))
            return self.home(found)
        return self._new(head, key, children, value)

    def _new(self, head: Hashable, key: Hashable, children: tuple[int | None, ...], value: Value) -> int:
        number = len(self._above)
        node = Node(len(self._home), head, children, value)
        self._above.append(number)
        self._first[number] = node
        self._home.append(number)
        fixed = head is not None and all(c is None or self.classes[c].is_constant for c in children)
        fixed = fixed and (bool(children) or value.op == CONSTANT)
        self.classes[number] = Class([node], fixed and not value.bodies)
        self.count += 1
        if key is not None:
            self._known.setdefault(key, node)
        return number

    def _key(self, head: Hashable, value: Value, children: tuple[int | None, ...]) -> Hashable:
        if head is None:
            return None
        one = isinstance(value.type, Tensor) and keeps_bits_in_any_order(value.op, value.dtype, len(children))
        if one and None not in children:
            children = tuple(sorted(c for c in children if c is not None))
        return head, children

    # ------------------------------------------------------------------------------------------ joining

    def join(self, a: int, b: int) -> bool:
        """Makes two classes one; True where they were two. Classes whose types may differ at some sizes stay two.

        Raises RewriteError for classes of values that are never equal: of other types."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        first, second = self.classes[a].value, self.classes[b].value
        same = same_types(first.type, second.type)
        if same is False:
            raise RewriteError(
                f"a {first.type!r} is said to equal a {second.type!r}",
                hint="irkit.check_rule finds the rule that makes a value of another type",
            )
        if same is None:
            return False
        if b < a:
            a, b = b, a
        gone = self.classes.pop(b)
        self._above[b] = a
        kept = self.classes[a]
        if gone.is_constant and not kept.is_constant:  # a node that is made of constants stands first
            kept.nodes[:0], kept.is_constant = gone.nodes, True
        else:
            kept.nodes += gone.nodes
        if kept.is_constant:
            kept.nodes.sort(key=lambda node: node.value.op != CONSTANT)
        return True

    def join_by(self, rule: Rule, first: Value, second: Value) -> bool:
        """Makes the classes of two values one, the second of which a rule made of the first; True where they were two.
        Raises as `join` does."""
        a, b = self.add(first), self.add(second)
        joined = self.join(a, b)
        if joined or a == b:
            self.links.append(Link(first, second, rule))
        return joined

    def rebuild(self) -> None:
        """Joins what became equal because its operands did, and drops nodes that became one."""
        while True:
            changed = False
            known: dict[Hashable, Node] = {}
            for number in list(self.classes):
                if number not in self.classes:
                    continue
                for node in self.classes[number].nodes:
                    key = self._key(node.head, node.value, self.children(node))
                    first = known.setdefault(key, node) if key is not None else node
                    if first is not node and self.home(first) != self.home(node):
                        joined = self.join(self.home(first), self.home(node))
                        if joined:
                            self.links.append(Link(first.value, node.value, None))
                        changed |= joined
            if not changed:
                break
        self._known = known
        for each in self.classes.values():
            each.nodes = self._distinct(each.nodes)
        self.count = sum(len(each.nodes) for each in self.classes.values())

    def _distinct(self, nodes: Iterable[Node]) -> list[Node]:
        found: dict[Hashable, Node] = {}
        for node in nodes:
            found.setdefault(self._key(node.head, node.value, self.children(node)) or node, node)
        return list(found.values())
