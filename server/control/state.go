package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"pillion.dev/internal/quota"
	"pillion.dev/server/event"
	"pillion.dev/session"
)

// Bounds of what an agent may report.
const (
	stateMax        = 1 << 20 // bytes
	interfacesMax   = 1024
	addressesMax    = 256 // of an interface
	tasksMax        = 4096
	peersMax        = 100_000 // of a task
	countersMax     = 128
	capabilitiesMax = 128
	textMax         = 512 // bytes of a text
)

var errState = errors.New("invalid state report")

// HandleState processes an agent's report. An invalid one is ignored and logged, with a
// limit on the rate.
func (c *Control) HandleState(name string, text []byte) {
	state, err := readState(name, text)
	if err == nil {
		state.Interfaces, err = c.within(state.Interfaces)
		if err != nil {
			c.Refused(name, err)
		}
		err = nil
	} else {
		c.Refused(name, err)
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

// within returns the interfaces with as many addresses as one agent may have, the first
// ones: each is compared with those of all others.
func (c *Control) within(all []session.Interface) ([]session.Interface, error) {
	left := c.Addresses
	count := 0
	for i := range all {
		count += len(all[i].Addresses)
		all[i].Addresses = all[i].Addresses[:min(len(all[i].Addresses), left)]
		left -= len(all[i].Addresses)
	}
	if count > c.Addresses {
		return all, &quota.Error{Quota: "addresses", Limit: int64(c.Addresses), Unit: "addresses for each agent",
			What: fmt.Sprintf("consider all of %d reported addresses", count)}
	}
	return all, nil
}

// readState parses and validates an agent's report, which is not trusted.
func readState(name string, text []byte) (session.State, error) {
	var s session.State
	if len(text) > stateMax {
		return s, fmt.Errorf("%w: %d bytes, limit %d", errState, len(text), stateMax)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%w: %w", errState, err)
	}
	switch {
	case s.Agent != name:
		return s, fmt.Errorf("%w: it names agent %.70q but came from %q", errState, s.Agent, name)
	case s.Instance == "" || len(s.Instance) > textMax:
		return s, fmt.Errorf("%w: instance %.70q", errState, s.Instance)
	case len(s.Version) > textMax || len(s.Kernel) > textMax || len(s.Clock.By) > textMax:
		return s, fmt.Errorf("%w: a string exceeds %d bytes", errState, textMax)
	case s.Revision > math.MaxInt64:
		return s, fmt.Errorf("%w: revision %d", errState, s.Revision)
	case len(s.Capabilities) > capabilitiesMax || slices.ContainsFunc(s.Capabilities, func(c string) bool { return len(c) > textMax }):
		return s, fmt.Errorf("%w: %d capabilities, or a long name", errState, len(s.Capabilities))
	case len(s.Labels) > labelsMax || len(s.Interfaces) > interfacesMax:
		return s, fmt.Errorf("%w: %d labels, %d interfaces", errState, len(s.Labels), len(s.Interfaces))
	}
	s.Spool.DiskError = clip(s.Spool.DiskError)
	// Nobody can approve them, and the rest of the report counts.
	maps.DeleteFunc(s.Labels, func(key, value string) bool { return !session.ValidLabel(key, value) })
	for _, i := range s.Interfaces {
		if len(i.Name) > textMax || len(i.Addresses) > addressesMax {
			return s, fmt.Errorf("%w: interface %.70q with %d addresses", errState, i.Name, len(i.Addresses))
		}
		for _, prefix := range i.Addresses {
			if _, err := netip.ParsePrefix(prefix); err != nil {
				return s, fmt.Errorf("%w: address %.70q of interface %q", errState, prefix, i.Name)
			}
		}
	}
	if err := checkTasks(s.Tasks); err != nil {
		return s, fmt.Errorf("%w: %w", errState, err)
	}
	return s, nil
}

// checkTasks validates the states of an agent's tasks, and truncates long errors.
func checkTasks(tasks []session.TaskState) error {
	if len(tasks) > tasksMax {
		return fmt.Errorf("%d tasks, limit %d", len(tasks), tasksMax)
	}
	for i := range tasks {
		t := &tasks[i]
		if len(t.Counters) > countersMax || len(t.Missing) > peersMax || len(t.Session) > textMax || len(t.Role) > textMax || len(t.Device) > textMax {
			return fmt.Errorf("task of session %.70q has %d counters, or a long name", t.Session, len(t.Counters))
		}
		for name := range t.Counters {
			if len(name) > textMax {
				return fmt.Errorf("task of session %.70q has a counter %.70q", t.Session, name)
			}
		}
		if len(t.OtherFlows) > peersMax {
			return fmt.Errorf("task of session %.70q has marks of %d agents that number other flows", t.Session, len(t.OtherFlows))
		}
		for agent, fields := range t.OtherFlows {
			if len(agent) > textMax || len(fields) > textMax {
				return fmt.Errorf("task of session %.70q has a long name or fields of a source: %.70q, %.70q", t.Session, agent, fields)
			}
		}
		t.Error, t.Limit = clip(t.Error), clip(t.Limit)
	}
	return nil
}

func clip(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= textMax {
		return text
	}
	end := textMax
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// process processes a valid report.
func (c *Control) process(a *agent, state session.State, now time.Time) {
	first, before, last := a.lastReport.IsZero(), a.state, a.lastReport
	a.state, a.lastReport = state, now
	urgent := false
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
		if x.Session != y.Session || x.Role != y.Role || x.Running != y.Running || x.Error != y.Error {
			return false
		}
	}
	return true
}
