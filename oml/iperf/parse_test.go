package iperf

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/measure"
)

// Shortened output of iperf3 3.12, and of --json-stream as in its manual.
const (
	tcpText = `{"start": {"connected": [{"socket": 5}], "version": "iperf 3.12", "system_info": "Linux",
 "timestamp": {"time": "x", "timesecs": 1700000000}, "connecting_to": {"host": "127.0.0.1", "port": 5201},
 "test_start": {"protocol": "TCP", "num_streams": 1}},
 "intervals": [{"streams": [{"socket": 5, "start": 0.5, "end": 1.5, "seconds": 1, "bytes": 655360, "bits_per_second": 5242880,
  "retransmits": 2, "snd_cwnd": 1178694, "snd_wnd": 328704, "rtt": 218, "rttvar": 173, "pmtu": 65535, "omitted": false, "sender": true}],
  "sum": {"start": 0.5, "end": 1.5, "seconds": 1, "bytes": 655360, "bits_per_second": 5242880, "retransmits": 2, "omitted": false, "sender": true}}],
 "end": {"sum_sent": {}}}`
	bidirText = `{"start": {"version": "iperf 3.12", "timestamp": {"timesecs": 1700000000}, "test_start": {"protocol": "UDP"}}, "intervals": [{
  "streams": [{"socket": 7, "start": 0, "end": 1, "seconds": 1, "bytes": 10, "bits_per_second": 80, "jitter_ms": 0.25, "lost_packets": -1, "packets": 20, "sender": false}],
  "sum": {"start": 0, "end": 1, "bytes": 9, "packets": 20, "sender": true},
  "sum_bidir_reverse": {"start": 0, "end": 1, "bytes": 10, "jitter_ms": 0.25, "lost_packets": 1, "packets": 20, "sender": false}}], "end": {}}`
	streamText = `{"event":"start","data":{"version":"iperf 3.17.1","timestamp":{"timesecs":1700000000},"test_start":{"protocol":"TCP"}}}
{"event":"interval","data":{"streams":[{"socket":5,"start":0,"end":1,"bytes":8,"retransmits":-1,"sender":false}],"sum":{"start":0,"end":1,"bytes":8,"sender":false}}}
{"event":"something new","data":[1]}
{"event":"error","data":"control socket has closed unexpectedly"}
{"event":"end","data":{"sum_sent":{}}}
`
)

func parse(text string) (r *reader, lines []string, err error) { return parseAs(Intervals, text) }

func parseAs(style Style, text string) (r *reader, lines []string, err error) {
	r = &reader{
		style: style, pid: 42,
		now: func() time.Time { return time.Unix(1800000000, 0) },
		note: func(key, value string) error {
			lines = append(lines, key+": "+value)
			return nil
		},
		put: func(schema *measure.Schema, sample measure.Sample) error {
			line := schema.Name + " " + sample[0].Time().Format("15:04:05.0")
			if len(sample) != len(schema.Fields) {
				return fmt.Errorf("%s: %d values of %d", schema.Name, len(sample), len(schema.Fields))
			}
			for i, v := range sample[1:] {
				f := schema.Fields[i+1]
				if n, _ := v.Number(); !v.IsNull() {
					line += fmt.Sprintf(" %s=%g", f.Name, n)
					if v.Type() != f.Type {
						return fmt.Errorf("%s.%s: a %v", schema.Name, f.Name, v.Type())
					}
				}
			}
			lines = append(lines, line)
			return nil
		},
	}
	err = r.read(strings.NewReader(text))
	return r, lines, err
}

