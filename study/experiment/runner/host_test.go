package runner

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pillion.dev/study/experiment"
)

// sshHere puts an ssh on the path that runs what it is given on this machine, in a shell as
// the other side does.
func sshHere(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	program := "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n"
	if err := os.WriteFile(filepath.Join(folder, "ssh"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
}

// TestHostsBySSH: commands on other hosts get their quotes, are interrupted when they are
// stopped, and print a last object then.
func TestHostsBySSH(t *testing.T) {
	sshHere(t)
	folder := t.TempDir()
	o, _ := options(t, `experiment: remote
hosts: {a: {ssh: root@a}, here: {local: true}}
factors: {mode: [none, both]}
treatments:
  mode:
    both:
      on: a
      start: "touch '`+folder+`/it''s on'"
      stop: "rm '`+folder+`/it''s on'"
      command: |
        trap "echo '{\"count\": 7}'; exit" INT
        echo works
        while :; do sleep 0.01; done
      ready: works
      expect: "count == 7"
run:
  on: a
  command: |
    echo "{\"rate\": $(ls '`+folder+`' | wc -l), \"mode\": \"{mode}\"}"
  settle: 0s
measures: {rate: {field: rate}}
invalid: '(mode == "both") != (rate == 1)'
stop: {blocks: 1}
environment: {pin: {a: 0}}
`)
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, row := range rowsOf(t, o.Folder) {
		if !row.Valid {
			t.Errorf("row %+v", row)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestEnvironmentOfHosts: each host is described by the same facts, however it is reached;
// differences and changes are named.
func TestEnvironmentOfHosts(t *testing.T) {
	folder := t.TempDir()
	// The other host has a kernel of its own, and another one after the load.
	program := "#!/bin/sh\nfor last; do :; done\nsh -c \"$last\" | sed \"s/^$(uname -r)\\$/0.0.$(ls FOLDER | wc -l)/\"\n"
	if err := os.WriteFile(filepath.Join(folder, "ssh"), []byte(strings.ReplaceAll(program, "FOLDER", folder)), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	o, log := options(t, `experiment: hosts
hosts: {a: {ssh: root@a}, here: {local: true}, away: {agent: north}}
factors: {mode: [none]}
run: {command: "touch `+folder+`/again; echo '{{\"rate\": 1}}'", settle: 0s}
measures: {rate: {field: rate}}
stop: {blocks: 1}
`)
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(o.Folder, experiment.DesignFile))
	var design struct {
		Environment struct {
			Kernel string
			Hosts  map[string]map[string]string
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &design)
	}
	if err != nil {
		t.Fatal(err)
	}
	e := design.Environment
	for name, want := range e.Hosts["here"] {
		if got := e.Hosts["a"][name]; got != want && name != "kernel" {
			t.Errorf("%s of the host that ssh reaches is %q, want %q", name, got, want)
		}
	}
	if len(e.Hosts["here"]) < 8 || e.Hosts["here"]["kernel"] != e.Kernel || e.Hosts["a"]["kernel"] != "0.0.1" {
		t.Errorf("environment is %s", text)
	}
	if !strings.Contains(e.Hosts["away"]["incomplete"], "none is selected") {
		t.Errorf("what is known of a host without a server is %v", e.Hosts["away"])
	}
	for _, want := range []string{"the hosts differ: kernel: 0.0.1 of a, " + e.Kernel + " of here\n",
		`the environment has changed: seen after 1 complete blocks: hosts.a.kernel: "0.0.1", now "0.0.2"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in\n%s", want, log)
		}
	}
	hosts, changes := experiment.EnvironmentFindings(o.Folder)
	if len(hosts) != 1 || len(changes) != 1 {
		t.Errorf("in the results are %q and %q", hosts, changes)
	}
}

func TestHostsThatCannotRunCommands(t *testing.T) {
	o, _ := options(t, `experiment: remote
hosts: {a: {agent: north}}
factors: {mode: [none]}
run: {command: "true"}
measures: {rate: {field: rate}}
stop: {blocks: 1}
`)
	r := &runner{Options: o, spec: o.Spec}
	if _, err := r.place("a"); err == nil || !strings.Contains(err.Error(), "it has no ssh and is not local") {
		t.Errorf("error is %v", err)
	}
	if _, err := r.place("b"); err == nil {
		t.Error("a host that is not in the file was accepted")
	}
}

func TestWhatBpftoolLists(t *testing.T) {
	const sockets = "\nsk       RefCnt Type Proto  Iface R Rmem   User   Inode\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing": {`[{"xdp":[],"tc":[],"flow_dissector":[],"netfilter":[]}]` + sockets, nil},
		"programs": {`[{"xdp":[{"devname":"eth0","ifindex":2,"mode":"driver","id":9}],"tc":[{"devname":"eth1","ifindex":3,"kind":"tcx/egress","name":"source_tc","prog_id":8}]}]` + sockets,
			[]string{"program  9 at xdp  of eth0", "program source_tc 8 at tc tcx/egress of eth1"}},
		"socket": {`[{"xdp":[],"tc":[]}]` + sockets + "00000 3      3    0003   2     1     0      0      18000\n", []string{"packet sockets: 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseAttached(c.text); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("found %q, %v, want %q", got, err, c.want)
			}
		})
	}
	if _, err := parseAttached("bpftool: not found"); err == nil {
		t.Error("an error message was accepted")
	}
}

func FuzzAttached(f *testing.F) {
	f.Add(`[{"xdp":[{"devname":"eth0","id":9}],"tc":[]}]` + "\nsk\n1\n")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parseAttached(text) })
}

func TestProcessors(t *testing.T) {
	before, ok := parseProcessors([]byte("cpu  100 0 50 800 10 5 5 30 0 0"), now())
	if !ok || math.Abs(before.busy-1.6) > 1e-9 || before.stolen != 0.3 || math.Abs(before.all-10) > 1e-9 {
		t.Fatalf("read %+v, %v", before, ok)
	}
	after, _ := parseProcessors([]byte("cpu  150 0 50 810 10 5 5 70 0 0"), before.at.Add(leastPause))
	if load := after.loadSince(before); load == nil || *load < 4.99 || *load > 5.01 {
		t.Errorf("load is %v", load)
	}
	if steal := after.stealSince(before); steal == nil || *steal < 0.39 || *steal > 0.41 {
		t.Errorf("steal is %v", steal)
	}
	if _, ok := parseProcessors([]byte("cpu0 1 2"), now()); ok {
		t.Error("a line that is too short was accepted")
	}
}

// BenchmarkRun measures what one run costs with an empty load and no pause: the runner's own
// time, of which the bar is 50 ms, and starting one shell.
func BenchmarkRun(b *testing.B) {
	path := filepath.Join(b.TempDir(), "experiment.yaml")
	text := `experiment: cost
factors: {mode: [none, both], size: [small, large]}
run: {command: 'echo "{{\"rate\": 1}}"', settle: 0s}
measures: {rate: {field: rate}}
response: {log_ratio: rate, to: {mode: none}}
design: {null_arm: true}
stop: {effect: mode, half_width: 1%, pilot: 20, most: 20}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	runs, overhead := 0, 0.0
	for b.Loop() {
		folder := b.TempDir()
		file := filepath.Join(folder, "experiment.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
		log, err := os.Create(filepath.Join(folder, "log"))
		if err != nil {
			b.Fatal(err)
		}
		if err := carryOut(b.Context(), file, log); err != nil {
			b.Fatal(err)
		}
		rows := journalOf(b, filepath.Join(folder, "results"))
		for _, row := range rows {
			overhead += row.Overhead
		}
		runs += len(rows)
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(runs), "ms/run")
	b.ReportMetric(1000*overhead/float64(runs), "ms-overhead/run")
}
