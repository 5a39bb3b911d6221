"""What tests of pages ask of them: well-formed HTML that loads nothing, and the data in it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

VOID = frozenset(("meta", "input", "br", "hr", "img", "link", "circle", "path", "rect"))
LOADS = ("src", "href", "action", "poster", "background")


class Reader(HTMLParser):
    """Reads a page, and fails for elements that are not closed and for whatever would load another file."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.data = ""
        self.in_data = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert not any(given.get(name) for name in LOADS), (tag, given)
        assert tag not in ("link", "object", "embed", "base"), tag
        self.in_data = given.get("type") == "application/json"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open and self.open.pop() == tag, tag
        self.in_data = False

    def handle_data(self, data: str) -> None:
        self.data += data if self.in_data else ""


def data_in(html: str) -> dict[str, Any]:
    """The data in a page that is well-formed and loads nothing."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    assert "http://" not in html.replace(reader.data, "") and "https://" not in html.replace(reader.data, "")
    assert "@import" not in html and "url(" not in html
    return json.loads(reader.data)
