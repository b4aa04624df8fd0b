"""How figures look: colours that colour-blind readers tell apart, and never colour alone."""

import contextlib

import matplotlib

# Okabe and Ito's palette without yellow, which is too pale on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7a7a")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 2)))
# Inks of axes; a report gives them and the colours other values in a dark theme.
INK, FAINT, GRID, PAPER = "#1c2024", "#5a6068", "#d9dce0", "#fefefe"
WIDE, HIGH = 6.7, 3.3  # inches: the width of text on A4

SETTINGS = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "text.parse_math": False,  # a level may contain a dollar sign
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "pillion",
    "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
}


def themed(function):
    """Draw in the theme, whatever the program's own settings are."""

    def drawn(*values, **named):
        with settings():
            return function(*values, **named)

    drawn.__doc__, drawn.__name__ = function.__doc__, function.__name__
    return drawn


@contextlib.contextmanager
def settings():
    with matplotlib.rc_context(SETTINGS):
        yield


def colour(i):
    return COLOURS[i % len(COLOURS)]


def marker(i):
    """Beyond the palette a colour comes again, with another marker and line."""
    return MARKERS[(i + i // len(COLOURS)) % len(MARKERS)]


def line(i):
    return LINES[(i + i // len(COLOURS)) % len(LINES)]
