//go:build long

package server

import "testing"

// TestLongPythonAnalysis publishes the report of an experiment, with its figures, and reads
// it back.
func TestLongPythonAnalysis(t *testing.T) {
	analysis(t, `
import json, sys
import pillion
from pillion.analysis.simulate import simulate
from pillion.report.__main__ import main

folder, collector, server = sys.argv[1:]
simulate(folder, {"mark": ["none", "b\\oth\t'x' ü <b>"]}, name="publi\"shed", blocks=4, targets=[{"where": {"mark": "b\\oth\t'x' ü <b>"}, "at_least": 0.9}])
assert main([folder, "-o", folder + "/r.html", "--publish", collector]) == 0
rows = pillion.connect(server).stream("oml_experiment_report_part", where={"experiment": "publi\"shed"}).sort_values("part")
head = json.loads(rows["body"].iloc[0])
assert list(rows["part"]) == list(range(head["parts"] + 1)), rows["part"]
bodies = [json.loads(body) for body in rows["body"]]
assert any("b\\oth\t'x' ü <b>" in json.dumps(body, ensure_ascii=False).replace("\\t", "\t").replace("\\\\", "\\") for body in bodies)
assert sum(body.get("svg", "").startswith("<svg") for body in bodies) >= 5
assert head["verdicts"]["met"] == 1 and "--c0:" in head["dark"], head
`)
}
