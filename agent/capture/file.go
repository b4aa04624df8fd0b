package capture

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// pcapng is the magic number of that format.
var pcapng = [4]byte{0x0a, 0x0d, 0x0d, 0x0a}

// ErrFile marks a file that is not a capture, or is truncated.
var ErrFile = errors.New("invalid capture file")

// source reads packets; their data is valid until the next call.
type source interface {
	ZeroCopyReadPacketData() ([]byte, gopacket.CaptureInfo, error)
}

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
	from := bufio.NewReaderSize(r, 1<<16)
	packets, link, err := openFile(from)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFile, err)
	}
	for ctx.Err() == nil && !c.enough() {
		data, info, err := packets.ZeroCopyReadPacketData()
		if errors.Is(err, io.EOF) && info.CaptureLength == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: packet %d: %w", ErrFile, c.tally.Seen+c.tally.Filtered+1, err)
		}
		p := Packet{Time: info.Timestamp, Link: link, Data: data, Length: info.Length}
		if len(info.AncillaryData) > 0 {
			p.Link, _ = info.AncillaryData[0].(layers.LinkType)
		}
		if err := c.take(p); err != nil {
			return err
		}
	}
	return nil
}

// openFile detects the format.
func openFile(from *bufio.Reader) (source, layers.LinkType, error) {
	head, err := from.Peek(len(pcapng))
	if err != nil {
		return nil, 0, err
	}
	if [4]byte(head) == pcapng {
		packets, err := pcapgo.NewNgReader(from, pcapgo.NgReaderOptions{WantMixedLinkType: true})
		return packets, 0, err
	}
	packets, err := pcapgo.NewReader(from)
	if err != nil {
		return nil, 0, err
	}
	return packets, packets.LinkType(), nil
}
