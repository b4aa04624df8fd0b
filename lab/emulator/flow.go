package emulator

// reason is why a packet was lost.
type reason int

const (
	lostRandom reason = iota
	lostRate          // the queue of the rate was full
	lostFull          // the limit of packets in flight was reached
	lostError         // the far tap rejected the frame, for example because it was down
	reasons
)

// counts are the counters of a flow or of the control frames. Always offered = delivered +
// the sum of lost + inFlight.
type counts struct {
	offered    uint64
	delivered  uint64 // first copies
	lost       [reasons]uint64
	inFlight   uint64
	duplicated uint64 // copies beyond the first, RFC 5560
	reordered  uint64 // RFC 4737
}

// flow has the counters of the packets with one key.
type flow struct {
	counts
	id       uint32
	key      key
	other    bool   // all flows beyond the limit of the table
	expected uint64 // the largest send index delivered, plus one
	delay    histogram
}

// offer counts a packet and returns its send index in the flow.
func (f *flow) offer() uint64 {
	f.offered++
	return f.offered - 1
}

// deliver counts the first copy of a packet. The packet is reordered if one that was sent
// later was delivered before (RFC 4737, NextExp).
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

// find returns the flow of a key. If the table is full, all further flows share one entry
// for marked and one for unmarked packets.
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
