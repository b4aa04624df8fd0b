package emulator

// bottleneck is a serialiser with a queue in front: it decides when a frame has
// left at the given rate, and whether it finds room at all.
type bottleneck struct {
	free    int64 // when the last accepted frame has left, ns
	waiting []departure
	head    int
	bytes   int64
}

// departure is one frame that has not left yet, the one on the wire included.
type departure struct {
	at   int64
	size int64
}

// admit returns when a frame of size bytes that comes at now has left, and false
// if the queue is full.
func (b *bottleneck) admit(now, size int64, f *Faults) (int64, bool) {
	b.advance(now)
	if f.Rate == 0 {
		return max(now, b.free), true
	}
	if f.Queue.Bytes > 0 && b.bytes+size > f.Queue.Bytes {
		return 0, false
	}
	if f.Queue.Packets > 0 && int64(len(b.waiting)-b.head) >= f.Queue.Packets {
		return 0, false
	}
	b.free = max(now, b.free) + size*8*1e9/int64(f.Rate)
	b.waiting = append(b.waiting, departure{b.free, size})
	b.bytes += size
	return b.free, true
}

// advance forgets the frames that have left by now.
func (b *bottleneck) advance(now int64) {
	for b.head < len(b.waiting) && b.waiting[b.head].at <= now {
		b.bytes -= b.waiting[b.head].size
		b.head++
	}
	if b.head*2 > len(b.waiting) {
		b.waiting = b.waiting[:copy(b.waiting, b.waiting[b.head:])]
		b.head = 0
	}
}
