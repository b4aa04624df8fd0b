package lab_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"pillion.dev/internal/test/namespace"
	"pillion.dev/lab/emulator"
)

// yamlFile writes a lab file and returns its path and the lab's name.
func yamlFile(t *testing.T, text string) (path, name string) {
	t.Helper()
	name = fmt.Sprintf("c%dx%d", os.Getpid(), beds.Add(1))
	path = filepath.Join(t.TempDir(), "lab.yaml")
	if err := os.WriteFile(path, []byte("name: "+name+"\n"+text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path, name
}

func TestCommands(t *testing.T) {
	namespace.NeedRoot(t)
	path, name := yamlFile(t, routed)
	t.Cleanup(func() { agent(t, "lab", "down", name) })
	expect := func(code int, pattern string, args ...string) string {
		t.Helper()
		output, stderr, got := agent(t, args...)
		if got != code || !regexp.MustCompile(pattern).MatchString(output+stderr) {
			t.Fatalf("%v: exit code %d, want %d; output %q does not match %q", args, got, code, output+stderr, pattern)
		}
		return output
	}
	expect(0, `^lab \S+ is up: 3 hosts, 2 links\n$`, "lab", "up", path)
	expect(0, `(?m)^`+name+`$`, "lab", "list")
	expect(0, `(?s)lab \S+: up.*pl-\S+-a .*fd77:0:0:1::1/64.*r-b +r b +emulated`, "lab", "status", name)
	expect(0, `10\.77\.1\.1`, "lab", "exec", "--lab", name, "a", "--", "ip", "-4", "addr", "show", "r")
	expect(7, `^$`, "lab", "exec", "--lab", name, "a", "--", "sh", "-c", "exit 7")
	expect(0, `^$`, "lab", "change", "--lab", name, "r-b", "--from", "r", "--loss", "2%", "--queue", "64kB")
	expect(0, `r to b`, "lab", "truth", "--lab", name)
	var truth emulator.Truth
	text := expect(0, `"loss": "2%"`, "lab", "truth", "--lab", name, "--json", "r-b")
	if err := json.Unmarshal([]byte(text), &truth); err != nil || truth.Directions[1].Faults.Loss != 0 {
		t.Errorf("truth is %+v, %v", truth, err)
	}
	expect(0, `stopped`, "lab", "down", name)
	expect(0, `pillion-agent .*go1`, "version")
	expectGone(t, name)
}

// Every user error is one line with the cause and one with a hint.
func TestErrors(t *testing.T) {
	namespace.NeedRoot(t)
	good, name := yamlFile(t, routed)
	if _, stderr, code := agent(t, "lab", "up", good); code != 0 {
		t.Fatal(stderr)
	}
	t.Cleanup(func() { agent(t, "lab", "down", name) })
	unknown, _ := yamlFile(t, "hosts: {a: {}}\nlinx: []\n")
	badRate, _ := yamlFile(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {rate: fast}\n")
	badEnd, _ := yamlFile(t, "hosts: {a: {}}\nlinks:\n  - ends: [a, z]\n")
	tests := map[string]struct {
		args []string
		want string
	}{
		"no command":       {nil, "invalid command line"},
		"unknown command":  {[]string{"lap"}, "invalid command line: .*lap"},
		"unknown flag":     {[]string{"lab", "up", "--fast", good}, "unknown flag --fast"},
		"no file":          {[]string{"lab", "up", "/nonexistent.yaml"}, "read lab file: open /nonexistent.yaml"},
		"folder":           {[]string{"lab", "up", "/tmp"}, "read lab file: .*/tmp"},
		"unknown key":      {[]string{"lab", "up", unknown}, `line 3: unknown field "linx"`},
		"bad rate":         {[]string{"lab", "up", badRate}, `line 5: parse rate "fast"`},
		"unknown end":      {[]string{"lab", "up", badEnd}, `line 4: link end "z": no such host`},
		"no such lab":      {[]string{"lab", "down", "nolab"}, "take lab nolab down: no such lab"},
		"no lab name":      {[]string{"lab", "down", "../x"}, "no such lab"},
		"status of no lab": {[]string{"lab", "status", "nolab"}, "find lab nolab: no such lab"},
		"no such host":     {[]string{"lab", "exec", "--lab", name, "z", "--", "true"}, "enter host z of lab .*: no such host"},
		"no such program":  {[]string{"lab", "exec", "--lab", name, "a", "--", "nonexistent"}, "run nonexistent in a: executable file not found"},
		"no command given": {[]string{"lab", "exec", "--lab", name, "a", "--"}, "command"},
		"no such link":     {[]string{"lab", "truth", "--lab", name, "a-z"}, `find link "a-z" of lab .*: no such emulated link`},
		"veth has none":    {[]string{"lab", "truth", "--lab", name, "a-r"}, "no such emulated link"},
		"change of no end": {[]string{"lab", "change", "--lab", name, "r-b", "--from", "a"}, "change link r-b from a"},
		"bad change":       {[]string{"lab", "change", "--lab", name, "r-b", "--loss", "5"}, `parse fraction "5"`},
		"too much jitter":  {[]string{"lab", "change", "--lab", name, "r-b", "--jitter", "5ms"}, "check jitter"},
	}
	for what, test := range tests {
		t.Run(what, func(t *testing.T) {
			_, stderr, code := agent(t, test.args...)
			checkErrorOutput(t, stderr, code, test.want)
		})
	}
}

func TestErrorWithoutRoot(t *testing.T) {
	namespace.NeedRoot(t)
	path, name := yamlFile(t, routed)
	folder, err := os.MkdirTemp("", "pillion-nobody") // t.TempDir is not accessible to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	script := fmt.Sprintf("chmod 755 %s && cp %s %s %s && chmod a+rx %s/*", folder, agentPath, path, folder, folder)
	if said, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	command := exec.Command(filepath.Join(folder, "pillion-agent"), "lab", "up", filepath.Join(folder, "lab.yaml"))
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	said, _ := command.CombinedOutput()
	checkErrorOutput(t, string(said), command.ProcessState.ExitCode(), "take lab "+name+" up: not root")
	expectGone(t, name)
}

// checkErrorOutput expects an error that the user can correct, with a hint.
func checkErrorOutput(t *testing.T, stderr string, code int, want string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if code != 2 || len(lines) != 2 || !strings.HasPrefix(lines[0], "pillion-agent: ") || !strings.HasPrefix(lines[1], "hint: ") ||
		!regexp.MustCompile(want).MatchString(lines[0]) {
		t.Errorf("exit code %d, want 2 and two lines with %q:\n%s", code, want, stderr)
	}
}
