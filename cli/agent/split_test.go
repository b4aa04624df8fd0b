package agent

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pillion.dev/cli/commandtest"
	"pillion.dev/internal/free"
	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/namespace"
)

// status reads fields of a process.
func status(pid int) map[string]string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// part waits for the unprivileged part of an agent, until it is confined.
func part(t *testing.T, parent int) int {
	t.Helper()
	for deadline := time.Now().Add(hang.Limit); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		paths, _ := filepath.Glob("/proc/[0-9]*")
		for _, path := range paths {
			pid, _ := strconv.Atoi(filepath.Base(path))
			if s := status(pid); s["PPid"] == strconv.Itoa(parent) && s["Seccomp"] == "2" {
				return pid
			}
		}
	}
	t.Fatal("no unprivileged part")
	return 0
}

// TestSplit: the part of the agent that speaks to the network has no privilege, and neither
// part outlives the other.
func TestSplit(t *testing.T) {
	namespace.NeedRoot(t)
	n := &noc{folder: t.TempDir(), http: free.Address(t), bus: free.Address(t)}
	n.begin(t)
	h := newHost(t, n, "a")
	pid := part(t, h.command.Process.Pid)
	got := status(pid)
	for name, want := range map[string]string{
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapBnd": "0000000000000000",
		"CapAmb": "0000000000000000", "NoNewPrivs": "1", "Groups": "",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if uid := strings.Fields(got["Uid"]); uid[0] == "0" || uid[0] != uid[1] || uid[0] != uid[2] || uid[0] != uid[3] {
		t.Errorf("user %v", uid)
	}
	info, err := os.Stat(h.folder)
	if err != nil || info.Mode().Perm() != 0o700 || fmt.Sprint(info.Sys().(*syscall.Stat_t).Uid) != strings.Fields(got["Uid"])[0] {
		t.Errorf("folder %v, %v", info, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := h.command.Wait(); err == nil || exitCode(err) != 1 {
		t.Errorf("without its unprivileged part the agent ends with %v", err)
	}
	h.begin(t, n)
	pid = part(t, h.command.Process.Pid)
	h.kill()
	for deadline := time.Now().Add(hang.Limit); ; time.Sleep(time.Millisecond) {
		if s := status(pid); s["State"] == "" || strings.HasPrefix(s["State"], "Z") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the unprivileged part goes on without the privileged one")
		}
	}
}

func exitCode(err error) int {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// TestUnprivilegedByHand: the hidden command does not run with privileges, or without run.
func TestUnprivilegedByHand(t *testing.T) {
	namespace.NeedRoot(t)
	command := exec.Command(os.Args[0], "unprivileged")
	command.Env = append(os.Environ(), commandtest.Environment)
	if said, err := command.CombinedOutput(); err == nil || !strings.Contains(string(said), "started by pillion-agent run") {
		t.Errorf("%v: %s", err, said)
	}
}

// TestFolderOfSomethingElse: a folder that is no agent's keeps its owner.
func TestFolderOfSomethingElse(t *testing.T) {
	namespace.NeedRoot(t)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0], "run", "--data", folder)
	command.Env = append(os.Environ(), commandtest.Environment)
	said, err := command.CombinedOutput()
	if exitCode(err) != 2 || !strings.Contains(string(said), "not a folder of an agent") {
		t.Errorf("%v: %s", err, said)
	}
	if info, err := os.Stat(folder); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestUnitCapabilities: the capabilities of the unit suffice to start both parts in a folder
// that the user of the unprivileged one owns.
func TestUnitCapabilities(t *testing.T) {
	namespace.NeedRoot(t)
	match := regexp.MustCompile(`(?m)^CapabilityBoundingSet=(.*)$`).FindStringSubmatch(commandtest.Text(t, unit))
	if match == nil {
		t.Fatalf("%s does not bound capabilities", unit)
	}
	bounding := "-all"
	for _, name := range strings.Fields(match[1]) {
		bounding += ",+" + strings.ToLower(strings.TrimPrefix(name, "CAP_"))
	}
	n := &noc{folder: t.TempDir(), http: free.Address(t), bus: free.Address(t)}
	n.begin(t)
	folder := filepath.Join(t.TempDir(), "a")
	token, err := os.ReadFile(filepath.Join(n.folder, "join.token"))
	if err == nil {
		err = errors.Join(os.Mkdir(folder, 0o700), os.Chown(folder, 60999, 60999))
	}
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("setpriv", "--bounding-set="+bounding, "--inh-caps=-all", "--no-new-privs", os.Args[0], "run", "--server", n.http, "--name", "a", "--data", folder, "--oml", "off")
	command.Env = append(os.Environ(), commandtest.Environment, "PILLION_JOIN_TOKEN="+strings.TrimSpace(string(token)))
	var said strings.Builder
	command.Stderr = &said
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(hang.Limit, func() { command.Process.Kill() })
	defer late.Stop()
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v: %s", line, err, said.String())
	}
	if pid := part(t, command.Process.Pid); strings.Fields(status(pid)["Uid"])[0] != "60999" {
		t.Errorf("unprivileged part runs as %s", status(pid)["Uid"])
	}
	if err := errors.Join(command.Process.Signal(os.Interrupt), command.Wait()); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
}
