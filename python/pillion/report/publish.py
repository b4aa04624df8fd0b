"""Reports on the page of a server: rows of the stream oml_experiment_report_part.

A row is one part as JSON: the page draws texts and tables itself and shows drawings as
images, so that nothing in a report can run there. The first row has the title and the
number of parts, by which the page sees whether a report is whole.
"""

import dataclasses
import json
import os
import secrets

from pillion.oml import OMLBase
from pillion.report import vector
from pillion.report.document import Code, Figure, Table, Text, Verdict

DOMAIN, APPLICATION, POINT = "experiment", "report", "part"
# The collector takes lines of up to 1 MiB, of which escapes need some.
PART_BYTES = 700_000
REPORT_BYTES = 6 << 20
PARTS = 500
TIMEOUT = 30.0

_kinds = {Text: "text", Verdict: "verdict", Table: "table", Figure: "figure", Code: "code"}


class PublishError(OSError):
    """A report that did not reach the server as a whole."""


def parts(report):
    """The rows of a report, (kind, content), the first its head."""
    rows = []
    for section in report.sections:
        rows.append(("section", {"title": section.title}))
        for part in section.parts:
            content = {k: sorted(v) if isinstance(v, set) else v for k, v in dataclasses.asdict(part).items()}
            if isinstance(part, Table):
                content["rows"] = [[str(v) for v in row] for row in part.rows]
            kind = _kinds[type(part)]
            if len(json.dumps(content).encode()) > PART_BYTES:
                name = content.get("title") or content.get("caption") or kind
                kind, content = "text", {"text": "%s is too large for this page; the HTML file has it." % name, "note": True}
            rows.append((kind, content))
    verdicts = [c["verdict"] for k, c in rows if k == "verdict"]
    head = {
        "title": report.title, "question": report.question, "facts": [[str(k), str(v)] for k, v in report.facts], "parts": len(rows),
        "verdicts": {v: verdicts.count(v) for v in ("met", "missed", "undecided")},
        "light": vector.variables(False), "dark": vector.variables(True),
    }  # fmt: skip
    rows.insert(0, ("head", head))
    size = sum(len(json.dumps(content)) for _, content in rows)
    if size > REPORT_BYTES or len(rows) > PARTS:
        raise PublishError("publish %s: %d bytes in %d parts; the limits are %d and %d" % (report.title, size, len(rows), REPORT_BYTES, PARTS))
    return rows


def token():
    """The collector's token, from the file that PILLION_OML_TOKEN_FILE names; None without."""
    path = os.environ.get("PILLION_OML_TOKEN_FILE")
    if not path:
        return None
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def publish(report, collector, token=None, timeout=TIMEOUT):
    """Send a report to a collector and wait until all of it is stored there."""
    name = report.experiment or "experiment"
    rows = parts(report)
    oml = OMLBase(APPLICATION, DOMAIN, "pillion.report", "tcp:" + collector, token=token, buffer=4 * REPORT_BYTES, argv=["report"])
    oml.addmp(POINT, "experiment:string hash:string report:string part:uint32 kind:string body:string")
    oml.start()
    number = secrets.token_hex(8)
    for i, (kind, content) in enumerate(rows):
        oml.inject(POINT, [name, report.hash, number, i, kind, json.dumps(content, ensure_ascii=False)])
    lost = oml.close(timeout)
    if lost or oml.dropped:
        raise PublishError("publish to %s: %d of %d parts were not stored within %g s" % (collector, lost + oml.dropped, len(rows), timeout))
    if oml.thinned:
        raise PublishError("publish to %s: the collector is busy and requests fewer rows: try again later" % collector)
    return number
