package emulator

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strconv"
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

var fateNames = [...]string{"unknown", "delivered", "duplicate", "lost random", "lost rate", "lost full", "lost error"}

func (f Fate) String() string {
	if int(f) < len(fateNames) {
		return fateNames[f]
	}
	return "fate " + strconv.Itoa(int(f))
}

// Packet is one record of the packet log, written when the fate is known: so
// records are in the order of delivery, not of sending. Control frames have none.
type Packet struct {
	Index   uint64 // position among the data packets of the direction as they were read
	Read    int64  // when it was read from the first tap, CLOCK_REALTIME ns
	Written int64  // when it was written to the second tap, 0 if lost
	Size    uint32 // Ethernet frame without checksum, bytes
	Flow    uint32 // the flow's id in the truth
	Fate    Fate
	Marked  bool
}

// A log file is the magic and then records of packetSize bytes, little endian, in
// the order of the fields of Packet, padded with zeros.
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

// ReadPackets gives the records of a packet log in the order of delivery. An
// error ends the sequence; a file that is cut in the middle of a record, as after
// a crash, is one.
func ReadPackets(r io.Reader) iter.Seq2[Packet, error] {
	return func(yield func(Packet, error) bool) {
		buffered := bufio.NewReaderSize(r, 1<<16)
		magic := make([]byte, len(packetMagic))
		if _, err := io.ReadFull(buffered, magic); err != nil || string(magic) != packetMagic {
			yield(Packet{}, fmt.Errorf("read packet log: not a packet log, begins with %q", magic))
			return
		}
		var record [packetSize]byte
		for n := 0; ; n++ {
			_, err := io.ReadFull(buffered, record[:])
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(Packet{}, fmt.Errorf("read packet log: record %d: %w", n, err))
				return
			}
			if !yield(decodePacket(record[:]), nil) {
				return
			}
		}
	}
}

func decodePacket(b []byte) Packet {
	return Packet{
		Index:   binary.LittleEndian.Uint64(b[0:]),
		Read:    int64(binary.LittleEndian.Uint64(b[8:])),
		Written: int64(binary.LittleEndian.Uint64(b[16:])),
		Size:    binary.LittleEndian.Uint32(b[24:]),
		Flow:    binary.LittleEndian.Uint32(b[28:]),
		Fate:    Fate(b[32]),
		Marked:  b[33] == 1,
	}
}
