package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"pillion.dev/internal/quantity"
	"pillion.dev/server/event"
)

// AddressConflict is an address that an agent reports although another one has had it for
// longer.
type AddressConflict struct{ Address, Agent string }

// absentFor is how long an agent may be away before another one that reports its address gets
// it.
const absentFor = 10 * time.Minute

// noteAddresses records since when the agent has reported its addresses.
func (a *agent) noteAddresses(now time.Time) {
	since := map[string]time.Time{}
	for _, address := range a.addresses {
		since[address] = now
		if before, found := a.Since[address]; found {
			since[address] = before
		}
	}
	a.Since = since
}

// sinceOf returns since when the agent has reported an address; of one that an earlier
// version of the server stored, since it joined.
func (a *agent) sinceOf(address string) time.Time {
	if since, found := a.Since[address]; found {
		return since
	}
	return a.Enrolled
}

// conflicts returns, by agent, its addresses that another agent keeps, and which: the one that
// is there and has reported the address for longest.
func (c *Control) conflicts(now time.Time) map[string]map[string]string {
	incumbents := make(map[string]*agent, 2*len(c.agents))
	sharing := map[string]bool{}
	absent := func(a *agent) int {
		if a.Revoked {
			return 2
		}
		if !a.connected && now.Sub(latest(a.lastReport, c.began)) > absentFor {
			return 1
		}
		return 0
	}
	for name, a := range c.agents {
		for _, address := range a.addresses {
			other := incumbents[address]
			if other != nil && other != a {
				sharing[name], sharing[other.Name] = true, true
			}
			if other == nil || cmp.Or(cmp.Compare(absent(a), absent(other)), a.sinceOf(address).Compare(other.sinceOf(address)),
				cmp.Compare(name, other.Name)) < 0 {
				incumbents[address] = a
			}
		}
	}
	c.plan.sharing, c.absentAt = sharing, time.Time{}
	for name := range sharing {
		if a := c.agents[name]; !a.connected && absent(a) == 0 {
			if at := latest(a.lastReport, c.began).Add(absentFor); c.absentAt.IsZero() || at.Before(c.absentAt) {
				c.absentAt = at
			}
		}
	}
	conflicts := map[string]map[string]string{}
	for name := range sharing {
		for _, address := range c.agents[name].addresses {
			if keeper := incumbents[address].Name; keeper != name {
				if conflicts[name] == nil {
					conflicts[name] = map[string]string{}
				}
				conflicts[name][address] = keeper
			}
		}
	}
	return conflicts
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// reportConflicts raises an event for each pair of agents that begins to report the same
// addresses.
func (c *Control) reportConflicts(now time.Time) {
	if !c.stale.addresses && !c.stale.sessions && (c.absentAt.IsZero() || !now.After(c.absentAt)) {
		return
	}
	all := c.conflicts(now)
	for name, a := range c.agents {
		if maps.Equal(a.conflicts, all[name]) {
			continue
		}
		c.stale.addresses = true
		c.touch(a)
		before := map[string]bool{}
		for _, keeper := range a.conflicts {
			before[keeper] = true
		}
		shared := map[string][]string{}
		for address, keeper := range all[name] {
			shared[keeper] = append(shared[keeper], address)
		}
		for _, keeper := range slices.Sorted(maps.Keys(shared)) {
			if before[keeper] || a.Revoked || !a.quietly("address-conflict "+keeper, now) {
				continue
			}
			addresses := shared[keeper]
			slices.Sort(addresses)
			text := addresses[0]
			if more := len(addresses) - 1; more > 0 {
				text += fmt.Sprintf(" and %s more", quantity.Count(more, "address"))
			}
			c.Events.Event(event.Event{
				Time: now, Kind: "address-conflict", Level: event.Warning, Agent: name, Peer: keeper,
				Message: fmt.Sprintf("%s reports %s, which %s has had since %s and keeps: packets to it are measured as packets to %s only",
					name, text, keeper, c.agents[keeper].sinceOf(addresses[0]).UTC().Format(time.RFC3339), keeper),
			})
		}
		a.conflicts = all[name]
	}
}

// AddressConflicts returns the number of addresses, by agent, that another agent keeps.
func (c *Control) AddressConflicts() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.agents {
		n += len(a.conflicts)
	}
	return n
}

func (a *agent) conflictList() []AddressConflict {
	var list []AddressConflict
	for _, address := range slices.Sorted(maps.Keys(a.conflicts)) {
		list = append(list, AddressConflict{address, a.conflicts[address]})
	}
	return list
}
