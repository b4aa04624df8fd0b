package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pillion.dev/internal/free"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/lab"
)

// trial is an experiment in a folder of its own, with a lab that nothing else uses.
type trial struct {
	t                  *testing.T
	folder, name, port string
}

func newTrial(t *testing.T, labText, text string) *trial {
	t.Helper()
	namespace.NeedRoot(t)
	x := &trial{t: t, folder: t.TempDir(), name: fmt.Sprintf("t%dx%d", os.Getpid(), beds.Add(1)), port: strconv.Itoa(free.Port(t))}
	for name, content := range map[string]string{
		"lab.yaml": "name: " + x.name + "\n" + strings.ReplaceAll(labText, "PORT", x.port), "experiment.yaml": text,
	} {
		if err := os.WriteFile(filepath.Join(x.folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if names, err := lab.List(); err == nil && slices.Contains(names, x.name) {
			t.Errorf("lab %s is left", x.name)
			if err := lab.Down(context.Background(), x.name); err != nil {
				t.Error(err)
			}
		}
	})
	return x
}

// run runs a verb and returns what it printed.
func (x *trial) run(verb string, arguments ...string) (string, error) {
	arguments = append([]string{"experiment", verb, "experiment.yaml"}, arguments...)
	if verb == "run" || verb == "resume" {
		arguments = append(arguments, "--agent", agentPath, "--lock", filepath.Join(x.folder, "lock"))
	}
	command := exec.CommandContext(x.t.Context(), cliPath, arguments...)
	command.Dir, command.Env = x.folder, append(os.Environ(), "HOME="+x.folder, "NO_COLOR=1")
	said, err := command.CombinedOutput()
	return string(said), err
}

type trialRow struct {
	Factors  map[string]string
	Valid    bool
	Kept     bool
	Why      string
	Measures map[string]float64
	Counters map[string]any
}

func (x *trial) rows() []trialRow {
	x.t.Helper()
	return rowsIn(x.t, filepath.Join(x.folder, "trial-results"))
}

// rowsIn are the rows of the journal in a folder.
func rowsIn(t *testing.T, folder string) []trialRow {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []trialRow
	for line := range strings.Lines(string(text)) {
		var row trialRow
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// trialText is an experiment on packets that a ping sends.
const trialText = `experiment: trial
lab: lab.yaml
seed: 2
factors: {mark: [none, delay, both], every: [1, 4]}
exclude: ["mark=none every=4"]
treatments:
  mark:
    none: {expect: bare}
    delay: {session: {modules: [delay], sampling: {every: "{every}"}}, expect: "marked > 0 && accepted == marked"}
    both: {session: {sampling: {every: "{every}"}}, expect: "marked > 0 && accepted == marked"}
run:
  command: "ping -q -c 40 -i 0.005 {address6.b} | awk -F'[ /=]+' '/received/ {{r=$4}} /^rtt/ {{print \"{{\\\"received\\\": \" r \", \\\"rtt_ms\\\": \" $7 \"}}\"}}'"
  settle: 10ms
measures: {rtt: {field: rtt_ms, unit: ms, better: lower}}
invalid: "received < 40"
response: {log_ratio: rtt, to: {mark: none}}
targets: [{where: "mark=both every=1", at_most: 1000}]
stop: {blocks: 2}
environment: {pin: {a: 0}}
`

// TestExperimentRowsAreStreams: rows reach a server like those of every application, with
// their types, once each.
func TestExperimentRowsAreStreams(t *testing.T) {
	t.Parallel()
	b := service(t, "hosts: {noc: {}, a: {}}\nlinks: [{ends: [noc, a]}]\nservice: {server: noc, agents: []}\n")
	folder := t.TempDir()
	path := filepath.Join(folder, "experiment.yaml")
	text := `experiment: rows
factors: {mode: [none, both]}
run: {command: 'echo "{{\"t\": 1}}"; echo "{{\"rate\": $((7 + {position})), \"ok\": {attempt}}}"', settle: 0s}
measures: {rate: {field: rate}}
invalid: "ok == 1 && rate == 7"
stop: {blocks: 3}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	flags := []string{path, "--results", filepath.Join(folder, "r"), "--collector", "localhost", "--lock", filepath.Join(folder, "lock")}
	said := b.pillion(append([]string{"experiment", "run"}, flags...)...)
	b.reaches(9, "SELECT count(*) FROM oml_rows_experiment_runs WHERE experiment = 'rows' AND kept AND length(hash) = 64")
	b.reaches(3, "SELECT count(*) FROM oml_rows_experiment_runs WHERE NOT valid AND why = 'ok == 1 && rate == 7 (ok is 1, rate is 7)'")
	b.reaches(3*7, "SELECT sum(measure_rate) FROM oml_rows_experiment_runs WHERE NOT valid")
	b.reaches(9, "SELECT count(*) FROM oml_rows_experiment_intervals WHERE field = 't' AND value = 1")
	b.pillion(append([]string{"experiment", "resume"}, flags...)...)
	b.reaches(9, "SELECT count(*) FROM oml_rows_experiment_runs")
	// A runner that was killed does not know what has arrived: it reports again, and nothing is
	// stored twice.
	reported := filepath.Join(folder, "r", "reported")
	state, err := os.ReadFile(reported)
	if err != nil || !strings.Contains(string(state), `"rows": 9`) {
		t.Fatalf("reported is %s, %v", state, err)
	}
	for _, rows := range []string{`"rows": 0`, `"rows": 4`} {
		if err := os.WriteFile(reported, []byte(strings.Replace(string(state), `"rows": 9`, rows, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		b.pillion(append([]string{"experiment", "resume"}, flags...)...)
		if again, err := os.ReadFile(reported); err != nil || string(again) != string(state) {
			t.Errorf("reported is %s, %v, want %s", again, err, state)
		}
	}
	b.reaches(9, "SELECT count(*) FROM oml_rows_experiment_runs")
	b.reaches(9, "SELECT count(*) FROM oml_rows_experiment_intervals WHERE field = 't' AND value = 1")
	file := filepath.Join(folder, "runs.parquet")
	b.pillion("export", "oml_rows_experiment_runs", "-f", file)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if rows := parquetRows(t, content); rows != 9 {
		t.Errorf("%d rows in the file\n%s", rows, said)
	}
}
