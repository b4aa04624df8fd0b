package schedule

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"pillion.dev/internal/pcap"
)

// Replay changes the times of a capture.
type Replay struct {
	// Speed divides the distances: 2 is twice as fast; 0: as captured.
	Speed float64
	// MaxGap bounds the distances, after Speed; 0: no bound.
	MaxGap time.Duration
}

// ReadCapture reads the packets of a pcap or pcapng file with Ethernet frames. The first
// is due at 0, and each other one at its distance from the first. A packet that was captured
// before one ahead of it in the file, or that has no time, is due at once; it does not
// delay the packets after it. Packets that were captured only in part have a frame shorter
// than their size.
func ReadCapture(in io.Reader, replay Replay) (Schedule, error) {
	if !(replay.Speed >= 0) || replay.MaxGap < 0 {
		return nil, fmt.Errorf("%w: speed %g, gap %v", ErrPattern, replay.Speed, replay.MaxGap)
	}
	packets, err := pcap.NewReader(in)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return replay.packets(packets), nil
}

func (r Replay) packets(packets *pcap.Reader) Schedule {
	return func(yield func(Entry, error) bool) {
		var due time.Duration
		var last time.Time // the latest so far
		for number := uint32(0); ; number++ {
			p, err := packets.Next()
			if err == io.EOF {
				return
			}
			if link := layers.LinkType(p.Link); err == nil && link != layers.LinkTypeEthernet {
				err = fmt.Errorf("link type %v: Ethernet is needed", link)
			}
			if err != nil {
				yield(Entry{}, fmt.Errorf("%w, packet %d: %w", ErrFile, number+1, err))
				return
			}
			if p.Time.After(last) {
				if !last.IsZero() {
					gap := r.gap(p.Time.Sub(last))
					due += min(gap, math.MaxInt64-due)
				}
				last = p.Time
			}
			if !yield(Entry{Due: r.scale(due), Number: number, Size: p.Length, Frame: slices.Clone(p.Data)}, nil) {
				return
			}
		}
	}
}

// gap bounds a distance by MaxGap.
func (r Replay) gap(gap time.Duration) time.Duration {
	if most := float64(r.MaxGap) * cmp.Or(r.Speed, 1); most > 0 && float64(gap) > most {
		return time.Duration(most)
	}
	return gap
}

// scale divides the sum of distances by Speed, so that rounding does not add up.
func (r Replay) scale(due time.Duration) time.Duration {
	if r.Speed == 0 {
		return due
	}
	if scaled := math.Round(float64(due) / r.Speed); scaled < math.MaxInt64 {
		return time.Duration(scaled)
	}
	return math.MaxInt64
}

// WriteCapture writes frames as a pcap file with nanoseconds, whose times count from the
// given start. It is the binary form of a schedule: complete packets and their times.
func WriteCapture(out io.Writer, start time.Time, frames func(yield func(due time.Duration, frame []byte) bool)) error {
	b := bufio.NewWriter(out)
	w := pcapgo.NewWriterNanos(b)
	err := w.WriteFileHeader(1<<16, layers.LinkTypeEthernet)
	for due, frame := range frames {
		if err != nil {
			break
		}
		err = w.WritePacket(gopacket.CaptureInfo{Timestamp: start.Add(due), CaptureLength: len(frame), Length: len(frame)}, frame)
	}
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	return nil
}
