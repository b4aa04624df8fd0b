package codec_test

import (
	"bytes"
	"errors"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// parseErrors are all errors that a parser may return.
var parseErrors = []error{codec.ErrNotMark, codec.ErrMalformed, codec.ErrShort}

// packetErrors are the additional errors that Extract may return.
var packetErrors = append([]error{codec.ErrVersion, codec.ErrLength, codec.ErrChecksum, codec.ErrForeign}, parseErrors...)

// checkError fails if err is not one of those named.
func checkError(t *testing.T, err error, allowed []error) {
	t.Helper()
	for _, a := range allowed {
		if errors.Is(err, a) {
			return
		}
	}
	t.Fatalf("unnamed error: %v", err)
}

func FuzzParseOptions(f *testing.F) {
	for _, v := range load(f) {
		if v.Encoding == wire.Native {
			f.Add(codec.AppendOptions(nil, 17, v.Mark))
			v.Mark.Options = codec.AppendModules(codec.ModuleOption{ID: 0x40, Data: []byte{64}}, codec.IngressOption(42))
			f.Add(codec.AppendOptions(nil, 17, v.Mark))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, next, n, err := codec.ParseOptions(b)
		if err != nil {
			checkError(t, err, parseErrors)
			return
		}
		if again := codec.AppendOptions(nil, next, m); !bytes.Equal(again, b[:n]) {
			t.Fatalf("%x parsed as %+v, which is %x", b[:n], m, again)
		}
	})
}

func FuzzParseShim(f *testing.F) {
	for _, v := range load(f) {
		if v.Encoding != wire.Native && !codec.HasTicks(v.Encoding) {
			f.Add(codec.AppendShim(nil, 17, v.Mark))
			v.Mark.Options = codec.AppendModules(codec.ModuleOption{ID: 0x40, Data: []byte{64}}, codec.IngressOption(42))
			f.Add(codec.AppendShim(nil, 17, v.Mark))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, next, n, err := codec.ParseShim(b)
		if err != nil {
			checkError(t, err, parseErrors)
			return
		}
		again := codec.AppendShim(nil, next, m)
		again[3] = b[3] // flags
		if !bytes.Equal(again, b[:n]) {
			t.Fatalf("%x parsed as %+v, which is %x", b[:n], m, again)
		}
	})
}

func FuzzExtract(f *testing.F) {
	for _, v := range load(f) {
		f.Add(v.Marked, v.Port)
		f.Add(v.Original, v.Port)
	}
	f.Fuzz(func(t *testing.T, b []byte, port uint16) {
		b = sound(b)
		original, m, e, err := codec.Extract(b, port)
		if err != nil {
			checkError(t, err, packetErrors)
			return
		}
		if len(b)-len(original) != overhead(e, m, original) {
			t.Fatalf("%d bytes became %d, %v of %v", len(b), len(original), e, m.Modules)
		}
		again, err := codec.Insert(original, e, m, port)
		if (e == wire.Native || codec.HasTicks(e)) && err == nil && !bytes.Equal(again, b) {
			t.Fatalf("extracted from\n%x, inserted to\n%x", b, again)
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	for _, v := range load(f) {
		m := v.Mark
		kind := uint8(m.Modules)
		if m.Sparse {
			kind |= 4
		}
		if m.Tagged {
			kind |= 8
		}
		f.Add(v.Original, uint8(v.Encoding), kind, uint64(m.Sent)|uint64(m.Ticks), uint64(m.Received), m.Sequence, m.Single, m.Tag, v.Port)
	}
	f.Fuzz(func(t *testing.T, b []byte, e, kind uint8, sent, received uint64, sequence uint32, single bool, tag uint32, port uint16) {
		b = sound(b)
		m := codec.Mark{Modules: wire.Module(kind &^ 12), Sparse: kind&4 != 0, Tagged: kind&8 != 0}
		if m.Tagged {
			m.Tag = tag
		}
		if m.Modules&wire.Delay != 0 && codec.HasTicks(wire.Encoding(e)) {
			m.Ticks = uint32(sent)
		} else if m.Modules&wire.Delay != 0 {
			m.Sent, m.Received = codec.Timestamp(sent), codec.Timestamp(received)
		}
		if m.Modules&wire.Loss != 0 {
			m.Sequence, m.Single = sequence&wire.SequenceMask, single
		}
		marked, err := codec.Insert(b, wire.Encoding(e), m, port)
		if err != nil {
			return
		}
		original, got, encoding, err := codec.Extract(marked, port)
		if err != nil {
			t.Fatalf("%x became\n%x: %v", b, marked, err)
		}
		if !bytes.Equal(original, b) || got != m || encoding != wire.Encoding(e) {
			t.Fatalf("%x came back as\n%x, %+v as %+v, %d as %v", b, original, m, got, e, encoding)
		}
	})
}

// sound returns a packet with correct outer lengths and checksum, which the fuzzer would
// hardly ever find.
func sound(b []byte) []byte {
	if len(b) == 0 || len(b) > 65535 {
		return b
	}
	b = bytes.Clone(b)
	switch {
	case b[0]>>4 == 4 && len(b) >= 20:
		b[2], b[3] = byte(len(b)>>8), byte(len(b))
		return edit(b, 2)
	case b[0]>>4 == 6 && len(b) >= 40:
		b[4], b[5] = byte((len(b)-40)>>8), byte(len(b)-40)
	}
	return b
}

func FuzzTag(f *testing.F) {
	for _, v := range load(f) {
		f.Add(v.Original)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = sound(b)
		m, err := codec.Tag(b, wire.Shim, markOf(wire.Shim, wire.Loss), countingKey, vectorTime)
		if err != nil {
			checkError(t, err, packetErrors)
			return
		}
		if !m.Tagged {
			t.Fatalf("%x got no tag", b)
		}
		if marked, err := codec.Insert(b, wire.Shim, m, wire.Port); err == nil {
			if original, got, _, err := codec.Extract(marked, wire.Port); err != nil || got != m || !bytes.Equal(original, b) {
				t.Fatalf("%x came back as %x, %+v as %+v, %v", b, original, m, got, err)
			}
		}
	})
}
