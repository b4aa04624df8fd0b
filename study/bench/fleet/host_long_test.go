//go:build long

package fleet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/session"
)

// Host is a simulated agent that behaves: it reports once a second, takes part in sessions,
// and sends numbered rows of the stream host, whose used memory is the number.
type Host struct {
	Name    string
	Bus     *bus.Agent
	Sending *Sending

	instance string
	started  time.Time

	mu         sync.Mutex
	assignment session.Assignment
	pulsed     time.Time
	silence    time.Duration
	sent       int64
}

// JoinHost lets an agent join and connects it.
func (j Joining) JoinHost(ctx context.Context, name string) (h *Host, err error) {
	h = &Host{Name: name, instance: rand.Text(), started: time.Now()}
	if h.Sending, err = NewSending(&measure.Host); err != nil {
		return nil, err
	}
	if h.Bus, err = j.Join(ctx, name); err != nil {
		return nil, err
	}
	if err := h.Bus.Serve(h.serve); err != nil {
		return nil, err
	}
	return h, h.Bus.Pulse(h.pulse)
}

func (h *Host) serve(_ context.Context, text []byte) ([]byte, error) {
	var request session.Request
	if err := json.Unmarshal(text, &request); err != nil || request.Apply == nil {
		return nil, fmt.Errorf("read request: not an assignment: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.assignment = *request.Apply
	return json.Marshal(session.Reply{Tasks: h.tasks()})
}

func (h *Host) tasks() (states []session.TaskState) {
	for _, task := range h.assignment.Destinations {
		states = append(states, session.TaskState{Session: task.Session, Role: "destination", Running: true})
	}
	for _, task := range h.assignment.Sources {
		states = append(states, session.TaskState{Session: task.Session, Role: "source", Running: true})
	}
	for _, task := range h.assignment.Points {
		states = append(states, session.TaskState{Session: task.Session, Role: task.Point, Running: true})
	}
	return states
}

// pulse notes the longest time between two heartbeats, which renew leases.
func (h *Host) pulse(text []byte) {
	var pulse session.Pulse
	h.mu.Lock()
	defer h.mu.Unlock()
	if json.Unmarshal(text, &pulse) != nil || !h.assignment.Leased() {
		return
	}
	now := time.Now()
	if !h.pulsed.IsZero() {
		h.silence = max(h.silence, now.Sub(h.pulsed))
	}
	h.pulsed = now
}

// Silence returns the longest time between two heartbeats, up to now; 0 without a lease.
func (h *Host) Silence() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pulsed.IsZero() {
		return 0
	}
	return max(h.silence, time.Since(h.pulsed))
}

// Report sends the state.
func (h *Host) Report(address string) error {
	h.mu.Lock()
	state := session.State{
		Agent: h.Name, Instance: h.instance, Time: time.Now(), Started: h.started, Version: "simulated",
		Interfaces: []session.Interface{{Name: "eth0", Up: true, Addresses: []string{address}}},
		Spool:      h.Sending.State(), Revision: h.assignment.Revision, Tasks: h.tasks(),
	}
	h.mu.Unlock()
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return h.Bus.Report(text)
}

// Rows sends that many rows, numbered in order.
func (h *Host) Rows(n int) error {
	rows := make([]measure.Sample, n)
	for i := range rows {
		h.sent++
		rows[i] = measure.Sample{
			measure.TimeValue(time.Now()), measure.Float64Value(1), measure.Uint32Value(1), measure.Float64Value(1),
			measure.Uint64Value(1), measure.Uint64Value(uint64(h.sent)), measure.Uint64Value(0),
		}
	}
	return h.Sending.Put(&measure.Host, rows...)
}

// Sent returns the number of the last row: call it when Work has returned.
func (h *Host) Sent() int64 { return h.sent }

// Work sends so many rows once a second, until the context ends.
func (h *Host) Work(ctx context.Context, rows int) {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			if h.Rows(rows) != nil {
				return
			}
		}
	}
}

// Connect reports once a second, and delivers what is sent, until the context ends.
func (h *Host) Connect(ctx context.Context, address string) {
	var delivery sync.WaitGroup
	defer delivery.Wait()
	delivery.Go(func() { h.Sending.Run(ctx, h.Bus) })
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		_ = h.Report(address) // not connected: the next one
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}
