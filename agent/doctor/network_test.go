package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/agent/validation"
	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/internal/test/sealed"
	"pillion.dev/session"
)

// insideVariable makes this program run the checks: only a separate process is in a
// namespace with all its threads.
const insideVariable = "PILLION_TEST_DOCTOR"

func TestMain(m *testing.M) {
	text, inside := os.LookupEnv(insideVariable)
	if !inside {
		os.Exit(sealed.Main(m))
	}
	var options Options
	err := json.Unmarshal([]byte(text), &options)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(Check(context.Background(), options))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// checkInside runs the doctor in a namespace and returns its checks by name.
func checkInside(t *testing.T, namespace string, options Options, changes ...func(*exec.Cmd)) map[string]session.Check {
	t.Helper()
	text, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), insideVariable+"="+string(text))
	var output, stderr strings.Builder
	command.Stdout, command.Stderr = &output, &stderr
	for _, change := range changes {
		change(command)
	}
	if err := netns.Do(namespace, command.Start); err != nil {
		t.Fatal(err)
	}
	var checks []session.Check
	if err := command.Wait(); err != nil {
		t.Fatalf("check in %s: %v: %s", namespace, err, stderr.String())
	}
	if err := json.Unmarshal([]byte(output.String()), &checks); err != nil {
		t.Fatal(err)
	}
	named := map[string]session.Check{}
	for _, check := range checks {
		named[check.Name] = check
	}
	return named
}

// pair is two namespaces with a link w in each between them.
func pair(t *testing.T) (near, far string) {
	t.Helper()
	near, far = namespace.New(t), namespace.New(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(netns.Do(near, func() error {
		handle, err := os.Open(netns.Path(far))
		if err != nil {
			return err
		}
		defer handle.Close()
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "w"}, PeerName: "w", PeerNamespace: netlink.NsFd(handle.Fd()),
		})
	}))
	for namespace, addresses := range map[string][]string{near: {"10.99.0.1/24", "fd99::1/64"}, far: {"10.99.0.2/24", "fd99::2/64"}} {
		must(netns.Do(namespace, func() error {
			w, err := netlink.LinkByName("w")
			if err != nil {
				return err
			}
			for _, text := range addresses {
				address, err := netlink.ParseAddr(text)
				if err != nil {
					return err
				}
				address.Flags = unix.IFA_F_NODAD
				if err := netlink.AddrAdd(w, address); err != nil {
					return err
				}
			}
			return netlink.LinkSetUp(w)
		}))
	}
	must(netns.Do(near, func() error { return untilLocal("fd99::1") }))
	must(netns.Do(far, func() error { return untilLocal("fd99::2") }))
	return near, far
}

// untilLocal waits until the kernel treats an IPv6 address as local, which is when it has
// noticed that the link has a carrier.
func untilLocal(address string) error {
	for end := time.Now().Add(hang.Limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if routes, err := netlink.RouteGet(net.ParseIP(address)); err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL {
			return nil
		}
	}
	return fmt.Errorf("%s is not local yet", address)
}

