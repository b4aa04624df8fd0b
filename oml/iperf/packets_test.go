package iperf

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pillion.dev/measure"
	"pillion.dev/oml/capture"
)

func TestArgumentsOfPackets(t *testing.T) {
	for _, row := range []struct {
		args []string
		want test
		ok   bool
	}{
		{[]string{"-c", "h", "-u"}, test{port: 5201, udp: true}, true},
		{[]string{"-s"}, test{port: 5201, isServer: true}, true},
		{[]string{"-u", "-p", "7", "--udp-counters-64bit"}, test{port: 7, udp: true, wide: true}, true},
		{[]string{"-u", "-p9", "--parallel", "2"}, test{port: 9, udp: true}, true},
		{[]string{"-u", "--port=11", "-P", "2"}, test{port: 11, udp: true}, true},
		{[]string{"-uc", "h", "-p5303", "-b1M"}, test{port: 5303, udp: true}, true},
		{[]string{"-T", "-u", "-c", "h"}, test{}, false},
		{[]string{"-u", "-p", "x"}, test{}, false},
		{[]string{"-u", "-p"}, test{}, false},
		{[]string{"-c", "h"}, test{}, false},
	} {
		got, err := testOf(row.args)
		if (err == nil) != row.ok || row.ok && got != row.want || !row.ok && !errors.Is(err, ErrPackets) {
			t.Errorf("%v: %+v, %v", row.args, got, err)
		}
	}
}

func TestDatagrams(t *testing.T) {
	me, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	var rows []measure.Sample
	d := &datagrams{test: test{port: 5201}, local: []netip.Addr{me}, monotonicOffset: func() (time.Duration, error) { return 1600000000 * time.Second, nil }, put: func(s *measure.Schema, sample measure.Sample) error {
		rows = append(rows, slices.Clone(sample))
		return s.Check(sample)
	}}
	d.pid.Store(42)
	payload := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 1700000000), 250), 7)
	at := time.UnixMicro(1700000000_001000)
	d.take(capture.Datagram{Time: at, Src: netip.AddrPortFrom(me, 4000), Dst: netip.AddrPortFrom(other, 5201), Payload: payload, Length: 1448})
	d.take(capture.Datagram{Time: at, Src: netip.AddrPortFrom(other, 5201), Dst: netip.AddrPortFrom(me, 4001), Payload: payload, Length: 1448})
	d.take(capture.Datagram{Time: at, Src: netip.AddrPortFrom(other, 5201), Dst: netip.AddrPortFrom(me, 4001), Payload: payload[:4], Length: 4})
	// The rest is as of versions from 3.7 on, after 100000000 s of uptime.
	binary.BigEndian.PutUint32(payload, 100000000)
	d.take(capture.Datagram{Time: at, Src: netip.AddrPortFrom(me, 4000), Dst: netip.AddrPortFrom(other, 5201), Payload: payload, Length: 1448})
	d.take(capture.Datagram{Time: at, Src: netip.AddrPortFrom(other, 5201), Dst: netip.AddrPortFrom(me, 4001), Payload: payload, Length: 1448})
	d.take(capture.Datagram{Time: at, Src: netip.AddrPortFrom(me, 4000), Dst: netip.AddrPortFrom(me, 5201), Payload: payload, Length: 1448})
	const null = -1
	want := [][]int64{
		{42, 4000, 7, 1448, 1700000000_000250, null, null}, {42, 4001, 7, 1448, 1700000000_000250, 1700000000_001000, 750},
		{42, 4000, 7, 1448, 1700000000_000250, null, null}, {42, 4001, 7, 1448, null, 1700000000_001000, 1600000000_000750},
		{42, 4000, 7, 1448, 1700000000_000250, 1700000000_001000, 750},
	}
	if d.err != nil || d.rows != len(want) {
		t.Fatalf("%d rows, %v", d.rows, d.err)
	}
	for i, want := range want {
		for k, v := range rows[i][1:] {
			if v.IsNull() != (want[k] == null) || !v.IsNull() && v.Int64() != want[k] {
				t.Errorf("row %d: %v", i, rows[i])
			}
		}
	}
}

func FuzzDatagram(f *testing.F) {
	f.Add([]byte("abcdefghijklmnop"), true)
	f.Fuzz(func(t *testing.T, data []byte, wide bool) {
		_, sent, ok := parseDatagram(data, wide)
		if ok && (sent < 0 || sent >= 1<<32*1e6) {
			t.Errorf("sent at %d us", sent)
		}
	})
}
