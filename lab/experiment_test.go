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

	"pillion.dev/internal/test/free"
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

// TestExperimentInALab: the runner starts the lab, marks by hand what the treatments ask
// for, finds the base bare, and removes everything.
func TestExperimentInALab(t *testing.T) {
	t.Parallel()
	x := newTrial(t, "hosts: {a: {}, b: {}}\nlinks: [{ends: [a, b]}]\n", trialText)
	said, err := x.run("run")
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	rows := x.rows()
	if len(rows) != 10 {
		t.Fatalf("%d runs\n%s", len(rows), said)
	}
	for _, row := range rows {
		marked, _ := row.Counters["marked"].(float64)
		want := map[string]float64{"1": 40, "4": 10}[row.Factors["every"]]
		if row.Factors["mark"] == "none" {
			want = 0
		}
		if !row.Valid || marked < want || marked > want+8 { // neighbour discovery, which may be marked too
			t.Errorf("%v: valid %v %s, %v marked, want %v", row.Factors, row.Valid, row.Why, marked, want)
		}
	}
	if !strings.Contains(said, " met") {
		t.Errorf("no verdict:\n%s", said)
	}
	var design struct {
		Environment map[string]any `json:"environment"`
	}
	text, err := os.ReadFile(filepath.Join(x.folder, "trial-results", "experiment.json"))
	if err == nil {
		err = json.Unmarshal(text, &design)
	}
	if err != nil || design.Environment["kernel"] == nil || !strings.Contains(fmt.Sprint(design.Environment["hosts"]), "offloads.b.rx-gro") || design.Environment["mitigations"] == nil {
		t.Errorf("environment is %v, %v", design.Environment, err)
	}
}

// TestExperimentFindsWhatIsAttached: a base that is not bare would make every ratio look
// good.
func TestExperimentFindsWhatIsAttached(t *testing.T) {
	t.Parallel()
	x := newTrial(t, "hosts: {a: {run: ['"+agentPath+" destination --dev b --json']}, b: {}}\nlinks: [{ends: [a, b]}]\n",
		strings.Replace(trialText, "settle: 10ms", "settle: 10ms\n  attempts: 1", 1))
	said, err := x.run("run")
	for err == nil && len(x.rows()) == 0 { // the host's command may need longer than the first run
		said, err = x.run("resume")
	}
	if err == nil || !strings.Contains(said, "expected bare hosts: program ") || !strings.Contains(said, "at ingress of b on host a") {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestExperimentOnAServer: sessions are those of the lab's server; rows arrive there, too.
func TestExperimentOnAServer(t *testing.T) {
	t.Parallel()
	x := newTrial(t, `hosts: {a: {}, b: {}, noc: {}}
links: [{ends: [a, b]}, {ends: [noc, a]}, {ends: [noc, b]}]
service: {server: noc, agents: [a, b], forward: PORT}
`, strings.NewReplacer("factors: {mark: [none, delay, both], every: [1, 4]}", "factors: {mark: [none, both], every: [1]}",
		`exclude: ["mark=none every=4"]`, "", "blocks: 2", "blocks: 1").Replace(trialText))
	// Only both: delay is gone from the factors.
	path := filepath.Join(x.folder, "experiment.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"), func(line string) bool { return strings.HasPrefix(line, "    delay:") })
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	said, err := x.run("run")
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, row := range x.rows() {
		if row.Factors["mark"] == "both" {
			session, _ := row.Counters["session"].(map[string]any)
			if marked, _ := row.Counters["marked"].(float64); !row.Valid || marked < 40 || session["lost"] != 0.0 {
				t.Errorf("row is %+v", row)
			}
		}
	}
}

// TestExperimentAsDocumented: the first experiment of docs/experiment.md. Its lab has its own
// name. On a busy machine its verdict may be undecided.
func TestExperimentAsDocumented(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	name := fmt.Sprintf("t%dx%d", os.Getpid(), beds.Add(1))
	text := strings.Replace(ofClass(t, "docs/experiment.md", "experiment"), "name: marking", "name: "+name, 1)
	said := d.run(strings.ReplaceAll(text, " --wait", " --wait --lock "+filepath.Join(d.folder, "lock")))
	for _, want := range []string{"valid; 3 cells and 1 run of the null arm", "mark=both", "null arm", "finished", "target: rate of mark=both at least 0.1"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	expectGone(t, name)
}

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
