package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gopacket/gopacket/layers"

	"pillion.dev/internal/pcap"
)

// ErrFile marks a file that is not a capture, or is truncated.
var ErrFile = errors.New("invalid capture file")

// readFile reads a pcap or pcapng file until its end.
func (c *capture) readFile(ctx context.Context, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open capture file: %w", err)
	}
	defer file.Close()
	if err := c.readFrom(ctx, file); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func (c *capture) readFrom(ctx context.Context, r io.Reader) error {
	packets, err := pcap.NewReader(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	for ctx.Err() == nil && !c.enough() {
		p, err := packets.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: packet %d: %w", ErrFile, c.tally.Seen+c.tally.Filtered+1, err)
		}
		if err := c.take(Packet{Time: p.Time, Link: layers.LinkType(p.Link), Data: p.Data, Length: p.Length}); err != nil {
			return err
		}
	}
	return nil
}
