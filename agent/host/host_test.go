package host

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"pillion.dev/agent/spool"
	"pillion.dev/internal/clock"
	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/measure"
	"pillion.dev/probe/hook"
)

// checkFits fails on a sample that does not match the schema.
func checkFits(t *testing.T, schema *measure.Schema, samples []measure.Sample) {
	t.Helper()
	if len(samples) == 0 {
		t.Errorf("%s: no sample", schema.Name)
	}
	for _, sample := range samples {
		if len(sample) != len(schema.Fields) {
			t.Fatalf("%s: %d values, want %d", schema.Name, len(sample), len(schema.Fields))
		}
		for i, value := range sample {
			if f := schema.Fields[i]; value.Type() != f.Type && (i == 0 || !value.IsNull()) {
				t.Errorf("%s.%s: value of type %v, want %v", schema.Name, f.Name, value.Type(), f.Type)
			}
		}
	}
}

func TestSamplerMatchesSchemas(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	times := map[string]int{}
	s := &Sampler{
		Interval: time.Millisecond,
		Spool:    func() spool.Stats { return spool.Stats{SentBatches: 7} },
		Probe:    func() *hook.Cost { return &hook.Cost{Time: time.Second, Runs: 9} },
	}
	s.Sink = func(schema *measure.Schema, samples []measure.Sample) error {
		checkFits(t, schema, samples)
		times[schema.Name]++
		if schema == &measure.Agent {
			if got := samples[0][schema.Index("probe_runs")].Uint64(); got != 9 {
				t.Errorf("probe_runs is %d", got)
			}
			if times[schema.Name] == 3 {
				cancel()
			}
		}
		return errors.New("a sink that fails ends nothing")
	}
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for _, schema := range []*measure.Schema{&measure.Clock, &measure.Host, &measure.Interfaces, &measure.Agent} {
		if times[schema.Name] != 3 {
			t.Errorf("%s was read %d times, want 3", schema.Name, times[schema.Name])
		}
	}
	if s.Clock().By == "" {
		t.Error("the state has no clock")
	}
}

