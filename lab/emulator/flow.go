package emulator

// reason is why a packet was lost.
type reason int

const (
	lostRandom reason = iota
	lostRate          // the queue in front of the rate was full
	lostFull          // the emulator had no memory left for the delay
	lostError         // the far tap refused the frame, for example because it was down
	reasons
)

// counts is the running account of one flow or of the control frames. At any
// time offered = delivered + the sum of lost + inFlight.
type counts struct {
	offered    uint64
	delivered  uint64 // first copies
	lost       [reasons]uint64
	inFlight   uint64
	duplicated uint64 // copies beyond the first, RFC 5560
	reordered  uint64 // RFC 4737
}

// flow is the account of the packets with one key.
type flow struct {
	counts
	id       uint32
	key      key
	other    bool   // gathers what found no place in the table
	expected uint64 // one more than the largest send index delivered
	delay    histogram
}

// offer books a packet and returns its send index in the flow.
func (f *flow) offer() uint64 {
	f.offered++
	return f.offered - 1
}

// deliver books the first copy of a packet. The packet is reordered if one that
// was sent later came first (RFC 4737, NextExp).
func (f *flow) deliver(index uint64, delay int64) {
	f.delivered++
	f.inFlight--
	f.delay.add(delay)
	if index < f.expected {
		f.reordered++
		return
	}
	f.expected = index + 1
}

// maxFlows bounds the flow table of one direction.
const maxFlows = 16384

// flows is the table of one direction.
type flows struct {
	byKey map[key]*flow
	list  []*flow
	limit int
}

func newFlows(limit int) *flows {
	return &flows{byKey: make(map[key]*flow), limit: limit}
}

// find returns the flow of a key. A full table gathers all further flows in one,
// apart for marked and unmarked packets.
func (t *flows) find(k key) *flow {
	if f, ok := t.byKey[k]; ok {
		return f
	}
	other := len(t.list) >= t.limit
	if other {
		k = key{marked: k.marked}
		if f, ok := t.byKey[k]; ok {
			return f
		}
	}
	f := &flow{id: uint32(len(t.list)), key: k, other: other}
	t.byKey[k] = f
	t.list = append(t.list, f)
	return f
}
