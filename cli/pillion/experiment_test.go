package pillion

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/cli/commandtest"
)

const experimentText = `experiment: demo
description: Is b faster than a?
seed: 4
factors: {mode: [a, b], size: {small: {n: 10}, large: {n: 20}}}
exclude: ["mode=b size=large"]
run:
  command: 'test "{mode}" = a && r=$(({n} * 10)) || r=$(({n} * 12)); echo "{{\"rate\": $((r + {block}))}}"'
  settle: 0s
  duration: 10ms
measures: {rate: {field: rate, unit: packets/s, better: higher}}
response: {log_ratio: rate, to: {mode: a}}
targets: [{where: "mode=b", at_least: 1.1}, {where: "mode=b", at_least: 1.5}, {where: "mode=b", within: 2%}]
design: {null_arm: true}
stop: {effect: mode, half_width: 5%, pilot: 4, most: 9}
`

// expect runs a command and checks its exit code and a part of what it prints.
func (p *program) expect(code int, want string, arguments ...string) string {
	p.t.Helper()
	out, errorText, got := p.run(append([]string{"experiment"}, arguments...)...)
	if got != code || !strings.Contains(out+errorText, want) {
		p.t.Errorf("experiment %v: exit code %d, want %d with %q:\n%s%s", arguments, got, code, want, out, errorText)
	}
	return out
}

