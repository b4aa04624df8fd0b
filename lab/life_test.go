package lab_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/lab"
	"pillion.dev/lab/emulator"
)

const routed = `hosts: {a: {}, r: {forward: true}, b: {}}
links:
  - ends: [a, r]
  - ends: [r, b]
    emulate: {delay: 1ms}
`

// remains lists everything of a lab that still exists.
func remains(t *testing.T, name string) []string {
	t.Helper()
	found, err := filepath.Glob("/run/netns/pl-" + name + "-*")
	if err != nil {
		t.Fatal(err)
	}
	state, _ := filepath.Glob("/run/pillion/lab/" + name)
	found = append(found, state...)
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		text, _ := os.ReadFile(path)
		if strings.Contains(string(text), "\x00--lab\x00"+name+"\x00") {
			found = append(found, "process "+strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return found
}

func expectGone(t *testing.T, name string) {
	t.Helper()
	eventually(t, "lab "+name+" to leave nothing", func() bool { return len(remains(t, name)) == 0 })
}

// links lists the interfaces of the machine's own namespace: a lab creates none there.
func links(t *testing.T) string {
	t.Helper()
	entries, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return strings.Join(names, " ")
}

func TestLifeOfALab(t *testing.T) {
	before := links(t)
	b := up(t, routed)
	name := b.Spec.Name
	if !b.Complete() {
		t.Error("lab is not complete after up")
	}
	for _, address := range []string{"10.77.2.2", "fd77:0:0:2::2"} {
		s := b.open("a", "b", netip.AddrPortFrom(netip.MustParseAddr(address), 9000))
		s.send(10, 1000)
		s.receive(10)
	}
	if got := b.exec("a", "ip", "-o", "link", "show", "r"); !strings.Contains(got, "02:50:4c:00:01:01") {
		t.Errorf("interface r of a is %s", got)
	}
	if got := b.truth("r-b", "r"); got.Total.Delivered != 20 {
		t.Errorf("got %+v", got)
	}
	sleeper := b.start("a", "sleep", "1000")
	if after := links(t); after != before && strings.Contains(after, "pl-") {
		t.Errorf("interfaces were %s, now %s", before, after)
	}
	if len(remains(t, name)) != 5 {
		t.Errorf("a lab of 3 hosts, state and an emulator is %q", remains(t, name))
	}
	if err := lab.Down(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	expectGone(t, name)
	if err := sleeper.Wait(); err == nil {
		t.Error("a process in the lab still runs")
	}
	if err := lab.Down(t.Context(), name); !errors.Is(err, lab.ErrNoLab) {
		t.Errorf("second down: got %v, want %v", err, lab.ErrNoLab)
	}
}

func TestSecondUpReplacesTheFirst(t *testing.T) {
	b := up(t, routed)
	s := b.open("a", "b", netip.AddrPortFrom(netip.MustParseAddr("10.77.2.2"), 9000))
	s.send(5, 1000)
	s.receive(5)
	before := remains(t, b.Spec.Name)
	again, err := lab.Up(t.Context(), &b.Spec, lab.Options{Agent: agentPath})
	if err != nil {
		t.Fatal(err)
	}
	if after := remains(t, b.Spec.Name); !slices.Equal(before, after) {
		t.Errorf("before %q, after %q", before, after)
	}
	if got := (&bed{again, t}).truth("r-b", "r"); got.Total.Offered != 0 {
		t.Errorf("the second lab has the truth of the first: %+v", got.Total)
	}
}

func TestDownAfterTheEmulatorIsKilled(t *testing.T) {
	b := up(t, routed)
	kill(t, emulatorPid(t, b.Spec.Name, "r-b"))
	eventually(t, "the lab to notice", func() bool { return !b.Complete() })
	if _, err := b.Truth(t.Context(), "r-b"); err != nil {
		t.Errorf("last truth is lost: %v", err)
	}
	if err := b.Change(t.Context(), "r-b", "", emulator.Calm()); !errors.Is(err, lab.ErrBroken) {
		t.Errorf("change: got %v, want %v", err, lab.ErrBroken)
	}
	if err := lab.Down(t.Context(), b.Spec.Name); err != nil {
		t.Fatal(err)
	}
	expectGone(t, b.Spec.Name)
}

// TestDownFromAnotherMountNamespace: the names of the namespaces lead nowhere there, and the lab's processes end
// nevertheless, and no others.
func TestDownFromAnotherMountNamespace(t *testing.T) {
	namespace.NeedRoot(t)
	name, folder := fmt.Sprintf("m%dx%d", os.Getpid(), beds.Add(1)), t.TempDir()
	file, written := filepath.Join(folder, "lab.yaml"), filepath.Join(folder, "pid")
	text := fmt.Sprintf("name: %s\nhosts: {a: {run: ['echo $$ > %s.new; mv %[2]s.new %[2]s; exec sleep 1000']}, b: {}}\nlinks: [{ends: [a, b]}]\n", name, written)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lab.Down(context.Background(), name) })
	if said, err := exec.Command("unshare", "--mount", agentPath, "lab", "up", file).CombinedOutput(); err != nil {
		t.Fatalf("up: %v, %s", err, said)
	}
	waitForFile(t, written)
	pid, err := os.ReadFile(written)
	if err != nil {
		t.Fatal(err)
	}
	if err := netns.Do("pl-"+name+"-a", func() error { return nil }); err == nil {
		t.Fatal("the name leads to the namespace")
	}
	bystander := exec.Command("sleep", "1000")
	if err := netns.Do(namespace.New(t), bystander.Start); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	if err := lab.Down(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	expectGone(t, name)
	if _, err := os.Readlink("/proc/" + strings.TrimSpace(string(pid)) + "/ns/net"); err == nil { // a zombie has none
		t.Error("the process in the lab still runs")
	}
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", bystander.Process.Pid)); err != nil {
		t.Errorf("the process in another namespace has ended: %v", err)
	}
}

// A process with a reused pid must never be killed.
func TestDownSparesARecycledPid(t *testing.T) {
	b := up(t, routed)
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	pid := emulatorPid(t, b.Spec.Name, "r-b")
	kill(t, pid)
	record := filepath.Join("/run/pillion/lab", b.Spec.Name, "r-b.pid")
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Replace(string(text), strconv.Itoa(pid), strconv.Itoa(bystander.Process.Pid), 1)
	if err := os.WriteFile(record, []byte(forged), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := lab.Down(t.Context(), b.Spec.Name); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(bystander.Process.Pid, 0); err != nil {
		t.Errorf("the other process has ended: %v", err)
	}
	if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", bystander.Process.Pid)); err != nil || strings.Contains(string(state), ") Z") {
		t.Errorf("the other process was killed: %s", state)
	}
}

