//go:build verify

package lab_test

import (
	"cmp"
	"os"
	"strconv"
	"testing"

	"pillion.dev/internal/test/figure"
)

// truthPackets are the packets of each encoding: a million, or as many as the environment variable PACKETS says.
func truthPackets(t *testing.T) int {
	text := cmp.Or(os.Getenv("PACKETS"), "1000000")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("invalid PACKETS %q: want a positive number", text)
	}
	return n
}

// TestVerifyProbesCountTheTruth: many packets in each encoding of datagrams. The median delay may differ by the time
// that a frame waits until the emulator reads it.
func TestVerifyProbesCountTheTruth(t *testing.T) {
	for name, row := range truthRows {
		if !row.short {
			t.Run(name, func(t *testing.T) {
				off := row.check(t, truthPackets(t))
				figure.AtMost(t, "error of the median delay, "+name, float64(off.Nanoseconds())/1e3, 60, "µs")
			})
		}
	}
}

// TestVerifyTCPOptionTruth: a million segments, each with a number of its own, and in segmentation buffers.
func TestVerifyTCPOptionTruth(t *testing.T) {
	const connections, size = 8, 150 << 20
	const faults = "loss: 0.3%, duplicate: 0.2%, reorder: 0.2%, reorder_gap: 500us"
	t.Run("segments", func(t *testing.T) {
		b := upFaulty(t, faults)
		b.unsegmented("b")
		truth, marked, read := b.countSegments(secondIPv6, connections, size)
		compareWithTruth(t, truth, marked, read)
	})
	t.Run("buffers", func(t *testing.T) {
		truth, _, read := upFaulty(t, faults).countSegments(secondIPv6, connections, size)
		sent := truth.Marked
		if read.Expected != sent.Offered || read.Packets != sent.Delivered+sent.Duplicated || read.Late+read.Restarts+read.Rejected != 0 {
			t.Errorf("read %+v, truth says %+v", read, sent)
		}
		// A duplicate takes the place of a packet of its buffer that was lost.
		if hidden := sent.Lost - read.Lost; sent.Lost < read.Lost || sent.Duplicated-read.Duplicated != hidden || read.Reordered > sent.Reordered {
			t.Errorf("lost %d, duplicated %d, reordered %d; truth says %+v", read.Lost, read.Duplicated, read.Reordered, sent)
		}
	})
}

// TestVerifyAddressTranslation: half a million packets through connection tracking.
func TestVerifyAddressTranslation(t *testing.T) { addressTranslation(t, 250_000) }

// TestVerifyForgedMarks: a million of them.
func TestVerifyForgedMarks(t *testing.T) { forgedMarks(t, 1_000_000) }

// TestVerifyTruthEqualsWhatAReceiverSaw: 50,000 packets with all faults.
func TestVerifyTruthEqualsWhatAReceiverSaw(t *testing.T) { truthEqualsWhatAReceiverSaw(t, 50_000) }
