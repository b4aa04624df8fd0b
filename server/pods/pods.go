// Package pods keeps which pod of Kubernetes has, or had last, which address, according to the agents of the
// nodes.
//
// What an agent reports is a claim: it names addresses for people to read, and nothing is measured or
// permitted by it. So each agent has names of its own: those at the source of a flow are of the agent at the
// source, and no other agent can replace them. Clusters that use the same addresses do not disturb each
// other either.
//
// In the flow it stands between the live rows of the stream pods and the API.
package pods

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

const (
	// agentMax bounds the addresses of one agent, totalMax the addresses of all agents, at some 300 bytes each.
	agentMax, totalMax = 1000, 200_000
	// textMax bounds names, bytes.
	textMax = 253
	// keep is how long the last name of an address is known after its agent last reported it.
	keep = 24 * time.Hour
	// searchMax bounds the addresses that a search finds.
	searchMax = 1000
	// fresh is how long a pod is taken to hold an address without a report; there is one every ten minutes.
	fresh = 25 * time.Minute
)

// ErrName marks a row that is not kept.
var ErrName = errors.New("name of a pod")

// Pod had an address when its agent last reported it.
type Pod struct {
	Namespace, Name, Node string
	// Agent that reported it.
	Agent string
	// Seen is when it did, by the clock of the server.
	Seen time.Time
	// Held: the pod still has the address.
	Held bool
}

// Names are the pods by address. Its methods are safe for concurrent use.
type Names struct {
	now func() time.Time

	mu    sync.RWMutex
	by    map[netip.Addr][]Pod // at most one of each agent
	count map[string]int       // addresses by agent
	total int
}

// New returns no names.
func New(now func() time.Time) *Names {
	return &Names{now: now, by: map[netip.Addr][]Pod{}, count: map[string]int{}}
}

// Add takes rows of the stream pods. Invalid ones and those beyond a limit are skipped, and the first is the
// error.
func (n *Names) Add(batch archive.Batch) error {
	columns, err := measure.Columns(batch.Record, &measure.Pods)
	if err != nil {
		return fmt.Errorf("add names of %q: %w", batch.Agent, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range int(batch.Record.NumRows()) {
		address, p, failed := read(columns, i)
		if failed == nil {
			p.Agent, p.Seen = batch.Agent, n.now()
			failed = n.put(address, p)
		}
		if failed != nil && err == nil {
			err = fmt.Errorf("add names of %q: %w", batch.Agent, failed)
		}
	}
	return err
}

// read copies a row, since the record is released.
func read(columns map[string]arrow.Array, row int) (netip.Addr, Pod, error) {
	value := func(name string) measure.Value {
		v, _ := measure.ValueAt(columns[name], row) // Columns checked the type
		return v
	}
	text := func(name string) string { return strings.Clone(value(name).Text()) }
	p := Pod{Namespace: text("namespace"), Name: text("pod"), Node: text("node"), Held: value("held").Bool()}
	address, err := netip.ParseAddr(value("address").Text())
	if err != nil || address.Zone() != "" {
		return address, p, fmt.Errorf("%w: invalid address %.70q", ErrName, value("address").Text())
	}
	for _, name := range []string{p.Namespace, p.Name, p.Node} {
		if name == "" || len(name) > textMax || !utf8.ValidString(name) {
			return address, p, fmt.Errorf("%w %s: invalid name %.70q", ErrName, address, name)
		}
	}
	return address.Unmap(), p, nil
}

// put sets what an agent reports of an address.
func (n *Names) put(address netip.Addr, p Pod) error {
	all := n.by[address]
	i := slices.IndexFunc(all, func(other Pod) bool { return other.Agent == p.Agent })
	switch {
	case i >= 0 && !p.Held && (all[i].Namespace != p.Namespace || all[i].Name != p.Name):
		return nil // of the pod before this one
	case i >= 0:
		all[i] = p
		return nil
	case !p.Held:
		return nil
	case n.count[p.Agent] >= agentMax:
		return fmt.Errorf("%w %s: limit of %d addresses of an agent", ErrName, address, agentMax)
	case n.total >= totalMax:
		return fmt.Errorf("%w %s: limit of %d addresses", ErrName, address, totalMax)
	}
	n.by[address] = append(all, p)
	n.count[p.Agent]++
	n.total++
	return nil
}

// Find returns the pod that has an address, or had it last, according to an agent. Without an agent it is
// according to those that believe accepts: none if they contradict each other.
func (n *Names) Find(address, agent string, believe func(agent string) bool) (Pod, bool) {
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return Pod{}, false
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	var found Pod
	known, contradiction := false, false
	for _, p := range n.by[parsed.Unmap()] {
		age := n.now().Sub(p.Seen)
		if age >= keep || agent != "" && p.Agent != agent || !believe(p.Agent) {
			continue
		}
		p.Held = p.Held && age < fresh
		switch {
		case !known || p.Held && !found.Held: // as when the address has moved to another node
			found, known, contradiction = p, true, false
		case p.Held == found.Held:
			contradiction = true
		}
	}
	if contradiction {
		return Pod{}, false
	}
	return found, known
}

// Search returns addresses that Find has a pod of whose NAMESPACE/NAME contains a text, ignoring case. Sorted.
func (n *Names) Search(text, agent string, believe func(agent string) bool) (addresses []string) {
	n.mu.RLock()
	var candidates []netip.Addr
	text = strings.ToLower(text)
	for address, all := range n.by {
		if slices.ContainsFunc(all, func(p Pod) bool { return p.matches(text) }) {
			candidates = append(candidates, address)
		}
	}
	n.mu.RUnlock()
	slices.SortFunc(candidates, netip.Addr.Compare)
	for _, address := range candidates {
		if p, known := n.Find(address.String(), agent, believe); known && p.matches(text) && len(addresses) < searchMax {
			addresses = append(addresses, address.String())
		}
	}
	return addresses
}

// matches reports whether the name contains a text in lower case.
func (p *Pod) matches(text string) bool {
	return strings.Contains(strings.ToLower(p.Namespace+"/"+p.Name), text)
}

// Expire drops names that were last reported a day ago.
func (n *Names) Expire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for address, all := range n.by {
		all = slices.DeleteFunc(all, func(p Pod) bool {
			old := n.now().Sub(p.Seen) >= keep
			if old {
				n.forget(p.Agent)
			}
			return old
		})
		if n.by[address] = all; len(all) == 0 {
			delete(n.by, address)
		}
	}
}

// forget subtracts one address of an agent from the counts.
func (n *Names) forget(agent string) {
	n.total--
	if n.count[agent]--; n.count[agent] == 0 {
		delete(n.count, agent)
	}
}
