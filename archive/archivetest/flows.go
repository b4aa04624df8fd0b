package archivetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
	"pillion.dev/measure/measuretest"
)

// second is a row of one second with all delays in one bucket.
func second(end float64, session, source string, packets uint64, delay int64) flows.Row {
	h := histogram.Histogram{Bounds: []int64{histogram.Bound(histogram.Index(delay))}, Counts: []uint64{packets}}
	return flows.Row{
		End: at(end), Interval: time.Second, Session: session, Source: source,
		Flow: flows.Flow{Src: "192.0.2.1", Dst: "2001:db8::1", Proto: "udp", Sport: 7, Dport: 53},
		Sum: flows.Sum{
			Counts: flows.Counts{Packets: packets, Bytes: 100 * packets, Expected: packets + 1, Lost: 1},
			Delay:  flows.NewDistribution(packets, delay, delay, delay, h),
		},
	}
}

func (b *bed) storeFlows(agent string, rows ...flows.Row) {
	b.Helper()
	record := measuretest.Flows(b.T, rows...)
	key := measure.Key{Stream: measure.Flows.Name, Epoch: 1}
	if _, rejected := b.store(archive.Batch{Agent: agent, Key: key, Schema: &measure.Flows, Record: record}); len(rejected) > 0 {
		b.Fatal(rejected)
	}
}

func (b *bed) windows(question archive.Windows) archive.WindowsAnswer {
	b.Helper()
	answer, err := b.Windows(b.Context(), question)
	if err != nil {
		b.Fatal(err)
	}
	return answer
}

// starts are windows as start:packets.
func starts(answer archive.WindowsAnswer) string {
	var list []string
	for _, w := range answer.Windows {
		list = append(list, fmt.Sprintf("%v:%d", w.Start.Sub(epoch).Seconds(), w.Packets))
	}
	return strings.Join(list, " ")
}

// windows: rows belong to the window of their middle; windows are never shorter than rows.
func windows(b *bed) {
	long := second(40, "s", "c", 4, 1024)
	long.Interval = 10 * time.Second
	b.storeFlows("b", second(1, "s", "a", 1, 1024), second(1.4, "s", "a", 2, 1024), second(1.6, "s", "a", 4, 1024), second(3, "s", "a", 8, 1024), long)
	for _, test := range []struct {
		source   string
		from, to float64
		points   int
		step     time.Duration
		want     string
	}{
		{"a", 0, 3, 3, time.Second, "0:3 1:4 2:8"}, {"a", 0.5, 2.5, 2, time.Second, "0:3 1:4 2:8"}, {"a", 0, 3, 30, time.Second, "0:3 1:4 2:8"},
		{"a", 0, 10, 2, 5 * time.Second, "0:15"}, {"c", 0, 60, 60, 10 * time.Second, "30:4"}, {"nobody", 0, 60, 60, time.Second, ""},
	} {
		answer := b.windows(archive.Windows{Selection: archive.Selection{Source: test.source}, From: at(test.from), To: at(test.to), Points: test.points})
		if got := starts(answer); got != test.want || answer.Step != test.step || answer.Sampled != 1 {
			b.Errorf("%+v: got %s of %v", test, got, answer.Step)
		}
	}
	for _, question := range []archive.Windows{{}, {From: epoch, To: epoch, Points: 1}, {From: epoch, To: at(1)}, {From: epoch, To: at(1), Points: 1 << 40}} {
		if _, err := b.Archive.Windows(b.Context(), question); !errors.Is(err, archive.ErrQuery) {
			b.Errorf("%+v: %v", question, err)
		}
	}
}

// windowsBefore: rows that ended later are left out, and the step is as asked.
func windowsBefore(b *bed) {
	b.storeFlows("b", second(1, "s", "a", 1, 1024), second(2, "s", "a", 2, 1024), second(3, "s", "a", 4, 1024))
	answer := b.windows(archive.Windows{From: at(-2), To: at(4), Step: 7 * time.Second, Before: at(3)})
	if answer.Step != 7*time.Second || starts(answer) != "-6:1 1:2" {
		b.Errorf("got %s of %v", starts(answer), answer.Step)
	}
}

