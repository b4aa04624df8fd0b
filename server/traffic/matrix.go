package traffic

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
)

// Granularities of a matrix: what its rows put together.
const (
	ByPair     = "pair"
	ByLabel    = "label"
	ByPrefix   = "prefix"
	ByHost     = "host"
	ByHostPort = "host-port"
	ByFlow     = "flow"
)

// Granularities are all of them.
var Granularities = []string{ByPair, ByLabel, ByPrefix, ByHost, ByHostPort, ByFlow}

// Shape is what the rows of a matrix are.
type Shape struct {
	Granularity string
	// IPv4 and IPv6 are the lengths of prefixes.
	IPv4, IPv6 int
	// Protocol makes a row for each IP protocol.
	Protocol bool
	// Order is ByBytes or ByPackets.
	Order string
	// Limit is the most rows; the others are only in the total.
	Limit int
}

// Check returns an error about an invalid shape, and the field that it is about.
func (s *Shape) Check() (field string, err error) {
	switch {
	case !slices.Contains(Granularities, s.Granularity):
		return "granularity", fmt.Errorf("read granularity %q: there are %s", s.Granularity, strings.Join(Granularities, ", "))
	case s.IPv4 < 1 || s.IPv4 > 32:
		return "prefix_ipv4", fmt.Errorf("read length of IPv4 prefixes %d: use 1 to 32", s.IPv4)
	case s.IPv6 < 1 || s.IPv6 > 128:
		return "prefix_ipv6", fmt.Errorf("read length of IPv6 prefixes %d: use 1 to 128", s.IPv6)
	case s.Order != ByBytes && s.Order != ByPackets:
		return "order", fmt.Errorf("read order %q: there are %s and %s", s.Order, ByBytes, ByPackets)
	}
	return "", nil
}

// Archived is the granularity of the archive whose sums a matrix needs.
func (s *Shape) Archived() string {
	switch s.Granularity {
	case ByPair, ByLabel:
		if s.Protocol {
			return "protocol"
		}
		return "pair"
	case ByPrefix, ByHost:
		if s.Protocol {
			return "host-protocol"
		}
		return "host"
	}
	return s.Granularity
}

// Network is what a matrix needs to know of agents and sessions.
type Network struct {
	Sampling Sampling
	// Label is the value of the label of an agent; empty: it has none.
	Label func(agent string) string
	// MTU is the largest of an agent's interfaces; 0: not known.
	MTU func(agent string) int
}

// Matrix has the volumes between pairs of hosts or groups.
type Matrix struct {
	Volumes []Volume
	// Total is of all, also of those beyond the limit.
	Total Volume
	// Found is the number of pairs without the limit.
	Found int
	// Unread packets are in the total, but in no row: the archive has more groups than are read at once. They are not scaled.
	Unread uint64
}

// Make puts sums of the archive together.
func Make(answer archive.VolumesAnswer, shape Shape, network Network) Matrix {
	sums := map[flows.Flow]*sum{}
	var total sum
	for i := range answer.Volumes {
		v := &answer.Volumes[i]
		n, known := network.Sampling.together(v.Sessions, v.Source)
		largest := float64(sizeMost)
		if mtu := network.MTU(v.Source); mtu > 0 {
			largest = min(largest, float64(mtu))
		}
		key := shape.key(v, network.Label)
		s := sums[key]
		if s == nil {
			s = &sum{Volume: Volume{Flow: key}}
			sums[key] = s
		}
		s.add(v, n, known, largest)
		total.add(v, n, known, largest)
	}
	m := Matrix{Found: len(sums), Unread: answer.Packets - min(answer.Packets, total.Packets)}
	if m.Unread > 0 {
		rest := archive.Volume{Packets: m.Unread, Bytes: answer.Bytes - min(answer.Bytes, total.Bytes)}
		total.add(&rest, 1, false, sizeMost)
	}
	m.Total = total.volume()
	for _, s := range sums {
		m.Volumes = append(m.Volumes, s.volume())
	}
	inOrder(m.Volumes, shape.Order)
	m.Volumes = m.Volumes[:min(len(m.Volumes), shape.Limit)]
	return m
}

// key is the row of a volume.
func (s *Shape) key(v *archive.Volume, label func(agent string) string) flows.Flow {
	key := v.Flow
	switch s.Granularity {
	case ByLabel:
		key.Src, key.Dst = label(v.Source), label(v.Destination)
	case ByPrefix:
		key.Src, key.Dst = s.prefix(key.Src), s.prefix(key.Dst)
	}
	return key
}

// prefix is the network of an address; a text that is none stays as it is.
func (s *Shape) prefix(text string) string {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	address = address.Unmap().WithZone("")
	bits := s.IPv6
	if address.Is4() {
		bits = s.IPv4
	}
	prefix, err := address.Prefix(bits)
	if err != nil {
		return text
	}
	return prefix.String()
}
