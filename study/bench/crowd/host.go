package main

import (
	crypto "crypto/rand"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/session"
	"pillion.dev/study/bench/fleet"
)

const device = "eth0"

// host is one simulated agent.
type host struct {
	crowd      *crowd
	name       string
	instance   string
	started    time.Time
	place      place
	labels     map[string]string
	kernel     string
	version    string
	clock      string
	boot       string
	maxErrorNs int64
	bus        *bus.Agent
	sending    *fleet.Sending
	number     int
	neighbour  *host // of which it receives traffic in steps

	// Used only by the goroutine that generates rows.
	random *rand.Rand
	sample measure.Sample

	mu         sync.Mutex
	assignment session.Assignment
	senders    map[string]map[string]bool // peers with traffic, by session
	traced     map[session.TraceTask]time.Time
	traces     uint64
	pulse      session.Pulse
	pulsed     time.Time
	alive      map[string]map[string]bool // of the pulse
}

// Kinds of hosts, so that a table of agents is not uniform.
var (
	kernels  = []string{"6.1.0-38-amd64", "6.1.0-38-amd64", "6.12.48+deb13-amd64", "6.8.0-79-generic"}
	versions = []string{"v1.0.0", "v1.0.0", "v1.0.0", "v1.0.0", "v0.9.4"}
	clocks   = []string{"chrony", "chrony", "chrony", "ptp4l", "kernel"}
	bounds   = map[string]int64{"chrony": 350_000, "ptp4l": 900, "kernel": 4_000_000}
	roles    = []string{"web", "store", "edge"}
)

func newHost(c *crowd, n int) *host {
	h := &host{
		crowd: c, number: n, name: fmt.Sprintf("%s-%03d", c.settings.prefix, n+1), instance: crypto.Text(), started: time.Now(),
		place: c.world.place(n), kernel: kernels[n%len(kernels)], version: versions[n%len(versions)],
		clock: clocks[n%len(clocks)], boot: crypto.Text(), random: rand.New(rand.NewPCG(c.settings.seed, uint64(n))),
		senders: map[string]map[string]bool{}, traced: map[session.TraceTask]time.Time{},
	}
	h.labels = map[string]string{"site": fmt.Sprintf("site-%02d", h.place.router+1), "role": roles[n%len(roles)]}
	h.maxErrorNs = bounds[h.clock] * int64(70+h.random.IntN(60)) / 100
	if n%67 == 29 {
		h.clock, h.maxErrorNs = "", 16_000_000_000 // no time daemon
	}
	return h
}

func (h *host) synchronised() bool { return h.clock != "" }

// clockOffset is the true error of the clock, which is unknown: small compared to its
// bound.
func (h *host) clockOffset(time.Time) time.Duration {
	return time.Duration(min(h.maxErrorNs, 400_000) / 10)
}

// errorOf returns the bound of another host's clock, as reported by the server.
func (h *host) errorOf(source string) flows.Bound {
	h.mu.Lock()
	defer h.mu.Unlock()
	ns, known := h.pulse.ClockErrorNs[source]
	return flows.Bound{Ns: ns, Known: known}
}

// marks reports whether the host marks packets to a destination now: it is assigned to,
// the destination is alive, and the lease has not expired.
func (h *host) marks(name, destination string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.alive[name][destination] {
		return false
	}
	for i := range h.assignment.Sources {
		if task := &h.assignment.Sources[i]; task.Session == name {
			return now.Sub(h.pulsed) < time.Duration(task.Lease)
		}
	}
	return false
}

// state is reported to the server once a second.
func (h *host) state(now time.Time) session.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return session.State{
		Agent: h.name, Instance: h.instance, Time: now, Started: h.started, Version: h.version, Kernel: h.kernel,
		Boot: h.boot, Labels: h.labels,
		Interfaces: []session.Interface{
			{Name: device, MTU: 1500, Up: true, Addresses: []string{h.place.address.String() + "/16"}},
			{Name: "eth1", MTU: 9000},
		},
		Clock:    session.Clock{Synchronised: h.synchronised(), MaxErrorNs: h.maxErrorNs, OffsetNs: int64(h.clockOffset(now)), By: h.clock},
		Spool:    h.sending.State(),
		Revision: h.assignment.Revision, Tasks: h.states(),
	}
}

// states returns the states of the tasks; the caller holds the lock.
func (h *host) states() []session.TaskState {
	var states []session.TaskState
	marked := uint64(time.Since(h.started).Seconds() * 100)
	for _, task := range h.assignment.Destinations {
		states = append(states, session.TaskState{Session: task.Session, Role: "destination", Device: device, Running: true,
			Counters: map[string]uint64{"read": marked}})
	}
	for _, task := range h.assignment.Sources {
		states = append(states, session.TaskState{Session: task.Session, Role: "source", Device: device, Running: true,
			Counters: map[string]uint64{"marked": marked}})
	}
	for _, task := range h.assignment.Traces {
		if _, ok := h.traced[task]; ok {
			states = append(states, session.TaskState{Session: task.Session, Role: "trace", Device: task.Address, Running: true,
				Counters: map[string]uint64{"traces": h.traces}})
		}
	}
	return states
}
