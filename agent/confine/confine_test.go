package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/free"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/internal/test/sealed"
)

// TestMain is also the program of a process that has been taken over: it tries what the
// attempts are, and prints which succeed.
func TestMain(m *testing.M) {
	if os.Getenv("PILLION_TEST_ATTEMPTS") == "" {
		os.Exit(sealed.Main(m))
	}
	var c context
	err := json.Unmarshal([]byte(os.Getenv("PILLION_TEST_ATTEMPTS")), &c)
	if err == nil && c.Sealed {
		err = Seal()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	results := map[string]string{}
	for _, a := range attempts {
		results[a.name] = "succeeds"
		if err := a.try(c); err != nil {
			results[a.name] = err.Error()
		}
	}
	_ = json.NewEncoder(os.NewFile(3, "results")).Encode(results)
	os.Exit(0)
}

// context is where the attempts take place.
type context struct {
	Sealed bool
	// Outside is a folder of root; Foreign a file there that only root can read; Shared a
	// folder that everybody can write to.
	Outside, Foreign, Shared string
	Parent, Other            int // processes
	OwnPort, OtherPort       int
}

type attempt struct {
	name string
	try  func(context) error
	// harmless: allowed in the confined process.
	harmless bool
	// landlock: refused only where the kernel has Landlock of this version.
	landlock int
	// unlikely: root cannot do it here either, so that the test shows less.
	unlikely bool
}

func call(number uintptr, arguments ...uintptr) error {
	var a [6]uintptr
	copy(a[:], arguments)
	if _, _, failed := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); failed != 0 {
		return failed
	}
	return nil
}

// loadProgram loads a BPF program that returns 0.
func loadProgram(kind uint32) error {
	code := [2]uint64{0xb7, 0x95} // r0 = 0; exit
	license := []byte("GPL\x00")
	attr := struct {
		kind, count      uint32
		code, license    uint64
		level, size      uint32
		log              uint64
		version, flags   uint32
		name             [16]byte
		device, attachAs uint32
		other            [64]byte
	}{kind: kind, count: 2, code: uint64(uintptr(unsafe.Pointer(&code))), license: uint64(uintptr(unsafe.Pointer(&license[0])))}
	return call(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), 72)
}

