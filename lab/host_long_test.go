//go:build long

package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pillion.dev/lab"
)

// reach makes host reachable by ssh, at port 22 of its addresses, with keys of the test's own.
// It returns the folder of an ssh for the PATH of experiments, which knows them. On the other
// side pillion-agent is on the PATH.
func (b *bed) reach(host string) string {
	b.t.Helper()
	for _, program := range []string{"/usr/sbin/sshd", "ssh", "ssh-keygen", "bpftool"} {
		if _, err := exec.LookPath(program); err != nil {
			b.t.Fatalf("%v: run '.ci/install test'", err)
		}
	}
	// sshd confines itself there, and does not start without it.
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		b.t.Fatal(err)
	}
	folder := b.t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	for _, key := range []string{"host", "user"} {
		if said, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", in(key)).CombinedOutput(); err != nil {
			b.t.Fatalf("%v\n%s", err, said)
		}
	}
	known, err := os.ReadFile(in("host.pub"))
	if err != nil {
		b.t.Fatal(err)
	}
	real, err := exec.LookPath("ssh")
	if err != nil {
		b.t.Fatal(err)
	}
	for name, text := range map[string]string{
		"known": "* " + string(known),
		"sshd_config": fmt.Sprintf("Port 22\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n"+
			"PermitRootLogin prohibit-password\nSetEnv PATH=%s:/usr/bin:/bin\n", in("host"), in("user.pub"), filepath.Dir(agentPath)),
		"ssh": fmt.Sprintf("#!/bin/sh\nexec %s -F none -i %s -o UserKnownHostsFile=%s -o StrictHostKeyChecking=yes \"$@\"\n", real, in("user"), in("known")),
	} {
		if err := os.WriteFile(in(name), []byte(text), 0o755); err != nil {
			b.t.Fatal(err)
		}
	}
	sshd := exec.Command("/usr/sbin/sshd", "-D", "-e", "-f", in("sshd_config"))
	sshd.Stdout, sshd.Stderr = b.t.Output(), b.t.Output()
	sshd.WaitDelay = 2 * time.Second // what serves a connection outlives it
	if err := b.Start(host, sshd); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = sshd.Process.Signal(os.Interrupt)
		_ = sshd.Wait()
	})
	eventually(b.t, "sshd to listen", func() bool {
		listening := b.exec(host, "ss", "--no-header", "--listening", "--tcp", "--numeric", "sport = :22")
		return strings.Contains(listening, "0.0.0.0:22") && strings.Contains(listening, "[::]:22")
	})
	return folder
}

// outside carries out an experiment that knows nothing of the lab, from one of its hosts.
type outside struct {
	*bed
	t            *testing.T
	from, folder string
	environment  []string
	flags        []string
}

func (o *outside) begin(verb string) (*exec.Cmd, *strings.Builder) {
	o.t.Helper()
	arguments := append(slices.Clone(o.flags), "experiment", verb, filepath.Join(o.folder, "experiment.yaml"), "--results", filepath.Join(o.folder, "r"))
	if verb == "run" || verb == "resume" {
		arguments = append(arguments, "--agent", agentPath, "--lock", filepath.Join(o.folder, "lock"))
	}
	command := exec.CommandContext(o.t.Context(), cliPath, arguments...)
	command.Env = append(append(os.Environ(), "NO_COLOR=1"), o.environment...)
	said := &strings.Builder{}
	command.Stdout, command.Stderr = said, said
	if err := o.Start(o.from, command); err != nil {
		o.t.Fatal(err)
	}
	return command, said
}

func (o *outside) run(verb string) string {
	o.t.Helper()
	command, said := o.begin(verb)
	if err := command.Wait(); err != nil {
		o.t.Fatalf("experiment %s: %v\n%s", verb, err, said)
	}
	return said.String()
}

// write makes the file of the experiment.
func (o *outside) write(text string) {
	o.t.Helper()
	if err := os.WriteFile(filepath.Join(o.folder, "experiment.yaml"), []byte(text), 0o644); err != nil {
		o.t.Fatal(err)
	}
}

// rows are those of the journal.
func (o *outside) rows() []trialRow {
	o.t.Helper()
	return rowsIn(o.t, filepath.Join(o.folder, "r"))
}

// hosts are the facts of the hosts in the results.
func (o *outside) hosts() map[string]map[string]string {
	o.t.Helper()
	var design struct {
		Environment struct{ Hosts map[string]map[string]string }
	}
	text, err := os.ReadFile(filepath.Join(o.folder, "r", "experiment.json"))
	if err == nil {
		err = json.Unmarshal(text, &design)
	}
	if err != nil {
		o.t.Fatal(err)
	}
	return design.Environment.Hosts
}

// killed begins the experiment, kills the runner once ready says so, and returns.
func (o *outside) killed(what string, ready func() bool) {
	o.t.Helper()
	command, said := o.begin("run")
	o.t.Cleanup(func() {
		if o.t.Failed() {
			o.t.Logf("the first runner said:\n%s", said)
		}
	})
	eventually(o.t, what, ready)
	if err := command.Process.Signal(syscall.SIGKILL); err != nil {
		o.t.Fatal(err)
	}
	_ = command.Process.Release() // its output may be held by what it left
}