// attach puts a program on ingress of the namespace's link until the test ends.
func attach(t *testing.T, namespace, name string, instructions asm.Instructions) {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SchedCLS, License: "GPL", Instructions: instructions})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	err = netns.Do(namespace, func() error {
		w, err := net.InterfaceByName("w")
		if err != nil {
			return err
		}
		attached, err := link.AttachTCX(link.TCXOptions{Interface: w.Index, Program: program, Attach: ebpf.AttachTCXIngress})
		if err == nil {
			t.Cleanup(func() { attached.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// dropOptions drops IPv6 packets whose first header is destination options.
func dropOptions() asm.Instructions {
	const nextHeader, dropped, passed = 14 + 6, 2, -1
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadAbs(nextHeader, asm.Byte),
		asm.JNE.Imm(asm.R0, unix.IPPROTO_DSTOPTS, "pass"),
		asm.Mov.Imm(asm.R0, dropped),
		asm.Return(),
		asm.Mov.Imm(asm.R0, passed).WithSymbol("pass"),
		asm.Return(),
	}
}

// Without the privileges to query the kernel, checks are unknown rather than ok.
func TestCheckWithoutRights(t *testing.T) {
	near, _ := pair(t)
	found := checkInside(t, near, Options{Folder: "/"}, func(command *exec.Cmd) {
		const nobody = 65534
		program, err := os.Open(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { program.Close() })
		// The folder of the test program is not accessible to this user.
		command.Path, command.ExtraFiles = "/proc/self/fd/3", []*os.File{program}
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	})
	checkIs(t, found["capabilities"], Error, "user 65534", "CAP_BPF", "CAP_NET_ADMIN")
	checkIs(t, found["raw sockets"], Warning, "CAP_NET_RAW")
	checkIs(t, found["kernel tcx"], Warning, "unknown", "as root")
	checkIs(t, found["programs on w"], Warning, "unknown", "as root")
}

func TestCheckInANamespacePair(t *testing.T) {
	near, far := pair(t)
	options := Options{Folder: t.TempDir(), Peers: []session.Peer{
		{Agent: "b", Addresses: []string{"10.99.0.2", "fd99::2"}},
		{Agent: "silent", Addresses: []string{"10.99.0.9"}},
		{Agent: "away", Addresses: []string{"203.0.113.1"}},
		{Agent: "twin", Addresses: []string{"fd99::1"}},
	}}
	found := checkInside(t, near, options)
	checkIs(t, found["capabilities"], OK, "root")
	checkIs(t, found["device w"], OK, "MTU 1500 bytes", "GSO on", "GRO")
	checkIs(t, found["programs on w"], OK, "none")
	checkIs(t, found["peer b 10.99.0.2"], OK, "via w", "RTT", "path MTU 1500 bytes", "path probes answered by ICMP port unreachable")
	checkIs(t, found["peer b fd99::2"], OK, "via w", "RTT", "with destination options in", "path probes answered by ICMP port unreachable")
	checkIs(t, found["peer silent 10.99.0.9"], Warning, "no reply to ICMP echo", "not reachable: path probes to UDP port")
	checkIs(t, found["peer away 203.0.113.1"], Error, "no route")
	checkIs(t, found["peer twin fd99::1"], Error, "this host")
	checkIs(t, found["IPv6 destination options"], OK, "1 of 1")

	attach(t, far, "middlebox", dropOptions())
	attach(t, near, "foreign", asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()})
	found = checkInside(t, near, options)
	checkIs(t, found["programs on w"], Warning, "tcx ingress foreign", "root")
	checkIs(t, found["peer b 10.99.0.2"], OK, "RTT")
	checkIs(t, found["peer b fd99::2"], Warning, "RTT", "drops IPv6 destination options")
	checkIs(t, found["IPv6 destination options"], Warning, "0 of 1")
}

// TestCheckPort: a program that answers no path probes holds their port, on one address at least.
func TestCheckPort(t *testing.T) {
	near, _ := pair(t)
	check := func() session.Check { return checkInside(t, near, Options{Folder: t.TempDir()})["path probes"] }
	checkIs(t, check(), OK, "no other program holds UDP port 25253")
	var conn net.PacketConn
	if err := netns.Do(near, func() (err error) { conn, err = net.ListenPacket("udp", "10.99.0.1:25253"); return err }); err != nil {
		t.Fatal(err)
	}
	checkIs(t, check(), Warning, "path probes to this host are not answered: UDP port 25253 is in use by ", fmt.Sprintf("(process %d, user root)", os.Getpid()))
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	responder := validation.NewResponder(nil, slog.New(slog.DiscardHandler))
	if err := netns.Do(near, responder.Listen); err != nil {
		t.Fatal(err)
	}
	defer responder.Close()
	checkIs(t, check(), OK, "no other program holds UDP port 25253")
}