func TestSamplesDescribeThisHost(t *testing.T) {
	l, err := ReadHost(nil)
	if err != nil {
		t.Fatal(err)
	}
	if l.MemoryTotal == 0 || l.Memory > l.MemoryTotal || l.CPUs == 0 || !l.Samples()[0][1].IsNull() {
		t.Errorf("got %+v", l)
	}
	c, err := ReadAgent(nil, spool.Stats{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Memory == 0 || c.used <= 0 || !c.Samples()[0][1].IsNull() || !c.Samples()[0][12].IsNull() {
		t.Errorf("got %+v", c)
	}
	state, err := Describe()
	if err != nil || state.Kernel == "" {
		t.Errorf("got %+v, %v", state, err)
	}
}

// TestLoopbackAddresses: what names a router is reported as an address of loopback; without one,
// loopback is left out.
func TestLoopbackAddresses(t *testing.T) {
	host := namespace.New(t)
	for _, want := range [][]string{nil, {"192.0.2.7/32"}} {
		err := netns.Do(host, func() error {
			lo, err := netlink.LinkByName("lo")
			for _, text := range want {
				address, _ := netlink.ParseAddr(text)
				err = errors.Join(err, netlink.AddrAdd(lo, address))
			}
			if err != nil {
				return err
			}
			interfaces, err := Addresses()
			var got []string
			for _, i := range interfaces {
				if i.Loopback {
					got = append(got, i.Addresses...)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %+v, want %v", interfaces, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestGlobalAddresses(t *testing.T) {
	var addresses []net.Addr
	for _, text := range []string{"127.0.0.1/8", "10.0.0.1/24", "169.254.3.4/16", "::1/128", "fe80::1/64", "fd00::1/64", "2001:db8::1/64"} {
		ip, prefix, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		prefix.IP = ip
		addresses = append(addresses, prefix)
	}
	want := []string{"10.0.0.1/24", "fd00::1/64", "2001:db8::1/64"}
	if got := global(addresses); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Lines of chronyc are in the form that chronyc(1) describes.
const (
	chronyGood = "C0248F97,192.36.143.151,2,1606757613.123456789,-0.000021000,0.000012000,0.000030000,-12.345,0.001,0.020,0.010000000,0.000500000,64.5,Normal\n"
	chronyNone = "00000000,,0,0.000000000,0.000000000,0.000000000,0.000000000,0.000,0.000,0.000,1.000000000,1.000000000,0.0,Not synchronised\n"
	ptpGood    = "sending: GET TIME_STATUS_NP\n\t0cc47a.fffe.0aa6a7-0 seq 0 RESPONSE MANAGEMENT TIME_STATUS_NP\n" +
		"\t\tmaster_offset              -42\n\t\tingress_time               1606757613000000000\n" +
		"\t\tgmPresent                  true\n\t\tgmIdentity                 0cc47a.fffe.0aa6a8\n"
)

func TestReadChrony(t *testing.T) {
	for _, test := range []struct {
		name, text string
		bad        bool
		want       Clock
	}{
		{name: "synchronised", text: chronyGood, want: Clock{By: byChrony, Reference: "192.36.143.151", State: clock.State{
			Synchronised: true, Offset: 12 * time.Microsecond, EstimatedError: 30 * time.Microsecond, FrequencyPPM: -12.345,
			MaxError: 21*time.Microsecond + 500*time.Microsecond + 5*time.Millisecond}}},
		{name: "not synchronised", text: chronyNone, want: Clock{By: byChrony, Reference: "00000000"}},
		{name: "empty", bad: true},
		{name: "error of the tool", text: "506 Cannot talk to daemon\n", bad: true},
		{name: "not a number", text: "C0248F97,a,2,1,x,0,0,0,0,0,0,0,0,Normal", bad: true},
		{name: "beyond all clocks", text: "C0248F97,a,2,1,1e300,0,0,0,0,0,0,0,0,Normal", bad: true},
		{name: "NaN", text: "C0248F97,a,2,1,0,NaN,0,0,0,0,0,0,0,Normal", bad: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			tracking, err := parseChrony(test.text)
			if (err != nil) != test.bad {
				t.Fatalf("got %v", err)
			}
			var c Clock
			if c.followChrony(tracking); err == nil && c != test.want {
				t.Errorf("got %+v, want %+v", c, test.want)
			}
		})
	}
}

func TestReadPTP(t *testing.T) {
	status, err := parsePTP(ptpGood)
	if err != nil {
		t.Fatal(err)
	}
	c := Clock{State: clock.State{MaxError: time.Second}}
	c.followPTP(status)
	want := Clock{By: byPTP, Reference: "0cc47a.fffe.0aa6a8", State: clock.State{
		Synchronised: true, Offset: -42, EstimatedError: 42, MaxError: time.Second}}
	if c != want || !status.present {
		t.Errorf("got %+v, want %+v", c, want)
	}
	if _, err := parsePTP("nothing"); err == nil {
		t.Error("no error without an offset")
	}
}

func FuzzParseChrony(f *testing.F) {
	f.Add(chronyGood)
	f.Add(chronyNone)
	f.Fuzz(func(t *testing.T, text string) {
		if tracking, err := parseChrony(text); err == nil && tracking.rootDelay >= 0 && tracking.rootDispersion >= 0 && tracking.bound() < 0 {
			t.Errorf("negative bound of %+v", tracking)
		}
	})
}

func FuzzParsePTP(f *testing.F) {
	f.Add(ptpGood)
	f.Fuzz(func(t *testing.T, text string) {
		if status, err := parsePTP(text); err == nil && status.offset.Abs() < 0 {
			t.Errorf("negative distance of %+v", status)
		}
	})
}

// A clock step between two readings is in the second sample. The test shifts the first
// reading rather than the host's clock.
func TestClockStepIsReported(t *testing.T) {
	for _, step := range []time.Duration{10 * time.Second, -10 * time.Second} {
		first, err := ReadClock(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		first.base.Distance -= step
		second, err := ReadClock(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		if first.Step != 0 || (second.Step-step).Abs() > time.Second {
			t.Errorf("step %v, want %v", second.Step, step)
		}
		if s := second.Session(); s.Steps != 1 || s.StepNs != int64(second.Step) {
			t.Errorf("the state says %+v, want one step of %v", s, second.Step)
		}
		third, err := ReadClock(t.Context(), second)
		if err != nil {
			t.Fatal(err)
		}
		if s := third.Session(); s.Steps != 1 || s.StepNs != int64(second.Step) {
			t.Errorf("the state says later %+v, want the same", s)
		}
		if got := second.Samples()[0][measure.Clock.Index("step_ns")].Int64(); got != int64(second.Step) {
			t.Errorf("the row says %d ns, want %v", got, second.Step)
		}
	}
}
