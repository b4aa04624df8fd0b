package trace

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pillion.dev/measure"
)

var start = time.Unix(1700000000, 0)

func newWalk(options Options) *walk {
	if !options.Destination.IsValid() {
		options.Destination = distant4
	}
	if err := options.complete(); err != nil {
		panic(err)
	}
	return &walk{Options: options, probes: make([]probe, options.MaxHops*options.Attempts)}
}

// answers are a network in which each TTL is answered by a kind, from its own address, or not.
type answers struct {
	kinds []kind // for TTL 1 and so on; 0: silence
	lose  func(number int) bool
	rtt   time.Duration
}

// play runs a walk against answers with a simulated clock, and returns how long it took and
// the probes in order.
func (w *walk) play(network answers) (time.Duration, []int) {
	now := start
	type pending struct {
		answer
		at time.Time
	}
	var queue []pending
	var order []int
	for {
		number, at := w.next()
		for len(queue) > 0 && !queue[0].at.After(at) {
			now = queue[0].at
			w.take(queue[0].answer)
			queue = queue[1:]
			number, at = w.next()
		}
		if at.After(now) {
			now = at
		}
		if number < 0 {
			return now.Sub(start), order
		}
		w.sent(number, now)
		order = append(order, number)
		ttl := w.ttl(number)
		if ttl > len(network.kinds) || network.kinds[ttl-1] == 0 || network.lose != nil && network.lose(number) {
			continue
		}
		a := answer{number: number, kind: network.kinds[ttl-1], from: netip.AddrFrom4([4]byte{10, 0, 0, byte(ttl)})}
		a.read = now.Add(network.rtt)
		queue = append(queue, pending{a, a.read})
	}
}

func TestWalk(t *testing.T) {
	const p, e, r = passedOn, reachedEnd, refusedOn
	tests := map[string]struct {
		options Options
		network answers
		hops    string // answers of each hop
		reached bool
		longest time.Duration
	}{
		"all answer":               {Options{}, answers{kinds: []kind{p, p, p, e}, rtt: time.Millisecond}, "3 3 3 3", true, 200 * time.Millisecond},
		"far away":                 {Options{}, answers{kinds: []kind{p, p, p, e}, rtt: 300 * time.Millisecond}, "3 3 3 3", true, time.Second},
		"silent hop":               {Options{}, answers{kinds: []kind{p, 0, p, e}, rtt: time.Millisecond}, "3 0 3 3", true, 700 * time.Millisecond},
		"no answer":                {Options{}, answers{}, "0 0 0 0 0", false, 2200 * time.Millisecond},
		"nothing behind the first": {Options{}, answers{kinds: []kind{p}, rtt: time.Millisecond}, "3 0 0 0 0 0", false, 1200 * time.Millisecond},
		"gap of four":              {Options{}, answers{kinds: []kind{0, 0, 0, 0, e}, rtt: time.Millisecond}, "0 0 0 0 3", true, 1200 * time.Millisecond},
		"gap is too long":          {Options{Gap: 2}, answers{kinds: []kind{p, 0, 0, e}, rtt: time.Millisecond}, "3 0 0", false, 1200 * time.Millisecond},
		"hop limit":                {Options{MaxHops: 2}, answers{kinds: []kind{p, p, p, e}, rtt: time.Millisecond}, "3 3", false, 200 * time.Millisecond},
		"refused":                  {Options{}, answers{kinds: []kind{p, r}, rtt: time.Millisecond}, "3 3", false, 200 * time.Millisecond},
		"refused but reached":      {Options{}, answers{kinds: []kind{p, r, e}, rtt: 30 * time.Millisecond}, "3 3 3", true, 400 * time.Millisecond},
		"answers behind the end":   {Options{}, answers{kinds: []kind{e, e, e, e, e, e}, rtt: 100 * time.Millisecond}, "3", true, 400 * time.Millisecond},
		"first probes lost": {Options{}, answers{kinds: []kind{p, p, e}, rtt: time.Millisecond, lose: func(n int) bool { return n%3 == 0 }},
			"2 2 2", true, 2200 * time.Millisecond},
		"one attempt": {Options{Attempts: 1}, answers{kinds: []kind{p, p, e}, rtt: time.Millisecond}, "1 1 1", true, 100 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWalk(test.options)
			took, _ := w.play(test.network)
			var got []string
			for _, h := range w.hops() {
				got = append(got, fmt.Sprint(h.Answers))
				if h.Sent != w.Attempts {
					t.Errorf("hop %d: %d sent, want %d", h.TTL, h.Sent, w.Attempts)
				}
				if h.Answers > 0 && h.RTT != test.network.rtt {
					t.Errorf("hop %d: round trip %s, want %s", h.TTL, h.RTT, test.network.rtt)
				}
			}
			if strings.Join(got, " ") != test.hops || (w.reached > 0) != test.reached {
				t.Errorf("got answers %s, reached %v, want %s, %v", strings.Join(got, " "), w.reached > 0, test.hops, test.reached)
			}
			if took > test.longest {
				t.Errorf("took %s, want at most %s", took, test.longest)
			}
		})
	}
}

