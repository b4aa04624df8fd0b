package bus

import "sync"

// fairQueue holds deliveries, bounded in bytes, and hands them out so that agents share
// the receiver equally whatever each sends (deficit round robin). When it is full, it
// refuses the newest batches of the agent that holds most of it.
type fairQueue struct {
	limit int64 // bytes in total
	share int64 // bytes of one agent

	mu    sync.Mutex
	bytes int64
	lanes map[string]*lane
	turns []*lane // those that are not empty, the next one first
	wake  chan struct{}
}

// lane is the queue of one agent.
type lane struct {
	agent   string
	queue   []Delivery
	bytes   int64
	deficit int64
}

const (
	// quantum is how many bytes an agent may deliver before it is another agent's turn.
	quantum = 1 << 20
	// batchCost is what a batch costs the receiver besides its bytes, as bytes.
	batchCost = 4 << 10
)

func newFairQueue(limit, share int64) *fairQueue {
	return &fairQueue{limit: limit, share: min(share, limit), lanes: map[string]*lane{}, wake: make(chan struct{}, 1)}
}

func cost(d *Delivery) int64 { return int64(max(len(d.Payload), d.size)) + batchCost }

// put queues a batch and returns the batches that are refused to make room: the batch itself, or the newest batches
// of other agents. own reports whether its agent has reached its share.
func (q *fairQueue) put(d Delivery) (refused []Delivery, own bool) {
	size := cost(&d)
	q.mu.Lock()
	defer q.mu.Unlock()
	held := int64(0)
	if l := q.lanes[d.Agent]; l != nil {
		held = l.bytes
	}
	if held+size > q.share {
		return []Delivery{d}, true
	}
	for q.bytes+size > q.limit {
		longest := q.longest()
		if longest == nil || longest.bytes <= held+size {
			return append(refused, d), false
		}
		last := len(longest.queue) - 1
		refused = append(refused, longest.queue[last])
		q.take(longest, &longest.queue[last])
		longest.queue = longest.queue[:last]
		if last == 0 {
			q.leave(longest)
		}
	}
	l := q.lanes[d.Agent]
	if l == nil {
		l = &lane{agent: d.Agent}
		q.lanes[d.Agent] = l
		q.turns = append(q.turns, l)
	}
	l.queue = append(l.queue, d)
	l.bytes += size
	q.bytes += size
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return refused, false
}

func (q *fairQueue) longest() (longest *lane) {
	for _, l := range q.turns {
		if longest == nil || l.bytes > longest.bytes {
			longest = l
		}
	}
	return longest
}

// take subtracts the bytes of a batch from the sizes of its lane and of the queue.
func (q *fairQueue) take(l *lane, d *Delivery) {
	l.bytes -= cost(d)
	q.bytes -= cost(d)
}

func (q *fairQueue) leave(empty *lane) {
	delete(q.lanes, empty.agent)
	for i, l := range q.turns {
		if l == empty {
			q.turns = append(q.turns[:i:i], q.turns[i+1:]...)
			return
		}
	}
}

// next waits for the next batch; false means that the queue is closed.
func (q *fairQueue) next(done <-chan struct{}) (Delivery, bool) {
	for {
		if d, found := q.pop(); found {
			return d, true
		}
		select {
		case <-q.wake:
		case <-done:
			return Delivery{}, false
		}
	}
}

func (q *fairQueue) pop() (d Delivery, found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.turns) > 0 {
		l := q.turns[0]
		size := cost(&l.queue[0])
		if l.deficit < size {
			l.deficit += quantum
			q.turns = append(q.turns[1:], l)
			continue
		}
		d, l.queue[0] = l.queue[0], Delivery{}
		l.queue = l.queue[1:]
		l.deficit -= size
		q.take(l, &d)
		if len(l.queue) == 0 {
			q.leave(l)
		}
		return d, true
	}
	return d, false
}

func (q *fairQueue) waiting() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}
