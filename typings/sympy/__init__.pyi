"""What irkit uses of sympy, which has no types of its own: classes as they are inferred from their sources, functions as
untyped ones that give an expression."""

from typing import Any

from sympy import core as core
from sympy import functions as functions
from sympy import logic as logic
from sympy import solvers as solvers
from sympy.core.add import Add as Add
from sympy.core.basic import Basic as Basic
from sympy.core.expr import Expr as Expr
from sympy.core.function import Function as Function
from sympy.core.mul import Mul as Mul
from sympy.core.numbers import Float as Float
from sympy.core.numbers import Integer as Integer
from sympy.core.numbers import Number as Number
from sympy.core.numbers import Rational as Rational
from sympy.core.power import Pow as Pow
from sympy.core.relational import Eq as Eq
from sympy.core.relational import Ge as Ge
from sympy.core.relational import GreaterThan as GreaterThan
from sympy.core.relational import Gt as Gt
from sympy.core.relational import Le as Le
from sympy.core.relational import LessThan as LessThan
from sympy.core.relational import Lt as Lt
from sympy.core.relational import Ne as Ne
from sympy.core.relational import Rel as Rel
from sympy.core.relational import StrictGreaterThan as StrictGreaterThan
from sympy.core.relational import StrictLessThan as StrictLessThan
from sympy.core.symbol import Dummy as Dummy
from sympy.core.symbol import Symbol as Symbol

def __getattr__(name: str) -> Any: ...  # functions and numbers: sympify, expand, cancel, oo, true ...
