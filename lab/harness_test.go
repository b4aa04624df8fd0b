package lab_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/internal/test/sealed"
	"pillion.dev/lab"
	"pillion.dev/lab/emulator"
)

// Programs that TestMain builds, or finds in the folder PILLION_TEST_PROGRAMS: whole-system
// tests run those that users run.
var agentPath, serverPath, cliPath string

// TestMain lets more tests than there are processors run beside each other: those that
// call t.Parallel mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	if built := os.Getenv("PILLION_TEST_PROGRAMS"); built != "" {
		agentPath, cliPath, serverPath = filepath.Join(built, "pillion-agent"), filepath.Join(built, "pillion"), filepath.Join(built, "pillion-server")
		return runAlone(m)
	}
	folder, err := os.MkdirTemp("", "pillion-lab-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	for _, program := range []struct {
		path *string
		name string
		cgo  string
	}{{&agentPath, "pillion-agent", "0"}, {&cliPath, "pillion", "0"}, {&serverPath, "pillion-server", "1"}} {
		*program.path = filepath.Join(folder, program.name)
		build := exec.Command("go", "build", "-o", *program.path, "pillion.dev/cmd/"+program.name)
		build.Env = append(os.Environ(), "CGO_ENABLED="+program.cgo)
		if said, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", program.name, err, said)
			return 1
		}
	}
	return runAlone(m)
}

// runAlone runs the tests, which fail if they leave a lab. Labs of earlier tests that were killed are taken down.
func runAlone(m *testing.M) int {
	takeDown(func(pid int) bool { return unix.Kill(pid, 0) != nil })
	code := sealed.Main(m)
	if left := takeDown(func(pid int) bool { return pid == os.Getpid() }); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "the tests left the labs", left)
		return max(code, 1)
	}
	return code
}

// takeDown takes down the labs of tests in some processes, and returns their names.
func takeDown(of func(pid int) bool) (names []string) {
	if os.Geteuid() != 0 {
		return nil
	}
	all, _ := lab.List()
	for _, name := range all {
		pid, number := 0, 0
		if n, _ := fmt.Sscanf(name[1:], "%dx%d", &pid, &number); n != 2 || !of(pid) {
			continue
		}
		names = append(names, name)
		if err := lab.Down(context.Background(), name); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return names
}

// bed is a lab for one test.
type bed struct {
	*lab.Lab
	t testing.TB
}

var beds atomic.Uint32

// up builds the lab of a YAML text without a name line, with a generated name. The lab
// is taken down when the test ends. Without root the test is skipped.
func up(t testing.TB, text string) *bed {
	t.Helper()
	namespace.NeedRoot(t)
	name := fmt.Sprintf("t%dx%d", os.Getpid(), beds.Add(1))
	spec, err := lab.ParseSpec([]byte("name: " + name + "\n" + text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if names, err := lab.List(); err == nil && !slices.Contains(names, name) {
			return // the test took it down itself
		}
		if err := lab.Down(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
	built, err := lab.Up(t.Context(), spec, lab.Options{Agent: agentPath})
	if err != nil {
		t.Fatal(err)
	}
	return &bed{built, t}
}

// path is a file or folder in the lab's state folder.
func (b *bed) path(name string) string { return filepath.Join("/run/pillion/lab", b.Spec.Name, name) }

// serviceAddress returns the address of the lab's server for its hosts.
func (b *bed) serviceAddress() string {
	b.t.Helper()
	for _, link := range b.Spec.Links {
		for _, prefix := range link.Addresses[b.Spec.Service.Server] {
			return net.JoinHostPort(prefix.Addr().String(), "8470")
		}
	}
	b.t.Fatal("the server has no address")
	return ""
}

// do runs f in a host's network namespace.
func (b *bed) do(host string, f func() error) {
	b.t.Helper()
	if err := b.Do(host, f); err != nil {
		b.t.Fatalf("in host %s: %v", host, err)
	}
}

// exec runs a command in a host and returns its output.
func (b *bed) exec(host string, command ...string) string {
	b.t.Helper()
	output, err := b.Exec(b.t.Context(), host, command...)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, output)
	}
	return string(output)
}

// start runs a command in a host until the test ends, when it is interrupted and
// waited for.
func (b *bed) start(host string, command ...string) *exec.Cmd {
	b.t.Helper()
	prepared := exec.Command(command[0], command[1:]...)
	prepared.Stdout, prepared.Stderr = b.t.Output(), b.t.Output()
	if err := b.Start(host, prepared); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = prepared.Process.Signal(os.Interrupt)
		_ = prepared.Wait()
	})
	return prepared
}

// truth returns what a link did to the packets that a host sent, up to date.
func (b *bed) truth(link, from string) emulator.Direction {
	b.t.Helper()
	truth, err := b.Truth(context.Background(), link)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, d := range truth.Directions {
		if d.From == from {
			return d
		}
	}
	b.t.Fatalf("link %s has no direction from %s", link, from)
	return emulator.Direction{}
}

// settled waits until no packet from a host is in flight and at least offered packets were
// read, and returns the truth.
func (b *bed) settled(link, from string, offered uint64) emulator.Direction {
	b.t.Helper()
	var d emulator.Direction
	eventually(b.t, "link "+link+" to settle", func() bool {
		d = b.truth(link, from)
		return d.Total.Offered+d.Unread >= offered && d.Total.InFlight == 0
	})
	return d
}

// quiet is settled where the number of packets is not known: nothing has come for a while.
func (b *bed) quiet(link, from string) emulator.Direction {
	b.t.Helper()
	d := b.settled(link, from, 1)
	for {
		time.Sleep(300 * time.Millisecond) // agents and routers send something at least every second
		before := d.Total.Offered
		if d = b.settled(link, from, 1); d.Total.Offered == before {
			return d
		}
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(hang.Limit)
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for !condition() {
		select {
		case <-retry.C:
		case <-deadline:
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// agent runs pillion-agent on the machine itself and returns both outputs and the
// exit code.
func agent(t testing.TB, args ...string) (output, errorText string, code int) {
	t.Helper()
	var stdout, stderr strings.Builder
	command := exec.Command(agentPath, args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if command.ProcessState == nil {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), command.ProcessState.ExitCode()
}
