package emulator

// frame is one Ethernet frame that was read from a tap.
type frame struct {
	buffer    []byte
	size      int
	flow      *flow // nil for a control frame
	index     uint64
	flowIndex uint64
	read      int64 // monotonic, ns
	readWall  int64 // CLOCK_REALTIME, ns
	marked    bool
	delivered bool
	lost      bool
	copies    int // still on the line
}

// passage is a copy of a frame in flight.
type passage struct {
	due   int64
	order uint64 // breaks ties: first in, first out
	frame *frame
}

// line is a priority queue of passages by due time: a binary heap.
type line struct {
	heap  []passage
	order uint64
}

func (l *line) empty() bool { return len(l.heap) == 0 }

// next returns the earliest due time; the line must not be empty.
func (l *line) next() int64 { return l.heap[0].due }

func (l *line) push(due int64, f *frame) {
	l.order++
	f.copies++
	l.heap = append(l.heap, passage{due, l.order, f})
	child := len(l.heap) - 1
	for child > 0 {
		parent := (child - 1) / 2
		if !l.before(child, parent) {
			return
		}
		l.heap[child], l.heap[parent] = l.heap[parent], l.heap[child]
		child = parent
	}
}

func (l *line) pop() passage {
	first, last := l.heap[0], len(l.heap)-1
	l.heap[0] = l.heap[last]
	l.heap[last] = passage{}
	l.heap = l.heap[:last]
	parent := 0
	for {
		child := 2*parent + 1
		if child >= last {
			break
		}
		if child+1 < last && l.before(child+1, child) {
			child++
		}
		if !l.before(child, parent) {
			break
		}
		l.heap[child], l.heap[parent] = l.heap[parent], l.heap[child]
		parent = child
	}
	first.frame.copies--
	return first
}

func (l *line) before(a, b int) bool {
	if l.heap[a].due != l.heap[b].due {
		return l.heap[a].due < l.heap[b].due
	}
	return l.heap[a].order < l.heap[b].order
}
