package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

func newTestbed(t *testing.T) *testbed {
	t.Helper()
	namespace.NeedRoot(t)
	bed, err := buildTestbed()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bed.Close(); err != nil {
			t.Error(err)
		}
	})
	return bed
}

func newTestBench(t *testing.T, s settings, cells ...cell) *bench {
	t.Helper()
	namespace.NeedRoot(t)
	b, err := newBench(t.Context(), s, cells)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func armOf(t *testing.T, name string) arm {
	t.Helper()
	for _, a := range arms() {
		if a.name == name {
			return a
		}
	}
	t.Fatalf("no arm %s", name)
	return arm{}
}

// fakeAgent writes a script that replaces the agent: it reports that it is ready, waits
// for the interrupt and prints the given summary. The interrupt is blocked before it can
// arrive; a shell may lose it between two commands.
func fakeAgent(t *testing.T, begin, summary string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	script := "#!/bin/bash\n" + begin + "\nexec python3 - \"$1\" '" + summary + "' <<'end'\n" + `import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print('{"ready":{"role":"%s"}}' % sys.argv[1])
print('{"packets":1}', flush=True)
signal.sigwait({signal.SIGINT})
print(sys.argv[2])
end
`
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAgentsTreatment(t *testing.T) {
	const good = `{"summary":{"marked":12,"packets":11}}`
	bed := newTestbed(t)
	for _, test := range []struct{ name, begin, summary, wrong string }{
		{"works", "", good, ""},
		{"refuses to start", "echo 'source: no such device: eth7' >&2; exit 2", good, "exit status 2: source: no such device"},
		{"marks nothing", "", `{"summary":{"marked":0,"packets":9}}`, "it marked no packet"},
		{"accepts nothing", "", `{"summary":{"marked":9,"packets":0}}`, "it accepted no mark"},
		{"leaves no summary", "", `bye`, "it marked no packet"},
		{"only the source fails", `[ "$1" = destination ] || exit 3`, good, "source --dev pl-bench-a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			what := agents{fakeAgent(t, test.begin, test.summary), "delay", 1, nil, false}
			effect, err := what.start(t.Context(), bed)
			var a account
			if err == nil {
				a, err = effect.stop()
			}
			switch {
			case test.wrong == "" && (err != nil || a.Marked != 12 || a.Accepted != 11):
				t.Errorf("got %+v, %v", a, err)
			case test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)):
				t.Errorf("error %v, want one with %q", err, test.wrong)
			}
		})
	}
}

func TestAgentThatEndsDuringTheRun(t *testing.T) {
	bed := newTestbed(t)
	p, err := startProcess(t.Context(), bed.source.namespace,
		func(line string) bool { return strings.Contains(line, "ready") }, "sh", "-c", "echo ready; echo 'lost my map' >&2; exit 4")
	if err == nil {
		<-p.ended
		_, err = p.stop()
	}
	if err == nil || !strings.Contains(err.Error(), "exit status 4: lost my map") {
		t.Errorf("error %v, want its exit status and last words", err)
	}
}

func TestCheckBareSeesPrograms(t *testing.T) {
	bed := newTestbed(t)
	if err := checkBare(bed); err != nil {
		t.Fatalf("new testbed: %v", err)
	}
	effect, err := empty{}.start(t.Context(), bed)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkBare(bed); err == nil || !strings.Contains(err.Error(), "is attached") {
		t.Errorf("with programs attached: %v", err)
	}
	if _, err := effect.stop(); err != nil {
		t.Fatal(err)
	}
	if err := checkBare(bed); err != nil {
		t.Errorf("after stop: %v", err)
	}
}