// Whenever up is killed, down removes what it created.
func TestDownAfterUpIsKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	downAfterUpIsKilled(t, false)
}

// downAfterUpIsKilled kills it at a few stages, or, long, at all others.
func downAfterUpIsKilled(t *testing.T, long bool) {
	namespace.NeedRoot(t)
	stages := map[string]func(name string) string{
		"state made":        func(name string) string { return "/run/pillion/lab/" + name },
		"spec written":      func(name string) string { return "/run/pillion/lab/" + name + "/spec.json" },
		"first host made":   func(name string) string { return netns.Path("pl-" + name + "-h0") },
		"last host made":    func(name string) string { return netns.Path("pl-" + name + "-h9") },
		"first emulator on": func(name string) string { return "/run/pillion/lab/" + name + "/l1.config" },
		"pid recorded":      func(name string) string { return "/run/pillion/lab/" + name + "/l2.pid" },
		"all emulators on":  func(name string) string { return "/run/pillion/lab/" + name + "/l9.json" },
	}
	few := []string{"state made", "first host made", "pid recorded"}
	for stage, path := range stages {
		if long == slices.Contains(few, stage) {
			continue
		}
		t.Run(stage, func(t *testing.T) {
			t.Parallel() // it mostly waits
			name, command := startChain(t)
			waitForFile(t, path(name))
			_ = command.Process.Kill()
			_ = command.Wait()
			if err := lab.Down(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			expectGone(t, name)
		})
	}
}

// startChain starts lab up for ten hosts in a row and returns the lab's name.
func startChain(t *testing.T) (string, *exec.Cmd) {
	t.Helper()
	name := fmt.Sprintf("k%dx%d", os.Getpid(), beds.Add(1))
	text := "name: " + name + "\nhosts: {h0: {}"
	links := "}\nlinks:\n"
	for i := 1; i < 10; i++ {
		text += fmt.Sprintf(", h%d: {}", i)
		links += fmt.Sprintf("  - {name: l%d, ends: [h%d, h%d], emulate: {delay: 1ms}}\n", i, i-1, i)
	}
	file := filepath.Join(t.TempDir(), "lab.yaml")
	if err := os.WriteFile(file, []byte(text+links), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lab.Down(context.Background(), name) })
	command := exec.Command(agentPath, "lab", "up", file)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return name, command
}