// sessions: the rows of a pair are the rows of the session that flows.Elect chooses.
func sessions(b *bed) {
	b.storeFlows("b",
		second(1, "x", "a", 10, 1024), second(1, "y", "a", 30, 1024), second(2, "x", "a", 10, 1024), second(2, "y", "a", 30, 1024),
		second(1, "x", "c", 500, 1024), second(1, "y", "c", 300, 1024), second(1, "", "", 7, 1024), second(1, "q", "e", 5, 1024), second(1, "p", "e", 5, 1024))
	b.storeFlows("d", second(1, "z", "a", 1000, 1024))
	for name, test := range map[string]struct {
		selection archive.Selection
		want      string
		sessions  string
	}{
		"all pairs":      {archive.Selection{}, "0:1542 1:30", "z x y  p q"},
		"one pair":       {archive.Selection{Source: "a", Destination: "b"}, "0:30 1:30", "y x"},
		"one session":    {archive.Selection{Source: "a", Destination: "b", Session: "x"}, "0:10 1:10", "y x"},
		"other session":  {archive.Selection{Source: "a", Session: "nothing"}, "", "z y x"},
		"equal sessions": {archive.Selection{Source: "e"}, "0:5", "p q"},
		"addresses":      {archive.Selection{Source: "c", Flow: flows.Flow{Src: "192.0.2.1", Dst: "2001:db8::1", Proto: "udp", Sport: 7, Dport: 53}}, "0:500", "x y"},
		"another port":   {archive.Selection{Flow: flows.Flow{Dport: 54}}, "", ""},
		"not an agent":   {archive.Selection{Source: "' OR 1=1 --"}, "", ""},
	} {
		answer := b.windows(archive.Windows{Selection: test.selection, From: epoch, To: at(10), Points: 10})
		if got := starts(answer); got != test.want || strings.Join(answer.Sessions, " ") != test.sessions {
			b.Errorf("%s: got %s of %q, want %s of %q", name, got, answer.Sessions, test.want, test.sessions)
		}
	}
}

// byFlow: order, limit, search and granularity.
func byFlow(b *bed) {
	flow := func(r flows.Row, src string, sport, dport uint32) flows.Row {
		r.Flow = flows.Flow{Src: src, Dst: "192.0.2.2", Proto: "udp", Sport: sport, Dport: dport}
		return r
	}
	lossy := flow(second(2, "s", "a", 20, 1<<22), "192.0.2.1", 2, 443)
	lossy.Lost = 10
	b.storeFlows("b", flow(second(1, "s", "a", 50, 1<<20), "192.0.2.1", 1, 443), flow(second(2, "s", "a", 60, 1<<21), "192.0.2.1", 1, 443), lossy,
		flow(second(9.5, "s", "a", 5, 1<<19), "2001:db8::1", 3, 53))
	for name, test := range map[string]struct {
		change func(*archive.Flows)
		want   string
		found  int64
	}{
		"packets":     {func(*archive.Flows) {}, "1>443 110, 2>443 20, 3>53 5", 3},
		"least first": {func(q *archive.Flows) { q.Ascending = true }, "3>53 5, 2>443 20, 1>443 110", 3},
		"bytes":       {func(q *archive.Flows) { q.Order = "bytes" }, "1>443 110, 2>443 20, 3>53 5", 3},
		"loss":        {func(q *archive.Flows) { q.Order = "lost" }, "2>443 20, 3>53 5, 1>443 110", 3},
		"median":      {func(q *archive.Flows) { q.Order = "p50" }, "2>443 20, 1>443 110, 3>53 5", 3},
		"p99, limit":  {func(q *archive.Flows) { q.Order, q.Ascending, q.Limit = "p99", true, 1 }, "3>53 5", 3},
		"max":         {func(q *archive.Flows) { q.Order = "max" }, "2>443 20, 1>443 110, 3>53 5", 3},
		"last":        {func(q *archive.Flows) { q.Order, q.Limit = "last", 1 }, "3>53 5", 3},
		"host-port":   {func(q *archive.Flows) { q.Granularity = "host-port" }, "0>443 130, 0>53 5", 2},
		"host":        {func(q *archive.Flows) { q.Granularity = "host" }, "0>0 130, 0>0 5", 2},
		"pair":        {func(q *archive.Flows) { q.Granularity, q.Search = "pair", "A > b" }, "0>0 135", 1},
		"search":      {func(q *archive.Flows) { q.Search = "[2001:DB8::1]:3 > 192.0.2.2:53 udp" }, "3>53 5", 1},
		"search, addresses": {func(q *archive.Flows) {
			q.Search, q.SearchSrc, q.SearchDst = "cart", []string{"192.0.2.9", "2001:db8::1"}, []string{"192.0.2.1", "' OR 1=1 --"}
		}, "3>53 5", 1},
		"search, address or text":  {func(q *archive.Flows) { q.Search, q.SearchSrc = ":2 >", []string{"2001:db8::1"} }, "2>443 20, 3>53 5", 2},
		"search, destination":      {func(q *archive.Flows) { q.Search, q.SearchDst, q.Limit = "db", []string{"192.0.2.2"}, 2 }, "1>443 110, 2>443 20", 3},
		"addresses without search": {func(q *archive.Flows) { q.SearchSrc = []string{"2001:db8::1"} }, "1>443 110, 2>443 20, 3>53 5", 3},
		"no wildcard":              {func(q *archive.Flows) { q.Search = "%" }, "", 0},
	} {
		question := archive.Flows{From: epoch, To: at(60), Granularity: "flow", Order: "packets", Limit: 10}
		test.change(&question)
		answer, err := b.Flows(b.Context(), question)
		if err != nil {
			b.Fatal(err)
		}
		var list []string
		for _, f := range answer.Flows {
			list = append(list, fmt.Sprintf("%d>%d %d", f.Sport, f.Dport, f.Packets))
		}
		if got := strings.Join(list, ", "); got != test.want || answer.Found != test.found {
			b.Errorf("%s: got %s, %d found", name, got, answer.Found)
		}
	}
	for _, question := range []archive.Flows{
		{From: epoch, To: epoch, Granularity: "flow", Order: "packets", Limit: 1}, {From: epoch, To: at(1), Granularity: "x", Order: "packets", Limit: 1},
		{From: epoch, To: at(1), Granularity: "flow", Order: "s1; DROP", Limit: 1}, {From: epoch, To: at(1), Granularity: "flow", Order: "packets"},
	} {
		if _, err := b.Flows(b.Context(), question); !errors.Is(err, archive.ErrQuery) {
			b.Errorf("%+v: %v", question, err)
		}
	}
}

