"""A report as one HTML file, without scripts and without anything from elsewhere."""

import html

from pillion.report import document, vector

# Nothing in the file can run or load anything, whatever names an experiment has.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

STYLE = """
:root{color-scheme:light dark;%(light)s--page:#ffffff;--soft:#f3f5f7;--met:#00694b;--missed:#b3400a;--undecided:#5a6068}
@media screen and (prefers-color-scheme:dark){:root{%(dark)s--page:#15181c;--soft:#20252b;--met:#3fd0a6;--missed:#ff9a5c;--undecided:#b4bcc6}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:52rem;padding:2rem 1.25rem 4rem;background:var(--page);color:var(--ink);
font:1rem/1.55 system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
header{border-bottom:2px solid var(--ink);margin-bottom:1.5rem;padding-bottom:1rem}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .4rem}
h2{font-size:1.2rem;margin:2.4rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--grid)}
p{margin:.5rem 0;max-width:44rem}
.question{font-size:1.1rem;margin:.2rem 0 .8rem}
.facts{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:0;font-size:.86rem}
.facts dt{color:var(--faint)}.facts dd{margin:0;overflow-wrap:anywhere}
.note{color:var(--faint);font-size:.88rem}
ul.verdicts{list-style:none;padding:0;margin:.6rem 0}
ul.verdicts li{display:grid;grid-template-columns:7.2rem 1fr;gap:.8rem;align-items:start;padding:.5rem 0;border-bottom:1px solid var(--grid)}
.verdict{font-weight:600;font-size:.85rem;padding:.08rem .5rem;border:1.5px solid currentColor;border-radius:1rem;text-align:center;white-space:nowrap}
.met{color:var(--met)}.missed{color:var(--missed)}.undecided{color:var(--undecided);border-style:dashed}
figure{margin:1.2rem 0 1.8rem}
figcaption{font-size:.88rem;color:var(--faint);max-width:44rem}
figcaption b{color:var(--ink)}
svg{display:block;height:auto}
svg text{font-variant-numeric:tabular-nums}
.wide{overflow-x:auto;margin:.8rem 0 1.4rem}
table{border-collapse:collapse;min-width:24rem;font-size:.84rem;font-variant-numeric:tabular-nums}
caption{caption-side:top;text-align:left;font-size:.88rem;padding:.2rem 0 .4rem;color:var(--faint)}caption span{display:block;width:max-content;max-width:min(44rem,calc(100vw - 2.5rem));margin-right:-44rem}
th,td{padding:.22rem .7rem .22rem 0;text-align:left;vertical-align:top}
th{border-bottom:1.5px solid var(--ink);font-weight:600;vertical-align:bottom}
td{border-bottom:1px solid var(--grid)}
.n{text-align:right;white-space:nowrap}td.one,th.one{white-space:nowrap}
tr.marked td{background:var(--soft)}tr.marked td:first-child{box-shadow:inset 3px 0 var(--missed);padding-left:.5rem}
pre{background:var(--soft);padding:.8rem 1rem;font:.8rem/1.5 ui-monospace,"DejaVu Sans Mono",monospace;overflow-x:auto}
nav{font-size:.88rem;margin-top:.8rem}nav a{margin-right:1rem}a{color:var(--c0)}
@page{size:A4;margin:16mm 15mm}
@media print{body{max-width:none;padding:0;font-size:9.5pt}nav{display:none}h2{break-after:avoid}
figure,ul.verdicts li,tr,.short{break-inside:avoid}caption{break-after:avoid}thead{display:table-header-group}.wide{overflow:visible}
table{font-size:7.6pt}th,td{padding-right:.45rem}caption span{max-width:170mm;margin-right:-170mm}pre{white-space:pre-wrap}svg{max-height:225mm}}
"""

# A table with at most so many rows stays on one printed page.
SHORT = 24
SIGNS = {"met": "✓ met", "missed": "✗ missed", "undecided": "? undecided"}


def _table(table):
    def cell(tag, column, text):
        kind = ' class="n"' if column in table.numeric else ' class="one"' if column in table.narrow else ""
        return "<%s%s%s>%s</%s>" % (tag, ' scope="col"' if tag == "th" else "", kind, html.escape(str(text)), tag)

    head = "".join(cell("th", i, name) for i, name in enumerate(table.columns))
    rows = "".join(
        "<tr%s>%s</tr>" % (' class="marked"' if k in table.marked else "", "".join(cell("td", i, v) for i, v in enumerate(row)))
        for k, row in enumerate(table.rows)
    )
    short = " short" if len(table.rows) <= SHORT else ""
    return '<div class="wide%s"><table><caption><span>%s</span></caption><thead><tr>%s</tr></thead><tbody>%s</tbody></table></div>' % (
        short, html.escape(table.caption), head, rows)  # fmt: skip


def _parts(parts):
    written, listing = [], False
    for part in parts:
        if isinstance(part, document.Verdict) != listing:
            listing = not listing
            written.append('<ul class="verdicts">' if listing else "</ul>")
        if isinstance(part, document.Verdict):
            written.append('<li><span class="verdict %s">%s</span><span>%s</span></li>' % (
                part.verdict, SIGNS[part.verdict], html.escape(part.text)))  # fmt: skip
        elif isinstance(part, document.Text):
            written.append("<p%s>%s</p>" % (' class="note"' if part.note else "", html.escape(part.text)))
        elif isinstance(part, document.Table):
            written.append(_table(part))
        elif isinstance(part, document.Figure):
            written.append("<figure>%s<figcaption><b>%s.</b> %s</figcaption></figure>" % (
                part.svg, html.escape(part.title), html.escape(part.caption or part.description)))  # fmt: skip
        elif isinstance(part, document.Code):
            written.append("<p class=\"note\">%s</p><pre>%s</pre>" % (html.escape(part.caption), html.escape(part.text)))
        else:
            raise TypeError("write %r" % (part,))
    if listing:
        written.append("</ul>")
    return "\n".join(written)


def write(report):
    """The HTML of a report."""
    style = STYLE % {"light": vector.variables(False), "dark": vector.variables(True)}
    facts = "".join("<dt>%s</dt><dd>%s</dd>" % (html.escape(k), html.escape(str(v))) for k, v in report.facts)
    names = ["s%d" % i for i in range(len(report.sections))]
    links = "".join('<a href="#%s">%s</a>' % (n, html.escape(s.title)) for n, s in zip(names, report.sections))
    body = "\n".join(
        '<section aria-labelledby="%s"><h2 id="%s">%s</h2>\n%s</section>' % (n, n, html.escape(s.title), _parts(s.parts))
        for n, s in zip(names, report.sections)
    )
    question = '<p class="question">%s</p>' % html.escape(report.question) if report.question else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="%s">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><title>%s</title><style>%s</style></head>\n'
        '<body><header><h1>%s</h1>%s<dl class="facts">%s</dl><nav aria-label="Sections">%s</nav></header>\n<main>%s</main></body></html>\n'
    ) % (html.escape(POLICY), html.escape(report.title), style, html.escape(report.title), question, facts, links, body)  # fmt: skip
