package control

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"pillion.dev/session"
)

const pulseEvery = time.Second

func (c *Control) pulses(ctx context.Context) {
	ticker := time.NewTicker(pulseEvery)
	defer ticker.Stop()
	for {
		c.pulse() // first at once: another server may have led until its death
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-c.pulseSoon:
		}
	}
}

// pulse renews the leases of sources whose destinations are alive, and sends the clock
// state of the other ends. A source without a live destination gets an Alive that does
// not name its session.
func (c *Control) pulse() {
	c.mu.Lock()
	now := c.Now()
	pulses := map[string]session.Pulse{}
	for name, a := range c.agents {
		if !a.connected || a.Revoked {
			continue
		}
		if text := c.notices.take(name, now); a.sent.Leased() || text != "" {
			p := c.pulseOf(a, now)
			p.Notice = text
			pulses[name] = p
		}
	}
	c.mu.Unlock()
	for name, p := range pulses {
		if !c.Leads() { // any more: another server may have changed assignments
			return
		}
		text, err := json.Marshal(p)
		if err == nil {
			err = c.Bus.Pulse(name, text)
		}
		if err != nil {
			c.Log.Warn("cannot send heartbeat; leases will expire", "agent", name, "error", err)
		}
	}
}

// noticeEvery is the minimum time between two notices to an agent.
const noticeEvery = 10 * time.Second

// Notify tells an agent, with its next pulse, what was refused from it. It does not wait for a round: it is called
// for each message of a flood, before messages of other agents are handled.
func (c *Control) Notify(name string, refusal error) {
	now := c.Now()
	c.notices.Lock()
	defer c.notices.Unlock()
	if n := c.notices.of[name]; now.Sub(n.at) >= noticeEvery {
		c.notices.of[name] = notice{session.Clip(refusal.Error()), now}
	}
}

// notice is what an agent is to be told; text is empty once it was.
type notice struct {
	text string
	at   time.Time
}

// notices are by agent.
type notices struct {
	sync.Mutex
	of map[string]notice
}

// take returns the notice for an agent. Old ones are removed.
func (n *notices) take(agent string, now time.Time) string {
	n.Lock()
	defer n.Unlock()
	one, found := n.of[agent]
	if !found {
		return ""
	}
	if now.Sub(one.at) >= noticeEvery {
		delete(n.of, agent)
	} else if one.text != "" {
		n.of[agent] = notice{at: one.at}
	}
	return one.text
}

func (c *Control) pulseOf(a *agent, now time.Time) session.Pulse {
	p := session.Pulse{Revision: a.sent.Revision, Alive: map[string][]string{}, Missing: map[string][]string{}, ClockErrorNs: map[string]int64{}}
	for _, task := range a.sent.Sources {
		r := c.sessions[task.Session]
		for _, peer := range task.Peers {
			c.addClock(&p, a, peer.Agent)
			if r != nil && r.active() && c.agents[peer.Agent].alive(task.Session, a.Name, now) {
				p.Alive[task.Session] = append(p.Alive[task.Session], peer.Agent)
				if c.agents[peer.Agent].misses(task.Session, a.Name) {
					p.Missing[task.Session] = append(p.Missing[task.Session], peer.Agent)
				}
				l := link{task.Session, peer.Agent}
				m := a.marking[l]
				m.renewed = now
				a.marking[l] = m
			}
		}
	}
	for _, task := range a.sent.Destinations {
		for _, peer := range task.Peers {
			c.addClock(&p, a, peer.Agent)
		}
	}
	return p
}

func (c *Control) addClock(p *session.Pulse, a *agent, peer string) {
	other := c.agents[peer]
	if other == nil || !other.connected {
		return
	}
	p.ClockErrorNs[peer] = other.state.Clock.MaxErrorNs
	if a.state.Boot != "" && a.state.Boot == other.state.Boot && !slices.Contains(p.SameClock, peer) {
		p.SameClock = append(p.SameClock, peer)
	}
}

// misses reports whether marked packets of a source have just ceased to arrive.
func (a *agent) misses(name, source string) bool {
	return slices.ContainsFunc(a.status, func(t session.TaskState) bool {
		return t.Session == name && t.Role == roleDestination && slices.Contains(t.Missing, source)
	})
}

// alive reports whether the agent, which may be nil, reads marks of a source now.
func (a *agent) alive(session, source string, now time.Time) bool {
	return a != nil && !a.Revoked && a.connected && now.Sub(a.lastReport) < aliveFor &&
		a.reads(session, source) && a.runs(session, roleDestination)
}
