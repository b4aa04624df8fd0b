//go:build long

package lab_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLongExperimentInALab: the runner starts the lab, marks by hand what the treatments ask
// for, finds the base bare, and removes everything.
func TestLongExperimentInALab(t *testing.T) {
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

// TestLongExperimentFindsWhatIsAttached: a base that is not bare would make every ratio look
// good.
func TestLongExperimentFindsWhatIsAttached(t *testing.T) {
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

// TestLongExperimentOnAServer: sessions are those of the lab's server; rows arrive there, too.
func TestLongExperimentOnAServer(t *testing.T) {
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

// TestLongExperimentAsDocumented: the first experiment of docs/howto/experiment.md. Its lab has its own
// name. On a busy machine its verdict may be undecided.
func TestLongExperimentAsDocumented(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	name := fmt.Sprintf("t%dx%d", os.Getpid(), beds.Add(1))
	text := strings.Replace(ofClass(t, "docs/howto/experiment.md", "experiment"), "name: marking", "name: "+name, 1)
	said := d.run(strings.ReplaceAll(text, " --wait", " --wait --lock "+filepath.Join(d.folder, "lock")))
	for _, want := range []string{"valid; 3 cells and 1 run of the null arm", "mark=both", "null arm", "finished", "target: rate of mark=both at least 0.1"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	expectGone(t, name)
}
