package duckdb

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/measuretest"
)

type row = measuretest.Fields

// stage is a row of one second of a stage with all packets in one bucket.
func stage(end float64, session, input, output, name string, packets int, value int64) row {
	return row{
		"time": epoch.Add(time.Duration(end * 1e9)), "session": session, "input": input, "output": output, "stage": name, "interval_ns": time.Second,
		"packets": packets, "delay_min_ns": value, "delay_mean_ns": value, "delay_max_ns": value,
		"delay_bounds_ns": []int64{value}, "delay_counts": []uint64{uint64(packets)},
	}
}

func queue(end float64, session, name, side string, mean float64, kernel int) row {
	return row{"time": epoch.Add(time.Duration(end * 1e9)), "session": session, "interface": name, "side": side, "interval_ns": time.Second, "depth_mean": mean, "kernel_depth": kernel}
}

func pause(at float64, length time.Duration) row {
	return row{"time": epoch.Add(time.Duration(at * 1e9)), "session": "s", "length_ns": length, "cause": "scheduled", "task": "cc1", "depth": 3}
}

func routerArchive(t *testing.T) *Archive {
	t.Helper()
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	store(t, a,
		rowBatch(t, &measure.Router, "r", 0,
			stage(1, "s", "west", "east", "processing", 9, 1024), stage(1, "s", "south", "east", "processing", 90, 65536),
			stage(1, "s", "east", "west", "processing", 5, 2048), stage(1, "s", "west", "east", "transit", 9, 4096),
			stage(2, "s", "west", "east", "input_queuing", 4, 512), stage(2, "", "west", "east", "processing", 7, 8192),
			stage(90, "s", "west", "east", "processing", 1, 1)),
		rowBatch(t, &measure.RouterQueues, "r", 0, queue(1, "s", "west", "input", 1, 2), queue(1, "s", "east", "output", 2, 4), queue(1.5, "s", "east", "output", 4, 3), queue(1, "", "east", "output", 9, 9)),
		rowBatch(t, &measure.RouterBreaks, "r", 0, pause(1, time.Millisecond), pause(2, 3*time.Millisecond), pause(3, 2*time.Millisecond)))
	return a
}

func TestRouterDelays(t *testing.T) {
	a := routerArchive(t)
	tests := []struct {
		name                            string
		change                          func(*archive.RouterDelays)
		session, stages, queues, pauses string
	}{
		{"all interfaces", func(*archive.RouterDelays) {}, "s",
			"processing@0 104 65536, input_queuing@1 4 512", "input west@0 1 2, output east@0 2 4, output east@1 4 3", "2 3ms, 3 2ms"},
		{"one way", func(q *archive.RouterDelays) { q.Input, q.Output = "west", "east" }, "s",
			"processing@0 9 1024, input_queuing@1 4 512", "input west@0 1 2, output east@0 2 4, output east@1 4 3", "2 3ms, 3 2ms"},
		{"the other way", func(q *archive.RouterDelays) { q.Input, q.Output = "east", "west" }, "s", "processing@0 5 2048", "", "2 3ms, 3 2ms"},
		{"sessions by preference", func(q *archive.RouterDelays) { q.Sessions = []string{"none", "s"} }, "s",
			"processing@0 104 65536, input_queuing@1 4 512", "input west@0 1 2, output east@0 2 4, output east@1 4 3", "2 3ms, 3 2ms"},
		{"no session's rows", func(q *archive.RouterDelays) { q.Sessions = []string{"none"} }, "", "processing@1 7 8192", "output east@0 9 9", ""},
		{"another router", func(q *archive.RouterDelays) { q.Agent = "b" }, "", "", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			question := archive.RouterDelays{Agent: "r", Sessions: []string{"s"}, From: epoch, To: epoch.Add(time.Minute), Step: time.Second, Breaks: 2}
			test.change(&question)
			answer, err := a.RouterDelays(t.Context(), question)
			if err != nil || answer.Session != test.session || answer.Sampled != 1 {
				t.Fatalf("got %+v, %v", answer, err)
			}
			var stages, queues, pauses []string
			seconds := func(at time.Time) float64 { return at.Sub(epoch).Seconds() }
			for _, s := range answer.Stages {
				stages = append(stages, fmt.Sprintf("%s@%v %d %d", s.Stage, seconds(s.Start), s.Delay.Count, int64(s.Delay.Quantile(0.5))))
			}
			for _, q := range answer.Queues {
				queues = append(queues, fmt.Sprintf("%s %s@%v %v %v", q.Side, q.Interface, seconds(q.Start), q.Mean, q.Kernel))
			}
			for _, b := range answer.Breaks {
				pauses = append(pauses, fmt.Sprintf("%v %v", seconds(b.Time), b.Length))
			}
			for _, got := range []struct {
				list []string
				want string
			}{{stages, test.stages}, {queues, test.queues}, {pauses, test.pauses}} {
				if strings.Join(got.list, ", ") != got.want {
					t.Errorf("got %q, want %q", got.list, got.want)
				}
			}
		})
	}
}