// Hosts limit the rate of their answers: hops that may lie behind the destination get one
// probe.
func TestProbesToDestinationAreLimited(t *testing.T) {
	w := newWalk(Options{})
	_, order := w.play(answers{kinds: []kind{reachedEnd, reachedEnd, reachedEnd, reachedEnd, reachedEnd, reachedEnd, reachedEnd}, rtt: 200 * time.Millisecond})
	if want := w.Gap + w.Attempts - 1; len(order) != want {
		t.Errorf("sent %d probes to the destination, want %d", len(order), want)
	}
}

func TestSeveralAddresses(t *testing.T) {
	w := newWalk(Options{Attempts: 4, MaxHops: 1})
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for number, from := range []netip.Addr{one, two, two} {
		w.sent(number, start)
		a := answer{number: number, kind: passedOn, from: from, read: start.Add(time.Duration(10-number) * time.Millisecond)}
		w.take(a)
		a.from = one // a second answer to the same probe
		w.take(a)
	}
	w.take(answer{number: 3, from: one})    // not sent
	w.take(answer{number: 9999, from: one}) // does not exist
	got := fmt.Sprintf("%+v", w.hops())
	if want := "[{TTL:1 Address:10.0.0.2 Others:[10.0.0.1] RTT:8ms Sent:3 Answers:3}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRoundTrip(t *testing.T) {
	sent := time.Now() // with the steady clock
	read := sent.Add(10 * time.Millisecond)
	tests := map[string]struct {
		stamp time.Time
		want  time.Duration
	}{
		"kernel's stamp":         {sent.Round(0).Add(7 * time.Millisecond), 7 * time.Millisecond},
		"no stamp":               {time.Time{}, 10 * time.Millisecond},
		"clock was set back":     {sent.Round(0).Add(-time.Hour), 10 * time.Millisecond},
		"clock was set forwards": {sent.Round(0).Add(time.Hour), 10 * time.Millisecond},
	}
	for name, test := range tests {
		if got := roundTrip(sent, answer{stamp: test.stamp, read: read}); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestSamplesMatchSchema(t *testing.T) {
	path := Path{
		Time: start, Source: near4, Destination: distant4, Protocol: UDP, Reached: true,
		Hops: []Hop{{TTL: 1, Sent: 3}, {TTL: 2, Address: distant4, RTT: time.Millisecond, Sent: 3, Answers: 2}},
	}
	samples := Samples(&path, "s", "b")
	if len(samples) != 2 {
		t.Fatalf("got %d samples, want 2", len(samples))
	}
	for i, sample := range samples {
		if len(sample) != len(measure.Hops.Fields) {
			t.Fatalf("got %d values, want %d", len(sample), len(measure.Hops.Fields))
		}
		for j, field := range measure.Hops.Fields {
			silent := i == 0 && (field.Name == "address" || field.Name == "rtt_ns")
			if sample[j].IsNull() != silent || !silent && sample[j].Type() != field.Type {
				t.Errorf("sample %d: %s is %v", i, field.Name, sample[j])
			}
		}
	}
	if got := samples[1][measure.Hops.Index("rtt_ns")].Int64(); got != 1e6 {
		t.Errorf("got round trip %d ns, want 1e6", got)
	}
}
