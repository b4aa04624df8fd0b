package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/bench/fleet"
	"pillion.dev/bus"
	"pillion.dev/measure"
)

// columns are those of the comparison with other programs, and the time.
var columns = &measure.Schema{Name: "ingest", Doc: "rows of the benchmark", Fields: []measure.Field{
	measure.TimeField,
	{Name: "number", Type: measure.Int64}, {Name: "value", Type: measure.Float64}, {Name: "total", Type: measure.Uint64},
	{Name: "label", Type: measure.String}, {Name: "small", Type: measure.Uint32},
}}

// swarm is the set of agents.
type swarm struct {
	agents  []*bus.Agent
	acked   atomic.Int64 // rows
	retries atomic.Int64

	mu      sync.Mutex
	answers []float64 // ms
	delays  []float64 // ms, of rows
	counted atomic.Bool
}

// join enrols the agents and waits until all are connected.
func join(ctx context.Context, s *server, o settings, folder string) (*swarm, error) {
	token, err := s.Secret("join.token")
	if err != nil {
		return nil, err
	}
	joining := fleet.Joining{Server: s.Address, Token: token, Folder: folder}
	w := &swarm{}
	for n := range o.agents {
		a, err := joining.Join(ctx, fmt.Sprintf("agent-%03d", n))
		if err != nil {
			return nil, err
		}
		w.agents = append(w.agents, a)
	}
	return w, nil
}

func (w *swarm) close() {
	for _, a := range w.agents {
		a.Close()
	}
}

// batch is a payload of that many rows, the last of them at the given time and all
// of them within the second before.
func batch(rows int, last time.Time) ([]byte, error) {
	var payload []byte
	stream, err := measure.NewStream(columns, measure.StreamOptions{Rows: rows, Bytes: measure.BatchBytesMax},
		func(_ *measure.Schema, record arrow.RecordBatch) error {
			e, err := measure.Encode(measure.Key{Stream: columns.Name}, record)
			payload = e.Payload
			return err
		})
	if err != nil {
		return nil, err
	}
	sample := make(measure.Sample, len(columns.Fields))
	step := time.Second / time.Duration(rows)
	for n := range rows {
		sample[0] = measure.TimeValue(last.Add(-time.Duration(rows-1-n) * step))
		sample[1] = measure.Int64Value(rand.Int64N(1 << 40))
		sample[2] = measure.Float64Value(rand.NormFloat64())
		sample[3] = measure.Uint64Value(uint64(n))
		sample[4] = measure.StringValue(fmt.Sprintf("label-%06d", rand.IntN(1_000_000)))
		sample[5] = measure.Uint32Value(rand.Uint32N(1000))
		if err := stream.Append(sample); err != nil {
			return nil, err
		}
	}
	return payload, stream.Close()
}

// flow lets all agents send, and records the results.
func (w *swarm) flow(ctx context.Context, o settings, r *result) {
	ctx, stop := context.WithTimeout(ctx, time.Duration(o.warm+o.seconds)*time.Second)
	defer stop()
	var senders sync.WaitGroup
	for n, a := range w.agents {
		if o.steady {
			senders.Go(func() { w.steady(ctx, a, o.rows, time.Duration(n)*time.Second/time.Duration(len(w.agents))) })
			continue
		}
		var next atomic.Uint64
		payloads := prepare(o.rows)
		for range o.window {
			senders.Go(func() { w.flood(ctx, a, &next, payloads, o.rows) })
		}
		r.PayloadBytes = len(payloads[0])
	}
	r.RowsPerSecond, r.RowsPerSecondLeast = w.rates(ctx, o)
	senders.Wait()
	r.RowsSent, r.Retries = w.acked.Load(), w.retries.Load()
	r.AnswerMS = percentilesOf(w.answers)
	if o.steady {
		p := percentilesOf(w.delays)
		r.QueryableMS = &p
	}
}

// prepare encodes different payloads in advance: the agents' work is not measured.
func prepare(rows int) [][]byte {
	var payloads [][]byte
	for n := range 8 {
		payload, err := batch(rows, time.Now().Add(time.Duration(n)*time.Second))
		if err != nil {
			panic(err)
		}
		payloads = append(payloads, payload)
	}
	return payloads
}

// flood sends batches continuously.
func (w *swarm) flood(ctx context.Context, a *bus.Agent, next *atomic.Uint64, payloads [][]byte, rows int) {
	for ctx.Err() == nil {
		sequence := next.Add(1) - 1
		w.send(a, sequence, payloads[sequence%uint64(len(payloads))], rows)
	}
}

// steady sends one batch per second, with the rows of that second.
func (w *swarm) steady(ctx context.Context, a *bus.Agent, rows int, phase time.Duration) {
	select {
	case <-time.After(phase):
	case <-ctx.Done():
		return
	}
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for sequence := uint64(0); ctx.Err() == nil; sequence++ {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		last := time.Now()
		payload, err := batch(rows, last)
		if err != nil {
			panic(err)
		}
		w.send(a, sequence, payload, rows)
		w.note(last, rows)
	}
}

// note records how long the rows of a batch took; the oldest took longest.
func (w *swarm) note(last time.Time, rows int) {
	if !w.counted.Load() {
		return
	}
	took := time.Since(last)
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range rows {
		w.delays = append(w.delays, (took+time.Duration(n)*time.Second/time.Duration(rows)).Seconds()*1e3)
	}
}

// send returns once the batch is acknowledged.
func (w *swarm) send(a *bus.Agent, sequence uint64, payload []byte, rows int) {
	e := measure.Envelope{
		Key: measure.Key{Stream: columns.Name, Epoch: 1, Sequence: sequence}, Rows: rows,
		Checksum: measure.Checksum(payload), Payload: payload,
	}
	for begun := time.Now(); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		err := a.Send(ctx, e)
		cancel()
		if err == nil {
			w.acked.Add(int64(rows))
			if w.counted.Load() {
				w.mu.Lock()
				w.answers = append(w.answers, time.Since(begun).Seconds()*1e3)
				w.mu.Unlock()
			}
			return
		}
		if errors.Is(err, bus.ErrRejected) {
			panic(err)
		}
		w.retries.Add(1)
	}
}

// rates returns the acknowledged rows of each second after the warm-up.
func (w *swarm) rates(ctx context.Context, o settings) (median, least float64) {
	var rates []float64
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	before, at := int64(0), time.Now()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			if len(rates) == 0 {
				return 0, 0
			}
			slices.Sort(rates)
			return rates[len(rates)/2], rates[0]
		case <-ticks.C:
		}
		now, rows := time.Now(), w.acked.Load()
		if n >= o.warm {
			w.counted.Store(true)
			rates = append(rates, float64(rows-before)/now.Sub(at).Seconds())
		}
		before, at = rows, now
	}
}

func percentilesOf(values []float64) percentiles {
	if len(values) == 0 {
		return percentiles{}
	}
	slices.Sort(values)
	at := func(q float64) float64 { return values[min(int(q*float64(len(values))), len(values)-1)] }
	return percentiles{P50: at(0.5), P99: at(0.99), Max: values[len(values)-1]}
}
