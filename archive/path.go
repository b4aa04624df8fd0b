package archive

import (
	"time"

	"pillion.dev/measure/flows"
)

// Traces asks for the last traces of a path in the stream hops.
type Traces struct {
	// Source traced to Address, which is one of Destination.
	Source, Destination, Address, Protocol string
	// Until (inclusive); the zero time is now.
	Until time.Time
	// Most is the number of traces to return.
	Most int
}

// RouterDelays asks for delays, queues and coffee breaks inside a router, of packets
// from one interface to another; an empty interface is any.
type RouterDelays struct {
	Agent string
	// Sessions in order of preference: the first with rows is used. Without any, rows
	// without a session are.
	Sessions      []string
	Input, Output string
	// From (inclusive) and To (exclusive) are required.
	From, To time.Time
	Step     time.Duration
	// Breaks is the number of longest coffee breaks to return.
	Breaks int
}

// RouterDelaysAnswer answers RouterDelays.
type RouterDelaysAnswer struct {
	Session string
	// Sampled is n if delays are read from every nth row.
	Sampled int64
	Stages  []StageWindow // by time
	Queues  []QueueWindow // by time
	Sizes   []QueueSizes  // of the whole range
	Breaks  []CoffeeBreak // by time
}

// StageWindow is how long packets took in one stage of a router.
type StageWindow struct {
	Stage string
	Start time.Time
	Delay flows.Distribution
}

// QueueSizes are distributions of one side, input or output, of an interface.
type QueueSizes struct {
	Interface, Side string
	// Sizes counts departing packets by the queue length that they found, themselves included.
	Sizes []PacketCount
	// Arrivals counts inter-departure times by the packets that arrived meanwhile.
	Arrivals []PacketCount
}

// PacketCount is how often there were so many packets.
type PacketCount struct{ Packets, Count uint64 }

// QueueWindow is how many packets waited at one side, input or output, of an
// interface: on average, and the largest backlog that the kernel reported.
type QueueWindow struct {
	Interface, Side string
	Start           time.Time
	Mean, Kernel    float64
}

// CoffeeBreak is a period in which packets wait and the router processes none.
type CoffeeBreak struct {
	Time        time.Time
	Length      time.Duration
	Cause, Task string
	Depth       uint64
}
