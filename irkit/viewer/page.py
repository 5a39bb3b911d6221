"""A page of HTML that needs no other file: templates of the package, and data within."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files

import attrs
from jinja2 import Environment
from markupsafe import Markup, escape

from irkit.viewer.contents import Plain

SCRIPTS = ("model", "layout", "view", "panels", "history", "difference", "main", "start")
"""The scripts of a page, in the order in which they run."""

HEIGHT = 640
"""How high a page is in a notebook, in pixels."""


@attrs.frozen(eq=False, repr=False)
class Page:
    """A page of HTML. `html` is its text, `data` what it shows, as plain data; notebooks show it in a frame."""

    title: str
    data: Plain

    @property
    def html(self) -> str:
        """The text of the page: one file, which loads nothing."""
        scripts = [Markup(template(f"{name}.js")) for name in SCRIPTS]
        style = Markup(template("style.css"))
        page = Environment(autoescape=True).from_string(template("page.html"))
        return page.render(title=self.title, style=style, scripts=scripts, data=Markup(embedded(self.data)))

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="{escape(self.title)}" srcdoc="{escape(self.html)}" '
            f'style="width:100%;height:{HEIGHT}px;border:1px solid #8884;border-radius:8px"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<Page {self.title}>"


@lru_cache(maxsize=16)
def template(name: str) -> str:
    """The text of a file among the templates."""
    return files("irkit.viewer").joinpath("templates", name).read_text("utf-8")


def embedded(data: Plain) -> str:
    """Data as JSON that may stand in a script element: no `<` is in it as such."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
