package join

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/measure"
	"pillion.dev/session"
	"pillion.dev/wire/fivetuple"
)

// ErrRow marks rows that no source of ours delivers.
var ErrRow = errors.New("invalid row of sent_flows")

// textMost bounds names from agents, bytes.
const textMost = 256

// report is what rows of one session and interval say of the flows to one destination.
type report struct {
	session.SentReport
	destination string
	end         time.Time
}

type reportKey struct {
	session, destination string
	end                  int64
	interval             int64
}

// read groups the rows that an agent delivered. Rows that are invalid are counted.
func read(agent string, record arrow.RecordBatch) (reports []report, invalid int, err error) {
	columns, err := measure.Columns(record, &measure.Sent)
	if err != nil {
		return nil, int(record.NumRows()), fmt.Errorf("read rows of %q: %w: %w", agent, ErrRow, err)
	}
	at := map[reportKey]int{}
	for i := range int(record.NumRows()) {
		one, flow, failed := readRow(columns, i)
		if failed != nil {
			invalid++
			err = failed
			continue
		}
		key := reportKey{one.Session, one.destination, one.end.UnixNano(), int64(one.Interval)}
		n, known := at[key]
		if !known || len(reports[n].Flows) == session.SentFlowsMax {
			n = len(reports)
			one.Source = agent
			reports = append(reports, one)
			at[key] = n
		}
		reports[n].Flows = append(reports[n].Flows, flow)
	}
	if err != nil {
		err = fmt.Errorf("read rows of %q: %d are invalid, such as: %w", agent, invalid, err)
	}
	return reports, invalid, err
}

// readRow copies what it keeps, since the record is released.
func readRow(columns map[string]arrow.Array, i int) (one report, flow session.SentFlow, err error) {
	value := func(name string) measure.Value {
		v, _ := measure.ValueAt(columns[name], i) // Columns checked the type
		return v
	}
	text := func(name string) string {
		v := value(name)
		if v.Type() != measure.String || len(v.Text()) > textMost {
			return ""
		}
		return string([]byte(v.Text()))
	}
	one = report{
		SentReport:  session.SentReport{Session: text("session"), Interval: session.Duration(value("interval_ns").Int64())},
		destination: text("peer"), end: value("time").Time(),
	}
	flow = session.SentFlow{
		Sport: uint16(value("sport").Uint64()), Dport: uint16(value("dport").Uint64()),
		Start: uint32(value("number_start").Uint64()), First: uint32(value("number_first").Uint64()), Next: uint32(value("number_next").Uint64()),
	}
	if value("block").Type() == measure.Uint64 {
		flow.Block, flow.Packets, flow.MarkedNs = value("block").Uint64(), value("packets").Uint64(), value("marked_ns").Int64()
	}
	var failed [3]error
	flow.Src, failed[0] = netip.ParseAddr(text("src"))
	flow.Dst, failed[1] = netip.ParseAddr(text("dst"))
	flow.Protocol, failed[2] = fivetuple.ParseProtocol(text("proto"))
	switch err := errors.Join(failed[:]...); {
	case err != nil:
		return one, flow, fmt.Errorf("%w: %w", ErrRow, err)
	case one.Session == "" || one.destination == "":
		return one, flow, fmt.Errorf("%w: no session or no peer", ErrRow)
	case one.end.IsZero() || one.Interval < 0 || time.Duration(one.Interval) > ageMost*2:
		return one, flow, fmt.Errorf("%w: interval of %v that ends at %v", ErrRow, one.Interval, one.end)
	}
	return one, flow, nil
}
