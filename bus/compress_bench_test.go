package bus

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// second is a batch of what a host received in one second: a row for each flow, each of that many packets with delay
// and delay variation.
func second(tb testing.TB, rows, packets int) measure.Envelope {
	tb.Helper()
	var batch measure.Envelope
	stream, err := measure.NewStream(&measure.Flows, measure.StreamOptions{Rows: rows, Bytes: measure.BatchBytesMax},
		func(_ *measure.Schema, record arrow.RecordBatch) (err error) {
			batch, err = measure.Encode(measure.Key{Stream: measure.Flows.Name, Epoch: 1}, record)
			return err
		})
	if err != nil {
		tb.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, uint64(rows)))
	end := time.Unix(1_800_000_000, 0)
	for n := range rows {
		row := randomRow(random, n, packets)
		row.End = end.Add(time.Duration(n) * time.Microsecond)
		if err := stream.Append(row.Sample(nil)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := stream.Close(); err != nil {
		tb.Fatal(err)
	}
	if batch.Rows != rows {
		tb.Fatalf("%d rows in the batch, want %d", batch.Rows, rows)
	}
	return batch
}

// randomRow is a second of one flow, from one of 40 hosts at distances of 0.2 to 40 ms.
func randomRow(random *rand.Rand, n, packets int) flows.Row {
	host := n % 40
	row := flows.Row{
		Interval: time.Second, Session: "mesh", Source: fmt.Sprintf("host-%02d", host), Device: "eth0",
		Flow: flows.Flow{Src: fmt.Sprintf("10.1.%d.2", host), Dst: "10.2.0.2", Proto: "udp", Sport: 32768 + random.Uint32N(28232), Dport: 443},
		Sum: flows.Sum{Counts: flows.Counts{
			Packets: uint64(packets), Bytes: uint64(packets * (64 + random.IntN(1400))), Expected: uint64(packets + random.IntN(2)), Lost: uint64(random.IntN(2)), Reordered: uint64(random.IntN(3)),
		}},
		DestinationClock: flows.BoundOf(500 + random.Int64N(1000)), SourceClock: flows.BoundOf(500 + random.Int64N(1000)),
	}
	base, before := 200e3*math.Exp(float64(host)*0.136), int64(0)
	for n := range packets {
		delay := int64(base + random.ExpFloat64()*0.05*base + 20e3*random.ExpFloat64())
		row.Delay.Add(delay)
		if n > 0 {
			row.IPDV.Add(delay - before)
		}
		before = delay
	}
	return row
}

// BenchmarkBatch measures the bytes of a row on the bus, in batches as they are and compressed, and the time of
// compressing and decompressing a batch. docs/explanation/fleet-sizing.md has the bytes.
func BenchmarkBatch(b *testing.B) {
	for _, packets := range []int{10, 100} {
		for _, rows := range []int{10, 100, 1000} {
			payload := second(b, rows, packets).Payload
			packed := compress(payload)
			run := func(name string, sent []byte, work func() error) {
				b.Run(fmt.Sprintf("packets=%d/rows=%d/%s", packets, rows, name), func(b *testing.B) {
					for b.Loop() {
						if err := work(); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(len(sent))/float64(rows), "bytes/row")
				})
			}
			run("plain", payload, func() error { return nil })
			run("compress", packed, func() error { compress(payload); return nil })
			run("decompress", packed, func() error { _, err := decompress(packed, len(payload)); return err })
		}
	}
}