func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		text, fault string
		want        []string
	}{
		"tcp": {tcpText, "", []string{
			"iperf3_version: iperf 3.12", "system_info: Linux", "protocol: TCP", "server: 127.0.0.1 port 5201",
			"iperf3_interval 22:13:21.5 start=0.5 end=1.5 seconds=1 bytes=655360 bits_per_second=5.24288e+06 retransmits=2 sender=1 omitted=0",
			"iperf3_stream 22:13:21.5 socket=5 start=0.5 end=1.5 seconds=1 bytes=655360 bits_per_second=5.24288e+06 retransmits=2 sender=1 omitted=0 snd_cwnd=1.178694e+06 rtt_us=218 rttvar_us=173"}},
		"both ways, udp": {bidirText, "", []string{
			"iperf3_version: iperf 3.12", "protocol: UDP",
			"iperf3_interval 22:13:21.0 start=0 end=1 bytes=9 packets=20 sender=1",
			"iperf3_interval 22:13:21.0 start=0 end=1 bytes=10 jitter_ms=0.25 lost_packets=1 packets=20 sender=0",
			"iperf3_stream 22:13:21.0 socket=7 start=0 end=1 seconds=1 bytes=10 bits_per_second=80 jitter_ms=0.25 lost_packets=-1 packets=20 sender=0"}},
		"stream": {streamText, "control socket has closed unexpectedly", []string{
			"iperf3_version: iperf 3.17.1", "protocol: TCP",
			"iperf3_interval 08:00:01.0 start=0 end=1 bytes=8 sender=0",
			"iperf3_stream 08:00:01.0 socket=5 start=0 end=1 bytes=8 sender=0"}},
		"refused": {`{"start":{"connected":[],"version":"iperf 3.12"},"intervals":[],"end":{},"error":"unable to connect"}`,
			"unable to connect", []string{"iperf3_version: iperf 3.12"}},
		"impossible numbers": {`{"intervals":[{"sum":{"end":-5,"bytes":1e300,"packets":-2,"lost_packets":1e300}}]}`, "", []string{"iperf3_interval 08:00:00.0 end=-5"}},
		"nothing":            {"", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, lines, err := parse(test.text)
			if err != nil || r.fault != test.fault {
				t.Errorf("%v, %q", err, r.fault)
			}
			if got, want := strings.Join(lines, "\n"), strings.Join(test.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestVersions: the rows of each version's output, the files of package internal/iperf3.
func TestVersions(t *testing.T) {
	for name, want := range map[string][]string{
		"3.1.3-udp":    {"22:13:21.0 start=0 end=1 seconds=1 bytes=1000", "22:13:22.0 start=1 end=2 seconds=1 bytes=0 jitter_ms=0.1 lost_packets=0 packets=0 omitted=0"},
		"3.9-bidir":    {"bytes=1e+06 bits_per_second=8e+06 retransmits=7 sender=1", "bytes=250000 bits_per_second=2e+06 sender=0"},
		"3.12-omit":    {"22:13:21.0 start=0 end=1 seconds=1 bytes=1 ", "22:13:23.0 start=0 end=1 seconds=1 bytes=3 ", "22:13:24.0 start=1 end=2 seconds=1 bytes=4 "},
		"3.17-stream":  {"08:00:01.0 start=0 end=1 seconds=1 bytes=8 ", "08:00:02.0 start=0 end=1 seconds=1 bytes=9 "},
		"3.18-full":    {"08:00:01.0 start=0 end=1 seconds=1 bytes=8 "},
		"3.20-tcp":     {"22:13:21.7 start=0 end=1 seconds=1 bytes=8 "},
		"3.5-negative": {"lost_packets=-818638 packets=0 omitted=0"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("../../internal/iperf3/testdata/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			_, lines, err := parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			sums := slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "iperf3_interval ") })
			if len(sums) != len(want) {
				t.Fatalf("%q, want %d", sums, len(want))
			}
			for i, part := range want {
				if !strings.Contains(sums[i], part) {
					t.Errorf("%q, want %q", sums[i], part)
				}
			}
		})
	}
}

func TestReadRejects(t *testing.T) {
	for _, text := range []string{"iperf 3.12 (cJSON)", tcpText[:300], `{"event":"interval","data":7}`, `{"intervals":"no"}`} {
		if _, _, err := parse(text); !errors.Is(err, ErrOutput) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{tcpText, bidirText, streamText} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, _, err := parse(text); err != nil && !errors.Is(err, ErrOutput) {
			t.Fatal(err)
		}
	})
}

// TestAggregates: OML's points, without those that an end does not know.
func TestAggregates(t *testing.T) {
	for text, want := range map[string]string{
		tcpText:   "iperf_transfer 22:13:21.5 pid=42 connection_id=5 begin_interval=0.5 end_interval=1.5 size=655360",
		bidirText: "iperf_transfer 22:13:21.0 pid=42 connection_id=7 begin_interval=0 end_interval=1 size=10\niperf_jitter 22:13:21.0 pid=42 connection_id=7 begin_interval=0 end_interval=1 jitter=0.25",
	} {
		_, lines, err := parseAs(Aggregates, strings.Replace(text, `"lost_packets": -1,`, "", 1))
		var rows []string
		for _, line := range lines {
			if strings.HasPrefix(line, "iperf_") {
				rows = append(rows, strings.Replace(line, time.Unix(1700000000, 0).Format("15:"), "22:", 1))
			}
		}
		if got := strings.Join(rows, "\n"); err != nil || got != want {
			t.Errorf("got\n%s\nwant\n%s, %v", got, want, err)
		}
	}
	if _, lines, _ := parseAs(Aggregates, bidirText); !strings.Contains(strings.Join(lines, "\n"), "iperf_losses") {
		t.Errorf("no losses in %q", lines)
	}
	if _, lines, err := parseAs(PerPacket, bidirText); err != nil || strings.Contains(strings.Join(lines, "\n"), "iperf_") {
		t.Errorf("%q, %v", lines, err)
	}
}
