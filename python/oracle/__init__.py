"""Cases that R computed, for the tests of pillion.stats: NAME.R wrote NAME.json."""

import json
import pathlib

import pandas as pd


def read(name):
    return json.loads((pathlib.Path(__file__).parent / f"{name}.json").read_text())


def frame(case):
    """Data of a case, with factors as categories in R's order."""
    data = pd.DataFrame(case["columns"])
    for name, levels in case["levels"].items() if case["levels"] else ():
        data[name] = pd.Categorical(data[name], levels)
    return data


def table(case):
    """A table of a case, with its rows' names as index."""
    case = pd.DataFrame(
        {name: column if isinstance(column, list) else [column] for name, column in case.items()}
    )
    return case.set_index(case.columns[0])
