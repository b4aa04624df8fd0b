package runner

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"pillion.dev/agent/validation"
	"pillion.dev/internal/netns"
	"pillion.dev/session"
)

// holdPort holds a UDP address, such as "udp4 :25253", until its standard input ends.
func holdPort(place string) {
	network, address, _ := strings.Cut(place, " ")
	if _, err := net.ListenPacket(network, address); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// hold has a process of user nobody hold a UDP address in a namespace until release is called.
func hold(t *testing.T, namespace, place string) (process int, release func()) {
	t.Helper()
	program, err := os.Open(os.Args[0]) // its folder is not accessible to this user
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	command := exec.Command("/proc/self/fd/3")
	command.ExtraFiles, command.Env = []*os.File{program}, append(os.Environ(), "PILLION_TEST_HOLD="+place)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := netns.Do(namespace, command.Start); err != nil {
		t.Fatal(err)
	}
	release = func() {
		if input.Close() == nil {
			_ = command.Wait()
		}
	}
	t.Cleanup(release)
	if said, err := bufio.NewReader(output).ReadString('\n'); said != "held\n" {
		t.Fatalf("hold %s: %q, %v", place, said, err)
	}
	return command.Process.Pid, release
}

// TestUnansweredProbes: a destination says who holds the port of path probes, in which families they are not
// answered therefore, and answers them once the port is free.
func TestUnansweredProbes(t *testing.T) {
	for _, row := range []struct{ name, place, families string }{
		{"all addresses of both families", "udp :25253", "IPv4 and IPv6"},
		{"all addresses of one", "udp4 :25253", "IPv4"},
		{"one address", "udp4 " + destinationAddress + ":25253", "IPv4"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRoad(t)
			to := newHost(t, r, r.to)
			process, release := hold(t, r.to, row.place)
			state := to.apply(session.Assignment{Revision: 1, Destinations: []session.DestinationTask{task("s", false, time.Hour)}})
			want := fmt.Sprintf(`path probes over %s are not answered: UDP port 25253 is in use by "3" (process %d, user nobody)`, row.families, process)
			if !state.Running || state.Unanswered != want || state.Limit != want {
				t.Errorf("%+v, want %q", state, want)
			}
			release()
			if err := netns.Do(r.to, func() error { to.follow(); return nil }); err != nil {
				t.Fatal(err)
			}
			if states := to.States(); len(states) != 1 || !states[0].Running || states[0].Unanswered != "" || states[0].Limit != "" {
				t.Errorf("after the port is free: %+v", states)
			}
			var reply validation.Reply
			if err := netns.Do(r.from, func() (err error) {
				reply, err = validation.Ask(t.Context(), netip.MustParseAddr(destinationAddress), 0)
				return err
			}); err != nil || reply != validation.Answered {
				t.Errorf("reply %v, %v", reply, err)
			}
		})
	}
}
