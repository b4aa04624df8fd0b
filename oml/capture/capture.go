package capture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/gopacket/gopacket/layers"
)

// Options configure a capture. Exactly one of Device and File is required.
type Options struct {
	Device, File string
	// Filter selects packets; docs/howto/capture.md describes the language.
	Filter string
	// Snap is the snapshot length, bytes; default 256, enough for headers.
	Snap int
	// Count stops after that many packets; 0: no limit.
	Count uint64
	// Promiscuous enables promiscuous mode.
	Promiscuous bool
	// Ready, if set, is called when the capture on a device has started.
	Ready func()
	Sink  Sink
	// Datagram, if set, takes each UDP datagram after Sink took its headers; Sink may
	// then be nil. Its data are overwritten afterwards.
	Datagram func(Datagram)
	// Tallied, if set, is called with the counters of a device every Every (default
	// 10 s), from a separate goroutine.
	Tallied func(Tally)
	Every   time.Duration
	// Room, if set, is called before each packet and blocks until its rows can be taken.
	Room func() error
}

const (
	defaultSnap = 256
	maxSnap     = 262144
)

// ErrOptions marks invalid options.
var ErrOptions = errors.New("invalid options")

// Check validates the options without opening the device.
func (o Options) Check() error {
	if (o.Device == "") == (o.File == "") {
		return fmt.Errorf("%w: give either a device or a file", ErrOptions)
	}
	if o.Snap < 0 || o.Snap > maxSnap || o.Snap != 0 && o.Snap < 64 {
		return fmt.Errorf("%w: snapshot length %d is not from 64 to %d bytes", ErrOptions, o.Snap, maxSnap)
	}
	_, err := compileFilter(o.Filter, layers.LinkTypeEthernet)
	return err
}

// capture is one run.
type capture struct {
	o       Options
	decoder decoder
	filters map[layers.LinkType]*filter

	mu     sync.Mutex
	tally  Tally
	kernel uint64 // packets that it received for us, including dropped ones
}

// Run captures until the context ends, the file ends or Count packets were captured.
// The tally is valid with an error too.
func Run(ctx context.Context, o Options) (Tally, error) {
	if err := o.Check(); err != nil {
		return Tally{}, err
	}
	c := newCapture(o)
	var err error
	if o.File != "" {
		err = c.readFile(ctx, o.File)
	} else {
		err = c.readDevice(ctx, o.Device)
	}
	return c.close(), err
}

func newCapture(o Options) *capture {
	o.Snap, o.Every = cmp.Or(o.Snap, defaultSnap), cmp.Or(o.Every, 10*time.Second)
	return &capture{
		o: o, filters: map[layers.LinkType]*filter{},
		decoder: decoder{sink: o.Sink, datagram: o.Datagram, device: cmp.Or(o.Device, filepath.Base(o.File)), id: idStart(rand.Uint64())},
	}
}

// close completes the counters.
func (c *capture) close() Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	if had := c.tally.Seen + c.tally.Filtered + c.tally.Dropped; c.kernel > had {
		c.tally.Unread = c.kernel - had
	}
	return c.tally
}

func (c *capture) enough() bool { return c.o.Count > 0 && c.tally.Seen >= c.o.Count }

func (c *capture) skip(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.count(outcome{reason: reason})
}

// take filters, decodes and counts one packet.
func (c *capture) take(p Packet) error {
	f, known := c.filters[p.Link]
	if !known {
		var err error
		if f, err = compileFilter(c.o.Filter, p.Link); err != nil {
			return err
		}
		c.filters[p.Link] = f
	}
	if !f.matches(p.Data, p.Length) {
		c.mu.Lock()
		c.tally.Filtered++
		c.mu.Unlock()
		return nil
	}
	if c.o.Room != nil {
		if err := c.o.Room(); err != nil {
			return err
		}
	}
	if p.Time.IsZero() {
		c.skip(reasonTime)
		return nil
	}
	if len(p.Data) > c.o.Snap {
		p.Data = p.Data[:c.o.Snap]
	}
	o := c.decoder.decode(p)
	c.mu.Lock()
	c.tally.count(o)
	c.mu.Unlock()
	return nil
}
