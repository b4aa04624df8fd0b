package iperf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"pillion.dev/agent/report"
	"pillion.dev/internal/clock"
	"pillion.dev/internal/iperf3"
	"pillion.dev/measure"
	"pillion.dev/oml/capture"
)

// ErrPackets marks a test whose packets cannot be reported.
var ErrPackets = errors.New("packets cannot be reported")

const (
	defaultPort = 5201
	// lastPackets is how long datagrams are captured after iperf3 has ended.
	lastPackets = 100 * time.Millisecond
)

// shared is a report that the reader of iperf3's output and the capture use.
type shared struct {
	report.Report
	mu *sync.Mutex
}

func (s *shared) Put(schema *measure.Schema, sample measure.Sample) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Report.Put(schema, sample)
}

func (s *shared) Note(key, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Report.Note(key, value)
}

// test is what the arguments say about a test, as far as it matters for its packets.
type test struct {
	port          uint16
	wide          bool // 64-bit numbers of packets
	udp, isServer bool
}

// testOf reads iperf3's arguments; iperf3 itself checks them.
func testOf(args []string) (test, error) {
	t := test{port: defaultPort}
	for _, option := range iperf3.Options(args) {
		switch option.Name {
		case "u":
			t.udp = true
		case "s":
			t.isServer = true
		case "udp-counters-64bit":
			t.wide = true
		case "p":
			port, err := strconv.ParseUint(option.Value, 10, 16)
			if err != nil || port == 0 {
				return t, fmt.Errorf("%w: port %q", ErrPackets, option.Value)
			}
			t.port = uint16(port)
		}
	}
	if !t.udp && !t.isServer {
		return t, fmt.Errorf("%w: only tests of UDP have numbered packets: use -u", ErrPackets)
	}
	return t, nil
}

// packets captures the datagrams of a test. The function that it returns ends the capture
// and returns the number of rows.
func (o Options) packets(ctx context.Context, r *reader) (func() (int, error), error) {
	t, err := testOf(o.Args)
	if err != nil {
		return nil, err
	}
	if o.Device == "" {
		return nil, fmt.Errorf("%w: name the interface that the packets pass", ErrPackets)
	}
	local, err := addresses()
	if err != nil {
		return nil, err
	}
	d := &datagrams{test: t, local: local, put: o.Report.Put, monotonicOffset: clock.MonotonicOffset}
	r.started = &d.pid
	// Datagrams may still be on their way when the context ends.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ready, ended := make(chan struct{}), make(chan error, 1)
	var tally capture.Tally
	go func() {
		var err error
		tally, err = capture.Run(ctx, capture.Options{
			Device: o.Device, Filter: fmt.Sprintf("udp port %d", t.port), Ready: func() { close(ready) },
			Snap: 128, Datagram: d.take,
		})
		ended <- err
	}()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		return nil, err
	}
	return func() (int, error) {
		time.Sleep(lastPackets)
		cancel()
		err := <-ended
		return d.rows, errors.Join(err, d.err, o.Report.Note("capture", tally.String()))
	}, nil
}

// addresses are the addresses of this host.
func addresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("read addresses: %w", err)
	}
	var local []netip.Addr
	for _, one := range all {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil {
			local = append(local, prefix.Addr())
		}
	}
	return local, nil
}

// uptimeMax separates times of a monotonic clock, which iperf3 writes since 3.7, from times since
// 1970: no host has been up for 30 years.
const uptimeMax = 30 * 365 * 24 * time.Hour

// datagrams turns captured datagrams into rows.
type datagrams struct {
	test
	local []netip.Addr
	put   func(*measure.Schema, measure.Sample) error
	// monotonicOffset is this host's real-time minus its monotonic clock.
	monotonicOffset func() (time.Duration, error)

	pid  atomic.Int64
	rows int
	err  error
}

// take reports a datagram of the test's data.
func (d *datagrams) take(p capture.Datagram) {
	id, sent, ok := parseDatagram(p.Payload, d.wide)
	if !ok {
		return // the greeting of a stream
	}
	client := p.Src.Port()
	if client == d.port {
		client = p.Dst.Port()
	}
	sample := measure.Sample{
		measure.TimeValue(p.Time), measure.Uint32Value(uint32(d.pid.Load())), measure.Int64Value(int64(client)),
		measure.Uint64Value(id), measure.Uint32Value(uint32(p.Length)), {}, {}, {},
	}
	fromHere := slices.Contains(d.local, p.Src.Addr())
	uptime := sent < uptimeMax.Microseconds()
	if uptime && fromHere {
		if offset, err := d.monotonicOffset(); err == nil {
			sent, uptime = sent+offset.Microseconds(), false
		}
	}
	if !uptime {
		sample[5] = measure.Int64Value(sent)
	}
	if !fromHere || slices.Contains(d.local, p.Dst.Addr()) {
		received := p.Time.UnixMicro()
		sample[6], sample[7] = measure.Int64Value(received), measure.Int64Value(received-sent)
	}
	d.rows++
	if err := d.put(&Packets, sample); err != nil && d.err == nil {
		d.err = err
	}
}

// parseDatagram reads the head of a datagram of iperf3: seconds and microseconds of its
// sending, since 1970 in versions up to 3.6 and since the boot in later ones, and its number, of 32 or 64 bits.
func parseDatagram(data []byte, wide bool) (id uint64, sentUs int64, ok bool) {
	size := 12
	if wide {
		size = 16
	}
	if len(data) < size {
		return 0, 0, false
	}
	seconds, micros := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
	if micros >= 1e6 {
		return 0, 0, false
	}
	if wide {
		id = binary.BigEndian.Uint64(data[8:])
	} else {
		id = uint64(binary.BigEndian.Uint32(data[8:]))
	}
	return id, int64(seconds)*1e6 + int64(micros), true
}
