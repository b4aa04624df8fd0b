package destination

import "pillion.dev/probe/flow"

// Trace is what the routers on the way wrote into one packet (IOAM trace, RFC 9197). Times are
// UTC, in ns since 1970.
type Trace struct {
	Key flow.Key
	// SentNs is when the source sent the packet; 0 if it did not write it.
	SentNs     int64
	ReceivedNs int64
	// Number of the packet in its flow; 0 if the source wrote none.
	Number uint32
	// Nodes are in the order of the path.
	Nodes []TraceNode
	// Overflow: a node found no room left, so that this one and those after it are not in Nodes.
	Overflow bool
}

// TraceNode is what one node wrote.
type TraceNode struct {
	ID uint64
	// HopLimit is that with which the packet left the node; 0 if it wrote none.
	HopLimit uint8
	// TimeNs is when the node processed the packet, cut to what it resolves; 0 if it wrote none.
	TimeNs int64
}