func TestExperiment(t *testing.T) {
	p := newProgram(t, nil)
	p.write("demo.yaml", experimentText, 0o644)
	p.expect(0, "demo.yaml: valid; 3 cells and 2 runs of the null arm in a block, design ", "check", "demo.yaml")
	commandtest.CompareGolden(t, "testdata/experiment-plan.golden", p.expect(0, "", "plan", "demo.yaml"))
	commandtest.CompareGolden(t, "testdata/experiment-plan-json.golden", p.expect(0, "", "plan", "demo.yaml", "--blocks", "1", "-o", "json"))
	p.expect(2, "hint: pillion experiment run begins it", "status", "demo.yaml")
	p.expect(0, "finished: the half-width reached is", "run", "demo.yaml", "--lock", "lock")
	p.expect(0, "", "status", "demo-results")
	text := p.expect(0, "target: rate of mode=b at least 1.1", "status", "demo.yaml")
	for _, want := range []string{"at least 1.1  ", " met\n", "at least 1.5  ", " missed\n", "null arm"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	p.expect(0, `"verdict": "missed"`, "status", "demo.yaml", "-o", "json")
	p.expect(2, "hint: continue with pillion experiment resume", "run", "demo.yaml", "--lock", "lock")
	p.expect(0, "resuming: 4 blocks complete, 0 runs", "resume", "demo.yaml", "--lock", "lock")
	p.expect(0, "as measured", "plan", "demo.yaml")
	p.write("demo.yaml", strings.Replace(experimentText, "seed: 4", "seed: 5", 1), 0o644)
	for _, verb := range []string{"resume", "status"} {
		arguments := []string{verb, "demo.yaml"}
		if verb == "resume" {
			arguments = append(arguments, "--lock", "lock")
		}
		p.expect(2, "the design has changed; seed: 4, now 5", arguments...)
	}
}

// TestQuickExperiment: three blocks in a folder of their own, which every verb recognises.
func TestQuickExperiment(t *testing.T) {
	p := newProgram(t, nil)
	p.write("demo.yaml", strings.Replace(experimentText, `$((r + {block}))`, `$((r + ${{QUICK:-0}}))`, 1)+"invalid: \"rate > 0\"\n", 0o644)
	p.expect(0, "no figures", "run", "demo.yaml", "--quick", "--lock", "lock")
	p.expect(2, "hint: pillion experiment run begins it", "status", "demo.yaml")
	for _, arguments := range [][]string{{"demo-quick"}, {"demo.yaml", "--results", "demo-quick"}} {
		out := p.expect(0, "a proof that the experiment works; no figures", append([]string{"status"}, arguments...)...)
		if !strings.Contains(out, "3 of 3 (fixed number)") {
			t.Errorf("status is\n%s", out)
		}
	}
	p.expect(0, `"ratio": 1.19`, "status", "demo-quick", "-o", "json") // (120 + 1) / (100 + 1)
	p.expect(0, "3 blocks complete", "resume", "demo.yaml", "--results", "demo-quick", "--lock", "lock")
}

// TestInterruptedExperiment: an error says how to continue.
func TestInterruptedExperiment(t *testing.T) {
	p := newProgram(t, nil)
	p.write("demo.yaml", strings.Replace(experimentText, "command: '", "attempts: 1\n  command: 'test -e ready || test {block} = 0 || exit 3; ", 1), 0o644)
	p.expect(1, "6 runs are in demo-results; continue with: pillion experiment resume demo.yaml\n", "run", "demo.yaml", "--lock", "lock")
	p.write("ready", "", 0o644)
	p.expect(0, "finished", "resume", "demo.yaml", "--lock", "lock")
}

// TestExperimentWithoutAValidRun: a file that has to be corrected is a new design.
func TestExperimentWithoutAValidRun(t *testing.T) {
	p := newProgram(t, nil)
	p.write("demo.yaml", strings.Replace(experimentText, "command: '", "attempts: 1\n  command: 'exit 3; ", 1), 0o644)
	p.expect(1, "no run in demo-results counts; if the file has to be corrected, remove that folder and begin again with: pillion experiment run demo.yaml\n",
		"run", "demo.yaml", "--lock", "lock")
	p.expect(0, "unfinished: 0 of 4 blocks; the last run was invalid: the load failed", "status", "demo.yaml")
}

func TestExperimentMistakes(t *testing.T) {
	p := newProgram(t, nil)
	p.write("bad.yaml", strings.NewReplacer("exclude: [", "exclude: [\"mode=c\", ", "rate: rate", "rate: x").Replace(experimentText), 0o644)
	p.expect(2, "line 5: exclude[0]: factor mode has no level \"c\"", "check", "bad.yaml")
	p.write("two.yaml", strings.NewReplacer("log_ratio: rate", "log_ratio: speed", "half_width: 5%, pilot: 4", "half_width: 5%, pilot: 1").Replace(experimentText), 0o644)
	p.expect(2, "check two.yaml: rejected: 5 mistakes", "check", "two.yaml")
	p.expect(1, "hint: check the path", "check", "absent.yaml")
	p.write("demo.yaml", experimentText, 0o644)
	p.expect(2, "is not between 0 and 1000", "plan", "demo.yaml", "--blocks", "-1")
}

func TestExperimentReportWithoutPython(t *testing.T) {
	p := newProgram(t, nil)
	p.write("demo.yaml", experimentText, 0o644)
	p.expect(2, "no results", "report", "demo.yaml")
	p.expect(0, "finished", "run", "demo.yaml", "--lock", "lock")
	p.write("packageless-python", "#!/bin/sh\nexit 1\n", 0o755)
	p.expect(1, "run pip install './python[analysis]' in a virtual environment, and name its Python", "report", "demo.yaml", "--python", "./packageless-python")
	p.expect(1, "hint: name a Python with --python or PILLION_PYTHON", "report", "demo.yaml", "--python", "./absent-python")
	p.write("python", "#!/bin/sh\n[ \"$1\" = -c ] && exit 0\nshift 3\nprintf '%s\\n' \"$@\" > arguments\n", 0o755)
	p.expect(0, "out.html, and published on the page of noc:3003", "report", "demo-results", "--python", "./python", "--paper", "li-2015", "-f", "out.html", "--publish", "noc:3003")
	if text, err := os.ReadFile(filepath.Join(p.home, "arguments")); err != nil || !strings.HasSuffix(string(text), "-\n--paper\nli-2015\n--publish\nnoc:3003\n") {
		t.Errorf("arguments are %q, %v", text, err)
	}
}
