"""What Python programs use of Pillion.

oml reports measurements; histogram reads the histograms of rows. Both need nothing but Python. The
rest needs the extra analysis (INSTALL): stats has statistics on plain data, analysis
reads experiments and streams, report writes an experiment's report.
"""

# The package is in no registry.
INSTALL = "in the source tree, run pip install './python[analysis]' in a virtual environment"

_analysis = {
    "experiment": "result",
    "connect": "connection",
    "flows": "streams",
    "windows": "streams",
    "hops": "streams",
    "router": "streams",
    "sent": "streams",
}


def __getattr__(name):
    """Import the analysis, and what it needs, with its first use."""
    if name not in _analysis:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    import importlib

    try:
        module = importlib.import_module("pillion.analysis." + _analysis[name])
    except ModuleNotFoundError as error:
        if error.name and not error.name.startswith("pillion"):
            raise ModuleNotFoundError(
                "pillion.%s needs the module %s: %s" % (name, error.name, INSTALL), name=error.name
            ) from None
        raise
    return getattr(module, name)
