"""What a report consists of, apart from how it is shown."""

import dataclasses


@dataclasses.dataclass
class Text:
    """A paragraph; a note is less important."""

    text: str
    note: bool = False


@dataclasses.dataclass
class Verdict:
    """A sentence with its verdict: met, missed or undecided."""

    verdict: str
    text: str


@dataclasses.dataclass
class Table:
    """Rows of texts. numeric has the columns that are aligned as numbers."""

    caption: str
    columns: list
    rows: list
    numeric: set = dataclasses.field(default_factory=set)
    # Columns that do not wrap.
    narrow: set = dataclasses.field(default_factory=set)
    # Rows that deserve attention, by number.
    marked: set = dataclasses.field(default_factory=set)


@dataclasses.dataclass
class Figure:
    """A drawing as SVG; description says in words what it shows."""

    title: str
    description: str
    svg: str
    caption: str = ""


@dataclasses.dataclass
class Code:
    """Text as it was written, such as the experiment file."""

    caption: str
    text: str


@dataclasses.dataclass
class Section:
    title: str
    parts: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Report:
    """A report; facts are the lines below its title."""

    title: str
    question: str
    facts: list
    sections: list
    experiment: str = ""
    hash: str = ""


def reason(error):
    """An error's text as the end of a sentence; a KeyError's would be its name in quotes otherwise."""
    return str(error.args[0] if isinstance(error, KeyError) and error.args else error).rstrip(".")
