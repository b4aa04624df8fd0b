package schedule

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"pillion.dev/send/frame"
)

// binaryMagic begins a binary schedule: "PLSB".
var binaryMagic = [4]byte{'P', 'L', 'S', 'B'}

const binaryVersion = 1

// Limits of what a binary schedule may hold, which bound the memory of a reader.
const (
	mostFlows    = 4096
	mostText     = 4096 // of a flow
	mostContents = 2048 // of a payload or frame
)

// Bits of a packet that say which fields follow.
const (
	bitTogether = 1 << iota
	bitFlow
	bitPayload
	bitFrame
	bitsKnown = 1<<iota - 1
)

// Binary reads a schedule in binary, which takes about a sixth of the space of text:
//
//	magic "PLSB" | version 1 | flows | flow... | packet... until the end of the file
//	flow    length | NAME and fields as in text
//	packet  bits | due | train | [flow] | size | [length | payload] | [length | frame]
//
// All numbers but the magic are unsigned varints (encoding/binary). Bits are 1 together, 2 flow,
// 4 payload and 8 frame. Due is in nanoseconds since the packet before, flow the number of a flow in
// the order of the file. Packets of a train are numbered in their order.
type Binary struct {
	// Flows by name.
	Flows map[string]*frame.Header

	in      *bufio.Reader
	names   []string
	numbers map[uint32]uint32
	last    time.Duration
	packet  int
}

// IsBinary reports whether a file that begins with these four bytes is a binary schedule.
func IsBinary(magic [4]byte) bool { return magic == binaryMagic }

// ReadBinary reads the flows of a schedule.
func ReadBinary(in io.Reader) (*Binary, error) {
	text := newText(nil)
	b := &Binary{Flows: text.Flows, in: bufio.NewReader(in), numbers: map[uint32]uint32{}}
	var magic [4]byte
	if _, err := io.ReadFull(b.in, magic[:]); err != nil || !IsBinary(magic) {
		return nil, fmt.Errorf("%w: it does not begin with %q", ErrFile, binaryMagic)
	}
	version, err := b.number(math.MaxUint32)
	if err == nil && version != binaryVersion {
		err = fmt.Errorf("version %d; this program reads version %d", version, binaryVersion)
	}
	flows := uint64(0)
	if err == nil {
		flows, err = b.number(mostFlows)
	}
	for i := uint64(0); i < flows && err == nil; i++ {
		var line []byte
		if line, err = b.bytes(mostText); err != nil {
			break
		}
		words := strings.Fields(string(line))
		if err = text.flow(words); err == nil {
			b.names = append(b.names, words[0])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrFile, truncated(err))
	}
	return b, nil
}

// truncated is the error of a file that ends within a value.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (b *Binary) number(most uint64) (uint64, error) {
	n, err := binary.ReadUvarint(b.in)
	if err == nil && n > most {
		err = fmt.Errorf("number %d is above %d", n, most)
	}
	return n, err
}

func (b *Binary) bytes(most uint64) ([]byte, error) {
	n, err := b.number(most)
	if err != nil {
		return nil, err
	}
	text := make([]byte, n)
	_, err = io.ReadFull(b.in, text)
	return text, err
}

// Packets are the packets of the file. They can be read once.
func (b *Binary) Packets() Schedule {
	return func(yield func(Entry, error) bool) {
		for {
			if _, err := b.in.Peek(1); err == io.EOF {
				return
			}
			b.packet++
			e, err := b.next()
			if err != nil {
				yield(Entry{}, fmt.Errorf("%w, packet %d: %w", ErrFile, b.packet, truncated(err)))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (b *Binary) next() (e Entry, err error) {
	number := func(most uint64) (n uint64) {
		if err == nil {
			n, err = b.number(most)
		}
		return n
	}
	bits := number(bitsKnown)
	b.last += time.Duration(number(uint64(math.MaxInt64 - b.last)))
	e.Due, e.Train, e.Together = b.last, uint32(number(math.MaxUint32)), bits&bitTogether != 0
	if bits&bitFlow != 0 {
		flow := number(mostFlows)
		if err == nil && flow >= uint64(len(b.names)) {
			err = fmt.Errorf("flow %d of %d", flow, len(b.names))
		}
		if err == nil {
			e.Flow = b.names[flow]
		}
	}
	e.Size = int(number(math.MaxUint16))
	if bits&bitPayload != 0 && err == nil {
		e.Payload, err = b.bytes(mostContents)
	}
	if bits&bitFrame != 0 && err == nil {
		e.Frame, err = b.bytes(mostContents)
	}
	e.Number = b.numbers[e.Train]
	b.numbers[e.Train]++
	return e, err
}

// WriteBinary writes flows and packets as Binary reads them.
func WriteBinary(out io.Writer, flows map[string]*frame.Header, packets Schedule) error {
	w := bufio.NewWriter(out)
	names := slices.Sorted(maps.Keys(flows))
	line := append(binaryMagic[:0:0], binaryMagic[:]...)
	line = binary.AppendUvarint(binary.AppendUvarint(line, binaryVersion), uint64(len(names)))
	contents := func(text []byte) { line = append(binary.AppendUvarint(line, uint64(len(text))), text...) }
	for _, name := range names {
		contents(fmt.Appendf(nil, "%s %v", cmp.Or(name, defaultFlow), flows[name]))
	}
	var last time.Duration
	for e, err := range packets {
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("write schedule: %w", err)
		}
		flow, named := slices.BinarySearch(names, e.Flow)
		bits := uint64(0)
		for bit, set := range map[uint64]bool{bitTogether: e.Together, bitFlow: named && e.Frame == nil, bitPayload: e.Payload != nil, bitFrame: e.Frame != nil} {
			if set {
				bits |= bit
			}
		}
		line = binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(line[:0], bits), uint64(e.Due-last)), uint64(e.Train))
		last = e.Due
		if bits&bitFlow != 0 {
			line = binary.AppendUvarint(line, uint64(flow))
		}
		line = binary.AppendUvarint(line, uint64(e.Size))
		if e.Payload != nil {
			contents(e.Payload)
		}
		if e.Frame != nil {
			contents(e.Frame)
		}
	}
	_, err := w.Write(line)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("write schedule: %w", err)
	}
	return nil
}