func writeFile(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func openSocket(family, kind, protocol int) error {
	fd, err := unix.Socket(family, kind, protocol)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func bindPort(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		l.Close()
	}
	return err
}

var attempts = []attempt{
	{name: "load a BPF program for tc", try: func(context) error { return loadProgram(unix.BPF_PROG_TYPE_SCHED_CLS) }},
	{name: "load a BPF program for sockets", try: func(context) error { return loadProgram(unix.BPF_PROG_TYPE_SOCKET_FILTER) }},
	{name: "put a classic filter on a socket", try: func(context) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		code := unix.SockFilter{Code: unix.BPF_RET}
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &code})
	}},
	{name: "open a performance counter", try: func(context) error {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Config: unix.PERF_COUNT_SW_CPU_CLOCK}
		return call(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&attr)), 0, ^uintptr(0), ^uintptr(0), 0)
	}},
	{name: "open core_pattern for writing", try: func(context) error { return writeFile("/proc/sys/kernel/core_pattern") }},
	{name: "write in /etc", try: func(context) error { return writeFile("/etc/pillion-test") }},
	{name: "write in /run/pillion", try: func(context) error { return writeFile("/run/pillion/pillion-test") }},
	{name: "lock a device", try: func(context) error { return writeFile("/run/pillion/devices/source-1-1.lock") }},
	{name: "write to a folder of root", try: func(c context) error { return writeFile(filepath.Join(c.Outside, "new")) }},
	{name: "read a file of root", try: func(c context) error { _, err := os.ReadFile(c.Foreign); return err }},
	{name: "write where everybody can", landlock: 1, try: func(c context) error { return writeFile(filepath.Join(c.Shared, "new")) }},
	{name: "create a link", try: func(context) error { return os.Symlink("/etc/shadow", "link") }},
	{name: "create a device", try: func(context) error { return unix.Mknod("null", unix.S_IFCHR|0o600, 0x103) }},
	{name: "become root", try: func(context) error { return call(unix.SYS_SETRESUID, 0, 0, 0) }},
	{name: "give a file away", try: func(context) error {
		if err := writeFile("own"); err != nil {
			panic(err)
		}
		return unix.Fchownat(unix.AT_FDCWD, "own", 1, 1, 0)
	}},
	{name: "mount a file system", try: func(context) error { return unix.Mount("none", ".", "tmpfs", 0, "") }},
	{name: "enter a new network namespace", try: func(context) error { return unix.Unshare(unix.CLONE_NEWNET) }},
	{name: "create a user namespace", try: func(context) error { return call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER) }, unlikely: true},
	{name: "create a process in a user namespace", unlikely: true, try: func(context) error {
		return call(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_THREAD) // which the kernel refuses as EINVAL
	}},
	{name: "enter the namespace of the parent", try: func(c context) error {
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", c.Parent))
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
	}},
	{name: "trace the parent", try: func(c context) error { return call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(c.Parent)) }},
	{name: "read memory of the parent", try: func(c context) error {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.Parent), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}},
	{name: "read the environment of the parent", try: func(c context) error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", c.Parent)); return err }},
	{name: "signal the parent", try: func(c context) error { return unix.Kill(c.Parent, 0) }},
	{name: "signal a thread of the parent", try: func(c context) error { return unix.Tgkill(c.Parent, c.Parent, 0) }},
	{name: "signal another process of the same user", try: func(c context) error { return unix.Kill(c.Other, 0) }},
	{name: "limit the parent", try: func(c context) error {
		return call(unix.SYS_PRLIMIT64, uintptr(c.Parent), unix.RLIMIT_NOFILE, 0, uintptr(unsafe.Pointer(&unix.Rlimit{})))
	}},
	{name: "limit another process of the same user", unlikely: true, try: func(c context) error {
		return call(unix.SYS_PRLIMIT64, uintptr(c.Other), unix.RLIMIT_NOFILE, 0, uintptr(unsafe.Pointer(&unix.Rlimit{})))
	}},
	{name: "open a raw IPv4 socket", try: func(context) error { return openSocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
	{name: "open a raw IPv6 socket", try: func(context) error { return openSocket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6) }},
	{name: "open a packet socket", try: func(context) error { return openSocket(unix.AF_PACKET, unix.SOCK_RAW, 0) }},
	{name: "open a netlink socket of the firewall", try: func(context) error { return openSocket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER) }},
	{name: "take a device down", try: func(context) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		request, err := unix.NewIfreq("lo")
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_UP | unix.IFF_LOOPBACK | unix.IFF_RUNNING)
		return call(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(request)))
	}},
	{name: "run a program", try: func(context) error {
		return call(unix.SYS_EXECVE, uintptr(unsafe.Pointer(&[]byte("/nonexistent\x00")[0])), 0, 0)
	}, unlikely: true},
	{name: "start a process", try: func(context) error {
		pid, _, failed := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
		if failed != 0 {
			return failed
		}
		if pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		return nil
	}},
	{name: "add a key", try: func(context) error {
		_, err := unix.AddKey("user", "pillion-test", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	}},
	{name: "load a module", try: func(context) error { return call(unix.SYS_INIT_MODULE) }, unlikely: true},
	{name: "change the clock", try: func(context) error {
		var t unix.Timespec
		return errors.Join(unix.ClockGettime(unix.CLOCK_REALTIME, &t), unix.ClockSettime(unix.CLOCK_REALTIME, &t))
	}},
	{name: "change root", try: func(context) error { return unix.Chroot("/") }},
	{name: "fault user memory", try: func(context) error { return call(unix.SYS_USERFAULTFD, 0) }},
	{name: "use io_uring", try: func(context) error {
		var p [128]byte
		return call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&p)))
	}, unlikely: true},
	{name: "open a file by its handle", unlikely: true, try: func(context) error { return call(unix.SYS_OPEN_BY_HANDLE_AT, uintptr(unix.O_RDONLY)) }},
	{name: "listen on another port", landlock: 4, try: func(c context) error { return bindPort(c.OtherPort) }},

	{name: "listen on its port", harmless: true, try: func(c context) error { return bindPort(c.OwnPort) }},
	{name: "write in its folder", harmless: true, try: func(context) error {
		return errors.Join(writeFile("own"), os.MkdirAll("a/b", 0o700), writeFile("a/b/c"), os.Rename("a/b/c", "a/d"), os.Truncate("a/d", 0), os.RemoveAll("a"))
	}},
	{name: "read the load", harmless: true, try: func(context) error { _, err := os.ReadFile("/proc/stat"); return err }},
	{name: "find the users of connections", harmless: true, try: func(context) error { _, err := os.ReadFile("/proc/self/net/tcp"); return err }},
	{name: "list interfaces", harmless: true, try: func(context) error { _, err := net.Interfaces(); return err }},
}

