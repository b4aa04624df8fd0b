// Package packets reads the packet log of an emulator (lab/README.md) in tests.
package packets

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
)

// Magic begins a log, Size is the size of a record, bytes.
const (
	Magic = "pillion packets 1\n"
	Size  = 40
)

// Packet is one record of the log, with its layout.
type Packet struct {
	Index         uint64
	Read, Written int64
	Size, Flow    uint32
	Fate          uint8 // emulator.Fate
	Marked        bool
	_             [6]byte
}

// Read gives the records of a packet log in the order of delivery. An error ends the
// sequence; a truncated record, as after a crash, is one.
func Read(r io.Reader) iter.Seq2[Packet, error] {
	return func(yield func(Packet, error) bool) {
		buffered := bufio.NewReader(r)
		begin := make([]byte, len(Magic))
		if _, err := io.ReadFull(buffered, begin); err != nil || string(begin) != Magic {
			yield(Packet{}, fmt.Errorf("read packet log: not a packet log, begins with %q", begin))
			return
		}
		for n := 0; ; n++ {
			var p Packet
			err := binary.Read(buffered, binary.LittleEndian, &p)
			if err == io.EOF {
				return
			}
			if err != nil {
				err = fmt.Errorf("read packet log: record %d: %w", n, err)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}
