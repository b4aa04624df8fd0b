package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/study/bench/fleet"
	"pillion.dev/study/bench/result"
)

const (
	// leastLength of a measurement is the length of an interval of the rate.
	leastLength = time.Second
	joinAtOnce  = 8
	answerTime  = 30 * time.Second
)

// swarm is the set of agents.
type swarm struct {
	agents  []*bus.Agent
	acked   atomic.Int64 // rows
	retries atomic.Int64

	mu      sync.Mutex
	answers []int64 // ns, from sending a batch to its acknowledgement
	delays  []int64 // ns, from a row's time to the acknowledgement
	counted atomic.Bool
}

// join enrols the agents and waits until all are connected.
func join(ctx context.Context, s *server, agents int, folder string) (*swarm, error) {
	token, err := s.Secret("join.token")
	if err != nil {
		return nil, err
	}
	joining := fleet.Joining{Server: s.Address, Token: token, Folder: folder}
	w := &swarm{agents: make([]*bus.Agent, agents)}
	failed := make([]error, agents)
	var parts sync.WaitGroup
	turns := make(chan struct{}, joinAtOnce)
	for n := range agents {
		parts.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			w.agents[n], failed[n] = joining.Join(ctx, fmt.Sprintf("agent-%03d", n))
		})
	}
	parts.Wait()
	if err := errors.Join(failed...); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// close disconnects the agents; a second call does nothing.
func (w *swarm) close() {
	for _, a := range w.agents {
		if a != nil {
			a.Close()
		}
	}
	w.agents = nil
}

// flow lets all agents send, and puts figures into the result.
func (w *swarm) flow(ctx context.Context, o settings, r result.Result) error {
	sending, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var payloads [][]byte
	if o.window > 0 {
		var err error
		if payloads, err = prepare(o.rows); err != nil {
			return err
		}
		r["batch_bytes"] = len(payloads[0])
	}
	var senders sync.WaitGroup
	begin := func(send func() error) {
		senders.Go(func() {
			if err := send(); err != nil {
				stop(err)
			}
		})
	}
	for n, a := range w.agents {
		if o.window == 0 {
			phase := time.Duration(n) * time.Second / time.Duration(len(w.agents))
			begin(func() error { return w.steady(sending, a, o.rows, phase) })
			continue
		}
		var next atomic.Uint64
		for range o.window {
			begin(func() error { return w.flood(sending, a, &next, payloads, o.rows) })
		}
	}
	err := w.watch(sending, o, r)
	stop(nil)
	senders.Wait()
	if err != nil {
		return err
	}
	r["retries"] = w.retries.Load()
	put(r, "answer", w.answers)
	put(r, "queryable", w.delays)
	return nil
}

// put writes the percentiles of times in ns.
func put(r result.Result, name string, times []int64) {
	if len(times) == 0 {
		return
	}
	s := result.NewSample(times)
	r[name+"_p50_ms"], r[name+"_p99_ms"], r[name+"_max_ms"] = s.Quantile(0.5)/1e6, s.Quantile(0.99)/1e6, s.Quantile(1)/1e6
}

// watch lets rows flow unmeasured, and then for the length of the measurement. Intervals are of about a second.
func (w *swarm) watch(ctx context.Context, o settings, r result.Result) error {
	if err := pause(ctx, o.warm); err != nil {
		return err
	}
	w.counted.Store(true)
	begin, first := time.Now(), w.acked.Load()
	at, before := begin, first
	least := 0.0
	intervals := int(o.length / leastLength)
	for n := range intervals {
		if err := pause(ctx, time.Until(begin.Add(time.Duration(n+1)*o.length/time.Duration(intervals)))); err != nil {
			return err
		}
		now, rows := time.Now(), w.acked.Load()
		rate := float64(rows-before) / now.Sub(at).Seconds()
		if n == 0 || rate < least {
			least = rate
		}
		r.AddRow(map[string]any{"second": now.Sub(begin).Seconds(), "rows_per_s": rate})
		at, before = now, rows
	}
	r["rows_per_s"], r["rows_per_s_min"] = float64(before-first)/at.Sub(begin).Seconds(), least
	return nil
}

// pause returns an error if the context ends meanwhile.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flood sends batches continuously.
func (w *swarm) flood(ctx context.Context, a *bus.Agent, next *atomic.Uint64, payloads [][]byte, rows int) error {
	for ctx.Err() == nil {
		sequence := next.Add(1) - 1
		if err := w.send(ctx, a, sequence, payloads[sequence%uint64(len(payloads))], rows); err != nil {
			return err
		}
	}
	return nil
}

// steady sends one batch per second, with the rows of that second.
func (w *swarm) steady(ctx context.Context, a *bus.Agent, rows int, phase time.Duration) error {
	if pause(ctx, phase) != nil {
		return nil
	}
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for sequence := uint64(0); ; sequence++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		last := time.Now()
		payload, err := batch(rows, last)
		if err != nil {
			return err
		}
		if err := w.send(ctx, a, sequence, payload, rows); err != nil {
			return err
		}
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
		w.delays = append(w.delays, int64(took+time.Duration(n)*time.Second/time.Duration(rows)))
	}
}

// send returns once the batch is acknowledged, also after the end of the measurement: what was sent is accounted for.
func (w *swarm) send(ctx context.Context, a *bus.Agent, sequence uint64, payload []byte, rows int) error {
	e := measure.Envelope{
		Key: measure.Key{Stream: columns.Name, Epoch: 1, Sequence: sequence}, Rows: rows,
		Checksum: measure.Checksum(payload), Payload: payload,
	}
	for begun := time.Now(); ; {
		answering, cancel := context.WithTimeout(context.Background(), answerTime)
		err := a.Send(answering, e)
		cancel()
		if err == nil {
			w.acked.Add(int64(rows))
			if w.counted.Load() {
				w.mu.Lock()
				w.answers = append(w.answers, int64(time.Since(begun)))
				w.mu.Unlock()
			}
			return nil
		}
		if errors.Is(err, bus.ErrRejected) || ctx.Err() != nil && time.Since(begun) > 2*answerTime {
			return fmt.Errorf("send batch %d: %w", sequence, err)
		}
		w.retries.Add(1)
	}
}