// volumes: packets and bytes of each pair, of the session that counts, with the others beside it.
func volumes(b *bed) {
	flow := func(r flows.Row, src, proto string, dport uint32) flows.Row {
		r.Flow = flows.Flow{Src: src, Dst: "192.0.2.2", Proto: proto, Sport: 9, Dport: dport}
		return r
	}
	b.storeFlows("b", flow(second(1, "s", "a", 50, 1<<20), "192.0.2.1", "tcp", 443), flow(second(2, "s", "a", 60, 1<<20), "192.0.2.1", "tcp", 443),
		flow(second(2, "s", "a", 20, 1<<20), "192.0.2.1", "udp", 53), flow(second(2, "t", "a", 70, 1<<20), "192.0.2.1", "tcp", 443), flow(second(3, "s", "c", 7, 1<<20), "192.0.2.3", "udp", 53))
	b.storeFlows("d", flow(second(2, "s", "a", 30, 1<<20), "192.0.2.1", "tcp", 443))
	for name, test := range map[string]struct {
		change func(*archive.Volumes)
		want   string
		found  int64
	}{
		"pair":        {func(q *archive.Volumes) { q.Granularity = "pair" }, "a>b a>b :0 130 13000 [s t], a>d a>d :0 30 3000 [s], c>b c>b :0 7 700 [s]", 3},
		"host":        {func(q *archive.Volumes) { q.Granularity = "host" }, "192.0.2.1>192.0.2.2 a>b :0 130 13000 [s t], 192.0.2.1>192.0.2.2 a>d :0 30 3000 [s], 192.0.2.3>192.0.2.2 c>b :0 7 700 [s]", 3},
		"host-port":   {func(q *archive.Volumes) { q.Granularity, q.Source, q.Destination = "host-port", "a", "b" }, "192.0.2.1>192.0.2.2 a>b tcp:443 110 11000 [s t], 192.0.2.1>192.0.2.2 a>b udp:53 20 2000 [s t]", 2},
		"protocol":    {func(q *archive.Volumes) { q.Granularity, q.Source = "protocol", "a" }, "a>b a>b tcp:0 110 11000 [s t], a>d a>d tcp:0 30 3000 [s], a>b a>b udp:0 20 2000 [s t]", 3},
		"session":     {func(q *archive.Volumes) { q.Granularity, q.Session = "pair", "t" }, "a>b a>b :0 70 7000 [t s]", 1},
		"one, limit":  {func(q *archive.Volumes) { q.Granularity, q.Limit = "flow", 1 }, "192.0.2.1>192.0.2.2 a>b tcp:443 110 11000 [s t]", 4},
		"of protocol": {func(q *archive.Volumes) { q.Granularity, q.Proto = "pair", "udp" }, "a>b a>b :0 20 2000 [s], c>b c>b :0 7 700 [s]", 2},
		"none":        {func(q *archive.Volumes) { q.Granularity, q.Source = "pair", "x" }, "", 0},
	} {
		question := archive.Volumes{From: epoch, To: at(60), Limit: 10}
		test.change(&question)
		answer, err := b.Volumes(b.Context(), question)
		if err != nil {
			b.Fatal(err)
		}
		var list []string
		packets := uint64(0)
		for _, v := range answer.Volumes {
			packets += v.Packets
			list = append(list, fmt.Sprintf("%s>%s %s>%s %s:%d %d %d %v", v.Src, v.Dst, v.Source, v.Destination, v.Proto, v.Dport, v.Packets, v.Bytes, v.Sessions))
		}
		if got := strings.Join(list, ", "); got != test.want || answer.Found != test.found {
			b.Errorf("%s: got %s, %d found", name, got, answer.Found)
		}
		if name == "one, limit" {
			packets = 167
		}
		if answer.Packets != packets || answer.Bytes != 100*packets {
			b.Errorf("%s: total is %d packets, %d bytes", name, answer.Packets, answer.Bytes)
		}
	}
	for _, question := range []archive.Volumes{{}, {From: epoch, To: at(1), Granularity: "flow"}, {From: epoch, To: at(1), Granularity: "x", Limit: 1}} {
		if _, err := b.Volumes(b.Context(), question); !errors.Is(err, archive.ErrQuery) {
			b.Errorf("%+v: %v", question, err)
		}
	}
}

