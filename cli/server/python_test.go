package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pillion.dev/internal/free"
)

// python runs a program with the modules in a folder.
func python(t *testing.T, modules, program string, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "python3", append([]string{"-c", program}, arguments...)...)
	command.Env = append(os.Environ(), "PYTHONPATH="+modules, "PYTHONDONTWRITEBYTECODE=1")
	if said, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

func needPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 on this machine")
	}
}

// TestPythonClient lets Pillion's own client report, with a restart of the server.
func TestPythonClient(t *testing.T) {
	needPython(t)
	p := serverProcess(t)
	modules, err := filepath.Abs("../../python")
	if err != nil {
		t.Fatal(err)
	}
	began := filepath.Join(t.TempDir(), "began")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		python(t, modules, `
import sys, time, os
from pillion.oml import OMLBase
oml = OMLBase("app", "python", "p1", "tcp:" + sys.argv[1], argv=["x"])
oml.addmp("t", "n:uint64 d:double s:string v:[double]")
oml.start()
oml.inject_metadata("t", "unit", "s", "d")
for n in range(5000):
    assert oml.inject("t", [2**63 + n, n / 10, "wört\t%d" % n, [0.1, n]])
    if n == 2500:
        open(sys.argv[2], "w").close()
        time.sleep(0.2)
lost = oml.close(60)
assert lost == 0 and oml.dropped == 0, (lost, oml.dropped)
`, p.oml, began)
	}()
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for {
		if _, err := os.Stat(began); err == nil {
			break
		}
		select {
		case <-ended:
			t.Fatal("the program ended early")
		case <-ticks.C:
		}
	}
	p.end(syscall.SIGKILL)
	p.begin()
	<-ended
	p.end(syscall.SIGTERM)
	got := ask(t, p.folder, `SELECT count(*), count(DISTINCT oml_seq), min(n), max(n), max(d), bool_and(s = 'wört' || chr(9) || (oml_seq - 1)), min(v) FROM oml_python_app_t`)
	if want := "5000|5000|9223372036854775808|9223372036854780807|499.9|true|[0.1, 0]"; got[0] != want {
		t.Errorf("rows %s, want %s", got[0], want)
	}
	if notes := ask(t, p.folder, "SELECT subject, key, value FROM oml_metadata"); len(notes) != 1 || notes[0] != ".app_t.d|unit|s" {
		t.Errorf("notes %q", notes)
	}
}

// TestOML4Py lets unmodified oml4py from PyPI report. Without access to PyPI it is skipped,
// or fails if PILLION_TEST_PYPI is set.
func TestOML4Py(t *testing.T) {
	needPython(t)
	modules := t.TempDir()
	install := exec.CommandContext(t.Context(), "python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
		"--retries", "0", "--timeout", "10", "--no-deps", "--target", modules, "oml4py==2.10.4")
	if said, err := install.CombinedOutput(); err != nil {
		if os.Getenv("PILLION_TEST_PYPI") != "" {
			t.Fatalf("install oml4py: %v: %s", err, said)
		}
		t.Skipf("cannot install oml4py: %v: %.200s", err, strings.TrimSpace(string(said)))
	}
	p := serverProcess(t)
	python(t, modules, `
import sys, math
from oml4py import OMLBase
server, port = sys.argv[1].split(":")
oml = OMLBase("app", "foreign", "p2", "tcp:%s:%s" % (server, port))
assert oml.oml
oml.addmp("t", "num:int32 dbl:double txt:string flag:bool big:int64")
oml.start()
for n in range(200):
    oml.inject("t", (n, math.sin(n) / 1e7, "a\tb\\c%d" % n, n % 2 == 0, 12.0))
oml.addmp("late", "val:double")
oml.inject("late", [float("nan")])
oml.inject_metadata("t", "unit", "V", "dbl")
oml.close()
`, p.oml)
	p.end(syscall.SIGTERM)
	got := ask(t, p.folder, `SELECT count(*), min(oml_seq), max(oml_seq), sum(num)::BIGINT, max(abs(dbl - sin(num) / 1e7)) < 1e-18, bool_and(flag = (num % 2 = 0)),
		bool_and(txt = 'a' || chr(9) || 'b\c' || num), bool_and(big = 12) FROM oml_foreign_app_t`)
	if want := "200|0|199|19900|true|true|true|true"; got[0] != want {
		t.Errorf("rows %s, want %s", got[0], want)
	}
	if late := ask(t, p.folder, "SELECT val FROM oml_foreign_app_late"); len(late) != 1 || late[0] != "NaN" {
		t.Errorf("late %q", late)
	}
	if notes := ask(t, p.folder, "SELECT subject, key, value FROM oml_metadata"); len(notes) != 1 || notes[0] != ".app_t.dbl|unit|V" {
		t.Errorf("notes %q", notes)
	}
	if ends := ask(t, p.folder, "SELECT gaps, faults, tuples FROM oml_connections"); len(ends) != 1 || ends[0] != "0|0|202" {
		t.Errorf("connections %q", ends)
	}
}

