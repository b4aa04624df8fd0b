package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/netip"
	"sync"
	"time"

	"pillion.dev/measure"
	"pillion.dev/session"
	"pillion.dev/study/bench/fleet"
)

// crowd is the set of all hosts.
type crowd struct {
	settings  settings
	world     *world
	hosts     []*host
	byName    map[string]*host
	byAddress map[netip.Addr]*host
}

func newCrowd(s settings) *crowd {
	return &crowd{settings: s, world: newWorld(s), byName: map[string]*host{}, byAddress: map[netip.Addr]*host{}}
}

// joinAtATime limits the hosts that join concurrently.
const joinAtATime = 8

// join creates the hosts, and lets each enrol and report.
func (c *crowd) join(ctx context.Context, joining fleet.Joining) error {
	if err := c.populate(c.settings.agents); err != nil {
		return err
	}
	return c.joinHosts(ctx, c.hosts, func(int) fleet.Joining { return joining })
}

// populate adds hosts up to a number of them.
func (c *crowd) populate(agents int) error {
	for n := len(c.hosts); n < agents; n++ {
		h := newHost(c, n)
		var err error
		if h.sending, err = fleet.NewSending(&measure.Flows, &measure.Hops, &measure.Clock, &measure.Host, &measure.Interfaces, &measure.Agent); err != nil {
			return err
		}
		c.hosts = append(c.hosts, h)
		c.byName[h.name], c.byAddress[h.place.address] = h, h
	}
	return nil
}

// joinHosts lets hosts enrol and report, each by its own server.
func (c *crowd) joinHosts(ctx context.Context, hosts []*host, by func(n int) fleet.Joining) error {
	trying, give := context.WithCancelCause(ctx)
	defer give(nil)
	turns := make(chan struct{}, joinAtATime)
	var joiners sync.WaitGroup
	for n, h := range hosts {
		joiners.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if trying.Err() != nil {
				return
			}
			if err := h.join(ctx, by(n)); err != nil {
				give(err)
			}
		})
	}
	joiners.Wait()
	return context.Cause(trying)
}

func (h *host) join(ctx context.Context, joining fleet.Joining) (err error) {
	if h.bus, err = joining.Join(ctx, h.name); err != nil {
		return err
	}
	if err := h.bus.Serve(h.serve); err != nil {
		return err
	}
	if err := h.bus.Pulse(h.receivePulse); err != nil {
		return err
	}
	return h.report()
}

func (h *host) report() error {
	if !h.bus.Connected() {
		return nil
	}
	text, err := json.Marshal(h.state(time.Now()))
	if err != nil {
		return err
	}
	return h.bus.Report(text)
}

// close closes all connections concurrently, since each may wait for an answer.
func (c *crowd) close() {
	var closers sync.WaitGroup
	for _, h := range c.hosts {
		if h.bus != nil {
			closers.Go(h.bus.Close)
		}
	}
	closers.Wait()
}

// work lets all hosts work until the context ends.
func (c *crowd) work(ctx context.Context) {
	var parts sync.WaitGroup
	for n, h := range c.hosts {
		// Rows of all hosts end together; what is made of them is spread out.
		phase := 500 * time.Millisecond * time.Duration(n) / time.Duration(len(c.hosts))
		parts.Go(func() { h.work(ctx, phase) })
		// Batches in flight may still be acknowledged at the end.
		parts.Go(func() { h.sending.Run(ctx, h.bus) })
	}
	parts.Go(func() { c.weather(ctx) })
	parts.Wait()
}

func (c *crowd) weather(ctx context.Context) {
	ticks := time.NewTicker(weatherEvery)
	defer ticks.Stop()
	routes := time.Now().Add(routeFirst)
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			c.world.weather(now)
			if now.After(routes) {
				fmt.Println(c.world.reroute())
				routes = now.Add(routeEvery)
			}
		}
	}
}

// work generates rows and reports once a second, until the context ends.
func (h *host) work(ctx context.Context, phase time.Duration) {
	vitals := time.Now().Add(time.Duration(h.random.Int64N(int64(vitalsEvery))))
	for {
		boundary := time.Now().Add(-phase).Truncate(time.Second).Add(time.Second)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(boundary.Add(phase))):
		}
		err := h.report()
		if err == nil {
			err = h.flows(boundary)
		}
		if err == nil {
			err = h.traceDue(time.Now())
		}
		if err == nil && time.Now().After(vitals) {
			err = h.vitals(time.Now())
			vitals = vitals.Add(vitalsEvery)
		}
		if err != nil && h.bus.Connected() {
			log.Printf("%s: %v", h.name, err)
		}
	}
}

// flows sends a row for each flow whose window ends now. Windows shorter than a
// second are extended to one.
func (h *host) flows(now time.Time) error {
	h.mu.Lock()
	tasks := h.assignment.Destinations
	senders := h.senders
	h.mu.Unlock()
	stream := h.sending.Stream(measure.Flows.Name)
	for i := range tasks {
		task := tasks[i]
		task.Interval = max(task.Interval, session.Duration(time.Second))
		if now.Truncate(time.Duration(task.Interval)) != now {
			continue
		}
		for _, peer := range task.Peers {
			source := h.crowd.byName[peer.Agent]
			if source == nil || !senders[task.Session][peer.Agent] || !source.marks(task.Session, h.name, now) {
				continue
			}
			way := h.crowd.world.between(&source.place, &h.place)
			for _, f := range merge(trafficOf(source.name, h.name), task.Granularity) {
				if err := stream.Append(h.row(&task, source, f, way, now)); err != nil {
					return err
				}
			}
		}
	}
	return stream.Flush()
}