func TestCheckBareSeesFilters(t *testing.T) {
	bed := newTestbed(t)
	tc := func(command ...string) {
		t.Helper()
		err := netns.Do(bed.destination.namespace, func() error {
			_, err := run("tc", command...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	device := bed.destination.device
	tc("qdisc", "add", "dev", device, "clsact")
	if err := checkBare(bed); err != nil {
		t.Errorf("with an empty clsact: %v", err)
	}
	tc("filter", "add", "dev", device, "egress", "bpf", "bytecode", "1,6 0 0 0")
	if err := checkBare(bed); err == nil || !strings.Contains(err.Error(), "filter is attached at egress") {
		t.Errorf("with a filter: %v", err)
	}
}

func TestCheckBareSeesCaptures(t *testing.T) {
	bed := newTestbed(t)
	effect, err := tcpdump{}.start(t.Context(), bed)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkBare(bed); err == nil || !strings.Contains(err.Error(), "packet sockets are open: 1") {
		t.Errorf("with a capture: %v", err)
	}
	if _, err := effect.stop(); err != nil {
		t.Fatal(err)
	}
	if err := checkBare(bed); err != nil {
		t.Errorf("after stop: %v", err)
	}
}

// Every treatment that needs no agent, under every kind of traffic.
func TestExperimentWithoutAgents(t *testing.T) {
	s := settings{Blocks: 1, TCPSeconds: 1, UDPSeconds: 0.02, Arms: "none-again,empty,tcpdump", Only: "udp6-56,tcp4,programs6"}
	blocks, costs, _, err := selectArms(s)
	if err != nil {
		t.Fatal(err)
	}
	x := experiment{settings: s, runner: newTestBench(t, s, s.cells()...), log: slog.New(slog.DiscardHandler), now: time.Now}
	x.design(s.cells(), blocks, costs)
	if err := x.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, o := range x.outcomes {
		r := summarise(o)
		if len(r.Blocks) != 1 || len(r.Blocks[0].Trials) != len(o.arms) {
			t.Errorf("%s: %+v", o.cell, r)
		}
		for _, a := range r.Arms {
			if !o.cell.programs && a.Rate.Median <= 0 {
				t.Errorf("%s: arm %s: %+v", o.cell, a.Arm, a)
			}
		}
		if !o.cell.programs {
			continue
		}
		found, _ := o.blocks[0].of(armEmpty)
		if len(found.Programs) != 2 || found.Programs[0].Runs < burst || found.Programs[0].NsPerRun <= 0 {
			t.Errorf("programs %+v, want both empty ones", found.Programs)
		}
	}
}

// Scripts replace the peers that not every machine has.
func TestPeers(t *testing.T) {
	for _, test := range []struct{ name, argument, ready string }{
		{"softflowd", "-d", "softflowd v1.1.0 starting data collection"},
		{"epping", "-i", "Starting ePPing in standard mode tracking TCP, ICMP on pl-bench-a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
			script := "#!/bin/bash\ntrap 'exit 0' INT\n[ \"$1\" = " + test.argument + " ] || exit 3\n" +
				"echo '" + test.ready + "' >&2\nwhile :; do read -rt 1 <> <(:); done\n"
			if err := os.WriteFile(filepath.Join(folder, test.name), []byte(script), 0o755); err != nil {
				t.Fatal(err)
			}
			c := cell{traffic: traffic{v6: true, payload: 56}}
			b := newTestBench(t, settings{UDPSeconds: 0.02, EPPing: test.name}, c)
			r, err := b.run(t.Context(), armOf(t, test.name), c)
			if err != nil || r.UDP == nil || r.UDP.Delivered == 0 || r.Arm != test.name {
				t.Errorf("got %+v, %v", r, err)
			}
			left, err := filepath.Glob("/dev/shm/" + namePrefix + strconv.Itoa(os.Getpid()) + "-*")
			if err != nil || len(left) > 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

func TestSendRefusesLosses(t *testing.T) {
	b := newTestBench(t, settings{UDPSeconds: 0.01})
	if err := netns.IP(b.testbed.source.namespace,
		"neighbour replace fd70:6c62::2 lladdr 02:00:00:00:00:99 dev pl-bench-a nud permanent"); err != nil {
		t.Fatal(err)
	}
	_, err := b.run(t.Context(), armOf(t, armNone), cell{traffic: traffic{v6: true, payload: 56}})
	var lost lossError
	if !errors.As(err, &lost) || lost.sent == 0 || lost.delivered != 0 {
		t.Errorf("error %v, want the count of packets that arrived", err)
	}
}

func TestSendStopsWhenInterrupted(t *testing.T) {
	b := newTestBench(t, settings{UDPSeconds: 1e6, TCPSeconds: 1e6}, cell{traffic: traffic{v6: true}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.send(ctx, traffic{v6: true, payload: 56}); err == nil {
		t.Error("UDP: no error after the interrupt")
	}
	if _, err := b.send(ctx, traffic{v6: true}); err == nil {
		t.Error("TCP: no error after the interrupt")
	}
	if _, err := b.send(ctx, traffic{v6: true, tcp: requests}); err == nil {
		t.Error("requests: no error after the interrupt")
	}
}
