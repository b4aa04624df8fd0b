package schedule

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// Replay changes the times of a capture.
type Replay struct {
	// Speed divides the distances: 2 is twice as fast; 0: as captured.
	Speed float64
	// MaxGap bounds the distances, after Speed; 0: no bound.
	MaxGap time.Duration
}

// capture is a file that is read packet by packet.
type capture interface {
	ReadPacketData() ([]byte, gopacket.CaptureInfo, error)
	LinkType() layers.LinkType
}

// IsCapture reports whether a file that begins with these four bytes is a capture.
func IsCapture(magic [4]byte) bool {
	switch magic {
	case [4]byte{0xa1, 0xb2, 0xc3, 0xd4}, [4]byte{0xd4, 0xc3, 0xb2, 0xa1}, // pcap
		[4]byte{0xa1, 0xb2, 0x3c, 0x4d}, [4]byte{0x4d, 0x3c, 0xb2, 0xa1}, // pcap, nanoseconds
		[4]byte{0x0a, 0x0d, 0x0d, 0x0a}: // pcapng
		return true
	}
	return false
}

// ReadCapture reads the packets of a pcap or pcapng file with Ethernet frames. The first
// is due at 0; a packet that was captured before the one ahead of it is due at once.
// Packets that were captured only in part have a frame shorter than their size.
func ReadCapture(in io.Reader, replay Replay) (Schedule, error) {
	if replay.Speed < 0 || replay.MaxGap < 0 {
		return nil, fmt.Errorf("%w: speed %g, gap %v", ErrPattern, replay.Speed, replay.MaxGap)
	}
	b := bufio.NewReader(in)
	magic, err := b.Peek(4)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	var c capture
	if magic[0] == 0x0a {
		c, err = pcapgo.NewNgReader(b, pcapgo.DefaultNgReaderOptions)
	} else {
		c, err = pcapgo.NewReader(b)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if c.LinkType() != layers.LinkTypeEthernet {
		return nil, fmt.Errorf("%w: link type %v: Ethernet is needed", ErrFile, c.LinkType())
	}
	return replay.packets(c), nil
}

func (r Replay) packets(c capture) Schedule {
	return func(yield func(Entry, error) bool) {
		var due time.Duration
		var last time.Time
		for number := uint32(0); ; number++ {
			data, info, err := c.ReadPacketData()
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Entry{}, fmt.Errorf("%w, packet %d: %w", ErrFile, number+1, err))
				return
			}
			if number > 0 {
				due += r.gap(info.Timestamp.Sub(last))
			}
			last = info.Timestamp
			if !yield(Entry{Due: due, Number: number, Size: info.Length, Frame: data}, nil) {
				return
			}
		}
	}
}

func (r Replay) gap(gap time.Duration) time.Duration {
	if r.Speed > 0 {
		gap = time.Duration(float64(gap) / r.Speed)
	}
	if r.MaxGap > 0 {
		gap = min(gap, r.MaxGap)
	}
	return max(gap, 0)
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
