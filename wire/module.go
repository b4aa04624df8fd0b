package wire

import (
	"fmt"
	"strings"
)

// A Module is a set of the things that a mark can carry.
type Module uint8

// The modules, as bits of a set.
const (
	Delay Module = 1 << iota // sent and received timestamps
	Loss                     // sequence number and single bit

	modules = Delay | Loss
)

// ParseModule returns the set that s names: "delay", "loss" or "delay,loss",
// in any order.
func ParseModule(s string) (Module, error) {
	var set Module
	for name := range strings.SplitSeq(s, ",") {
		var one Module
		switch name {
		case "delay":
			one = Delay
		case "loss":
			one = Loss
		default:
			return 0, fmt.Errorf("parse modules %q: %q is neither delay nor loss", s, name)
		}
		if set&one != 0 {
			return 0, fmt.Errorf("parse modules %q: duplicate %s", s, name)
		}
		set |= one
	}
	return set, nil
}

// String returns the names of the set's modules, separated by commas; "none"
// for the empty set.
func (m Module) String() string {
	switch m {
	case 0:
		return "none"
	case Delay:
		return "delay"
	case Loss:
		return "loss"
	case modules:
		return "delay,loss"
	}
	return fmt.Sprintf("Module(%#x)", uint8(m))
}

// Valid reports whether a mark can carry exactly this set.
func (m Module) Valid() bool { return m != 0 && m&^modules == 0 }
