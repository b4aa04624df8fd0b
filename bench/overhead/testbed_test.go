package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

func newExperiment(t *testing.T, s settings) *experiment {
	t.Helper()
	return &experiment{s, newTestbed(t), slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// fakeAgent writes a shell script that replaces the agent: it reports that it is
// ready, waits for the interrupt and prints the given summary.
func fakeAgent(t *testing.T, begin, summary string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	script := "#!/bin/bash\n" + begin + "\ntrap 'echo \"$summary\"; exit 0' INT\nsummary='" + summary + "'\n" +
		"echo '{\"ready\":{\"role\":\"'$1'\"}}'\necho '{\"packets\":1}'\nwhile :; do read -rt 1 <> <(:); done\n"
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
			what := agents{fakeAgent(t, test.begin, test.summary), "delay", 1, nil}
			effect, err := what.start(t.Context(), bed)
			var a account
			if err == nil {
				a, err = effect.stop()
			}
			switch {
			case test.wrong == "" && (err != nil || a.marked() != 12):
				t.Errorf("got %s, %v", a.Source, err)
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

func TestExperimentWithEmptyPrograms(t *testing.T) {
	x := newExperiment(t, settings{Treatment: "empty", Pairs: 2, TCPSeconds: 1, UDPSeconds: 0.02, Quick: true})
	outcomes, err := x.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		if len(o.pairs) != 2 || o.pairs[0].NativeFirst == o.pairs[1].NativeFirst {
			t.Errorf("%s: want 2 pairs in both orders, got %+v", o.cell, o.pairs)
		}
		// Only checks that both arms ran: the machine may be shared.
		if r := summarise(o).RatioCPU.Median; r < 0.1 || r > 10 {
			t.Errorf("%s: ratio %g", o.cell, r)
		}
	}
	all, err := x.measureCosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Programs) != 4 {
		t.Errorf("got %+v, want two empty programs under two families", all.Programs)
	}
	for _, p := range all.Programs {
		if p.Runs < burst || p.NsPerRun <= 0 {
			t.Errorf("program %+v", p)
		}
	}
}

// Requests and replies, and segments that are merged again, in either arm.
func TestKindsOfTCP(t *testing.T) {
	for _, kind := range []tcpTraffic{segmented, requests} {
		t.Run(string(kind[1:]), func(t *testing.T) {
			x := newExperiment(t, settings{Treatment: "empty", Pairs: 1, TCPSeconds: 1, UDPSeconds: 0.02, Only: "delay,loss 1-in-1 tcp4" + string(kind)})
			outcomes, err := x.run(t.Context())
			if err != nil || len(outcomes) != 1 {
				t.Fatalf("%d outcomes, %v", len(outcomes), err)
			}
			if r := summarise(outcomes[0]); r.Native.Median <= 0 || r.Treated.Median <= 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestSendRefusesLosses(t *testing.T) {
	x := newExperiment(t, settings{UDPSeconds: 0.01})
	if err := ip(x.testbed.source.namespace,
		"neighbour replace fd70:6c62::2 lladdr 02:00:00:00:00:99 dev pl-bench-a nud permanent"); err != nil {
		t.Fatal(err)
	}
	_, err := x.send(t.Context(), traffic{v6: true, payload: 56})
	if err == nil || !strings.Contains(err.Error(), "0 of ") {
		t.Errorf("error %v, want the count of packets that arrived", err)
	}
}

func TestSendStopsWhenInterrupted(t *testing.T) {
	x := newExperiment(t, settings{UDPSeconds: 1e6, TCPSeconds: 1e6})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.send(ctx, traffic{v6: true, payload: 56}); err == nil {
		t.Error("UDP: no error after the interrupt")
	}
	if _, err := x.send(ctx, traffic{v6: true}); err == nil {
		t.Error("TCP: no error after the interrupt")
	}
	if _, err := x.send(ctx, traffic{v6: true, tcp: requests}); err == nil {
		t.Error("requests: no error after the interrupt")
	}
}

func TestStaleTestbedsAreRemoved(t *testing.T) {
	namespace.NeedRoot(t)
	// No process has the largest pid.
	stale, live := namePrefix+"4194305-a", namePrefix+"1-a"
	for _, name := range []string{stale, live} {
		if err := netns.Create(name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := netns.Delete(name); err != nil {
				t.Error(err)
			}
		})
	}
	if err := removeStale(); err != nil {
		t.Fatal(err)
	}
	if netns.Exists(stale) || !netns.Exists(live) {
		t.Errorf("stale exists: %t, live exists: %t", netns.Exists(stale), netns.Exists(live))
	}
}
