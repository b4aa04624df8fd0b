package topology

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

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
	time                                  arrow.Timestamp
	session, peer, source, dest, protocol string
}

// Read adds the rows of a record.
func (t *Traces) Read(record arrow.RecordBatch) error {
	columns, err := hopColumns(record)
	if err != nil {
		return err
	}
	if t.results == nil {
		t.results = map[trace]*session.TraceResult{}
	}
	for i := range int(record.NumRows()) {
		of := trace{
			columns.time.Value(i), text(columns.session, i), text(columns.peer, i),
			text(columns.src, i), text(columns.dst, i), text(columns.protocol, i),
		}
		result := t.results[of]
		if result == nil {
			result = &session.TraceResult{
				Time: time.Unix(0, int64(of.time)).UTC(), Source: of.source, Address: of.dest, Protocol: of.protocol,
			}
			t.results[of] = result
			t.order = append(t.order, of)
		}
		result.Reached = result.Reached || columns.reached.IsValid(i) && columns.reached.Value(i)
		result.Hops = append(result.Hops, columns.hop(i))
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

// columns of measure.Hops.
type columns struct {
	time                              *array.Timestamp
	session, peer, src, dst, protocol *array.String
	address                           *array.String
	ttl, sent, answers                *array.Uint32
	rtt                               *array.Int64
	reached                           *array.Boolean
}

func hopColumns(record arrow.RecordBatch) (*columns, error) {
	c := &columns{}
	var err error
	for name, to := range map[string]any{
		measure.TimeField.Name: &c.time, "session": &c.session, "peer": &c.peer, "src": &c.src, "dst": &c.dst,
		"protocol": &c.protocol, "address": &c.address, "ttl": &c.ttl, "sent": &c.sent, "answers": &c.answers,
		"rtt_ns": &c.rtt, "reached": &c.reached,
	} {
		err = errors.Join(err, column(record, name, to))
	}
	return c, err
}

// column finds a column by name and stores it in to, if its type is right.
func column(record arrow.RecordBatch, name string, to any) error {
	for i, field := range record.Schema().Fields() {
		if field.Name != name {
			continue
		}
		ok := false
		switch to := to.(type) {
		case **array.Timestamp:
			*to, ok = record.Column(i).(*array.Timestamp)
			ok = ok && arrow.TypeEqual(field.Type, measure.Hops.Arrow().Field(0).Type)
		case **array.String:
			*to, ok = record.Column(i).(*array.String)
		case **array.Uint32:
			*to, ok = record.Column(i).(*array.Uint32)
		case **array.Int64:
			*to, ok = record.Column(i).(*array.Int64)
		case **array.Boolean:
			*to, ok = record.Column(i).(*array.Boolean)
		}
		if !ok {
			return fmt.Errorf("%w: column %s is %s", ErrTrace, name, field.Type)
		}
		return nil
	}
	return fmt.Errorf("%w: no column %s", ErrTrace, name)
}

// text returns a copy, because Arrow's memory is released with the record. Null is the
// empty text; Arrow leaves its value undefined.
func text(column *array.String, i int) string {
	if column.IsNull(i) {
		return ""
	}
	return strings.Clone(column.Value(i))
}

func count(column *array.Uint32, i int) int {
	if column.IsNull(i) {
		return 0
	}
	return int(column.Value(i))
}

func (c *columns) hop(i int) session.TraceHop {
	h := session.TraceHop{
		TTL: count(c.ttl, i), Address: text(c.address, i), Sent: count(c.sent, i), Answers: count(c.answers, i),
	}
	if c.rtt.IsValid(i) {
		h.RTT = c.rtt.Value(i)
	}
	return h
}
