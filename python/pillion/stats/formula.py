"""Model formulae: which terms a model has.

A formula is "response ~ terms". Terms are joined by + (both), : (interaction), * (both and
their interaction), / (nested), ^ or ** (all interactions up to an order) and - (not that one),
with brackets. A column whose name is no identifier is written in backquotes. C(x) makes any
column a factor; log(x), log2(x), log10(x) and sqrt(x) transform one. Notation: Wilkinson and
Rogers, Symbolic description of factorial models for analysis of variance, Applied Statistics
22 (1973) 392-399.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

TRANSFORMS = ("log", "log2", "log10", "sqrt")

# What no model needs, and what would take forever.
MOST_TOKENS, MOST_TERMS, MOST_BRACKETS = 500, 1000, 50

_TOKEN = re.compile(r"\s*(?:(`[^`]+`)|([^\W\d][\w.]*)|(\d+)|(\*\*|[+*:/^()-]))")


@dataclass(frozen=True, order=True)
class Variable:
    """A column, perhaps transformed: function is "", "C" or one of TRANSFORMS."""

    column: str
    function: str = ""

    def __str__(self):
        return f"{self.function}({self.column})" if self.function else self.column


# A term is a tuple of variables: ("a", "b") is the interaction a:b.


def term_name(term) -> str:
    """The name of a term's row: a, or a:b."""
    return ":".join(str(v) for v in term)


def parse_formula(formula: str):
    """The response (a Variable) and the terms of "y ~ a * b"."""
    if not isinstance(formula, str):
        raise TypeError(f"formula {formula!r}: want a string such as 'y ~ a * b'")
    sides = formula.split("~")
    if len(sides) != 2:
        raise ValueError(f"formula {formula!r}: want 'response ~ terms'")
    left = _Parser(sides[0], formula).whole()
    if len(left) != 1 or len(left[0]) != 1 or left[0][0].function == "C":
        raise ValueError(f"formula {formula!r}: want one response before '~'")
    return left[0][0], parse_terms(sides[1], formula)


def parse_terms(text: str, formula: str = ""):
    """The terms of "a * b", main effects before interactions, in the order they are named."""
    if not isinstance(text, str):
        raise TypeError(f"terms {text!r}: want a string such as 'a * b'")
    if "~" in text:
        raise ValueError(f"terms {text!r}: want terms only, such as 'a * b', without '~'")
    terms = [t for t in _Parser(text, formula or text).whole() if t]
    if not terms:
        raise ValueError(f"formula {formula or text!r}: no terms")
    return sorted(terms, key=len)  # stable: within one order as named


class _Parser:
    """Recursive descent; each level returns a list of terms without repetition."""

    def __init__(self, text, formula):
        self.formula = formula
        self.tokens = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if not found:
                raise ValueError(f"formula {formula!r}: unexpected {text[at:].strip()[0]!r}")
            quoted, name, number, operator = found.groups()
            if quoted:
                self.tokens.append(("name", quoted[1:-1]))
            elif name:
                self.tokens.append(("name", name))
            elif number:
                self.tokens.append(("number", number))
            else:
                self.tokens.append(("^" if operator == "**" else operator, operator))
            at = found.end()
            if len(self.tokens) > MOST_TOKENS:
                raise ValueError(f"formula of more than {MOST_TOKENS} names and operators: too long")
        self.at = 0
        if sum(kind == "(" for kind, _ in self.tokens) > MOST_BRACKETS:
            raise ValueError(f"formula with more than {MOST_BRACKETS} brackets: too long")

    def fail(self):
        rest = self.tokens[self.at][1] if self.at < len(self.tokens) else "its end"
        raise ValueError(f"formula {self.formula!r}: cannot be read at {rest!r}")

    def next(self, *kinds):
        if self.at < len(self.tokens) and self.tokens[self.at][0] in kinds:
            self.at += 1
            return self.tokens[self.at - 1]
        return None

    def whole(self):
        terms = self.sum()
        if self.at < len(self.tokens):
            self.fail()
        return terms

    def sum(self):
        if self.next("-"):
            self.without_intercept(self.product())
        terms = self.product()
        while True:
            if self.next("+"):
                terms = _union(terms, self.product())
            elif self.next("-"):
                less = self.product()
                self.without_intercept(less)
                less = {frozenset(t) for t in less}
                terms = [t for t in terms if frozenset(t) not in less]
            else:
                return terms

    def without_intercept(self, less):
        if () in less:
            raise ValueError(
                f"formula {self.formula!r}: a model without intercept has no shares; leave '- 1' out"
            )

    def product(self):
        terms = self.nested()
        while self.next("*"):
            right = self.nested()
            terms = _union(_union(terms, right), _cross(terms, right))
        return terms

    def nested(self):
        terms = self.interaction()
        while self.next("/"):
            outer = tuple(dict.fromkeys(v for t in terms for v in t))
            terms = _union(terms, _cross([outer], self.interaction()))
        return terms

    def interaction(self):
        terms = self.power()
        while self.next(":"):
            terms = _cross(terms, self.power())
        return terms

    def power(self):
        terms = self.operand()
        if self.next("^"):
            order = self.next("number")
            if not order or int(order[1]) < 1:
                self.fail()
            factors = terms
            for _ in range(min(int(order[1]), len(factors)) - 1):
                terms = _union(terms, _cross(terms, factors))
        return terms

    def operand(self):
        if self.next("("):
            terms = self.sum()
            if not self.next(")"):
                self.fail()
            return terms
        number = self.next("number")
        if number:
            if number[1] == "0":
                self.without_intercept([()])
            if number[1] != "1":
                self.fail()
            return [()]
        name = self.next("name")
        if not name:
            self.fail()
        if name[1] in TRANSFORMS + ("C",) and self.next("("):
            column = self.next("name")
            if not column or not self.next(")"):
                self.fail()
            return [(Variable(column[1], name[1]),)]
        return [(Variable(name[1]),)]


def _union(left, right):
    """Terms of both; a:b and b:a are one term."""
    seen = {}
    for term in itertools.chain(left, right):
        seen.setdefault(frozenset(term), term)
        if len(seen) > MOST_TERMS:
            raise ValueError(
                f"formula has more than {MOST_TERMS} terms: leave out high orders, as in (a + b + c)^2"
            )
    return list(seen.values())


def _cross(left, right):
    return _union([], (tuple(dict.fromkeys(a + b)) for a in left for b in right))
