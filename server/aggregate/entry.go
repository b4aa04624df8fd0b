package aggregate

import (
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

// entry is the sum of a window that is not complete, in the file.
type entry struct {
	Key                           key
	Taken                         int64
	Counts                        flows.Counts
	Delay, IPDV                   distribution
	ClockError                    flows.Bound
	DestinationClock, SourceClock flows.Bound
}

// distribution is one of the flows in the file; the sum of all values has 128 bits.
type distribution struct {
	Count     uint64
	Min, Max  int64
	High      int64
	Low       uint64
	Histogram histogram.Histogram
}

func entryOf(k key, s *sum) entry {
	return entry{
		Key: k, Taken: s.taken, Counts: s.Counts, Delay: distributionOf(&s.Delay), IPDV: distributionOf(&s.IPDV),
		ClockError: s.ClockError, DestinationClock: s.destinationClock, SourceClock: s.sourceClock,
	}
}

func (e *entry) sum() *sum {
	return &sum{
		Sum:   flows.Sum{Counts: e.Counts, Delay: e.Delay.whole(), IPDV: e.IPDV.whole(), ClockError: e.ClockError},
		taken: e.Taken, destinationClock: e.DestinationClock, sourceClock: e.SourceClock,
	}
}

func distributionOf(d *flows.Distribution) distribution {
	return distribution{d.Count, d.Min, d.Max, d.Total.HighBits(), d.Total.LowBits(), d.Histogram}
}

func (d *distribution) whole() flows.Distribution {
	return flows.Distribution{Count: d.Count, Min: d.Min, Max: d.Max, Total: decimal128.New(d.High, d.Low), Histogram: d.Histogram}
}
