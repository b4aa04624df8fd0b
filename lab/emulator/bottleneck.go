package emulator

// bottleneck is a rate limiter with a queue: it determines when a frame has been
// transmitted at the rate, and whether the queue has room for it.
type bottleneck struct {
	free    int64 // end of the transmission of the last accepted frame, ns
	waiting []departure
	head    int
	bytes   int64
}

// departure is a frame that is queued or being transmitted.
type departure struct {
	at   int64
	size int64
}

// admit returns the end of the transmission of a frame that arrives now, and false if the
// queue is full.
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

// advance removes the frames that have been transmitted by now.
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
