package capture

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/gopacket/gopacket/layers"
)

// Options say what is captured. One of Device and File is needed.
type Options struct {
	Device, File string
	// Filter keeps packets that fit; docs/agent.md has the language.
	Filter string
	// Snap is how much of a packet is kept, bytes; default 256, enough for headers.
	Snap int
	// Count ends after that many packets; 0: never.
	Count uint64
	// Promiscuous devices hear what is for others.
	Promiscuous bool
	// Ready is called when a device's packets are captured; nil: nobody asks.
	Ready func()
	Sink  Sink
	// Tallied hears what was counted on a device so far, each Every (default 10 s);
	// from a goroutine of its own. Nil: nobody does.
	Tallied func(Tally)
	Every   time.Duration
	// Room, if there is one, is asked before each packet and returns when there is
	// room for its rows.
	Room func() error
}

const (
	defaultSnap = 256
	maxSnap     = 262144
)

// ErrOptions marks options that cannot be.
var ErrOptions = errors.New("bad options")

// Check says what is wrong with options, without a device.
func (o Options) Check() error {
	if (o.Device == "") == (o.File == "") {
		return fmt.Errorf("%w: a device or a file is needed, not both", ErrOptions)
	}
	if o.Snap < 0 || o.Snap > maxSnap || o.Snap != 0 && o.Snap < 64 {
		return fmt.Errorf("%w: a snap length of %d is not from 64 to %d bytes", ErrOptions, o.Snap, maxSnap)
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
	kernel uint64 // packets that it had for us, dropped ones too
}

// Run captures until the context ends, the file ends or there are enough packets. The
// tally is good with an error too.
func Run(ctx context.Context, o Options) (Tally, error) {
	if err := o.Check(); err != nil {
		return Tally{}, err
	}
	c, err := newCapture(o)
	if err != nil {
		return Tally{}, err
	}
	if o.File != "" {
		err = c.readFile(ctx, o.File)
	} else {
		err = c.readDevice(ctx, o.Device)
	}
	return c.close(), err
}

func newCapture(o Options) (*capture, error) {
	o.Snap, o.Every = cmp.Or(o.Snap, defaultSnap), cmp.Or(o.Every, 10*time.Second)
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, fmt.Errorf("draw number of packets: %w", err)
	}
	return &capture{
		o: o, filters: map[layers.LinkType]*filter{},
		decoder: decoder{sink: o.Sink, device: cmp.Or(o.Device, filepath.Base(o.File)), id: idStart(binary.LittleEndian.Uint64(random[:]))},
	}, nil
}

// close makes the counts whole.
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
	if !f.fits(p.Data, p.Length) {
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
	if len(p.Data) > c.o.Snap {
		p.Data = p.Data[:c.o.Snap]
	}
	o := c.decoder.decode(p)
	c.mu.Lock()
	c.tally.count(o)
	c.mu.Unlock()
	return nil
}
