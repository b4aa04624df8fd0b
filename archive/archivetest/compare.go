package archivetest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

// Compare stores the same rows in two archives and compares their answers.
func Compare(t *testing.T, one, other archive.Archive) {
	both := []*bed{{T: t, Archive: one}, {T: t, Archive: other}}
	for _, b := range both {
		b.storeMany()
	}
	compare(t, both, questions())
}

// CompareSums stores rows of six days of flows in two archives and compares their sums. It stores the rows of one
// agent after the other and calls stored after each. Most figures are sums.
func CompareSums(t *testing.T, one, other archive.Archive, agents []string, stored func(agent int)) {
	both := []*bed{{T: t, Archive: one}, {T: t, Archive: other}}
	for i, agent := range agents {
		for _, b := range both {
			b.storeSpread(agent)
		}
		stored(i)
	}
	questions := sumQuestions(spread)
	maps.DeleteFunc(questions, func(name string, _ func(*bed) (string, error)) bool { // the same SQL otherwise
		return strings.Contains(name, "bytes") || strings.Contains(name, "last") && strings.HasPrefix(name, "flows") || strings.Contains(name, "p50") || strings.HasPrefix(name, "1 windows")
	})
	compare(t, both, questions)
}

// compare asks both archives.
func compare(t *testing.T, both []*bed, questions map[string]func(*bed) (string, error)) {
	for name, ask := range questions {
		t.Run(name, func(t *testing.T) {
			var answers []string
			for _, b := range both {
				text, err := ask(b)
				if err != nil {
					t.Fatal(err)
				}
				answers = append(answers, text)
			}
			if answers[0] != answers[1] || len(answers[0]) == 0 {
				t.Errorf("one  %.3000s\nother %.3000s", answers[0], answers[1])
			}
		})
	}
}

// storeMany stores rows of flows between several hosts, routers, paths and another stream.
func (b *bed) storeMany() {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for _, agent := range []string{"a", "b", "c"} {
		var rows []flows.Row
		for i := range 2000 {
			rows = append(rows, randomRow(random, at(float64(i/4))))
		}
		b.storeFlows(agent, rows...)
	}
	var stages, queues, breaks, hops []fields
	for i := range 50 {
		when := at(float64(i))
		stages = append(stages, fields{"time": when, "session": "s", "input": "west", "output": "east", "stage": "processing", "interval_ns": time.Second, "packets": 5 + i,
			"delay_min_ns": 1000, "delay_mean_ns": 1100 + i, "delay_max_ns": 5000, "delay_bounds_ns": []int64{992, 1024}, "delay_counts": []uint64{uint64(i), 5}})
		queues = append(queues, fields{"time": when, "session": "s", "interface": "west", "side": "input", "interval_ns": time.Second, "depth_mean": float64(i) / 4, "kernel_depth": i,
			"sizes": []int64{1, 2}, "size_counts": []uint64{uint64(i), 3}, "gap_arrivals": []int64{0}, "gap_counts": []uint64{7}})
		breaks = append(breaks, fields{"time": when, "session": "s", "length_ns": time.Duration(i * 7919 % 50), "cause": "scheduled"})
		hops = append(hops, fields{"time": at(float64(i / 5 * 5)), "session": "s", "peer": "b", "src": "10.0.0.1", "dst": "10.0.0.2", "protocol": "udp", "ttl": i%5 + 1, "sent": 3, "answers": 2})
	}
	b.store(b.batch("r", &measure.Router, 0, stages...), b.batch("r", &measure.RouterQueues, 0, queues...),
		b.batch("r", &measure.RouterBreaks, 0, breaks...), b.batch("a", &measure.Hops, 0, hops...), b.lines(0, 0, 300))
}

// spread is how many times longer the time range of CompareSums is than the range of Compare.
const spread = 1000

// storeSpread stores rows of flows to an agent.
func (b *bed) storeSpread(agent string) {
	b.Helper()
	random := rand.New(rand.NewPCG(3, uint64(agent[0])))
	var rows []flows.Row
	for i := range 2000 {
		rows = append(rows, randomRow(random, at(float64(i)/4*spread)))
	}
	b.storeFlows(agent, rows...)
}

// randomRow is of one of several flows and sessions, some without delays.
func randomRow(random *rand.Rand, end time.Time) flows.Row {
	var delay, ipdv flows.Distribution
	for range random.IntN(6) {
		delay.Add(random.Int64N(1 << 30))
		ipdv.Add(random.Int64N(1<<20) - 1<<19)
	}
	ipdv.Histogram.Offsets = nil // the stream has none
	if random.IntN(9) == 0 {
		delay.Histogram = histogram.Histogram{Bounds: delay.Histogram.Bounds, Counts: delay.Histogram.Counts}
	}
	return flows.Row{
		End: end.Add(time.Duration(random.Int64N(1e9))), Interval: time.Duration(random.Int64N(2e9)), Session: []string{"", "x", "y"}[random.IntN(3)], Source: []string{"p", "q"}[random.IntN(2)],
		Flow: flows.Flow{Src: fmt.Sprintf("192.0.2.%d", random.IntN(9)), Dst: "2001:db8::1", Proto: []string{"udp", "tcp"}[random.IntN(2)], Sport: uint32(random.IntN(3)), Dport: 53},
		Sum: flows.Sum{
			Counts: flows.Counts{Packets: random.Uint64N(1000), Bytes: random.Uint64N(1e6), Expected: random.Uint64N(1100), Lost: random.Uint64N(9), Late: random.Uint64N(2)},
			Delay:  delay, IPDV: ipdv,
		},
		DestinationClock: flows.BoundOf(random.Int64N(1000)), SourceClock: flows.BoundOf(random.Int64N(1000)),
	}
}

