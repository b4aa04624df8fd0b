package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"pillion.dev/internal/quota"
	"pillion.dev/server/event"
	"pillion.dev/session"
)

var errState = errors.New("invalid state report")

// HandleState processes an agent's report. An invalid one is ignored and logged, with a
// limit on the rate.
func (c *Control) HandleState(name string, text []byte) {
	state, err := readState(name, text)
	if err != nil {
		c.Refused(name, err)
	} else if exceeded := c.within(&state); exceeded != nil {
		c.Refused(name, exceeded)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	a := c.agents[name]
	if a == nil || a.Revoked {
		return
	}
	if err != nil {
		if a.quietly("refused", now) {
			c.Log.Warn("rejected an agent's state", "agent", name, "error", err)
		}
		return
	}
	c.process(a, state, now)
}

// addressesOfAgent is the default quota.
const addressesOfAgent = 1024

// within leaves out addresses beyond those that one agent may have: each is compared with those
// of all others. It returns what of the report is left out, here or at the agent: too many addresses
// each time, and anything else when it changes.
func (c *Control) within(state *session.State) error {
	count := state.Omitted["addresses"]
	for _, i := range state.Interfaces {
		count += len(i.Addresses)
	}
	if state.BoundAddresses(c.Addresses); count > c.Addresses {
		return &quota.Error{Quota: "addresses", Limit: int64(c.Addresses), Unit: "addresses for each agent",
			What: fmt.Sprintf("consider all of %d reported addresses", count)}
	}
	c.mu.Lock()
	a := c.agents[state.Agent]
	known := a != nil && maps.Equal(a.state.Omitted, state.Omitted)
	c.mu.Unlock()
	if text := state.OmittedText(); text != "" && !known {
		return fmt.Errorf("%w: it exceeds the limits of a report or is invalid in part, and leaves out %s", errState, text)
	}
	return nil
}

// readState parses an agent's report, which is not trusted, and bounds it.
func readState(name string, text []byte) (session.State, error) {
	var s session.State
	if len(text) > session.StateMax {
		return s, fmt.Errorf("%w: %d bytes, limit %d", errState, len(text), session.StateMax)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%w: %w", errState, err)
	}
	switch {
	case s.Agent != name:
		return s, fmt.Errorf("%w: it names agent %.70q but came from %q", errState, s.Agent, name)
	case s.Instance == "" || len(s.Instance) > session.TextMax:
		return s, fmt.Errorf("%w: instance %.70q", errState, s.Instance)
	case s.Revision > math.MaxInt64:
		return s, fmt.Errorf("%w: revision %d", errState, s.Revision)
	}
	s.Bound()
	return s, nil
}

// process processes a valid report.
func (c *Control) process(a *agent, state session.State, now time.Time) {
	first, before, last := a.lastReport.IsZero(), a.state, a.lastReport
	a.state, a.lastReport = state, now
	if state.Stopping {
		c.stopped(a)
		return
	}
	broken, urgent := !a.connected || state.Instance != before.Instance || now.Sub(last) >= aliveFor, false
	if !a.connected {
		a.connected, urgent, a.retryAt = true, true, time.Time{}
		c.touchConnection(a)
		words := "is connected"
		if !first {
			words = fmt.Sprintf("is connected again after %v", now.Sub(last).Round(time.Second))
		}
		c.event("agent-connected", event.Info, a.Name, "", "%s %s", a.Name, words)
	}
	restarted := state.Instance != before.Instance
	if restarted && !first {
		c.instance(a, before.Instance, now)
	}
	labels := a.OwnLabels
	if !reflect.DeepEqual(a.Interfaces, state.Interfaces) || !reflect.DeepEqual(a.OwnLabels, state.Labels) ||
		a.Version != state.Version || a.Kernel != state.Kernel || !slices.Equal(a.Capabilities, state.Capabilities) {
		if !slices.Equal(a.Capabilities, state.Capabilities) || (a.Capabilities == nil) != (state.Capabilities == nil) {
			c.stale.sessions, c.stale.everyone = true, true
		}
		a.Interfaces, a.OwnLabels, a.Version, a.Kernel = state.Interfaces, state.Labels, state.Version, state.Kernel
		a.Capabilities = state.Capabilities
		if addresses := global(a.Interfaces); !slices.Equal(a.addresses, addresses) {
			a.addresses, c.stale.addresses = addresses, true
			c.touch(a)
		}
		a.noteAddresses(now)
		c.claim(a, labels)
		c.changed.agent(a.Name)
		urgent = true
	}
	// A round concerns all agents: one that reports changes all the time does not cause more
	// of them than there are anyway.
	news := c.compare(a, restarted && !first, now)
	a.cover(broken, last)
	if news || a.state.Revision > a.sent.Revision {
		c.touch(a)
	}
	if (news || urgent) && now.Sub(a.hurried) >= roundEvery {
		a.hurried = now
		c.hurry()
	}
	c.observe(a, before, first)
}

// instance records that another process reports under the name. If it alternates with
// the previous one, two processes use the name.
func (c *Control) instance(a *agent, last string, now time.Time) {
	if a.state.Instance == a.former {
		a.duplicated, c.duplicated = now, now
		c.touch(a)
		if a.quietly("duplicated", now) {
			c.event("agent-duplicated", event.Error, a.Name, "",
				"two processes use the name %s and its certificate: stop one of them and enrol that host under another name", a.Name)
		}
	}
	a.former = last
}

// compare compares what the agent applied with its assignment, and reports whether a
// round is needed.
func (c *Control) compare(a *agent, restarted bool, now time.Time) bool {
	if a.sent.Revision != 0 && a.state.Revision == a.sent.Revision {
		news := !a.confirmed || !sameRunning(a.status, a.state.Tasks)
		a.mismatches = 0
		c.confirm(a, a.state.Tasks, now)
		return news
	}
	// A report may have been in transit while the agent applied the new assignment, so
	// one alone proves nothing, unless the agent is a new process.
	if a.confirmed {
		a.mismatches++
		if !restarted && a.mismatches < 2 {
			return false
		}
		a.confirmed, a.mismatches, a.retryAt = false, 0, time.Time{}
		c.touch(a)
	}
	news := restarted || !sameRunning(a.status, a.state.Tasks)
	c.status(a, a.state.Tasks)
	return news || a.sent.Revision == 0 && a.state.Revision != 0
}

func sameRunning(a, b []session.TaskState) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		if x.Session != y.Session || x.Role != y.Role || x.Running != y.Running || x.Error != y.Error || x.Unanswered != y.Unanswered {
			return false
		}
	}
	return true
}
