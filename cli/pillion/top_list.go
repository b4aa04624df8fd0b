package pillion

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
)

const (
	// listEvery is the time between two requests, listMost how many lines one returns.
	listEvery = 2 * time.Second
	listMost  = 500
)

// topList is the level of the flows of a pair or of all; with --once also of pairs.
type topList struct {
	*top
	granularity string
	selection   *pillionv1.Selection
	flows       []*pillionv1.Flow
	found       uint32
	histories   map[string][]float64
}

// selection is the selection that the options describe.
func (t *top) selection() *pillionv1.Selection {
	return &pillionv1.Selection{Session: t.cmd.Session, Source: t.cmd.Source, Destination: t.cmd.Destination}
}

func (l *topList) title() string {
	if l.selection.Source == "" || l.selection.Destination == "" {
		return "flows"
	}
	return "flows of " + clean(l.selection.Source+" > "+l.selection.Destination)
}

func (l *topList) columns() []topColumn { return topColumnsOf(l.granularity == "flow") }

func (l *topList) body(width, height int) []string {
	return l.table(l.columns(), l.rows(), width, height)
}

func (l *topList) feed() feedFunc {
	ask := l.question()
	return func(ctx context.Context, send func(topNews)) error {
		tick := time.NewTicker(listEvery)
		defer tick.Stop()
		for {
			answer, err := ask(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case err == nil:
				send(topNews{apply: func() { l.take(answer) }})
			case transient(err):
				send(topNews{lost: err})
			default:
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	}
}

// listOrders are the orders of the API for the columns; it has none for the others.
var listOrders = map[string]string{"p50": "p50", "p99": "p99", "loss": "lost", "packets": "packets", "rate": "bytes"}

// question returns a function that requests the flows of the latest time, as they are sorted and
// filtered now. The server does so too: there may be far more flows than it returns.
func (l *topList) question() func(context.Context) (*pillionv1.ListFlowsResponse, error) {
	order := cmp.Or(listOrders[l.sort], "packets")
	request := &pillionv1.ListFlowsRequest{Selection: l.selection, Granularity: l.granularity, Limit: listMost, Order: order,
		Ascending: l.reverse && order == listOrders[l.sort], Search: l.filter}
	ahead := time.Duration(0) // how far the server's clock is ahead of this machine's
	return func(ctx context.Context) (*pillionv1.ListFlowsResponse, error) {
		asked := time.Now()
		request.From = timestamppb.New(asked.Add(ahead - l.cmd.Over))
		ctx, call := connect.NewClientContext(ctx)
		answer, err := l.client.Flows.ListFlows(ctx, request)
		if err != nil {
			return nil, err
		}
		if date, err := http.ParseTime(call.ResponseHeader().Get("Date")); err == nil {
			// The header has whole seconds, so that less is no difference.
			if ahead = date.Sub(asked); ahead.Abs() < 2*time.Second {
				ahead = 0
			}
		}
		return answer, nil
	}
}

func (l *topList) take(answer *pillionv1.ListFlowsResponse) {
	l.flows, l.found = answer.GetFlows(), answer.GetFound()
	before := l.histories
	l.histories = map[string][]float64{}
	for _, f := range l.flows {
		key := flowOf(f)
		history := append(before[key], f.GetTotal().GetDelay().GetP50Ns())
		l.histories[key] = history[max(0, len(history)-historyMax):]
	}
}

func (l *topList) rows() []*topRow {
	var rows []*topRow
	for _, f := range l.flows {
		rows = append(rows, l.row(f))
	}
	return rows
}

func (l *topList) row(f *pillionv1.Flow) *topRow {
	w := f.GetTotal()
	r := &topRow{key: flowOf(f), flow: flowOf(f), p50: w.GetDelay().GetP50Ns(), p99: w.GetDelay().GetP99Ns(), bound: w.GetClockErrorNs(),
		delays: w.GetDelay().GetCount(), packets: w.GetPackets(), expected: w.GetExpected(), lost: w.GetLost(), reordered: w.GetReordered(),
		duplicated: w.GetDuplicated(), packetRate: math.NaN(), bitRate: math.NaN(), history: l.histories[flowOf(f)],
		opens: &pillionv1.Selection{Session: l.selection.Session, Source: l.selection.Source, Destination: l.selection.Destination,
			Src: f.Src, Dst: f.Dst, Proto: f.Proto, Sport: f.Sport, Dport: f.Dport}}
	if l.granularity == "pair" {
		r.source, r.destination, r.flow = f.Src, f.Dst, ""
	}
	if span := f.GetLast().AsTime().Sub(time.UnixMilli(w.GetStartMs())).Seconds(); span > 0 && f.GetLast() != nil {
		r.packetRate, r.bitRate = float64(w.GetPackets())/span, float64(w.GetBytes())*8/span
	}
	return r
}

// more says how many flows there are beyond those that the server returned.
func (l *topList) more() string {
	if int(l.found) <= len(l.flows) {
		return ""
	}
	return fmt.Sprintf("%d of %d", len(l.flows), l.found)
}
