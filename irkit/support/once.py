"""Properties that are found once, and kept in the object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):
    """A property whose value is kept in the object, which has a `__dict__` and may be frozen.

    `functools.cached_property` takes a lock, and on a class with slots attrs finds what is not there yet by an error
    that it catches: either takes longer than most of what is found so.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self._function, self._name, self.__doc__ = function, function.__name__, function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        """What the function finds; from now on Python finds it in the object, and does not ask here."""
        if instance is None:
            return self
        found = instance.__dict__[self._name] = self._function(instance)
        return found


class once_watched(once[T]):
    """As `once`, for an object that may be `watched`: there `check()` is called each time before the value is given."""

    def __get__(self, instance: Any, owner: type) -> Any:
        """What the function finds. Of an object that nothing watches, Python finds it from now on in the object."""
        if instance is None:
            return self
        if not instance.watched:
            found = instance.__dict__[self._name] = self._function(instance)
            return found
        instance.check()
        kept = instance.__dict__.setdefault("_kept", {})
        if self._name not in kept:
            kept[self._name] = self._function(instance)
        return kept[self._name]
