package schedule

import (
	"container/heap"

	"pillion.dev/send/model"
)

// Traffic draws the packets of some flows of a model, in the order of their times. The
// train of a packet is the number of its flow, from 0. FlowName gives the name of the flow
// whose headers it has; drawn, if not nil, sees each packet as it is drawn.
func Traffic(m *model.Model, flows int, flowName func(flow int) string, drawn func(flow int, p model.Packet)) Schedule {
	return func(yield func(Entry, error) bool) {
		var queue flowQueue
		for i := range max(flows, 1) {
			f := &flow{source: m.Flow(uint64(i)), index: i}
			if f.next() {
				queue = append(queue, f)
			}
		}
		heap.Init(&queue)
		for len(queue) > 0 {
			f := queue[0]
			if drawn != nil {
				drawn(f.index, f.head)
			}
			e := Entry{Due: f.head.Due, Train: uint32(f.index), Number: f.number, Size: f.head.Size, Flow: flowName(f.index)}
			if !yield(e, nil) {
				return
			}
			f.number++
			if f.next() {
				heap.Fix(&queue, 0)
			} else {
				heap.Pop(&queue)
			}
		}
	}
}

// flow and its next packet.
type flow struct {
	source *model.Flow
	index  int
	number uint32
	head   model.Packet
}

func (f *flow) next() (ok bool) {
	f.head, ok = f.source.Next()
	return ok
}

// flowQueue is a heap of flows by the time of their next packet.
type flowQueue []*flow

func (q flowQueue) Len() int { return len(q) }
func (q flowQueue) Less(i, j int) bool {
	if q[i].head.Due == q[j].head.Due {
		return q[i].index < q[j].index
	}
	return q[i].head.Due < q[j].head.Due
}
func (q flowQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *flowQueue) Push(f any) { *q = append(*q, f.(*flow)) }

// Pop implements heap.Interface.
func (q *flowQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
