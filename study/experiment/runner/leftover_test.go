package runner

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pillion.dev/study/experiment"
)

// start carries out the experiment of a file in a process of its own.
func start(t *testing.T, path string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "PILLION_TEST_EXPERIMENT="+path)
	said := &bytes.Buffer{}
	command.Stdout, command.Stderr = said, said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() }) // it may have ended
	return command, said
}

// alive reports whether the process whose number is in a file runs.
func alive(path string) bool {
	text, err := os.ReadFile(path)
	var pid int
	if _, failed := fmt.Sscan(string(text), &pid); err != nil || failed != nil {
		return false
	}
	return startOf(pid) != ""
}

// TestKilledLeavesNothing: what a killed runner leaves is ended and undone when it resumes: a
// load, a daemon that left its process group, and a treatment. The same programs of others
// stay.
func TestKilledLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	path := write(t, strings.ReplaceAll(`experiment: left
factors: {mode: [none]}
treatments:
  mode:
    none:
      start: "mkdir FOLDER/applied"
      stop: "rmdir FOLDER/applied; echo $PILLION_BLOCK >> FOLDER/undone"
      command: "trap 'touch FOLDER/interrupted; exit' INT; echo $$ > FOLDER/beside; while :; do sleep 0.05; done"
run:
  command: |
    echo '{{"rate": 1}}'
    if [ ! -e FOLDER/again ]; then
      setsid sh -c 'echo $$ > FOLDER/daemon; exec sleep 1000' & wait_for=$!
      echo $$ > FOLDER/load
      sleep 1000
    fi
  settle: 0s
measures: {rate: {field: rate}}
stop: {blocks: 1}
`, "FOLDER", folder))
	own := exec.Command("sh", "-c", "exec sleep 1000")
	own.Env = append(os.Environ(), resultsVariable+"="+filepath.Join(folder, "others"))
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Process.Kill(); _ = own.Wait() })
	killed, _ := start(t, path)
	left := []string{"load", "daemon", "beside"}
	for _, name := range left {
		eventually(t, func() bool { return alive(filepath.Join(folder, name)) })
	}
	if err := killed.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // it was killed
	for _, name := range left {
		if !alive(filepath.Join(folder, name)) {
			t.Fatalf("%s ended with the runner, so that this test shows nothing", name)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "again"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	resumed, said := start(t, path)
	if err := resumed.Wait(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, name := range left {
		if alive(filepath.Join(folder, name)) {
			t.Errorf("%s is left", name)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "interrupted")); err != nil {
		t.Error("the treatment's command was not interrupted")
	}
	if text, err := os.ReadFile(filepath.Join(folder, "undone")); err != nil || string(text) != "0\n0\n" {
		t.Errorf("treatments undone: %q, %v; want that of the killed run and that of the resumed one", text, err)
	}
	if startOf(own.Process.Pid) == "" {
		t.Error("a process of others was ended")
	}
	results := filepath.Join(filepath.Dir(path), "results")
	if files, err := filepath.Glob(filepath.Join(results, "left*")); err != nil || len(files) > 0 {
		t.Errorf("left: %v, %v", files, err)
	}
	if rows := rowsOf(t, results); len(rows) != 1 || !rows[0].Valid {
		t.Errorf("rows are %+v", rows)
	}
	for _, want := range []string{"ended 3 process groups that an interrupted run left", "undid what an interrupted run did: rmdir "} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is not in %s", want, said)
		}
	}
}

// TestLeftoversOfAnotherBoot: numbers of processes mean nothing then.
func TestLeftoversOfAnotherBoot(t *testing.T) {
	own := exec.Command("sleep", "1000")
	own.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Process.Kill(); _ = own.Wait() })
	o, _ := options(t, deterministic1)
	if err := os.MkdirAll(o.Folder, 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"boot": "another", "processes": {"%d": %q}}`, own.Process.Pid, startOf(own.Process.Pid))
	if err := os.WriteFile(filepath.Join(o.Folder, leftoverFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if startOf(own.Process.Pid) == "" {
		t.Error("a process that has the number of one of another boot was ended")
	}
	if err := os.WriteFile(filepath.Join(o.Folder, leftoverFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Resume = true
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "read what an earlier run left behind") {
		t.Errorf("error is %v", err)
	}
}

const deterministic1 = `experiment: one
factors: {mode: [none]}
run: {command: 'echo "{{\"rate\": 1}}"', settle: 0s}
measures: {rate: {field: rate}}
stop: {blocks: 1}
`

// TestFailedStartLeavesNoFolder: only a folder that it made itself is removed.
func TestFailedStartLeavesNoFolder(t *testing.T) {
	o, _ := options(t, strings.Replace(deterministic1, "stop: {blocks: 1}", "stop: {blocks: 1}\nlab: absent.yaml", 1))
	for _, made := range []bool{false, true} {
		if made {
			if err := os.MkdirAll(o.Folder, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := Run(t.Context(), o); err == nil {
			t.Fatal("a lab that is absent was started")
		}
		if _, err := os.Stat(o.Folder); (err == nil) != made {
			t.Errorf("made before: %v; now: %v", made, err)
		}
	}
	if experiment.HasResults(o.Folder) {
		t.Error("there are results")
	}
}
