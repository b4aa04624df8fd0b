package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

func newTestbed(t *testing.T) *testbed {
	t.Helper()
	namespace.NeedRoot(t)
	bed, err := buildTestbed(1500)
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

// newTestBench parses the options as the program does.
func newTestBench(t *testing.T, arguments ...string) *bench {
	t.Helper()
	namespace.NeedRoot(t)
	s, _, err := parseFlags(arguments)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBench(s)
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
	for _, test := range []struct {
		name, begin, summary, wrong string
		idle                        bool
	}{
		{"works", "", good, "", false},
		{"refuses to start", "echo 'source: no such device: eth7' >&2; exit 2", good, "exit status 2: source: no such device", false},
		{"marks nothing", "", `{"summary":{"marked":0,"packets":9}}`, "it marked no packet", false},
		{"accepts nothing", "", `{"summary":{"marked":9,"packets":0}}`, "it accepted no mark", false},
		{"leaves no summary", "", `bye`, "it marked no packet", false},
		{"only the source fails", `[ "$1" = destination ] || exit 3`, good, "source --dev pl-bench-a", false},
		{"marks although it is to be idle", "", good, "was to mark none", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			what := agents{binary: fakeAgent(t, test.begin, test.summary), every: 1, idle: test.idle}
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
	p, err := startProcess(t.Context(), bed.source.namespace, "ready", "sh", "-c", "echo ready; echo 'lost my map' >&2; exit 4")
	if err == nil {
		<-p.Ended()
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

// Every kind of traffic, under every treatment that needs no agent.
func TestMeasureCPU(t *testing.T) {
	for _, arguments := range []string{
		"--arm none --traffic udp6-56", "--arm empty --traffic udp4-1400", "--arm tcpdump --traffic udp6-512", "--arm none --traffic tcp6",
		"--arm empty --traffic tcp4-segmented", "--arm none --traffic tcp4-requests-700",
	} {
		t.Run(arguments, func(t *testing.T) {
			b := newTestBench(t, append(strings.Fields(arguments), "--length", "10ms")...)
			found, err := measureCPU(t.Context(), b)
			r, _ := found.(cpuResult)
			if err != nil || r.Rate <= 0 || r.RateByClock <= 0 || r.MbitPerS <= 0 || r.Packets == 0 || r.Delivered != r.Packets || r.MarkedShare != 1 {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

// The oracles are the specified rate, and arithmetic on lengths of headers.
func TestMeasureRate(t *testing.T) {
	b := newTestBench(t, "--measure", "rate", "--traffic", "udp6-1400", "--rate", "100", "--length", "100ms")
	found, err := measureRate(t.Context(), b)
	r, _ := found.(rateResult)
	const due = 100e6 / 8 / (1400 + 8 + 40 + 38) * 0.1
	if err != nil || math.Abs(float64(r.Due)-due) > 1 || r.Delivered > r.Packets || r.Packets > r.Due || r.Delivered == 0 {
		t.Errorf("got %+v, %v, want %.0f packets", r, err, due)
	}
	if want := 100 * 1400. / (1400 + 8 + 40 + 38) * r.Share; math.Abs(r.MbitPerS-want) > 0.2 {
		t.Errorf("%g Mbit/s, want %g", r.MbitPerS, want)
	}
}

func TestMeasureRateOfMoreThanIsPossible(t *testing.T) {
	b := newTestBench(t, "--measure", "rate", "--traffic", "udp4-56", "--rate", "1e6", "--length", "20ms")
	found, err := measureRate(t.Context(), b)
	r, _ := found.(rateResult)
	if err != nil || r.Delivered == 0 || r.Share > 0.5 || math.Abs(r.Share+r.Reduction-1) > 1e-9 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestMeasureBytes(t *testing.T) {
	const frame = 14 + 40 + 8 + 512
	for _, test := range []struct {
		method string
		added  float64
	}{{inLine, 0}, {active, frame}, {passive, 2 * (14 + 40 + 8 + 16)}} {
		t.Run(test.method, func(t *testing.T) {
			b := newTestBench(t, "--measure", "bytes", "--traffic", "udp6-512", "--method", test.method)
			found, err := measureBytes(t.Context(), b)
			r, _ := found.(bytesResult)
			if err != nil || r.FrameBytes != frame || r.AddedBytes != test.added || math.Abs(r.AddedShare-test.added/(frame+test.added)) > 1e-9 {
				t.Errorf("got %+v, %v, want %g bytes more than %d", r, err, test.added, frame)
			}
		})
	}
}

func TestMeasurePrograms(t *testing.T) {
	b := newTestBench(t, "--measure", "programs", "--arm", "empty", "--length", "20ms")
	found, err := measurePrograms(t.Context(), b)
	r, _ := found.(programsResult)
	// A busy machine adds interrupts to either: what is compared has no bound here.
	if err != nil || r.CPUNs <= 0 || r.TotalNs != r.SourceNs+r.DestinationNs || math.Abs(r.SourceShare*r.CPUNs-r.SourceNs) > 1e-6 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestRoomIsTimed(t *testing.T) {
	b := newTestBench(t, "--length", "20ms")
	base, err := b.stage(t.Context(), empty{})
	if err != nil {
		t.Fatal(err)
	}
	made, err := b.stage(t.Context(), room{24})
	if err != nil {
		t.Fatal(err)
	}
	if base.source <= 0 || made.source <= 0 {
		t.Errorf("empty program %+v, room %+v", base, made)
	}
	t.Logf("empty program %.0f ns, room %.0f ns: on a busy machine interrupts hit one of the two", base.source, made.source)
}

func TestCountedFailsWithoutTraffic(t *testing.T) {
	b := newTestBench(t)
	var found times
	if err := b.counted(func() error { return errors.New("no traffic") }, &found); err == nil {
		t.Error("no error")
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
			b := newTestBench(t, "--arm", test.name, "--length", "20ms")
			found, err := measureCPU(t.Context(), b)
			if r, _ := found.(cpuResult); err != nil || r.Delivered == 0 || r.Arm != test.name {
				t.Errorf("got %+v, %v", r, err)
			}
			left, err := filepath.Glob("/dev/shm/" + namePrefix + strconv.Itoa(os.Getpid()) + "-*")
			if err != nil || len(left) > 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

func TestLossesShow(t *testing.T) {
	b := newTestBench(t, "--length", "10ms")
	if err := netns.IP(b.testbed.source.namespace,
		"neighbour replace fd70:6c62::2 lladdr 02:00:00:00:00:99 dev pl-bench-a nud permanent"); err != nil {
		t.Fatal(err)
	}
	found, err := measureCPU(t.Context(), b)
	if r, _ := found.(cpuResult); err != nil || r.Packets == 0 || r.Delivered != 0 {
		t.Errorf("got %+v, %v, want that no packet arrived", r, err)
	}
	if _, err := measurePrograms(t.Context(), b); err == nil || !strings.Contains(err.Error(), "0 of ") {
		t.Errorf("times of programs: error %v, want the count of packets that arrived", err)
	}
}

func TestSendStopsWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, arguments := range []string{
		"--traffic udp6-56", "--traffic tcp6", "--traffic tcp6-requests", "--measure rate --rate 1", "--measure bytes",
	} {
		t.Run(arguments, func(t *testing.T) {
			b := newTestBench(t, append(strings.Fields(arguments), "--length", "1000h")...)
			_, what, _ := parseFlags(strings.Fields(arguments))
			if _, err := measures[what](ctx, b); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v after the interrupt", err)
			}
		})
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	namespace.NeedRoot(t)
	var output strings.Builder
	if err := measure(t.Context(), []string{"--arm", "empty", "--length", "5ms"}, &output); err != nil {
		t.Fatal(err)
	}
	var r cpuResult
	if err := json.Unmarshal([]byte(output.String()), &r); err != nil || r.Rate <= 0 || strings.Count(output.String(), "\n") != 1 {
		t.Errorf("printed %q (%v), want one object", output.String(), err)
	}
	names, err := run("ip", "netns", "list")
	if err != nil || strings.Contains(names, namePrefix+strconv.Itoa(os.Getpid())+"-") {
		t.Errorf("namespaces left: %s (%v)", names, err)
	}
}