// figures: sums equal the results of flows.Sum, bit by bit.
func figures(b *bed) {
	_, rows := measuretest.ReadFigures(b.T)
	b.storeFlows("b", rows...)
	var want flows.Sum
	byFlow := map[flows.Flow]*flows.Sum{}
	first := rows[0].End
	for i := range rows {
		want.Merge(&rows[i].Sum)
		if byFlow[rows[i].Flow] == nil {
			byFlow[rows[i].Flow] = &flows.Sum{}
		}
		byFlow[rows[i].Flow].Merge(&rows[i].Sum)
		first = slices.MinFunc([]time.Time{first, rows[i].End}, time.Time.Compare)
	}
	from, to := first.Truncate(time.Minute), first.Truncate(time.Minute).Add(time.Minute)
	answer := b.windows(archive.Windows{From: from, To: to, Step: time.Minute})
	if len(answer.Windows) != 1 || fmt.Sprint(answer.Windows[0].Sum) != fmt.Sprint(want) {
		b.Errorf("windows: got %+v, want %+v", answer.Windows, want)
	}
	listed, err := b.Flows(b.Context(), archive.Flows{From: from, To: to, Granularity: "flow", Order: "p50", Limit: 10})
	if err != nil || len(listed.Flows) != len(byFlow) {
		b.Fatalf("flows: got %+v, %v", listed, err)
	}
	for _, f := range listed.Flows {
		if want := byFlow[f.Flow]; want == nil || fmt.Sprint(f.Sum) != fmt.Sprint(*want) {
			b.Errorf("flow: got %+v, want %+v", f.Sum, want)
		}
	}
}

