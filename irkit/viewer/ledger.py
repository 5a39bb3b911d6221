"""Which value of one version of a graph is which of another: rows of a page, followed through firings and passes.

A value that stands in both versions is itself. Rewriting rebuilds what stands above a change: the same operator with
the same attributes over operands that correspond is the same row, and so is the next one of that operator from the
same place of the model, over other operands. Everything else is new, or gone.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

from irkit.core.ir import Graph, Value
from irkit.core.origins import NOWHERE, Origin
from irkit.core.printer import describer, value_names, words_of
from irkit.core.vocabulary import ITEM, PARAM
from irkit.core.walk import post_order
from irkit.rewriting.firings import Firing
from irkit.viewer.contents import Plain
from irkit.viewer.tables import NONE, Row, Tables, Texts, port_of, row_of

OP, NAME, INPUTS, MODULE, SOURCE, NODE, BODY = 1, 2, 4, 6, 7, 8, 10
NUMBERED = re.compile(r"%\d+")


class Ledger:
    """The rows of the present version of a graph while a page is made. A delta has the rows that were added, those that
    were changed, the numbers of those that were removed, and the results where they are others."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.rows: dict[int, Row] = {}
        self.heads: dict[int, Hashable] = {}
        self.origins: dict[int, Origin] = {}
        self.values: dict[int, Value] = {}
        self.names: dict[int, str] = {}
        self.results: list[int] = []
        self.body_results: dict[int, list[int]] = {}
        self.body_numbers: dict[tuple[int, int], int] = {}
        self.users: dict[int, set[int]] = defaultdict(set)
        self.by_key: dict[Hashable, list[int]] = defaultdict(list)
        self.instead: dict[int, int] = {}
        self.texts: Texts = (str, str)

    # -- numbers

    def last(self, number: int) -> int:
        """The row that stands for a row in the end."""
        while number in self.instead:
            number = self.instead[number]
        return number

    def head(self, value: Value, number: int) -> Hashable:
        """What a value has beside its operands that makes two values equal. One with bodies is like no other."""
        attributes = () if value.blob is not None else value.attributes
        own = number if value.bodies or value.op == PARAM else NONE
        return value.op, attributes, self.tables.constant(value.blob), own

    def inputs_of(self, value: Value, place: dict[Value, int]) -> list[int]:
        """The numbers of the operands of a value."""
        ids = self.tables.ids
        return [NONE if v is None else self.last(place[v] if v in place else ids.get(v, NONE)) for v in value.inputs]

    def known(self, value: Value) -> int | None:
        """The number of the row that stands for a value; None where none does."""
        ids = self.tables.ids
        for each in post_order((value,), stop=lambda v: self.last(ids.get(v, NONE)) in self.rows):
            equal = self.by_key.get((self.head(each, NONE), tuple(self.inputs_of(each, {}))))
            if equal:
                ids[each] = equal[0]
        found = self.last(ids.get(value, NONE))
        return found if found in self.rows else None

    def body_number(self, owner: int, index: int, word: str, name: str) -> int:
        """The number of a body of the value in a row."""
        found = self.body_numbers.get((owner, index))
        if found is None:
            found = self.body_numbers[owner, index] = len(self.tables.bodies)
            self.tables.bodies.append({"owner": owner, "word": word, "name": name})
        return found

    # -- whole versions

    def sync(self, graph: Graph, known: Mapping[Value, int] = MappingProxyType({})) -> Plain:
        """Makes the rows those of a graph, and returns the delta. The rows of some values may be `known`."""
        self.texts = describer(graph)
        self.tables.ids.update(known)
        claimed: set[int] = set(known.values())
        similar: dict[Hashable, deque[int]] = defaultdict(deque)
        new: dict[int, Row] = {}
        self.values, self.names, self.body_results = {}, {}, {}
        results: list[int] = []
        for here, body, place in self.graphs_in(graph, dict(known), claimed, similar):
            names = value_names(here)
            for value in here.order:
                number = place[value]
                old = self.rows.get(number)
                name = old[NAME] if old else self.name_of(names[value], number)
                row = row_of(value, number, name, self.inputs_of(value, place), body, self.tables, self.texts)
                new[number], self.values[number], self.names[number] = row, value, names[value]
                self.heads[number], self.origins[number] = self.head(value, number), value.origin
            if body == NONE:
                results = [place[r] for r in here.results]
            else:
                self.body_results[body] = [place[r] for r in here.results]
        delta = {
            "add": [row for number, row in new.items() if number not in self.rows],
            "change": [row for number, row in new.items() if number in self.rows and self.rows[number] != row],
            "remove": [number for number in self.rows if number not in new],
        }
        if results != self.results:
            delta["results"] = results
        self.rows, self.results, self.instead = new, results, {}
        self.index()
        return delta

    def graphs_in(
        self, graph: Graph, known: dict[Value, int], claimed: set[int], similar: dict[Hashable, deque[int]]
    ) -> Iterator[tuple[Graph, int, dict[Value, int]]]:
        """Each graph of the nest with the number of its body and those of its values."""
        pending, seen, gathered = deque([(graph, NONE, known)]), set[int](), False
        while pending:
            here, body, place = pending.popleft()
            if id(here) in seen:
                continue
            seen.add(id(here))
            self.place_equals(here, body, place, claimed)
            if not gathered:
                self.gather(similar, claimed)
                gathered = True
            for value in here.order:
                if value not in place and not self.place_equal(value, body, place, claimed):
                    self.place_similar(value, body, place, claimed, similar)
                for index, (word, inner) in enumerate(zip(words_of(value), value.bodies, strict=True)):
                    pending.append((inner, self.body_number(place[value], index, word, inner.name), {}))
            yield here, body, place

    def gather(self, similar: dict[Hashable, deque[int]], claimed: set[int]) -> None:
        """Lines up the rows that nothing has claimed, by operator and place of the model."""
        for number, row in self.rows.items():
            if number not in claimed:
                similar[row[OP], row[MODULE], row[SOURCE], row[NODE], len(row[INPUTS]), row[BODY]].append(number)

    def place_equals(self, graph: Graph, body: int, place: dict[Value, int], claimed: set[int]) -> None:
        """Gives values of a body the numbers that they have already, then those of rows that are equal."""
        for value in graph.order:
            number = self.tables.ids.get(value, NONE)
            row = self.rows.get(number)
            if value not in place and row is not None and row[BODY] == body and number not in claimed:
                self.claim(value, number, place, claimed)
        for value in graph.order:
            self.place_equal(value, body, place, claimed)

    def place_equal(self, value: Value, body: int, place: dict[Value, int], claimed: set[int]) -> bool:
        """Gives a value of a body the number of a row in it that nothing else has, with an equal operator over the same
        operands."""
        if value in place or any(v is not None and v not in place for v in value.inputs):
            return value in place
        equal = self.by_key.get((self.head(value, NONE), tuple(self.inputs_of(value, place))), ())
        found = next((n for n in equal if n not in claimed and self.rows[n][BODY] == body), None)
        if found is None:
            return False
        self.claim(value, found, place, claimed)
        return True

    def place_similar(
        self, value: Value, body: int, place: dict[Value, int], claimed: set[int], similar: dict[Hashable, deque[int]]
    ) -> None:
        """Gives a value the number of a row of that operator from the same place of the model, else a new one."""
        text, origin = self.tables.text, value.origin
        key = (text(value.op), text(origin.module), text(origin.source), text(origin.node), len(value.inputs), body)
        queue = similar.get(key, deque[int]())
        while queue:
            number = queue.popleft()
            if number not in claimed:
                self.claim(value, number, place, claimed)
                return
        for operand in value.inputs:  # else one of that operator over the same operand
            for number in sorted(self.users.get(place[operand], ())) if operand is not None else ():
                if number not in claimed and (self.rows[number][OP], self.rows[number][BODY]) == (key[0], body):
                    self.claim(value, number, place, claimed)
                    return
        self.claim(value, self.tables.new_id(), place, claimed)

    def claim(self, value: Value, number: int, place: dict[Value, int], claimed: set[int]) -> None:
        """Notes that a value has a number."""
        place[value] = self.tables.ids[value] = number
        claimed.add(number)

    def name_of(self, name: str, number: int) -> int:
        """The name of a new row, in the table of texts. The numbers in a text change with each pass."""
        return self.tables.text(f"%{number}" if self.rows and NUMBERED.fullmatch(name) else name)

    def index(self) -> None:
        """Looks up anew who uses each row, and which row has each key."""
        self.users.clear()
        self.by_key.clear()
        for number, row in self.rows.items():
            self.by_key[self.heads[number], tuple(row[INPUTS])].append(number)
            for each in row[INPUTS]:
                self.users[each].add(number)

    # -- one firing

    def fire(self, firing: Firing) -> Plain | None:
        """Replaces what a rule replaced, and returns the delta; None where the rows are not those that it saw."""
        roots = [number for root in firing.roots if (number := self.known(root)) is not None]
        if len(roots) != len(firing.roots):
            return None
        added: dict[int, Row] = {}
        origin, body = self.origins[roots[0]].after(firing.rule.name), self.rows[roots[0]][BODY]
        made = [self.place_made(value, origin, body, added) for value in firing.made]
        changed: dict[int, Row] = {}
        old_results = list(self.results)
        gone: list[int] = []
        for old, new in self.pairs(roots, made):
            if old != new:
                self.redirect(old, new, added, changed)
                gone.append(old)
        removed = self.sweep(gone)
        delta: Plain = {
            "add": [row for number, row in added.items() if number in self.rows],
            "change": [row for number, row in changed.items() if number in self.rows and number not in added],
            "remove": [number for number in removed if number not in added],
        }
        if self.results != old_results:
            delta["results"] = list(self.results)
        return delta

    def pairs(self, roots: list[int], made: list[int]) -> Iterable[tuple[int, int]]:
        """What is replaced, and by what: of an operator with several results, its Items."""
        if len(roots) == len(made):
            return list(zip(roots, made, strict=True))
        found = list[tuple[int, int]]()
        for user in sorted(self.users[roots[0]]):
            head = cast("tuple[str, Any]", self.heads[user])
            if head[0] == ITEM:
                found.append((user, made[int(head[1][0][1])]))
        return found

    def place_made(self, value: Value, origin: Origin, body: int, added: dict[int, Row]) -> int:
        """The number of what a rule made, with rows for all of it that is new."""
        found = self.known(value)
        if found is not None:
            return found
        ids, text = self.tables.ids, self.tables.text
        for each in post_order((value,), stop=lambda v: self.last(ids.get(v, NONE)) in self.rows):
            number = self.tables.new_id()
            ids[each] = number
            placed = each.with_origin(origin) if each.origin is NOWHERE else each
            row = row_of(placed, number, text(f"%{number}"), self.inputs_of(each, {}), body, self.tables, self.texts)
            self.rows[number] = added[number] = row
            self.heads[number], self.origins[number] = self.head(each, number), placed.origin
            self.by_key[self.heads[number], tuple(row[INPUTS])].append(number)
            for operand in row[INPUTS]:
                self.users[operand].add(number)
        return ids[value]

    def redirect(self, old: int, new: int, added: dict[int, Row], changed: dict[int, Row]) -> None:
        """Lets all that uses a row use another; but not what was just made of it."""
        keeps = False
        for user in sorted(self.users[old]):
            if user in added:
                keeps = True
                continue
            row = list(self.rows[user])
            self.by_key[self.heads[user], tuple(row[INPUTS])].remove(user)
            row[INPUTS] = [new if each == old else each for each in row[INPUTS]]
            self.by_key[self.heads[user], tuple(row[INPUTS])].append(user)
            self.rows[user] = changed[user] = row
            self.users[new].add(user)
            self.users[old].discard(user)
        self.results = [new if each == old else each for each in self.results]
        for number, results in self.body_results.items():
            self.body_results[number] = [new if each == old else each for each in results]
        if not keeps:
            self.instead[old] = new

    def sweep(self, gone: list[int]) -> list[int]:
        """Removes the rows that nothing uses any more, and returns their numbers."""
        kept = {*self.results, *(each for results in self.body_results.values() for each in results)}
        removed: list[int] = []
        while gone:
            number = gone.pop()
            row = self.rows.get(number)
            head: Any = self.heads.get(number)
            if row is None or self.users[number] or number in kept or head[0] == PARAM:
                continue
            del self.rows[number]
            removed.append(number)
            self.by_key[self.heads[number], tuple(row[INPUTS])].remove(number)
            for operand in row[INPUTS]:
                self.users[operand].discard(number)
                gone.append(operand)
        return removed


def graph_data(graph: Graph, ledger: Ledger) -> Plain:
    """The first graph of a ledger as plain data: `name`, `rows` in order, bodies after their owners, `params`,
    `results`, `symbols` and `facts`."""
    delta, ports = ledger.sync(graph), graph.signature
    ids = ledger.tables.ids
    return {
        "name": graph.name,
        "operators": len(graph),
        "rows": delta["add"],
        "params": [[ids[v], *port_of(ports.params, i)] for i, v in enumerate(graph.params)],
        "results": [[ids[v], *port_of(ports.results, i)] for i, v in enumerate(graph.results)],
        "symbols": [[name, str(range_)] for name, range_ in graph.symbols.items()],
        "facts": [[f.kind, f.text, f.source] for f in ports.facts],
    }