// run runs the attempts in a process of its own and returns what came of them.
func run(t *testing.T, c context, start func(*exec.Cmd) (wait func() error)) map[string]string {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), "PILLION_TEST_ATTEMPTS="+string(text))
	command.Stderr, command.ExtraFiles = os.Stderr, []*os.File{writer}
	wait := start(command)
	writer.Close()
	results := map[string]string{}
	if err := errors.Join(json.NewDecoder(reader).Decode(&results), wait()); err != nil {
		t.Fatal(err)
	}
	return results
}

// TestCompromisedProcess: arbitrary code in the unprivileged part gets nothing that the agent
// does not need. The same attempts as root show that it is the confinement which refuses them.
func TestCompromisedProcess(t *testing.T) {
	namespace.NeedRoot(t)
	folder := t.TempDir()
	user := User{fallbackID, fallbackID}
	own, shared, outside := filepath.Join(folder, "own"), filepath.Join(folder, "shared"), filepath.Join(folder, "outside")
	foreign := filepath.Join(outside, "secret")
	for _, dir := range []string{own, shared, outside} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(filepath.Dir(folder), 0o755), os.Chmod(shared, 0o777), os.WriteFile(foreign, []byte("x"), 0o600),
		os.MkdirAll("/run/pillion/devices", 0o700), Give(own, user)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.Remove("/etc/pillion-test")
		os.Remove("/run/pillion/pillion-test")
		os.Remove("/run/pillion/devices/source-1-1.lock")
	})
	bystander := exec.Command("sleep", "60")
	bystander.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: fallbackID, Gid: fallbackID}}
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bystander.Process.Kill(); bystander.Wait() })
	c := context{
		Outside: outside, Foreign: foreign, Shared: shared, Parent: os.Getpid(), Other: bystander.Process.Pid, OwnPort: free.Port(t), OtherPort: free.Port(t),
	}
	asRoot := run(t, c, func(command *exec.Cmd) func() error {
		command.Dir, command.SysProcAttr = outside, &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS} // mounts end with it
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		return command.Wait
	})
	c.Sealed = true
	confined := run(t, c, func(command *exec.Cmd) func() error {
		p, err := Start(command, Options{User: user, Folder: own, Ports: []uint16{uint16(c.OwnPort)}})
		if err != nil {
			t.Fatal(err)
		}
		return p.Err
	})
	version, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	for _, a := range attempts {
		if a.landlock > int(version) {
			continue
		}
		if got := confined[a.name]; (got == "succeeds") != a.harmless {
			t.Errorf("%s in the confined process: %s", a.name, got)
		}
		if got := asRoot[a.name]; got != "succeeds" && !a.unlikely {
			t.Errorf("%s as root: %s: the test shows nothing", a.name, got)
		}
		t.Logf("%-42s confined: %-60s root: %s", a.name, confined[a.name], asRoot[a.name])
	}
}

// TestSealNeedsConfinement: with privileges the unprivileged part does not run.
func TestSealNeedsConfinement(t *testing.T) {
	namespace.NeedRoot(t)
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), `PILLION_TEST_ATTEMPTS={"Sealed":true}`)
	if said, err := command.CombinedOutput(); err == nil {
		t.Errorf("a process of root goes on: %s", said)
	}
}
