package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"

	"pillion.dev/internal/netns"
)

// methods of measuring packets, as section IV of the paper compares them.
const (
	inLine  = "in-line"
	active  = "active"
	passive = "passive"
)

var methods = []string{inLine, active, passive}

// bytesResult is a run of the measure bytes: how many bytes measuring a packet adds.
type bytesResult struct {
	Arm     string `json:"arm"`
	Method  string `json:"method"`
	Traffic string `json:"traffic"`
	Packets int    `json:"packets"`
	// FrameBytes is a packet on the link without any measurement.
	FrameBytes float64 `json:"frame_bytes"`
	// AddedBytes are on the link, in-line and active, or in the files of both captures.
	AddedBytes float64 `json:"added_bytes"`
	// AddedShare is AddedBytes by the bytes of the packet with what was added.
	AddedShare float64 `json:"added_share"`
}

// measureBytes counts bytes on the link and in files.
func measureBytes(ctx context.Context, b *bench) (any, error) {
	r := bytesResult{Arm: b.arm.String(), Method: b.method, Traffic: b.traffic.String()}
	plain, packets, err := b.linkBytes(ctx, native{})
	if err != nil {
		return nil, err
	}
	r.FrameBytes = float64(plain) / float64(packets)
	var added uint64
	switch b.method {
	case inLine:
		if added, r.Packets, err = b.linkBytes(ctx, b.arm.treatment(b.settings)); err == nil {
			r.AddedBytes = float64(added)/float64(r.Packets) - r.FrameBytes
		}
	case active: // a probe of the same kind for each packet
		if added, r.Packets, err = b.linkBytes(ctx, native{}); err == nil {
			r.AddedBytes = float64(added) / float64(r.Packets)
		}
	case passive:
		if added, r.Packets, err = b.captureBytes(ctx); err == nil {
			r.AddedBytes = float64(added) / float64(r.Packets)
		}
	}
	r.AddedShare = r.AddedBytes / (r.AddedBytes + r.FrameBytes)
	return r, err
}

// linkBytes sends traffic under a treatment and returns what left the source's device. It
// repeats what other packets, such as reports of multicast groups, mixed with.
func (b *bench) linkBytes(ctx context.Context, t treatment) (bytes uint64, packets int, err error) {
	const attempts = 20
	_, err = b.treated(ctx, t, func(running) error {
		for range attempts {
			before, err := b.sent()
			if err != nil {
				return err
			}
			r, err := sendCounted(ctx, b.testbed, b.traffic)
			if err != nil {
				return err
			}
			after, err := b.sent()
			if err != nil {
				return err
			}
			if after.packets-before.packets == uint64(r.Packets) {
				bytes, packets = after.bytes-before.bytes, r.Packets
				return nil
			}
		}
		return fmt.Errorf("count bytes of %s: other packets left the device in each of %d attempts", b.traffic, attempts)
	})
	return bytes, packets, err
}

// counters of a device.
type counters struct{ packets, bytes uint64 }

// sent reads the counters of the source's device.
func (b *bench) sent() (c counters, err error) {
	err = netns.Do(b.testbed.source.namespace, func() error {
		device, err := netlink.LinkByName(b.testbed.source.device)
		if err == nil && device.Attrs().Statistics == nil {
			err = errors.New("the device has no counters")
		}
		if err != nil {
			return fmt.Errorf("read counters of %s: %w", b.testbed.source.device, err)
		}
		c = counters{device.Attrs().Statistics.TxPackets, device.Attrs().Statistics.TxBytes}
		return nil
	})
	return c, err
}

// fileHeader is the length of the header of a capture file.
const fileHeader = 24

// captureBytes captures the headers of the traffic at both ends and returns the length of
// the two files without their headers.
func (b *bench) captureBytes(ctx context.Context) (bytes uint64, packets int, err error) {
	headers := ethernetHeader + b.traffic.ipHeader() + udpHeader
	t := tcpdump{snap: strconv.Itoa(headers)}
	effect, err := t.start(ctx, b.testbed)
	if err != nil {
		return 0, 0, err
	}
	r, err := sendCounted(ctx, b.testbed, b.traffic)
	peer := effect.(runningPeer)
	want := uint64(2 * r.Packets * (headers + recordHeader))
	for end := time.Now().Add(2 * time.Second); err == nil && bytes < want && time.Now().Before(end); {
		if err = ctx.Err(); err == nil {
			bytes, err = peer.captured(b.testbed)
		}
	}
	a, stopErr := effect.stop()
	if err = errors.Join(err, stopErr); err != nil {
		return 0, 0, err
	}
	if a.Missed > 0 || bytes < want {
		return 0, 0, fmt.Errorf("capture %d packets at both ends: %.0f were missed, the files have %d bytes", r.Packets, a.Missed, bytes)
	}
	return bytes, r.Packets, nil
}

// recordHeader is the length of the header of a packet in a capture file.
const recordHeader = 16

// captured is what the files of tcpdump have, without their headers.
func (r runningPeer) captured(t *testbed) (bytes uint64, err error) {
	time.Sleep(5 * time.Millisecond) // between two looks at a file
	for _, s := range []side{t.source, t.destination} {
		file, err := os.Stat(filepath.Join(r.folder, s.device+".pcap"))
		if err != nil {
			return 0, err
		}
		bytes += uint64(max(0, file.Size()-fileHeader))
	}
	return bytes, nil
}

// sendCounted sends a few bursts, all of which have to arrive.
func sendCounted(ctx context.Context, t *testbed, k traffic) (udpResult, error) {
	const bursts = 8
	s, err := openSender(t, k.v6, k.payload)
	if err != nil {
		return udpResult{}, err
	}
	defer s.close()
	for range bursts {
		if err := errors.Join(s.burst(), ctx.Err()); err != nil {
			return s.result, err
		}
	}
	s.awaitLate()
	return s.result, mustArrive(k, s.result)
}
