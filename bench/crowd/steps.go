package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"pillion.dev/bench/fleet"
	"pillion.dev/measure"
	"pillion.dev/session"
)

const (
	// settleTime is how long a step runs before it is measured.
	settleTime = 5 * time.Second
	// A step is carried if this share of its rows is acknowledged while it is measured, and nearly all in this time.
	carriedShare = 0.95
	carriedWait  = 5 * time.Second
)

// steps are sizes of a fleet that are measured one after the other.
type steps struct {
	text, processes string
	sizes           []int
	length          time.Duration
	measured        map[string]int // ids of processes by name
}

func (s *steps) complete() error {
	for text := range strings.SplitSeq(s.text, ",") {
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 2 || len(s.sizes) > 0 && n <= s.sizes[len(s.sizes)-1] {
			return fmt.Errorf("steps %q: want ascending numbers of agents from 2 on", s.text)
		}
		s.sizes = append(s.sizes, n)
	}
	s.measured = map[string]int{}
	for text := range strings.SplitSeq(s.processes, ",") {
		if text == "" {
			continue
		}
		name, id, _ := strings.Cut(text, "=")
		n, err := strconv.Atoi(id)
		if err != nil {
			return fmt.Errorf("processes %q: want NAME=PID, separated by commas", s.processes)
		}
		s.measured[name] = n
	}
	return nil
}

// figures are what one step prints.
type figures struct {
	Agents      int     `json:"agents"`
	JoinSeconds float64 `json:"join_seconds"`
	Offered     float64 `json:"rows_offered_per_s"`
	Rate        float64 `json:"rows_acknowledged_per_s"`
	// Lost rows left an agent's full queue; Waiting ones were not acknowledged at the end.
	Lost    int64                  `json:"rows_lost"`
	Waiting int64                  `json:"batches_waiting"`
	P50     float64                `json:"acknowledgement_p50_ms"`
	P99     float64                `json:"acknowledgement_p99_ms"`
	Process map[string]processUsed `json:"processes"`
	Carried bool                   `json:"carried"`
}

// processUsed is what a process used; the crowd itself is one of them.
type processUsed struct {
	CPU    float64 `json:"cpu_us_per_row"`
	Share  float64 `json:"cpu_cores"`
	Memory uint64  `json:"memory_bytes"`
}

// acknowledged are the times of acknowledgements while they are counted.
type acknowledged struct {
	mu    sync.Mutex
	on    bool
	rows  int64
	waits []time.Duration
}

func (a *acknowledged) add(rows int, after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on {
		a.rows += int64(rows)
		a.waits = append(a.waits, after)
	}
}

// begin counts from now on, end returns what was counted.
func (a *acknowledged) begin() { a.mu.Lock(); a.on, a.rows, a.waits = true, 0, nil; a.mu.Unlock() }

func (a *acknowledged) end() (rows int64, waits []time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.on = false
	slices.Sort(a.waits)
	return a.rows, a.waits
}

// measureSteps lets the fleet grow and prints the figures of each size, until one is not carried.
func (c *crowd) measureSteps(ctx context.Context, token, folder string) error {
	working, stop := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop()
	acks := &acknowledged{}
	servers := strings.Split(c.settings.server, ",")
	for _, size := range c.settings.steps.sizes {
		begun, before := time.Now(), len(c.hosts)
		if err := c.populate(size); err != nil {
			return err
		}
		added := c.hosts[before:]
		for _, h := range added {
			h.sending.Acknowledged, h.neighbour = acks.add, c.hosts[(h.number+1)%len(c.hosts)]
		}
		err := c.joinHosts(ctx, added, func(n int) fleet.Joining {
			return fleet.Joining{Server: servers[n%len(servers)], Token: token, Folder: folder}
		})
		if err != nil {
			return fmt.Errorf("let %d agents join: %w", size, err)
		}
		for n, h := range added {
			phase := time.Second * time.Duration(n) / time.Duration(len(added))
			parts.Go(func() { h.step(working, phase) })
			parts.Go(func() { h.sending.Run(working, h.bus) })
		}
		f, err := c.measureStep(ctx, acks, time.Since(begun))
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
			return err
		}
		if !f.Carried {
			break
		}
	}
	return nil
}

func (c *crowd) measureStep(ctx context.Context, acks *acknowledged, joined time.Duration) (figures, error) {
	f := figures{Agents: len(c.hosts), JoinSeconds: joined.Seconds(), Offered: float64(len(c.hosts)), Process: map[string]processUsed{}}
	if err := pause(ctx, settleTime); err != nil {
		return f, err
	}
	dropped := c.dropped()
	before, err := c.used()
	if err != nil {
		return f, err
	}
	begun := time.Now()
	acks.begin()
	if err := pause(ctx, c.settings.steps.length); err != nil {
		return f, err
	}
	rows, waits := acks.end()
	seconds := time.Since(begun).Seconds()
	after, err := c.used()
	if err != nil {
		return f, err
	}
	f.Rate, f.Lost = float64(rows)/seconds, c.dropped()-dropped
	for _, h := range c.hosts {
		f.Waiting += h.sending.State().Batches
	}
	if n := len(waits); n > 0 {
		f.P50, f.P99 = waits[n/2].Seconds()*1000, waits[n*99/100].Seconds()*1000
	}
	for name, now := range after {
		cpu := now.CPU - before[name].CPU
		f.Process[name] = processUsed{CPU: cpu * 1e6 / max(1, float64(rows)), Share: cpu / seconds, Memory: now.Memory}
	}
	f.Carried = f.Lost == 0 && f.Rate >= carriedShare*f.Offered && f.P99 < carriedWait.Seconds()*1000
	return f, nil
}

func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}

// dropped returns the rows that left full queues.
func (c *crowd) dropped() (rows int64) {
	for _, h := range c.hosts {
		rows += h.sending.State().DroppedRows
	}
	return rows
}

// used returns the CPU time, in seconds, and the memory of each process.
func (c *crowd) used() (map[string]processUsed, error) {
	all := map[string]processUsed{}
	ids := map[string]int{"crowd": os.Getpid()}
	for name, id := range c.settings.steps.measured {
		ids[name] = id
	}
	for name, id := range ids {
		p, err := process.NewProcess(int32(id))
		if err != nil {
			return nil, fmt.Errorf("read usage of %s: %w", name, err)
		}
		times, err := p.Times()
		if err != nil {
			return nil, fmt.Errorf("read CPU time of %s: %w", name, err)
		}
		memory, err := p.MemoryInfo()
		if err != nil {
			return nil, fmt.Errorf("read memory of %s: %w", name, err)
		}
		all[name] = processUsed{CPU: times.User + times.System, Memory: memory.RSS}
	}
	return all, nil
}

// step reports and sends one row each second, of traffic from the next host, until the context ends.
func (h *host) step(ctx context.Context, phase time.Duration) {
	task := session.DestinationTask{Session: "crowd", Interval: session.Duration(time.Second), Granularity: session.ByHost}
	for {
		boundary := time.Now().Add(-phase).Truncate(time.Second).Add(time.Second)
		if pause(ctx, time.Until(boundary.Add(phase))) != nil {
			return
		}
		err := h.report()
		source := h.neighbour
		way := h.crowd.world.between(&source.place, &h.place)
		flow := merge(trafficOf(source.name, h.name), task.Granularity)[0]
		if err == nil {
			err = h.sending.Put(&measure.Flows, h.row(&task, source, flow, way, boundary))
		}
		if err != nil && h.bus.Connected() {
			log.Printf("%s: %v", h.name, err)
		}
	}
}