// questions by name. Answers are texts, in which floats of sums are rounded.
func questions() map[string]func(*bed) (string, error) {
	all := map[string]func(*bed) (string, error){
		"series": func(b *bed) (string, error) {
			question := archive.Series{Stream: "flows", By: []string{"source", "agent"}, From: epoch, To: at(500), Points: 10, Lines: 4}
			for _, function := range []string{"avg", "min", "max", "sum", "count", "p50", "p90", "p99"} {
				question.Columns = append(question.Columns, archive.Aggregate{Column: "delay_mean_ns", Function: function})
			}
			question.Columns = append(question.Columns, archive.Aggregate{Column: "delay_mean_ns", Function: "avg", Weight: "delay_count"}, archive.Aggregate{Column: "packets"}, archive.Aggregate{Column: "src"})
			lines, err := b.Series(b.Context(), question)
			return seriesText(lines), err
		},
		"export": func(b *bed) (string, error) { return b.exported(archive.Export{Stream: "lines"}) },
		"export of some columns": func(b *bed) (string, error) {
			return b.exported(archive.Export{Stream: "hops", Columns: []string{"time", "peer"}, Where: map[string]string{"ttl": "2"}, From: at(5), Newest: true, Limit: 3})
		},
		"traces": func(b *bed) (text string, err error) {
			err = b.Traces(b.Context(), archive.Traces{Source: "a", Destination: "b", Address: "10.0.0.2", Protocol: "udp", Until: at(30), Most: 3}, texts(&text))
			return text, err
		},
		"router": func(b *bed) (string, error) {
			answer, err := b.RouterDelays(b.Context(), archive.RouterDelays{Agent: "r", Sessions: []string{"s"}, From: epoch, To: at(60), Step: 10 * time.Second, Breaks: 5})
			return fmt.Sprintf("%+v", answer), err
		},
		"highest": func(b *bed) (string, error) {
			n, err := b.Highest(b.Context(), "lines", "v", map[string]string{"line": "b"})
			return fmt.Sprint(n), err
		},
		"streams": func(b *bed) (text string, err error) {
			streams, err := b.Streams(b.Context())
			for _, s := range streams {
				text += fmt.Sprintf("%s %d %v %v\n", s.Schema.Name, s.Rows, s.First, s.Last)
			}
			return text, err
		},
	}
	maps.Copy(all, sumQuestions(1))
	return all
}

// sumQuestions are those that add up rows, of times that are so many times longer.
func sumQuestions(times float64) map[string]func(*bed) (string, error) {
	all := map[string]func(*bed) (string, error){}
	from, to := at(10*times), at(400*times)
	for name, selection := range map[string]archive.Selection{
		"all": {}, "a source": {Source: "p"}, "a pair": {Source: "q", Destination: "b"}, "a session": {Session: "x"}, "a flow": {Flow: flows.Flow{Src: "192.0.2.1", Proto: "udp", Dport: 53}},
	} {
		for _, points := range []int{1, 7, 300} {
			all[fmt.Sprintf("%d windows of %s", points, name)] = func(b *bed) (string, error) {
				answer, err := b.Archive.Windows(b.Context(), archive.Windows{Selection: selection, From: from, To: to, Points: points})
				return fmt.Sprintf("%+v", answer), err
			}
		}
	}
	all["windows before the last row"] = func(b *bed) (string, error) {
		answer, err := b.Archive.Windows(b.Context(), archive.Windows{From: from, To: to, Points: 20, Before: at(300.3 * times)})
		return fmt.Sprintf("%+v", answer), err
	}
	for _, granularity := range []string{"flow", "host-port", "host", "pair", "protocol", "host-protocol"} {
		for _, order := range []string{"packets", "bytes", "lost", "p50", "p99", "max", "last"} {
			all["flows by "+granularity+" and "+order] = func(b *bed) (string, error) {
				question := archive.Flows{From: from, To: to, Granularity: granularity, Order: order, Ascending: order == "bytes", Limit: 5}
				if order == "max" {
					question.Search = "P"
				}
				answer, err := b.Flows(b.Context(), question)
				return fmt.Sprintf("%+v", answer), err
			}
		}
		for _, limit := range []int{5, 1000} {
			all[fmt.Sprintf("%d volumes by %s", limit, granularity)] = func(b *bed) (string, error) {
				answer, err := b.Volumes(b.Context(), archive.Volumes{From: from, To: to, Granularity: granularity, Limit: limit})
				return fmt.Sprintf("%+v", answer), err
			}
		}
	}
	return all
}

// exported are the rows of an export.
func (b *bed) exported(question archive.Export) (text string, err error) {
	err = b.Export(b.Context(), question, texts(&text))
	return text, err
}

// texts appends the values of record batches, however rows are divided among them, but for
// their arrival.
func texts(to *string) func(arrow.RecordBatch) error {
	return func(r arrow.RecordBatch) error {
		for i := range int(r.NumRows()) {
			for k, column := range r.Columns() {
				if r.ColumnName(k) != archive.ArrivalColumn {
					*to += r.ColumnName(k) + "=" + column.ValueStr(i) + " "
				}
			}
			*to += "\n"
		}
		return nil
	}
}

// seriesText rounds values: archives add up floats in orders of their own.
func seriesText(lines []archive.Line) (text string) {
	for _, line := range lines {
		text += fmt.Sprintf("%v %v\n", line.Labels, line.Times)
		for _, values := range line.Values {
			for _, v := range values {
				if math.IsNaN(v) {
					text += "none "
				} else {
					text += fmt.Sprintf("%.12g ", v)
				}
			}
		}
	}
	return text
}
