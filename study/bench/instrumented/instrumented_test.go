package main

import (
	"encoding/binary"
	"math"
	"testing"

	"pillion.dev/study/bench/result/calls"
)

func TestExperimentsCallWithKnownArguments(t *testing.T) {
	calls.Check(t, "bin/bench/instrumented", commands, "../*.yaml", "../paper/*/*.yaml")
}

// frame is an Ethernet frame of the traffic.
func frame(ipID uint16, id uint32, sent int64, size int) []byte {
	f := make([]byte, 14+20+8+12)
	f[12], f[14], f[14+9] = 8, 0x45, 17
	binary.BigEndian.PutUint16(f[14+4:], ipID)
	binary.BigEndian.PutUint16(f[34+4:], uint16(size+8))
	binary.BigEndian.PutUint32(f[42:], id)
	binary.BigEndian.PutUint32(f[46:], uint32(sent/1e9))
	binary.BigEndian.PutUint32(f[50:], uint32(sent%1e9))
	return f
}

func TestParsePacket(t *testing.T) {
	p, ok := parsePacket(frame(65535, 7, 1700000000_000000005, 1470))
	if !ok || p != (packet{ipID: 65535, id: 7, sent: 1700000000_000000005, size: 1470}) {
		t.Errorf("%+v, %v", p, ok)
	}
	if p, ok := parsePacket(frame(1, math.MaxUint32, 0, 12)); !ok || !p.final {
		t.Errorf("%+v, %v", p, ok)
	}
	other := frame(1, 2, 3, 4)
	other[23] = 6 // TCP
	fragment := frame(1, 2, 3, 4)
	fragment[21] = 1
	for _, f := range [][]byte{nil, other, fragment, frame(1, 2, 3, 4)[:53]} {
		if _, ok := parsePacket(f); ok {
			t.Errorf("%x is a packet of the traffic", f)
		}
	}
}

func FuzzParsePacket(f *testing.F) {
	f.Add(frame(1, 2, 3, 4))
	f.Fuzz(func(t *testing.T, data []byte) { parsePacket(data) })
}

// TestAccount: numbers wrap, packets are exchanged, and some are missing in the middle.
func TestAccount(t *testing.T) {
	var reference, alternative []observation
	for n := range 70_000 {
		o := observation{uint16(65_000 + n), int64(n) * 100}
		reference = append(reference, o)
		if n%1000 == 7 || n >= 20_000 && n < 30_000 {
			continue
		}
		o.us += int64(n % 2)
		alternative = append(alternative, o)
	}
	alternative[5], alternative[6] = alternative[6], alternative[5]
	reference = append(reference[:100], reference[101:]...) // which only the other has
	a := account(reference, alternative)
	if a.missed != 10_000+60 || a.reverse != 1 || a.diffMost != 1 || math.Abs(a.diff-0.5) > 0.01 {
		t.Errorf("%+v", a)
	}
	if a := account(nil, alternative); a.reference != 0 {
		t.Errorf("%+v", a)
	}
}

// TestCompare: four intervals, of which the inner two count.
func TestCompare(t *testing.T) {
	var snd, rcv []packet
	r := reportedBy{bytes: map[int]float64{}, jitter: map[int]float64{}}
	const gap = 1_000_000 // ns; 500 packets of 100 bytes in an interval
	for n := range int64(2000) {
		sent := 1_700_000_000_000_000_000 + n*gap
		snd = append(snd, packet{at: sent, sent: sent, size: 100})
		rcv = append(rcv, packet{at: sent + 1000 + n%2*16000, sent: sent, size: 100})
	}
	for n := range 4 {
		r.bytes[n] = 50_000
	}
	r.bytes[1] = 40_000
	r.jitter[1], r.jitter[2] = 0.016, 0.016
	compared := compare(snd, rcv, r)
	if rows, _ := compared["intervals"].([]map[string]any); len(rows) != 2 || compared["compared"] != 2 || compared["rate"] != 100_000.0 || compared["rate_diff"] != 10_000.0 {
		t.Errorf("%v", compared)
	}
	// Transit times alternate by 16 us, so jitter is 16 us before long.
	if d := compared["jitter_diff"].(float64); d > 1e-6 {
		t.Errorf("jitter differs by %g ms", d)
	}
}

func TestSteps(t *testing.T) {
	var s steps
	for _, v := range []float64{5, 9, 6} {
		s.add(v)
	}
	if s.mean() != 0.5 {
		t.Errorf("mean difference %g", s.mean())
	}
}
