package wire

import "strings"

// A Content is a set of what an encoding can carry, and with it of what can be measured.
type Content uint8

// What an encoding carries, as in wire.h.
const (
	CarriesNumber  Content = 1 << iota // a number of each packet
	CarriesTime                        // the time of sending
	CarriesEcho                        // number and times of packets in the other direction
	CarriesBlock                       // which block of packets a packet belongs to
	CarriesHops                        // times that routers on the path write
	CarriesSparse                      // a sign that only some packets of the flow carry a mark
	CarriesModules                     // options of modules
)

// contents describes the bits of a Content in their order.
var contents = []struct{ name, measures string }{
	{"number", "loss, reordering, duplication"},
	{"time", "one-way delay"},
	{"echo", "round-trip time"},
	{"block", "loss and delay per block"},
	{"hops", "delay of each hop"},
	{"sparse", ""},
	{"modules", ""},
}

// String returns the names of what the set contains, separated by commas; "nothing" for the
// empty set.
func (c Content) String() string {
	var names []string
	for i, known := range contents {
		if c&(1<<i) != 0 {
			names = append(names, known.name)
		}
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ",")
}

// Measures says in words what can be measured with such marks.
func (c Content) Measures() string {
	var all []string
	for i, known := range contents {
		if c&(1<<i) != 0 && known.measures != "" {
			all = append(all, known.measures)
		}
	}
	return strings.Join(all, "; ")
}

// Serves reports whether marks with this content carry something that one of these modules needs.
func (c Content) Serves(m Module) bool {
	return m&Delay != 0 && c.Allows(Delay) || m&Loss != 0 && c.Allows(Loss)
}

// Allows reports whether marks with this content serve these modules: Delay takes a time or,
// once per block, a block; Loss takes a number or a block.
func (c Content) Allows(m Module) bool {
	if m&Delay != 0 && c&(CarriesTime|CarriesBlock) == 0 {
		return false
	}
	return m&Loss == 0 || c&(CarriesNumber|CarriesBlock) != 0
}
