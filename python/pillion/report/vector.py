"""Figures as SVG that stands within a page and follows its theme.

Colours become variables, which a page gives other values in a dark theme; names of elements
become unique in the page.
"""

import html
import io
import re

from pillion.analysis import theme

# Variable: light and dark value. On both grounds every colour has a contrast of 3 or more
# (WCAG 2.1, graphical objects); some of the palette are darkened for that on white.
VARIABLES = {
    theme.INK: ("ink", theme.INK, "#e8eaed"),
    theme.FAINT: ("faint", theme.FAINT, "#a0a8b2"),
    theme.GRID: ("grid", theme.GRID, "#383e46"),
    theme.PAPER: ("paper", theme.PAPER, "#15181c"),
    theme.COLOURS[0]: ("c0", theme.COLOURS[0], "#4fa8e0"),
    theme.COLOURS[1]: ("c1", "#c24e00", "#f27f3d"),
    theme.COLOURS[2]: ("c2", theme.COLOURS[2], "#2fc29b"),
    theme.COLOURS[3]: ("c3", "#b8578d", "#dd9ac1"),
    theme.COLOURS[4]: ("c4", "#c08600", "#f2b632"),
    theme.COLOURS[5]: ("c5", "#2f8fc4", "#94d3f7"),
    theme.COLOURS[6]: ("c6", theme.COLOURS[6], "#b0b0b0"),
}

_colour = re.compile("|".join(map(re.escape, VARIABLES)), re.IGNORECASE)
_identifier = re.compile(r'\bid="([^"]+)"')
_reference = re.compile(r'(xlink:href="|href="|url\()#([^")]+)')


def variables(dark):
    """The variables' values as CSS."""
    return "".join("--%s:%s;" % (name, night if dark else day) for name, day, night in VARIABLES.values())


def draw(figure, name, title, description):
    """The SVG of a figure. name makes its elements' names unique in a page."""
    buffer = io.StringIO()
    with theme.settings():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return embed(buffer.getvalue(), name, title, description)


def embed(text, name, title, description):
    """An SVG file as an element of a page."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    head, body = text.split(">", 1)
    head = re.sub(r'\s(width|height|version)="[^"]*"', "", head)
    width = re.search(r'viewBox="0 0 ([0-9.]+)', head).group(1)
    head += ' role="img" aria-labelledby="%s-t %s-d" style="width:100%%;max-width:%spt"' % (name, name, width)
    body = _identifier.sub(lambda m: 'id="%s-%s"' % (name, m.group(1)), body)
    body = _reference.sub(lambda m: "%s#%s-%s" % (m.group(1), name, m.group(2)), body)
    body = _colour.sub(lambda m: "var(--%s)" % VARIABLES[m.group(0).lower()][0], body)
    words = '<title id="%s-t">%s</title><desc id="%s-d">%s</desc>' % (name, html.escape(title), name, html.escape(description))
    return "%s>%s%s" % (head, words, body.strip())
