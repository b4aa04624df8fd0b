package archivetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// scoped are the scopes of a customer with the agents a and b, of one who sees a pair of others, and of nobody.
var scoped = map[string]*archive.Scope{
	"all":    nil,
	"agents": {Agents: []string{"a", "b"}, Links: []archive.Link{{Sources: []string{"a", "b"}, Destinations: []string{"a", "b"}}}},
	"pair":   {Links: []archive.Link{{Sources: []string{"c"}, Destinations: []string{"b"}}, {Destinations: []string{"b"}}}},
	"none":   {},
}

// scope: each question finds only rows of the scope, whatever its other conditions are.
func scope(b *bed) {
	b.storeFlows("b", second(1, "s", "a", 1, 1024), second(1, "s", "c", 2, 1024), second(1, "s", "", 4, 1024))
	b.storeFlows("c", second(1, "t", "a", 8, 1024), second(1, "t", "d", 16, 1024))
	clock := func(agent string) archive.Batch {
		return b.batch(agent, &measure.Clock, 0, fields{"time": at(1), "offset_ns": 5})
	}
	hop := func(agent, peer string, sequence uint64) archive.Batch {
		return b.batch(agent, &measure.Hops, sequence, fields{"time": at(1), "peer": peer, "dst": "192.0.2.1", "protocol": "udp", "ttl": 1})
	}
	event := func(sequence uint64, kind, about, peer string) archive.Batch {
		return b.batch(archive.OwnAgent, &measure.Events, sequence, fields{"time": at(1), "kind": kind, "about": about, "peer": peer})
	}
	b.store(clock("a"), clock("c"), hop("a", "b", 0), hop("a", "c", 1), hop("a", "", 2), hop("c", "", 0),
		event(0, "agent-lost", "a", ""), event(1, "agent-lost", "c", ""), event(2, "loss", "a", "b"), event(3, "path-changed", "a", "b"),
		b.batch(archive.OwnAgent, &measure.Audit, 0, fields{"time": at(1), "token": "t"}),
		b.batch("c", lines, 0, fields{"time": at(1), "line": "other's"}), b.batch("b", schemaOf("own"), 0, fields{"time": at(1)}))
	for name, test := range map[string]struct{ windows, sessions, flows, rows string }{
		"all":    {"31", "t s", "5", "audit:1 clock:2 events:4 flows:5 hops:4 lines:1 own:1"},
		"agents": {"1", "s", "1", "audit:0 clock:1 events:2 flows:1 hops:2 lines:0 own:1"},
		"pair":   {"2", "s", "1", "audit:0 clock:0 events:0 flows:1 hops:0 lines:0 own:0"},
		"none":   {"", "", "0", "audit:0 clock:0 events:0 flows:0 hops:0 lines:0 own:0"},
	} {
		b.scopedAnswers(name, scoped[name], test.windows, test.sessions, test.flows)
		if got := b.scopedRows(scoped[name]); got != test.rows {
			b.Errorf("%s: rows %s, want %s", name, got, test.rows)
		}
		b.scopedSQL(name, scoped[name], test.rows)
	}
}

// scopedAnswers compares packets of windows, their sessions, and the number of flows.
func (b *bed) scopedAnswers(name string, s *archive.Scope, packets, sessions, found string) {
	b.Helper()
	selection := archive.Selection{Scope: s}
	answer := b.windows(archive.Windows{Selection: selection, From: at(-60), To: at(60), Points: 1})
	total := ""
	for _, w := range answer.Windows {
		total += fmt.Sprint(w.Packets)
		if w.Delay.Histogram.Total() != w.Packets {
			b.Errorf("%s: %d delays of %d packets", name, w.Delay.Histogram.Total(), w.Packets)
		}
	}
	if total != packets || strings.Join(answer.Sessions, " ") != sessions {
		b.Errorf("%s: %s packets of %q, want %s of %q", name, total, answer.Sessions, packets, sessions)
	}
	flows, err := b.Flows(b.Context(), archive.Flows{Selection: selection, From: at(-60), To: at(60), Granularity: "pair", Order: "packets", Limit: 10})
	if err != nil || fmt.Sprint(flows.Found) != found || len(flows.Flows) != int(flows.Found) {
		b.Errorf("%s: %d flows, %v, %v; want %s", name, flows.Found, flows.Flows, err, found)
	}
	volumes, err := b.Volumes(b.Context(), archive.Volumes{Selection: selection, From: at(-60), To: at(60), Granularity: "pair", Limit: 10})
	if err != nil || fmt.Sprint(volumes.Found) != found || len(volumes.Volumes) != int(volumes.Found) {
		b.Errorf("%s: %d volumes, %v, %v; want %s", name, volumes.Found, volumes.Volumes, err, found)
	}
}

// scopedRows counts the rows of each stream by Export and by Series.
func (b *bed) scopedRows(s *archive.Scope) string {
	b.Helper()
	var list []string
	for _, stream := range []string{"audit", "clock", "events", "flows", "hops", "lines", "own"} {
		n := int64(0)
		err := b.Export(b.Context(), archive.Export{Stream: stream, Scope: s, Newest: true}, func(r arrow.RecordBatch) error {
			n += r.NumRows()
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		counted, err := b.Series(b.Context(), archive.Series{Stream: stream, Scope: s, From: epoch, To: at(60), Points: 1, Lines: 10,
			Columns: []archive.Aggregate{{Column: archive.AgentColumn, Function: "count"}}})
		if err != nil {
			b.Fatal(err)
		}
		sum := int64(0)
		for _, line := range counted {
			sum += int64(line.Values[0][0])
		}
		if sum != n {
			b.Errorf("%s: exported %d rows, counted %d", stream, n, sum)
		}
		list = append(list, fmt.Sprintf("%s:%d", stream, n))
	}
	return strings.Join(list, " ")
}

// scopedSQL counts the same rows by statements, which an archive may refuse within a scope.
func (b *bed) scopedSQL(name string, s *archive.Scope, want string) {
	b.Helper()
	for _, count := range strings.Fields(want) {
		stream, rows, _ := strings.Cut(count, ":")
		got := ""
		err := b.Query(b.Context(), "SELECT count(*) AS n FROM "+stream, nil, archive.Limits{Scope: s, Time: time.Minute}, answer.Each(func(r answer.Row) {
			got = r.Column(0).ValueStr(r.At)
		}))
		hidden := rows == "0" && slices.Contains([]string{"audit", "lines", "own"}, stream)
		switch {
		case s != nil && errors.Is(err, archive.ErrScope):
		case hidden && errors.Is(err, archive.ErrQuery): // it is not even named
		case err != nil || hidden || got != rows:
			b.Errorf("%s: SQL finds %s rows of %s, want %s: %v", name, got, stream, rows, err)
		}
	}
}
