package lab_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/test/namespace"
)

func demoCommand(t *testing.T, args ...string) (command *exec.Cmd, name string) {
	t.Helper()
	namespace.NeedRoot(t)
	name = fmt.Sprintf("t%dx%d", os.Getpid(), beds.Add(1))
	return exec.Command(agentPath, append([]string{"lab", "demo", "--name", name}, args...)...), name
}

// TestDemo: the demonstration agrees with the link and leaves nothing behind. Delays are
// not compared: the machine may be busy.
func TestDemo(t *testing.T) {
	command, name := demoCommand(t, "--seconds", "4")
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, wanted := range []string{
		`(?m)> \[fd77:0:0:2::2\]:5203 udp +[0-9]+ `, `reached in 2 hops`, `open http://localhost:84[0-9]+ in a browser on this machine`,
		`(?m)^one-way delay, median +[0-9.]+ ms +[0-9.]+ ms`,
	} {
		if !regexp.MustCompile(wanted).Match(text) {
			t.Errorf("no %q", wanted)
		}
	}
	if !strings.Contains(string(text), "too busy") {
		for _, exact := range []string{"sent", "received", "lost", "duplicated"} {
			if !regexp.MustCompile(`(?m)^` + exact + `[ ,].* 0$`).Match(text) {
				t.Errorf("%s is not exact", exact)
			}
		}
	}
	if t.Failed() {
		t.Logf("%s", text)
	}
	expectGone(t, name)
}

// TestDemoInterrupted: the session is shown live; Ctrl-C removes everything, which one
// line reports.
func TestDemoInterrupted(t *testing.T) {
	command, name := demoCommand(t, "--seconds", "60")
	command.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	output, stderr := &transcript{}, &transcript{}
	command.Stdout, command.Stderr = output, stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(-command.Process.Pid, unix.SIGKILL) }) // usually it has ended
	eventually(t, "live rows", func() bool { return strings.Contains(output.String(), "pkt/s") })
	if err := unix.Kill(-command.Process.Pid, unix.SIGINT); err != nil { // like a terminal
		t.Fatal(err)
	}
	_ = command.Wait()
	if said := stderr.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "everything was removed") {
		t.Errorf("stderr %q", said)
	}
	expectGone(t, name)
}
