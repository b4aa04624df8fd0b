package source

import (
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
)

// clearCallbacks attaches a program that sets the flags of sockets of a namespace without those that are set
// already, as some service meshes do.
func clearCallbacks(t *testing.T, namespace string) {
	t.Helper()
	var cookie uint64
	if err := netns.Do(namespace, func() (err error) {
		cookie, err = networkCookie()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	const activeEstablished, passiveEstablished, stateChanges = 4, 5, 4
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "neighbour", Type: ebpf.SockOps, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R2, asm.R6, 0, asm.Word), // op
		asm.JEq.Imm(asm.R2, activeEstablished, "set"),
		asm.JNE.Imm(asm.R2, passiveEstablished, "out"),
		asm.FnGetNetnsCookie.Call().WithSymbol("set"),
		asm.LoadImm(asm.R1, int64(cookie), asm.DWord),
		asm.JNE.Reg(asm.R0, asm.R1, "out"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Imm(asm.R2, stateChanges),
		asm.FnSockOpsCbFlagsSet.Call(),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("out"),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	attached, err := hook.AttachSockets(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { attached.Close() })
}

// TestClearedCallbacks: segments of connections whose callbacks another program cleared have a cause of their own,
// the program is named, and the callbacks are set again.
func TestClearedCallbacks(t *testing.T) {
	for family, address := range map[string]string{"ipv4": "127.0.0.1", "ipv6": "::1"} {
		t.Run(family, func(t *testing.T) {
			name := namespace.New(t)
			s := openOnLoopback(t, name, Settings{Policy: Policy{Modules: wire.Delay | wire.Loss, Encodings: wire.EncodingList{wire.TCPOption}}})
			connect(t, name, address).echo(t)
			if tally := s.mustTally(t); tally.Connections.Cleared != 0 || tally.Skipped["tcp_callbacks"] != 0 {
				t.Errorf("before: %+v", tally)
			}
			hidden := func(now time.Duration) string {
				t.Helper()
				text, _, err := s.Hidden(now)
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			if text := hidden(time.Hour); text != "" {
				t.Errorf("before: %q", text)
			}
			clearCallbacks(t, name)
			p := connect(t, name, address)
			p.echo(t)
			before := s.mustTally(t)
			if before.Connections.Cleared == 0 || family == "ipv4" && before.Skipped["tcp_callbacks"] == 0 || before.Skipped["tcp_options"] != 0 {
				t.Errorf("%+v", before)
			}
			const seconds = time.Hour + time.Second
			if err := s.FollowConnections(seconds); err != nil {
				t.Fatal(err)
			}
			if text := hidden(seconds); !strings.HasPrefix(text, "neighbour (") || !strings.Contains(text, "the callbacks of TCP connections are cleared") {
				t.Errorf("%q", text)
			}
			p.echo(t)
			after := s.mustTally(t)
			if after.Connections.Limit != "" {
				return // they can be set again from Linux 6.12 on
			}
			if after.Marked-before.Marked < 2 || after.Connections.Cleared != before.Connections.Cleared {
				t.Errorf("%d segments marked after the callbacks were set again, %d more without callbacks", after.Marked-before.Marked, after.Connections.Cleared-before.Connections.Cleared)
			}
			if text := hidden(seconds + clearedFor); text != "" {
				t.Errorf("long after: %q", text)
			}
		})
	}
}