// analysisPython has the packages of the analysis; .ci/install test makes it.
const analysisPython = "/usr/local/lib/pillion/python/bin/python"

// analysis runs a program with the packages of the analysis beside a server. Its arguments
// are a folder, the server's collector and its address.
func analysis(t *testing.T, program string) {
	t.Helper()
	if _, err := os.Stat(analysisPython); err != nil {
		t.Skip("no Python with the packages of the analysis: run .ci/install test")
	}
	address := free.Address(t)
	p := serverProcess(t, "--http", address)
	modules, err := filepath.Abs("../../python")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), analysisPython, "-c", program, filepath.Join(t.TempDir(), "results"), p.oml, address)
	command.Env = append(os.Environ(), "PYTHONPATH="+modules, "PYTHONDONTWRITEBYTECODE=1", "MPLBACKEND=svg", "PILLION_DATA="+p.folder,
		"XDG_CONFIG_HOME="+t.TempDir(), "PILLION_SERVER=", "PILLION_TOKEN=", "PILLION_TOKEN_FILE=")
	if said, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// TestPythonAnalysis publishes a short report to a server, and reads it and other streams
// back over TLS with the administrator's token of this machine.
func TestPythonAnalysis(t *testing.T) {
	analysis(t, `
import json, sys
import pillion
from pillion.report import publish
from pillion.report.document import Code, Figure, Report, Section, Table, Text, Verdict

folder, collector, server = sys.argv[1:]
odd = "b\\oth\t'x' ü <b>"
section = Section("S", [Text(odd), Verdict("met", odd), Table(odd, ["a"], [[odd]], {0}), Figure("F", odd, "<svg></svg>"), Code("C", "x\n" * 1000)])
publish.publish(Report(odd, "?", [("runs", 7)], [section], "publi\"shed", "h"), collector)
rows = pillion.connect(server).stream("oml_experiment_report_part", where={"experiment": "publi\"shed"}).sort_values("part")
bodies = [json.loads(body) for body in rows["body"]]
head = bodies[0]
assert list(rows["part"]) == list(range(head["parts"] + 1)), rows["part"]
assert [body.get("text") for body in bodies] == [None, None, odd, odd, None, None, "x\n" * 1000], bodies
assert bodies[4]["rows"] == [[odd]] and bodies[5]["svg"] == "<svg></svg>"
assert head["title"] == odd and head["verdicts"]["met"] == 1 and "--c0:" in head["dark"], head
heads = pillion.connect(server).call("DataService/ListRows", stream="oml_experiment_report_part", where={"kind": "head"})
assert len(heads["rows"]) == 1
empty = pillion.flows(server)
assert len(empty) == 0 and empty.attrs["units"]["delay_p50_ns"] == "ns", empty.attrs
assert pillion.windows("a", "b", server).empty
try:
    pillion.experiment("unknown", server=server)
    raise SystemExit("an unknown experiment was found")
except LookupError:
    pass
`)
}
