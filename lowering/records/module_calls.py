"""Which modules of a model were called so far, and the paths by which origins name the calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import attrs

from irkit.core.origins import REPEAT, plain

Met = tuple[int, str, str]
"""A call of a module: its identity, the path of what called it, and its own."""


@attrs.frozen(eq=False)
class ModuleCalls:
    """The calls of a run: the `paths` of modules by identity, how often each path was taken, and what was `met`.

    From its second call on the path of a module has the number of the call: `layer@1`, and of what that calls
    `layer@1.linear`."""

    paths: Mapping[int, str] = {}
    times: Counter[str] = attrs.field(factory=Counter)
    met: list[Met] = attrs.field(factory=list)

    def enter(self, above: str, module: int) -> str:
        """The path of a module that is called now, below one that has the path `above`."""
        path = self.paths.get(module)
        if path is None:
            path = above
        else:
            path = path_below(above, path) if REPEAT in above else path
            number = self.times[path]
            self.times[path] = number + 1
            path = f"{path}{REPEAT}{number}" if number else path
        self.met.append((module, above, path))
        return path

    def again(self, inner: InnerCalls, path: str, modules: Sequence[object], last: Repeated | None = None) -> Repeated:
        """The calls inside a module as they would be met now in another one at `path` that is made of `modules`;
        `last` are those that the run before met in it."""
        same = last is not None and last.paths is None and last.path == path
        if last is not None and same and self.times.keys().isdisjoint(last.times):
            return last
        parts = list(map(id, modules))
        if inner.plainly is not None and REPEAT not in path:
            places, paths, above = inner.plainly
            own = [parts[place] for place in places]
            new = [path + inside for inside in paths]
            if list(map(self.paths.get, own)) == new and self.times.keys().isdisjoint(new):
                met = list(zip(own, [path + inside for inside in above], new, strict=True))
                return Repeated(path, met, dict.fromkeys(new, 1), None)
        trial = ModuleCalls(self.paths, Counter(self.times))
        swaps, known = dict(zip(inner.parts, parts, strict=True)), {inner.path: path}
        for module, over, before in inner.met:
            known[before] = trial.enter(known.get(over, over), swaps.get(module, module))
        return Repeated(path, trial.met, trial.times - self.times, known)

    def take(self, repeated: Repeated) -> None:
        """Counts calls that were made again."""
        add_counts(self.times, repeated.times)
        self.met.extend(repeated.met)


@attrs.frozen(eq=False)
class InnerCalls:
    """The calls inside a module that has a path and is made of `parts`. `plainly` are, where each is the first of a
    part by the path that it has below the module, the places of the parts, and the paths of them and of what called
    them, from that of the module on."""

    path: str
    parts: Sequence[int]
    met: Sequence[Met]
    plainly: tuple[Sequence[int], Sequence[str], Sequence[str]] | None

    @classmethod
    def of(cls, path: str, parts: Sequence[int], met: Sequence[Met]) -> InnerCalls:
        """The calls that were met inside a module."""
        start, places = len(path), {part: place for place, part in enumerate(parts)}
        inside = all(each.startswith(f"{path}.") for _, _, each in met)
        called = all(above == path or above.startswith(f"{path}.") for _, above, _ in met)
        plainly = inside and called and REPEAT not in "".join(each for _, _, each in met)
        if not plainly or any(module not in places for module, _, _ in met):
            return cls(path, parts, met, None)
        ways = [places[m] for m, _, _ in met], [each[start:] for _, _, each in met], [a[start:] for _, a, _ in met]
        return cls(path, parts, met, ways)


@attrs.frozen(eq=False)
class Repeated:
    """Calls that are made again in a module at a `path`: what is met, how often each path is taken, and what each path
    of before becomes; None where only the path of the outermost module differs."""

    path: str
    met: Sequence[Met]
    times: Mapping[str, int]
    paths: Mapping[str, str] | None

    def path_of(self, before: str, otherwise: str) -> str:
        """What a path becomes; `otherwise` where only the outermost differs, or it was not met."""
        return otherwise if self.paths is None else self.paths.get(before, otherwise)


def add_counts(counts: Counter[str], more: Mapping[str, int]) -> None:
    """`Counter.update`, which calls a method for each key."""
    for each in more:
        counts[each] = counts[each] + more[each] if each in counts else more[each]


def name_after(taken: Mapping[str, int], numbered: tuple[str, int]) -> str:
    """The name of a node, where so many names were taken before the call that took it."""
    base, number = numbered
    place = number + taken.get(base, 0)
    return f"{base}_{place}" if place else base


def names_since(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """How many names of each kind were taken since."""
    return {base: count - before.get(base, 0) for base, count in now.items() - before.items()}


def path_below(above: str, path: str) -> str:
    """The path of a module as one below `above`, which has numbers of calls in it, where it is that."""
    outer = plain(above)
    return above + path[len(outer) :] if path.startswith(f"{outer}.") else path
