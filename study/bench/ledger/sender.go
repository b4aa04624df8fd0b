package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/study/bench/fleet"
)

// senderVariable makes this program the simulated agents, which run on a host of the lab: its
// value is their configuration.
const senderVariable = "PILLION_LEDGER_SENDERS"

// senders is that configuration.
type senders struct {
	fleet.Joining
	Agents, Rows int
	// Every is the time between two batches of an agent.
	Every time.Duration
}

// report is what the simulated agents tell, one line of JSON a second, and at the end.
type report struct {
	// Sent and Acknowledged rows, by agent.
	Sent, Acknowledged map[string]int64
	// LongestWait is the longest time from the creation of a batch to its acknowledgement.
	LongestWait time.Duration
	Final       bool
}

// waitingMost are the batches that wait for their acknowledgement before an agent pauses: its
// queue must not drop any.
const waitingMost = 250

// ledgerRows is the stream of numbered rows.
var ledgerRows = &measure.Schema{Name: "ledger", Doc: "numbered rows of a test of the fleet", Fields: []measure.Field{
	measure.TimeField, {Name: "number", Type: measure.Int64, Doc: "of the agent, from 1"},
}}

// sender is one simulated agent.
type sender struct {
	name    string
	sending *fleet.Sending
	link    *bus.Agent

	mu      sync.Mutex
	sent    int64
	longest time.Duration // from a batch's creation to its acknowledgement
}

// runSenders sends until its input ends, then waits until everything is acknowledged.
func runSenders(ctx context.Context, text string) error {
	var s senders
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []*sender
	for i := range s.Agents {
		one := &sender{name: fmt.Sprintf("ledger-%d", i)}
		var err error
		if one.sending, err = fleet.NewSending(ledgerRows); err == nil {
			one.sending.Acknowledged = one.acknowledged
			one.link, err = s.Join(ctx, one.name)
		}
		if err != nil {
			return err
		}
		defer one.link.Close()
		all = append(all, one)
	}
	input := make(chan struct{})
	go func() {
		bufio.NewScanner(os.Stdin).Scan()
		close(input)
	}()
	var running, delivering sync.WaitGroup
	for _, one := range all {
		running.Go(func() { one.work(input, s.Rows, s.Every) })
		delivering.Go(func() { one.sending.Run(ctx, one.link) })
	}
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	err := tell(all, ended)
	cancel()
	delivering.Wait()
	return err
}

func (s *sender) acknowledged(_ int, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longest = max(s.longest, after)
}

// work sends rows until the input ends.
func (s *sender) work(input <-chan struct{}, rows int, every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-input:
			return
		case <-ticks.C:
		}
		if s.sending.State().Batches >= waitingMost {
			continue
		}
		samples := make([]measure.Sample, rows)
		s.mu.Lock()
		for i := range samples {
			s.sent++
			samples[i] = measure.Sample{measure.TimeValue(time.Now()), measure.Int64Value(s.sent)}
		}
		s.mu.Unlock()
		if err := s.sending.Put(ledgerRows, samples...); err != nil {
			fmt.Fprintln(os.Stderr, "ledger:", s.name, err)
			return
		}
	}
}

// tell reports once a second, and a last time when all agents have ended and everything they
// sent is acknowledged.
func tell(all []*sender, ended <-chan struct{}) error {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for over := false; ; <-ticks.C {
		select {
		case <-ended:
			over = true
		default:
		}
		r := report{Sent: map[string]int64{}, Acknowledged: map[string]int64{}, Final: over}
		for _, one := range all {
			one.mu.Lock()
			r.Sent[one.name], r.LongestWait = one.sent, max(r.LongestWait, one.longest)
			one.mu.Unlock()
			state := one.sending.State()
			r.Acknowledged[one.name] = state.SentRows
			r.Final = r.Final && state.Batches == 0
			if state.DroppedRows > 0 {
				return errors.New("a queue of batches was full: the fleet was away for too long")
			}
		}
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil || r.Final {
			return err
		}
	}
}