func TestCtrlCLeavesNothing(t *testing.T) {
	namespace.NeedRoot(t)
	name, command := startChain(t)
	waitForFile(t, netns.Path("pl-"+name+"-h0"))
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err == nil {
		t.Skip("up was done before the signal arrived")
	}
	expectGone(t, name)
}

func TestInterruptedUpLeavesNothing(t *testing.T) {
	namespace.NeedRoot(t)
	name := fmt.Sprintf("i%dx%d", os.Getpid(), beds.Add(1))
	spec, err := lab.ParseSpec([]byte("name: " + name + "\n" + routed))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lab.Up(ctx, spec, lab.Options{Agent: agentPath}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if _, err := lab.Up(t.Context(), spec, lab.Options{Agent: "/bin/false"}); err == nil {
		t.Error("no error although no emulator can run")
	}
	expectGone(t, name)
}

func TestForeignNamespaceIsNotTouched(t *testing.T) {
	namespace.NeedRoot(t)
	name := fmt.Sprintf("f%dx%d", os.Getpid(), beds.Add(1))
	foreign := "pl-" + name + "-b"
	if err := netns.Create(foreign); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Delete(foreign) })
	spec, err := lab.ParseSpec([]byte("name: " + name + "\n" + routed))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Up(t.Context(), spec, lab.Options{Agent: agentPath}); !errors.Is(err, lab.ErrForeign) {
		t.Errorf("got %v, want %v", err, lab.ErrForeign)
	}
	if got := remains(t, name); !slices.Equal(got, []string{netns.Path(foreign)}) {
		t.Errorf("got %q", got)
	}
}

func TestChangeOfARunningLink(t *testing.T) {
	b := up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {loss: 100%}\n")
	s := b.open("a", "b", netip.AddrPortFrom(secondIPv4, 9000))
	s.send(100, 10000)
	b.settled("a-b", "a", 100)
	if err := b.Change(t.Context(), "a-b", "a", emulator.Calm()); err != nil {
		t.Fatal(err)
	}
	s.send(100, 10000)
	got := b.settled("a-b", "a", 200)
	s.receive(100)
	if got.Total.LostRandom != 100 || got.Total.Delivered != 100 || s.arrivals[0].sequence != 100 {
		t.Errorf("got %+v, first arrival %+v", got.Total, s.arrivals[0])
	}
	if other := b.truth("a-b", "b"); other.Faults.Loss != 1 || got.Faults.Loss != 0 {
		t.Errorf("loss is %v from a and %v from b", got.Faults.Loss, other.Faults.Loss)
	}
}

// Neighbour discovery works however lossy the link is.
func TestControlFramesAreNotLost(t *testing.T) {
	b := up(t, "neighbours: learned\nhosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {loss: 100%, delay: 1ms}\n")
	for _, to := range []netip.Addr{secondIPv4, secondIPv6} {
		s := b.open("a", "b", netip.AddrPortFrom(to, 9000))
		s.send(1, 1000)
	}
	// The packets are sent only after their neighbour has answered.
	got := b.settled("a-b", "a", 2)
	if got.Total.LostRandom != 2 || got.Control.Delivered < 2 {
		t.Errorf("got %+v, control %+v", got.Total, got.Control)
	}
}

func emulatorPid(t *testing.T, name, link string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/run/pillion/lab", name, link+".pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscanf(string(text), "{\n \"pid\": %d,", &pid); err != nil {
		t.Fatalf("read pid in %s: %v", text, err)
	}
	return pid
}

// kill kills an emulator that this test started.
func kill(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process to end", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(text), ") Z")
	})
}

// waitForFile polls without a pause, to return early.
func waitForFile(t *testing.T, path string) {
	t.Helper()
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if t.Context().Err() != nil {
			t.Fatalf("waited in vain for %s", path)
		}
	}
}
