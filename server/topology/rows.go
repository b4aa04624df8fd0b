package topology

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/session"
)

// Traces groups rows of the stream hops by trace. Rows of one trace share all but the
// hop; they may be spread over several records. The zero value is empty.
type Traces struct {
	results map[trace]*session.TraceResult
	order   []trace // in order of first occurrence
}

// trace is what rows of one trace share.
type trace struct {
	time                                         time.Time
	session, peer, source, dest, protocol, agent string // agent only in rows of the archive
}

// Read adds the rows of a record.
func (t *Traces) Read(record arrow.RecordBatch) error {
	columns, err := columnsOf(record, &measure.Hops)
	if err != nil {
		return err
	}
	if t.results == nil {
		t.results = map[trace]*session.TraceResult{}
	}
	for i := range int(record.NumRows()) {
		row := rowOf{columns, i}
		value, text := row.value, row.text
		of := trace{value("time").Time(), text("session"), text("peer"), text("src"), text("dst"), text("protocol"), ""}
		if columns[archive.AgentColumn] != nil {
			of.agent = text(archive.AgentColumn)
		}
		result := t.results[of]
		if result == nil {
			result = &session.TraceResult{Time: of.time, Source: of.source, Address: of.dest, Protocol: of.protocol}
			t.results[of] = result
			t.order = append(t.order, of)
		}
		result.Reached = result.Reached || value("reached").Bool()
		result.Hops = append(result.Hops, session.TraceHop{
			TTL: int(value("ttl").Uint64()), Address: text("address"), RTT: value("rtt_ns").Int64(),
			Sent: int(value("sent").Uint64()), Answers: int(value("answers").Uint64()),
		})
	}
	return nil
}

// AddRows takes rows of the stream hops that an agent delivered. An invalid trace is
// skipped and is part of the error, which is ErrTrace; the others are added.
func (t *Topology) AddRows(agent string, record arrow.RecordBatch) error {
	var traces Traces
	err := traces.Read(record)
	if err != nil {
		return fmt.Errorf("add hops of %q: %w", agent, err)
	}
	for _, of := range traces.order {
		err = errors.Join(err, t.Add(agent, of.peer, of.session, *traces.results[of]))
	}
	return err
}

// columnsOf is measure.Columns with the error ErrTrace.
func columnsOf(record arrow.RecordBatch, schema *measure.Schema) (map[string]arrow.Array, error) {
	columns, err := measure.Columns(record, schema)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	return columns, nil
}

// rowOf is a row of a record.
type rowOf struct {
	columns map[string]arrow.Array // of columnsOf
	i       int
}

func (r rowOf) value(name string) measure.Value {
	v, _ := measure.ValueAt(r.columns[name], r.i) // columnsOf checked the type
	return v
}

// text is a copy, because Arrow's memory is released with the record.
func (r rowOf) text(name string) string { return strings.Clone(r.value(name).Text()) }