// TestRouterDelaysSampled: for a long range, the histograms of some seconds are read.
func TestRouterDelaysSampled(t *testing.T) {
	answer, err := routerArchive(t).RouterDelays(t.Context(), archive.RouterDelays{Agent: "r", From: epoch.Add(-12 * time.Hour), To: epoch.Add(12 * time.Hour), Step: 5 * time.Minute})
	if err != nil || answer.Sampled != 24 {
		t.Errorf("got %+v, %v", answer, err)
	}
}

// TestQueueSizes: distributions of rows are added up; rows without one do not count.
func TestQueueSizes(t *testing.T) {
	a := routerArchive(t)
	question := archive.RouterDelays{Agent: "r", Sessions: []string{"s"}, Input: "west", From: epoch, To: epoch.Add(time.Minute), Step: time.Second}
	if answer, err := a.RouterDelays(t.Context(), question); err != nil || len(answer.Sizes) != 0 {
		t.Errorf("without distributions: got %+v, %v", answer.Sizes, err)
	}
	sized := func(end float64, session, name, side string, sizes []int64, counts []uint64) row {
		r := queue(end, session, name, side, 1, 1)
		r["sizes"], r["size_counts"], r["gap_arrivals"], r["gap_counts"] = sizes, counts, []int64{0, 1}, []uint64{1, 2}
		return r
	}
	store(t, a, rowBatch(t, &measure.RouterQueues, "r", 1,
		sized(2, "s", "west", "input", []int64{1, 2}, []uint64{5, 1}), sized(3, "s", "west", "input", []int64{2, 1023}, []uint64{3, 1}),
		sized(3, "s", "east", "output", []int64{1}, []uint64{7}), sized(3, "s", "south", "input", []int64{1}, []uint64{9}),
		sized(3, "", "west", "input", []int64{1}, []uint64{9}), sized(90, "s", "west", "input", []int64{1}, []uint64{9})))
	answer, err := a.RouterDelays(t.Context(), question)
	want := []archive.QueueSizes{
		{Interface: "west", Side: "input", Sizes: []archive.PacketCount{{Packets: 1, Count: 5}, {Packets: 2, Count: 4}, {Packets: 1023, Count: 1}}, Arrivals: []archive.PacketCount{{Packets: 0, Count: 2}, {Packets: 1, Count: 4}}},
		{Interface: "east", Side: "output", Sizes: []archive.PacketCount{{Packets: 1, Count: 7}}, Arrivals: []archive.PacketCount{{Packets: 0, Count: 1}, {Packets: 1, Count: 2}}},
	}
	if err != nil || !reflect.DeepEqual(answer.Sizes, want) {
		t.Errorf("got %+v, %v; want %+v", answer.Sizes, err, want)
	}
}

func TestTraces(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	hop := func(minute int, peer string, ttl int, address string) row {
		r := row{"time": epoch.Add(time.Duration(minute) * time.Minute), "session": "s", "peer": peer, "src": "10.0.0.1", "dst": "10.0.0.2", "protocol": "udp", "ttl": ttl, "sent": 3, "answers": 2, "reached": true}
		if address != "" {
			r["address"], r["rtt_ns"] = address, 1000*ttl
		}
		return r
	}
	question := archive.Traces{Source: "a", Destination: "b", Address: "10.0.0.2", Protocol: "udp", Until: epoch.Add(3 * time.Minute), Most: 2}
	if err := a.Traces(t.Context(), question, func(arrow.RecordBatch) error { t.Error("rows of a stream that does not exist"); return nil }); err != nil {
		t.Fatal(err)
	}
	store(t, a, rowBatch(t, &measure.Hops, "a", 0, hop(1, "b", 1, "10.0.0.2"), hop(2, "b", 2, "10.0.0.2"), hop(2, "b", 1, ""), hop(3, "b", 1, "10.0.0.9"), hop(3, "c", 1, "10.0.0.9"), hop(4, "b", 1, "10.0.0.2")))
	var got []string
	err := a.Traces(t.Context(), question, func(r arrow.RecordBatch) error {
		if !arrow.TypeEqual(r.Schema().Field(1).Type, measure.Hops.Arrow().Field(0).Type) {
			t.Errorf("got column %v", r.Schema().Field(1))
		}
		for i := range int(r.NumRows()) {
			at := r.Column(1).(*array.Timestamp).Value(i).ToTime(arrow.Nanosecond)
			got = append(got, fmt.Sprintf("%v %d %q", at.Sub(epoch).Minutes(), r.Column(7).(*array.Uint32).Value(i), r.Column(8).(*array.String).Value(i)))
		}
		return nil
	})
	if want := `2 1 "", 2 2 "10.0.0.2", 3 1 "10.0.0.9"`; err != nil || strings.Join(got, ", ") != want {
		t.Errorf("got %q, %v; want %s", got, err, want)
	}
}
