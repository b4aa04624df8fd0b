package traffic

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pillion.dev/measure/point"
	"pillion.dev/send/schedule"
)

// options of the point, as a specification completes them.
func options(given map[string]string) point.Options { return Point.Complete(given) }

func TestParse(t *testing.T) {
	for _, row := range []struct {
		name  string
		given map[string]string
		want  string // of String, or part of the error after "!"
	}{
		{"default", nil, "train of 50 × 100 B, gap 1ms, every 1s, udp port 9"},
		{"pair", map[string]string{"pattern": "pair", "size": "1514", "protocol": "tcp", "port": "80"}, "pair of 1514 B, every 1s, tcp port 80"},
		{"rate", map[string]string{"pattern": "rate", "rate": "500k"}, "train of 50 × 100 B at 500kbit/s, every 1s, udp port 9"},
		{"chirp", map[string]string{"pattern": "chirp", "protocol": "icmp"}, "chirp of 50 × 100 B from 1ms, every 1s, icmp"},
		{"periodic", map[string]string{"pattern": "periodic", "gap": "20ms", "dscp": "46"}, "periodic, 100 B, gap 20ms, udp port 9, DSCP 46"},
		{"poisson", map[string]string{"pattern": "poisson", "gap": "20ms"}, "Poisson, 100 B, mean gap 20ms, udp port 9"},
		{"model", map[string]string{"pattern": "model", "model": "interval=exponential(20ms) size=constant(200B)"}, "interval exponential(20ms), size constant(200B,min=60B,max=1514B), udp port 9"},
		{"schedule", map[string]string{"pattern": "schedule", "schedule": "0 size=100;+1ms size=200 together\n+1ms payload=c0ffee"}, "schedule of 3 packets, every 1s, udp port 9"},

		{"count without trains", map[string]string{"pattern": "periodic", "count": "7", "gap": "20ms"}, "!count 7: the pattern periodic has no trains; the option duration ends it"},
		{"no rate", map[string]string{"pattern": "rate"}, "!needs the option rate"},
		{"rate of another pattern", map[string]string{"rate": "1M"}, "!needs the pattern rate"},
		{"model of another pattern", map[string]string{"model": "x"}, "!needs the pattern model"},
		{"factor", map[string]string{"pattern": "chirp", "factor": "1"}, "!factor 1"},
		{"model", map[string]string{"pattern": "model", "model": "interval=constant(1s)"}, "!size= is missing"},
		{"file of the host", map[string]string{"pattern": "model", "model": "interval=file(/etc/passwd) size=constant(100B)"}, "!file"},
		{"flow", map[string]string{"pattern": "schedule", "schedule": "flow x to=192.0.2.1;0 x"}, "!defines no flows"},
		{"frame", map[string]string{"pattern": "schedule", "schedule": "0 frame=00"}, "!no frames"},
		{"line", map[string]string{"pattern": "schedule", "schedule": "0;1 size=100"}, "!line 2"},
		{"size of a line", map[string]string{"pattern": "schedule", "schedule": "0 size=9000"}, "!size 9000"},
		{"empty schedule", map[string]string{"pattern": "schedule", "schedule": ";"}, "!no packets"},
		{"long schedule", map[string]string{"pattern": "schedule", "schedule": strings.Repeat("0;", scheduleBytes)}, "!limit 65536"},
		{"TCP flags", map[string]string{"tcp_flags": "Z"}, "!tcp-flags"},
		{"limit", map[string]string{"max_rate": "fast"}, "!max_rate"},
		{"packets", map[string]string{"count": "200"}, "!packet 111 of the schedule, 110ms after its start: limit exceeded: max_packets is 100 packets/s"},
		{"packets of later trains", map[string]string{"count": "60", "every": "500ms"}, "!max_packets is 100"},
		{"rate limit", map[string]string{"size": "1500", "count": "100"}, "!max_rate is 1000000 bit/s"},
		{"periodic limit", map[string]string{"pattern": "periodic", "gap": "5ms"}, "!max_packets"},
		{"mean of poisson", map[string]string{"pattern": "poisson", "gap": "5ms"}, "!200 packets/s on average"},
		{"mean of a model", map[string]string{"pattern": "model", "model": "interval=constant(20ms) size=constant(1500B)", "max_rate": "500k"}, "!6e+05 bit/s on average"},
	} {
		t.Run(row.name, func(t *testing.T) {
			traffic, err := Parse(options(row.given))
			want, fails := strings.CutPrefix(row.want, "!")
			if fails {
				if err == nil || !errors.Is(err, ErrTraffic) || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
				return
			}
			if err != nil || traffic.String() != want {
				t.Errorf("got %v, %v, want %q", traffic, err, want)
			}
		})
	}
}

func TestSchedule(t *testing.T) {
	traffic, err := Parse(options(map[string]string{"pattern": "schedule", "schedule": "0 size=100;5ms size=200", "every": "1s", "duration": "1s5ms"}))
	if err != nil {
		t.Fatal(err)
	}
	packets, err := traffic.Schedule()
	if err != nil {
		t.Fatal(err)
	}
	var got []schedule.Entry
	for e, err := range packets {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	want := []schedule.Entry{{Size: 100}, {Due: 5 * time.Millisecond, Number: 1, Size: 200}, {Due: time.Second, Train: 1, Size: 100}}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i].Due != want[i].Due || got[i].Train != want[i].Train || got[i].Number != want[i].Number || got[i].Size != want[i].Size {
			t.Errorf("packet %d: %+v, want %+v", i, got[i], want[i])
		}
	}
}

func TestHeader(t *testing.T) {
	traffic, err := Parse(options(map[string]string{"port": "5004", "source_port": "4000", "dscp": "46", "ecn": "1", "ttl": "3"}))
	if err != nil {
		t.Fatal(err)
	}
	h, err := traffic.Header(netip.MustParseAddr("2001:db8::1"))
	if err != nil || h.String() != "to=[2001:db8::1]:5004 source-port=4000 proto=udp dscp=46 ecn=1 ttl=3" {
		t.Errorf("%v, %v", h, err)
	}
}

// TestLimit: over a time T no more is sent than the rate allows in T + 1 s.
func TestLimit(t *testing.T) {
	for name, l := range map[string]Limit{"packets": {1e9, 50}, "bits": {50 * 800, 1e6}} {
		check, sent := l.Check(), 0
		for i := range 10_000 {
			if check(&schedule.Entry{Due: time.Duration(i) * time.Millisecond, Size: 100}) == nil {
				sent++
			}
		}
		if sent < 548 || sent > 550 {
			t.Errorf("%s: %d packets in 10 s, want 550", name, sent)
		}
	}
}
