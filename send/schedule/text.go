package schedule

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/internal/quantity"
	"pillion.dev/send/frame"
)

// ErrFile marks an invalid schedule file.
var ErrFile = errors.New("invalid schedule")

// lineLimit is the longest line: a frame in hexadecimal with its options fits.
const lineLimit = 16 << 10

// Text reads a schedule as text, one packet a line in the order of times:
//
//	# two flows; the default flow is the one of the command line
//	flow voice to=192.0.2.2:5004 dscp=46
//	flow bulk to=[2001:db8::2]:9 proto=tcp tcp-flags=A
//	0 voice size=214
//	+20ms voice size=214 train=1
//	30ms bulk size=1514
//	30ms size=100 payload=c0ffee together
//	40ms frame=020000000002...
//
// A time counts from the start of the schedule, or from the packet before with a plus
// sign, and has a unit (package quantity). Options: size in bytes (default 100), train,
// payload and frame in hexadecimal, together (as close as possible to the next packet).
// Packets of a train are numbered in their order; a flow's train is its place among the
// flows unless one is given. The file is read while it is sent; Flows is complete when
// the first packet is returned, because flows are defined before they are used.
type Text struct {
	// Flows by name.
	Flows map[string]*frame.Header

	in      *bufio.Scanner
	line    int
	order   map[string]uint32 // train of a flow
	numbers map[uint32]uint32
	last    time.Duration
	ahead   *Entry // the first packet
}

// ReadText reads the flows of a schedule and its first packet.
func ReadText(in io.Reader) (*Text, error) {
	t := newText(bufio.NewScanner(in))
	t.in.Buffer(nil, lineLimit)
	e, err := t.next()
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, fmt.Errorf("%w: it has no packets", ErrFile)
	}
	t.ahead = e
	return t, nil
}

func newText(in *bufio.Scanner) *Text {
	return &Text{Flows: map[string]*frame.Header{}, in: in, order: map[string]uint32{}, numbers: map[uint32]uint32{}}
}

// Packets are the packets of the file. They can be read once.
func (t *Text) Packets() Schedule {
	return func(yield func(Entry, error) bool) {
		for e, err := t.ahead, error(nil); ; e, err = t.next() {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if e == nil || !yield(*e, nil) {
				return
			}
		}
	}
}

// next returns nil at the end.
func (t *Text) next() (*Entry, error) {
	for t.in.Scan() {
		t.line++
		words := strings.Fields(strings.SplitN(t.in.Text(), "#", 2)[0])
		if len(words) == 0 {
			continue
		}
		if words[0] != "flow" {
			e, err := t.packet(words)
			return e, t.at(err)
		}
		if err := t.flow(words[1:]); err != nil {
			return nil, t.at(err)
		}
	}
	if err := t.in.Err(); err != nil {
		t.line++
		return nil, t.at(err)
	}
	return nil, nil
}

func (t *Text) at(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w, line %d: %w", ErrFile, t.line, err)
}

func (t *Text) flow(words []string) error {
	if t.ahead != nil {
		return errors.New("flows are defined before the first packet")
	}
	if len(words) == 0 || strings.Contains(words[0], "=") {
		return errors.New("flow without a name: flow NAME to=ADDRESS:PORT")
	}
	if t.Flows[words[0]] != nil {
		return fmt.Errorf("flow %q is defined twice", words[0])
	}
	h := &frame.Header{}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		if err := h.Set(name, value); err != nil {
			return err
		}
	}
	if !h.Destination.IsValid() {
		return fmt.Errorf("flow %q has no destination: to=ADDRESS:PORT", words[0])
	}
	t.order[words[0]] = uint32(len(t.Flows))
	t.Flows[words[0]] = h
	return nil
}

func (t *Text) packet(words []string) (*Entry, error) {
	due, err := quantity.ParseDuration(strings.TrimPrefix(words[0], "+"))
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(words[0], "+") {
		due += t.last
	}
	if due < t.last {
		return nil, fmt.Errorf("time %v is earlier than the previous packet's, %v", due, t.last)
	}
	t.last = due
	e := &Entry{Due: due, Size: defaultSize}
	words = words[1:]
	if len(words) > 0 && t.Flows[words[0]] != nil {
		e.Flow, e.Train = words[0], t.order[words[0]]
		words = words[1:]
	}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		option, ok := options[name]
		if !ok {
			return nil, fmt.Errorf("%q is neither a flow nor an option: size, train, payload, frame or together", word)
		}
		if err := option(e, value); err != nil {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
	}
	e.Number = t.numbers[e.Train]
	t.numbers[e.Train]++
	return e, nil
}

const defaultSize = 100

var options = map[string]func(e *Entry, value string) error{
	"size": func(e *Entry, value string) (err error) {
		if e.Size, err = strconv.Atoi(value); err != nil {
			err = errors.New("must be a number of bytes")
		}
		return err
	},
	"train": func(e *Entry, value string) error {
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			err = errors.New("must be a number from 0 to 4294967295")
		}
		e.Train = uint32(n)
		return err
	},
	"payload": func(e *Entry, value string) (err error) {
		e.Payload, err = frame.ReadHex(value)
		return err
	},
	"frame": func(e *Entry, value string) (err error) {
		e.Frame, err = frame.ReadHex(value)
		e.Size = len(e.Frame)
		return err
	},
	"together": func(e *Entry, value string) error {
		e.Together = true
		return nil
	},
}

// defaultFlow is the name of the flow without a name in a file.
const defaultFlow = "default"

// WriteText writes flows and packets as Text reads them.
func WriteText(out io.Writer, flows map[string]*frame.Header, packets Schedule) error {
	w := bufio.NewWriter(out)
	for _, name := range slices.Sorted(maps.Keys(flows)) {
		fmt.Fprintf(w, "flow %s %v\n", cmp.Or(name, defaultFlow), flows[name])
	}
	for e, err := range packets {
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%dns", e.Due)
		if e.Flow != "" || flows[""] != nil && e.Frame == nil {
			fmt.Fprintf(w, " %s", cmp.Or(e.Flow, defaultFlow))
		}
		fmt.Fprintf(w, " size=%d", e.Size)
		fmt.Fprintf(w, " train=%d", e.Train)
		if e.Payload != nil {
			fmt.Fprintf(w, " payload=%s", hex.EncodeToString(e.Payload))
		}
		if e.Frame != nil {
			fmt.Fprintf(w, " frame=%s", hex.EncodeToString(e.Frame))
		}
		if e.Together {
			fmt.Fprint(w, " together")
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return fmt.Errorf("write schedule: %w", err)
		}
	}
	return w.Flush()
}
