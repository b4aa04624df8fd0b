//go:build long

package lab_test

import (
	"cmp"
	"os"
	"strconv"
	"testing"
	"time"
)

// truthPackets are the packets of each encoding: PACKETS, or fewer than what `PACKETS=1000000` proves in three minutes.
func truthPackets(t *testing.T) int {
	text := cmp.Or(os.Getenv("PACKETS"), "200000")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("invalid PACKETS %q: want a positive number", text)
	}
	return n
}

// TestLongProbesCountTheTruth: many packets in each encoding of datagrams. The median delay may differ by the time
// that a frame waits until the emulator reads it.
func TestLongProbesCountTheTruth(t *testing.T) {
	for name, row := range truthRows {
		if row.short {
			continue
		}
		t.Run(name, func(t *testing.T) {
			const bound = 60 * time.Microsecond
			if off := row.check(t, truthPackets(t)); off.Abs() > bound {
				t.Errorf("the median delay differs from the truth by %v, want at most %v", off, bound)
			}
		})
	}
}

// TestLongTCPOptionTruth: a million segments, each with a number of its own, and in segmentation buffers.
func TestLongTCPOptionTruth(t *testing.T) {
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

// TestLongAddressTranslation: half a million packets through connection tracking.
func TestLongAddressTranslation(t *testing.T) { addressTranslation(t, 250_000) }

// TestLongNetworkCut: the network is cut for a minute.
func TestLongNetworkCut(t *testing.T) {
	t.Parallel() // it mostly waits
	networkCut(t, 30_000, "agent-b")
}

// TestLongForgedMarks: a million of them.
func TestLongForgedMarks(t *testing.T) { forgedMarks(t, 1_000_000) }

// TestLongTruthEqualsWhatAReceiverSaw: 50,000 packets with all faults.
func TestLongTruthEqualsWhatAReceiverSaw(t *testing.T) { truthEqualsWhatAReceiverSaw(t, 50_000) }