// hostileRows: what no agent of ours sends neither fails a question nor shows as a
// figure that it is not.
func hostileRows(b *bed) {
	most := uint64(math.MaxUint64)
	for i, row := range []fields{
		{"time": epoch},
		{"time": epoch, "interval_ns": int64(math.MinInt64), "packets": most, "bytes": most, "expected": most, "delay_count": most, "delay_mean_ns": int64(math.MaxInt64)},
		{"time": epoch, "interval_ns": int64(math.MaxInt64), "packets": most, "bytes": most, "delay_count": most, "delay_min_ns": int64(0), "delay_mean_ns": int64(math.MinInt64), "delay_max_ns": int64(1)},
		{"time": epoch, "packets": 1, "delay_count": 1, "delay_min_ns": -9, "delay_mean_ns": -5, "delay_max_ns": -1, "delay_bounds_ns": []int64{-8, 3, 4}, "delay_counts": []uint64{most}},
		{"time": epoch, "packets": 1, "delay_count": 2, "delay_min_ns": -9, "delay_mean_ns": -5, "delay_max_ns": -1, "delay_bounds_ns": []int64{-8, 3}, "delay_counts": []uint64{most, most}},
		{"time": epoch, "delay_bounds_ns": []int64{math.MinInt64, math.MaxInt64}, "delay_counts": []uint64{most, 0}, "clock_error_ns": int64(math.MinInt64), "source_clock_error_ns": int64(math.MinInt64)},
		{"time": time.Unix(-1<<32, 0), "packets": 1}, {"time": time.Unix(1<<33, 0), "packets": 1},
	} {
		b.store(b.batch("b", &measure.Flows, uint64(i), row))
	}
	for _, span := range []time.Duration{time.Second, time.Hour, 50 * 365 * 24 * time.Hour} {
		for _, w := range b.windows(archive.Windows{From: epoch.Add(-span), To: epoch.Add(span), Points: 7}).Windows {
			if d := &w.Delay; d.Quantile(0.5) < float64(d.Min) || d.Quantile(0.99) > float64(d.Max) || w.ClockError.Known && w.ClockError.Ns < 0 {
				b.Errorf("got %+v", w)
			}
		}
		if _, err := b.Flows(b.Context(), archive.Flows{From: epoch.Add(-span), To: epoch.Add(span), Granularity: "flow", Order: "p99", Limit: 10}); err != nil {
			b.Error(err)
		}
	}
}

// traces: the last ones of a path, hop by hop.
func traces(b *bed) {
	hop := func(minute int, peer string, ttl int) fields {
		return fields{"time": at(60 * float64(minute)), "session": "s", "peer": peer, "src": "10.0.0.1", "dst": "10.0.0.2", "protocol": "udp", "ttl": ttl, "sent": 3, "answers": 2, "reached": true}
	}
	b.store(b.batch("a", &measure.Hops, 0, hop(1, "b", 1), hop(2, "b", 2), hop(2, "b", 1), hop(3, "b", 1), hop(3, "c", 1), hop(4, "b", 1)))
	n := int64(0)
	err := b.Traces(b.Context(), archive.Traces{Source: "a", Destination: "b", Address: "10.0.0.2", Protocol: "udp", Until: at(180), Most: 2},
		func(r arrow.RecordBatch) error { n += r.NumRows(); return nil })
	if err != nil || n != 3 {
		b.Errorf("%d rows, %v", n, err)
	}
}

// routerDelays: stages, queues and breaks of the session asked for.
func routerDelays(b *bed) {
	stage := func(end float64, session, input string, packets int, delay int64) fields {
		return fields{"time": at(end), "session": session, "input": input, "output": "east", "stage": "processing", "interval_ns": time.Second, "packets": packets,
			"delay_min_ns": delay, "delay_mean_ns": delay, "delay_max_ns": delay, "delay_bounds_ns": []int64{delay}, "delay_counts": []uint64{uint64(packets)}}
	}
	b.store(
		b.batch("r", &measure.Router, 0, stage(1, "s", "west", 9, 1024), stage(1, "s", "south", 90, 65536), stage(2, "", "west", 7, 8192)),
		b.batch("r", &measure.RouterQueues, 0, fields{"time": at(1), "session": "s", "interface": "west", "side": "input", "interval_ns": time.Second, "depth_mean": 1.5, "kernel_depth": 2}),
		b.batch("r", &measure.RouterBreaks, 0, fields{"time": at(1), "session": "s", "length_ns": time.Millisecond, "cause": "scheduled"}, fields{"time": at(2), "session": "s", "length_ns": time.Second}))
	question := archive.RouterDelays{Agent: "r", Sessions: []string{"none", "s"}, Input: "west", From: epoch, To: at(60), Step: time.Second, Breaks: 1}
	answer, err := b.RouterDelays(b.Context(), question)
	if err != nil || answer.Session != "s" || len(answer.Stages) != 1 || len(answer.Queues) != 1 || len(answer.Breaks) != 1 {
		b.Fatalf("got %+v, %v", answer, err)
	}
	if s := &answer.Stages[0]; s.Delay.Count != 9 || s.Delay.Quantile(0.5) != 1024 || !s.Start.Equal(epoch) || answer.Queues[0].Mean != 1.5 || answer.Breaks[0].Length != time.Second {
		b.Errorf("got %+v", answer)
	}
}
