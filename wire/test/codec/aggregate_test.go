package codec_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// TestHandAggregates: native marks of flows by source and destination address, worked out by hand.
func TestHandAggregates(t *testing.T) {
	const delay = "3e10 ecd0a4e240000000 0000000000000000"
	own := codec.Mark{Modules: wire.Loss, Aggregate: 3, Sequence: 5, Single: true}
	both := own
	both.Modules, both.Sent = wire.Delay|wire.Loss, 0xecd0a4e240000000
	tagged, taggedBoth := own, both
	tagged.Tagged, tagged.Tag, taggedBoth.Tagged, taggedBoth.Tag = true, 0x11223344, true, 0x11223344
	for _, test := range []struct {
		hex  string
		mark codec.Mark
	}{
		{"1101 1e05 80000005 83 0105 0000000000", own},
		{"1103" + delay + "1e05 80000005 83 0103 000000", both},
		{"1101 1e09 80000005 83 11223344 0101 00", tagged},
		{"1103" + delay + "1e09 80000005 83 11223344 00", taggedBoth},
	} {
		want := unhex(t, test.hex)
		if got := codec.AppendOptions(nil, 17, test.mark); string(got) != string(want) {
			t.Errorf("%+v is %x, want %x", test.mark, got, want)
		}
		if m, next, n, err := codec.ParseOptions(want); m != test.mark || next != 17 || n != len(want) || err != nil {
			t.Errorf("%x is %+v, %d, %d, %v", want, m, next, n, err)
		}
	}
	for _, flags := range []byte{0, 3, 0x80, 0x9f, 0xa3, 0xff} {
		b := unhex(t, "1101 1e05 80000005 83 0105 0000000000")
		b[8] = flags
		if m, _, _, err := codec.ParseOptions(b); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("flags %#x: %+v, %v", flags, m, err)
		}
	}
}

// TestDissectorAggregates: Wireshark shows the fields in every encoding of ours.
func TestDissectorAggregates(t *testing.T) {
	var packets []captured
	var names []string
	for _, v := range load(t) {
		if v.Port != wire.Port || v.Mark.Sparse || v.Mark.Modules&wire.Loss == 0 || v.Encoding.Carries()&wire.CarriesSparse == 0 {
			continue
		}
		m := v.Mark
		m.Aggregate = 5
		packet, err := codec.Insert(v.Original, v.Encoding, m, v.Port)
		if err != nil {
			t.Fatal(err)
		}
		original, back, _, err := codec.Extract(packet, v.Port)
		if err != nil || back != m || string(original) != string(v.Original) {
			t.Errorf("%s: %+v, %v", v.Name, back, err)
		}
		packets, names = append(packets, whole(packet)), append(names, v.Name)
	}
	for i, got := range dissect(t, packets, at(t, "2026-11-21T10:00:00Z"), wire.Port, "pillion.aggregate", "pillion.malformed") {
		if fmt.Sprint(got["pillion.aggregate"]) != "0x05" || got["pillion.malformed"] != "" {
			t.Errorf("%s: %v", names[i], got)
		}
	}
}

// TestNoAggregate: an option of a transport that names no fields, or all of them, is no mark.
func TestNoAggregate(t *testing.T) {
	for _, v := range load(t) {
		if !codec.HasTicks(v.Encoding) || v.Mark.Modules&wire.Loss == 0 || v.Mark.Tagged || v.Mark.Sparse {
			continue
		}
		for _, fields := range []uint16{0, 0x1f} {
			packet := slices.Clone(v.Marked)
			plain := binary.BigEndian.AppendUint16(nil, codec.ExID)
			at := bytes.LastIndex(packet, plain)
			binary.BigEndian.PutUint16(packet[at:], codec.ExIDAggregate|fields)
			if _, m, _, err := codec.Extract(packet, v.Port); !errors.Is(err, codec.ErrNotMark) {
				t.Errorf("%s, fields %#x: %+v, %v", v.Name, fields, m, err)
			}
		}
	}
}