const pings = `ping -q -c 40 -i 0.005 ADDRESS | awk -F'[ /=]+' '/received/ {{r=$4}} /^rtt/ {print "{\"received\": " r ", \"rtt_ms\": " $7 "}"}'`

// TestLongExperimentThroughSSH: a real sshd, sessions by hand with one end behind it, and a load
// there that ends when the runner is killed.
func TestLongExperimentThroughSSH(t *testing.T) {
	t.Parallel()
	b := up(t, "hosts: {near: {}, far: {}}\nlinks: [{ends: [near, far]}]\n")
	o := &outside{bed: b, t: t, from: "near", folder: t.TempDir()}
	o.environment = []string{"PATH=" + b.reach("far") + ":" + os.Getenv("PATH")}
	near, far := address(b, "near"), address(b, "far")
	o.write(strings.NewReplacer("FAR", far, "PINGS", strings.ReplaceAll(pings, "ADDRESS", near), "FOLDER", o.folder).Replace(`experiment: trial
hosts: {source: {ssh: root@FAR, device: near}, destination: {local: true, device: far}}
factors: {mark: [none, both]}
treatments:
  mark:
    none: {expect: bare}
    both: {session: {}, expect: "marked > 0 && accepted == marked"}
run:
  on: source
  command: |
    test "$PILLION_FACTOR_MARK" = {mark} || exit 7
    if [ {block} = 1 ] && [ ! -e FOLDER/again ]; then echo $$ > FOLDER/load; sleep 1000; fi
    PINGS
  settle: 10ms
measures: {rtt: {field: rtt_ms}}
invalid: "received < 40"
stop: {blocks: 2}
`))
	load := filepath.Join(o.folder, "load")
	o.killed("the load to run", func() bool { return running(load) })
	eventually(t, "the load on the other host to end with its connection", func() bool { return !running(load) })
	if err := os.WriteFile(filepath.Join(o.folder, "again"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	said := o.run("resume")
	valid := 0
	for _, row := range o.rows() {
		marked, _ := row.Counters["marked"].(float64)
		if row.Factors["mark"] == "both" && row.Valid && marked < 40 || !row.Valid {
			t.Errorf("row is %+v", row)
		}
		if row.Valid && row.Kept {
			valid++
		}
	}
	if valid != 4 {
		t.Errorf("%d valid runs\n%s", valid, said)
	}
	hosts := o.hosts()
	for name, want := range hosts["destination"] {
		if strings.HasPrefix(name, "offloads.") {
			name = "offloads.near." + name[strings.LastIndex(name, ".")+1:]
		}
		if got := hosts["source"][name]; got != want {
			t.Errorf("%s of the host that ssh reaches is %q, want %q", name, got, want)
		}
	}
	if len(hosts["destination"]) < 8 || hosts["source"]["offloads.near.rx-gro"] == "" {
		t.Errorf("hosts are %v", hosts)
	}
}

// TestLongExperimentThroughAgents: hosts with agents of a server, which no lab of the experiment
// knows, the load through ssh. What a killed runner left there is undone by resume.
func TestLongExperimentThroughAgents(t *testing.T) {
	t.Parallel()
	b := service(t, "hosts: {a: {}, b: {}, noc: {}}\nlinks: [{ends: [a, b]}, {ends: [noc, a]}, {ends: [noc, b]}]\nservice: {server: noc, agents: [a, b]}\n")
	o := &outside{bed: b.bed, t: t, from: "noc", folder: t.TempDir(), flags: []string{"--token-file", filepath.Join(b.path("server"), "admin.token")}}
	o.environment = []string{"PATH=" + b.reach("a") + ":" + os.Getenv("PATH"), "HOME=" + b.path("server")}
	far := ""
	for _, link := range b.Spec.Links {
		if slices.Equal(link.Ends, []string{"a", "b"}) {
			far = link.Addresses["b"][0].Addr().String()
		}
	}
	o.write(strings.NewReplacer("NEAR", address(b.bed, "a", "noc"), "PINGS", strings.ReplaceAll(pings, "ADDRESS", far), "FOLDER", o.folder).Replace(`experiment: trial
hosts: {source: {agent: a, ssh: root@NEAR, device: b}, destination: {agent: b, device: a}}
factors: {mark: [none, both]}
treatments:
  mark:
    none: {expect: bare}
    both: {session: {modules: [delay, loss]}, expect: "marked >= 40 && accepted > 0"}
run:
  on: source
  command: |
    if [ {mark} = both ] && [ ! -e FOLDER/again ]; then echo $$ > FOLDER/load; sleep 1000; fi
    PINGS
  settle: 10ms
measures: {rtt: {field: rtt_ms}}
invalid: "received < 40"
stop: {blocks: 1}
`))
	o.killed("the load to run in a session", func() bool { return running(filepath.Join(o.folder, "load")) })
	if said := b.pillion("session", "list"); !strings.Contains(said, "trial-") {
		t.Fatalf("no session is left, so that this test shows nothing:\n%s", said)
	}
	if err := os.WriteFile(filepath.Join(o.folder, "again"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	said := o.run("resume")
	if !strings.Contains(said, "that an interrupted run left") || strings.Contains(b.pillion("session", "list"), "trial-") {
		t.Errorf("the session is left:\n%s", said)
	}
	valid := 0
	for _, row := range o.rows() {
		if row.Valid && row.Kept {
			valid++
		}
	}
	if valid != 2 {
		t.Errorf("%d valid runs: %+v\n%s", valid, o.rows(), said)
	}
	hosts := o.hosts()
	for _, name := range []string{"kernel", "processor", "processors", "machine", "smt"} {
		if hosts["source"][name] != hosts["destination"][name] {
			t.Errorf("%s through ssh is %q, of the agent %q", name, hosts["source"][name], hosts["destination"][name])
		}
	}
	if hosts["destination"]["offloads.a.rx-gro"] == "" || hosts["destination"]["version"] == "" || hosts["destination"]["incomplete"] != "" {
		t.Errorf("the agent's host is %v", hosts["destination"])
	}
}

// TestLongKilledExperimentInALab: resume replaces the lab that a killed runner left, and removes it.
func TestLongKilledExperimentInALab(t *testing.T) {
	t.Parallel()
	x := newTrial(t, "hosts: {a: {}, b: {run: ['sleep 10000']}}\nlinks: [{ends: [a, b]}]\n", "")
	gate := filepath.Join(x.folder, "again")
	text := `experiment: trial
lab: lab.yaml
factors: {mark: [none, both]}
treatments: {mark: {none: {expect: bare}, both: {session: {}, expect: "marked > 0"}}}
run:
  command: |
    ping -q -c 3 -i 0.01 {address.b} >/dev/null
    if [ {mark} = both ] && [ ! -e GATE ]; then echo $$ > GATE-load; setsid sleep 1000 & sleep 1000; fi
    echo '{"rate": 1}'
  settle: 0s
measures: {rate: {field: rate}}
stop: {blocks: 2}
`
	if err := os.WriteFile(filepath.Join(x.folder, "experiment.yaml"), []byte(strings.ReplaceAll(text, "GATE", gate)), 0o644); err != nil {
		t.Fatal(err)
	}
	runner := exec.CommandContext(t.Context(), cliPath, "experiment", "run", "experiment.yaml", "--agent", agentPath, "--lock", filepath.Join(x.folder, "lock"))
	runner.Dir = x.folder
	if err := runner.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the load to run", func() bool { return running(gate + "-load") })
	if err := runner.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = runner.Wait() // it was killed
	if names, err := lab.List(); err != nil || !slices.Contains(names, x.name) || !running(gate+"-load") {
		t.Fatalf("nothing is left, so that this test shows nothing: %q, %v", names, err)
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	said, err := x.run("resume")
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	x.expectNothingLeft(gate + "-load")
	if rows := x.rows(); len(rows) < 4 || !rows[len(rows)-1].Valid {
		t.Errorf("rows are %+v\n%s", rows, said)
	}
	// The runner may also be killed when all runs are complete.
	spec, err := lab.ReadSpec(filepath.Join(x.folder, "lab.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Up(t.Context(), spec, lab.Options{Agent: agentPath}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(x.folder, "trial-results", "left.json"), []byte(`{"lab": "`+x.name+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := x.run("resume"); err != nil || !strings.Contains(said, "removed lab "+x.name) {
		t.Errorf("%v\n%s", err, said)
	}
	x.expectNothingLeft(gate + "-load")
}

// expectNothingLeft checks that neither the lab nor a process of the experiment is left.
func (x *trial) expectNothingLeft(load string) {
	x.t.Helper()
	if names, err := lab.List(); err != nil || slices.Contains(names, x.name) {
		x.t.Errorf("the lab is left: %q, %v", names, err)
		_ = lab.Down(context.Background(), x.name)
	}
	spaces, _ := filepath.Glob("/run/netns/*" + x.name + "*") // the pattern is valid
	if len(spaces) > 0 {
		x.t.Errorf("namespaces are left: %q", spaces)
	}
	if running(load) {
		x.t.Error("the load is left")
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is valid
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), "PILLION_RESULTS="+x.folder) {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			x.t.Errorf("process %s is left: %q", filepath.Base(filepath.Dir(path)), name)
		}
	}
}

// running reports whether the process whose number is in a file runs.
func running(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(text)) == "" {
		return false
	}
	state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(text)) + "/stat")
	return err == nil && !strings.Contains(string(state), ") Z ")
}

// address is the first one of a host, on the link to another one if that is given.
func address(b *bed, host string, to ...string) string {
	b.t.Helper()
	for _, link := range b.Spec.Links {
		if len(to) > 0 && !slices.Contains(link.Ends, to[0]) {
			continue
		}
		for _, prefix := range link.Addresses[host] {
			if prefix.Addr().Is4() {
				return prefix.Addr().String()
			}
		}
	}
	b.t.Fatalf("host %s has no address", host)
	return ""
}
