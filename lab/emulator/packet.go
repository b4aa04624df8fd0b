package emulator

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// Fate is what happened to one copy of a packet.
type Fate uint8

// The fates. A packet has one of Delivered and the losses, and one Duplicate for
// each further copy.
const (
	Delivered Fate = iota + 1
	Duplicate
	LostRandom
	LostRate
	LostFull
	LostError
)

// Lost is the fate of a packet lost for a reason.
func Lost(why reason) Fate { return LostRandom + Fate(why) }

// A log file is the magic and then a record for each copy of a packet, padded with
// zeros to packetSize bytes, little endian. Records are written when the fate is known,
// hence in the order of delivery, not of sending; control frames have none. The fields:
//
//	index    uint64  position among the data packets of the direction as they were read
//	read     int64   when it was read from the first tap, CLOCK_REALTIME ns
//	written  int64   when it was written to the second tap, 0 if lost
//	size     uint32  Ethernet frame without checksum, bytes
//	flow     uint32  the flow's id in the truth
//	fate     uint8
//	marked   uint8   1 if marked
const (
	packetMagic = "pillion packets 1\n"
	packetSize  = 40
)

// packetLog writes the records of one direction. A nil log writes nothing.
type packetLog struct {
	file   *os.File
	writer *bufio.Writer
	failed error
	record [packetSize]byte
}

func createPacketLog(path string) (*packetLog, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create packet log: %w", err)
	}
	l := &packetLog{file: file, writer: bufio.NewWriterSize(file, 1<<16)}
	_, l.failed = l.writer.WriteString(packetMagic)
	return l, nil
}

func (l *packetLog) write(f *frame, written int64, fate Fate) {
	if l == nil || l.failed != nil {
		return
	}
	b := l.record[:]
	binary.LittleEndian.PutUint64(b[0:], f.index)
	binary.LittleEndian.PutUint64(b[8:], uint64(f.readWall))
	binary.LittleEndian.PutUint64(b[16:], uint64(written))
	binary.LittleEndian.PutUint32(b[24:], uint32(f.size))
	binary.LittleEndian.PutUint32(b[28:], f.flow.id)
	b[32] = byte(fate)
	b[33] = 0
	if f.marked {
		b[33] = 1
	}
	_, l.failed = l.writer.Write(b)
}

// flush brings every record into the file. It returns the first error of any
// write, after which the log has stopped.
func (l *packetLog) flush() error {
	if l == nil {
		return nil
	}
	if l.failed == nil {
		l.failed = l.writer.Flush()
	}
	if l.failed != nil {
		return fmt.Errorf("write packet log: %w", l.failed)
	}
	return nil
}

func (l *packetLog) close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.flush(), l.file.Close())
}
