package policy

import "fmt"

// Key is one setting of a policy file, for its reference.
type Key struct{ Name, Default, Doc string }

// Setting is the value of a key.
type Setting struct{ Name, Value string }

// Settings returns what applies, in the order of the reference.
func (p *Policy) Settings() []Setting {
	all := func(list []string) string {
		if list == nil {
			return "all"
		}
		return listed(list)
	}
	limit := "no limit"
	if n := p.Marking.PacketsPerSecond; n > 0 {
		limit = fmt.Sprintf("%d packets/s", n)
	}
	every := "every packet"
	if n := p.Marking.Every; n > 1 {
		every = fmt.Sprintf("1 in %d packets", n)
	}
	targets := "all peers"
	if p.Sending.Targets != nil {
		targets = listed(p.Sending.Targets)
	}
	values := []string{
		all(p.Peers), all(p.Prefixes), all(p.Devices), all(p.Encodings), listed(p.Transit), fmt.Sprint(p.Marking.Allowed),
		every, limit, fmt.Sprint(p.Decapsulation), fmt.Sprint(p.Capture), fmt.Sprint(p.RouterProfiles),
		fmt.Sprint(p.Sending.Allowed), targets, fmt.Sprintf("%d bit/s", int64(p.Sending.Rate)),
		fmt.Sprintf("%d packets/s", p.Sending.PacketsPerSecond), listed(p.Sending.Protocols),
	}
	var settings []Setting
	for i, key := range Keys() {
		settings = append(settings, Setting{key.Name, values[i]})
	}
	return settings
}

// Keys are all settings, in the order of the reference.
func Keys() []Key {
	return []Key{
		{"peers", "all", "Patterns of the names of agents, such as `rack7-*`, whose packets may be marked or measured from this host, in either direction, and to which paths are traced. `[]` permits none. The server names agents and says which addresses they have: what an untrusted server can reach is bounded by `prefixes` only."},
		{"prefixes", "all", "Prefixes of the addresses of such peers: marks are written only for destinations in them, and read only from sources in them; paths are traced and checked only to them. Loopback, multicast and broadcast addresses are never permitted."},
		{"devices", "all", "Patterns of interfaces, such as `eth*`, on which programs may be attached for sessions."},
		{"encodings", "all", "Encodings that this host may mark packets in. A session whose list has another one is refused."},
		{"transit", "none", "Prefixes of hosts whose packets sessions may mark and measure where agents forward them: those behind this host, for which it forwards, those behind its peers, and the destinations of packets into whose marks it writes the time as a waypoint."},
		{"marking.allowed", "true", "Packets may be marked at all."},
		{"marking.every", "1", "The most that is marked is one packet in this many: a session needs `every`, `random` or `hash` of at least this."},
		{"marking.packets_per_second", "no limit", "The most marked packets per second of one session: it needs a `min_gap` of at least a second divided by this."},
		{"decapsulation", "true", "Marks may be read for sessions: the program that does it removes them, with outer headers if they have any, from packets of permitted peers. If false, this host is no destination."},
		{"capture", "true", "The agent may capture packet headers, as its configuration says. If false, it does not start with such a configuration."},
		{"router_profiles", "true", "Sessions may profile this host as a router."},
		{"sending.allowed", "true", "Sessions may send packets at all."},
		{"sending.targets", "all peers", "Prefixes to which packets may be sent. `[]` permits none."},
		{"sending.rate", "10M", "Limit for all tasks together, bit/s."},
		{"sending.packets_per_second", "1000", "Limit for all tasks together, packets/s."},
		{"sending.protocols", "udp, icmp", "Protocols that may be sent: udp, tcp, icmp, raw."},
	}
}
