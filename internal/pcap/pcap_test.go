package pcap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"
)

// TestTimes: every unit of pcapng is exact; the oracle is math/big.
func TestTimes(t *testing.T) {
	nano := big.NewInt(1e9)
	for u := range 256 {
		base := int64(10)
		if u&0x80 != 0 {
			base = 2
		}
		per := new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(u&0x7f)), nil)
		ticks := []uint64{0, 1, 999, 1700000000, 1<<32 + 12345, 1<<53 + 1, 1<<63 - 1, math.MaxUint64}
		if now := new(big.Int).Mul(per, big.NewInt(1700000000)); now.IsUint64() { // today
			ticks = append(ticks, now.Uint64(), now.Uint64()+1, now.Uint64()-1, now.Uint64()+new(big.Int).Div(per, big.NewInt(3)).Uint64())
		}
		for _, n := range ticks {
			for _, offset := range []int64{0, 1, -1, 1700000000, -1700000000, math.MaxInt64, math.MinInt64} {
				want := new(big.Int).Mul(new(big.Int).SetUint64(n), nano)
				want.Div(want, per).Add(want, new(big.Int).Mul(big.NewInt(offset), nano))
				if !want.IsInt64() {
					want.SetInt64(map[int]int64{1: math.MaxInt64, -1: math.MinInt64}[want.Sign()])
				}
				if got := unit(u).time(n, offset).UnixNano(); got != want.Int64() {
					t.Fatalf("unit %#x, %d units, offset %d s: %d ns, want %v", u, n, offset, got, want)
				}
			}
		}
	}
}

// file builds a capture in one byte order.
type file struct {
	binary.ByteOrder
	bytes.Buffer
}

func (f *file) put(values ...any) *file {
	for _, v := range values {
		if err := binary.Write(&f.Buffer, f.ByteOrder, v); err != nil {
			panic(err)
		}
	}
	return f
}

func (f *file) block(kind uint32, values ...any) *file {
	body := (&file{ByteOrder: f.ByteOrder}).put(values...).Bytes()
	body = append(body, make([]byte, -len(body)&3)...)
	return f.put(kind, uint32(len(body)+12), body, uint32(len(body)+12))
}

func (f *file) section(minor uint16) *file {
	return f.block(blockSection, uint32(byteOrderMagic), uint16(1), minor, int64(-1))
}

// iface describes an interface; the options begin with a comment.
func (f *file) iface(link uint16, unit uint8, offset int64) *file {
	return f.block(blockInterface, link, uint16(0), uint32(0), uint16(1), uint16(3), []byte("abc\x00"),
		uint16(optionUnit), uint16(1), []byte{unit, 0, 0, 0}, uint16(optionOffset), uint16(8), offset, uint32(optionEnd))
}

func (f *file) enhanced(id uint32, ticks uint64, length uint32, data string) *file {
	return f.block(blockEnhanced, id, uint32(ticks>>32), uint32(ticks), uint32(len(data)), length, []byte(data))
}

func (f *file) classic(magic uint32, minor uint16, link uint32) *file {
	return f.put(magic, uint16(2), minor, uint64(0), uint32(262144), link)
}

func (f *file) record(seconds, fraction, length uint32, data string) *file {
	return f.put(seconds, fraction, uint32(len(data)), length, []byte(data))
}

// read returns a line for each packet, and the error behind them.
func read(from io.Reader) (lines []string, err error) {
	r, err := NewReader(from)
	if err != nil {
		return nil, err
	}
	for {
		p, err := r.Next()
		if err != nil {
			return lines, err
		}
		at := "-"
		if !p.Time.IsZero() {
			at = fmt.Sprint(p.Time.UnixNano())
		}
		lines = append(lines, fmt.Sprintf("%d %s %d %s", p.Link, at, p.Length, p.Data))
	}
}

func TestRead(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		other := binary.ByteOrder(binary.BigEndian)
		if order == other {
			other = binary.LittleEndian
		}
		begin := func() *file { return &file{ByteOrder: order} }
		ng := func() *file { return begin().section(0).iface(1, 6, 0) }
		for name, row := range map[string]struct {
			file  *file
			want  []string
			fault string // empty: the file ends
		}{
			"microseconds": {begin().classic(magicMicros, 4, 1).record(1, 2, 9, "ab").record(3, 4, 1, "c"), []string{"1 1000002000 9 ab", "1 3000004000 1 c"}, ""},
			"nanoseconds":  {begin().classic(magicNanos, 4, 0x14000071).record(1<<32-1, 2, 0, ""), []string{"113 4294967295000000002 0 "}, ""},
			"captured length above the length": {begin().classic(magicMicros, 4, 1).record(0, 0, 1, "abc").record(0, 1, 1, "d"),
				[]string{"1 0 3 abc", "1 1000 1 d"}, ""},
			"cut in a header":   {begin().classic(magicMicros, 4, 1).record(0, 0, 1, "a").put(uint32(0)), []string{"1 0 1 a"}, "unexpected EOF"},
			"cut in a packet":   {begin().classic(magicMicros, 4, 1).put(uint64(0), uint32(9), uint32(9), []byte("ab")), nil, "unexpected EOF"},
			"much too long":     {begin().classic(magicMicros, 4, 1).put(uint64(0), uint32(1<<31), uint32(9)), nil, "2147483648 bytes are more than 16777216"},
			"pcap of version 3": {begin().put(uint32(magicMicros), uint16(3), uint16(0), [16]byte{}), nil, "version 3.0 of pcap is not supported"},
			"two units, two links": {ng().iface(101, 0x8a, 100).enhanced(0, 1_000_001, 60, "ab").enhanced(1, 1025, 2, "cd"),
				[]string{"1 1000001000 60 ab", "101 101000976562 2 cd"}, ""},
			"whole seconds":    {begin().section(0).iface(1, 0, 0).enhanced(0, 1700000000, 1, "a"), []string{"1 1700000000000000000 1 a"}, ""},
			"no options":       {begin().section(0).block(blockInterface, uint16(276), uint16(0), uint32(2)).enhanced(0, 7, 1, "a"), []string{"276 7000 1 a"}, ""},
			"minor version 2":  {begin().section(2).iface(1, 6, 0).enhanced(0, 7, 1, "a"), []string{"1 7000 1 a"}, ""},
			"other blocks":     {ng().block(5, uint64(1)).block(0x0bad, uint32(2)).enhanced(0, 7, 1, "a").block(4), []string{"1 7000 1 a"}, ""},
			"a simple packet":  {ng().block(blockSimple, uint32(9), []byte("abcd")), []string{"1 - 9 abcd"}, ""},
			"a padded one":     {ng().block(blockSimple, uint32(3), []byte("abc")), []string{"1 - 3 abc"}, ""},
			"a snapshot":       {begin().section(0).block(blockInterface, uint16(1), uint16(0), uint32(2)).block(blockSimple, uint32(9), []byte("abcd")), []string{"1 - 9 ab"}, ""},
			"obsolete packet":  {ng().block(blockObsolete, uint16(0), uint16(7), uint32(0), uint32(7), uint32(2), uint32(2), []byte("ab")), []string{"1 7000 2 ab"}, ""},
			"length too small": {ng().enhanced(0, 7, 1, "abc").enhanced(0, 8, 1, "d"), []string{"1 7000 3 abc", "1 8000 1 d"}, ""},
			"several sections": {ng().enhanced(0, 7, 1, "a").put((&file{ByteOrder: other}).section(0).iface(101, 9, 0).enhanced(0, 7, 1, "b").Bytes()),
				[]string{"1 7000 1 a", "101 7 1 b"}, ""},
			"interface of the section before": {ng().iface(1, 6, 0).section(0).iface(1, 6, 0).enhanced(1, 7, 1, "a"), nil,
				"interface 1 is not described in this section, which has 1"},
			"no interface":     {begin().section(0).enhanced(0, 7, 1, "a"), nil, "interface 0 is not described in this section, which has 0"},
			"version 1.3":      {begin().section(3), nil, "version 1.3 of pcapng is not supported"},
			"byte order":       {begin().block(blockSection, uint32(1), uint64(0), uint64(0)), nil, "unknown byte order"},
			"block too small":  {ng().put(uint32(6), uint32(8)), nil, "block of type 0x6 with 8 bytes"},
			"block unaligned":  {ng().put(uint32(6), uint32(13)), nil, "block of type 0x6 with 13 bytes"},
			"lengths differ":   {ng().put(uint32(5), uint32(12), uint32(16)), nil, "block of 12 bytes ends with the length 16"},
			"cut in a block":   {ng().put(uint32(6), uint32(100)), nil, "unexpected EOF"},
			"cut in a type":    {ng().put(uint16(6)), nil, "unexpected EOF"},
			"packet too short": {ng().block(blockEnhanced, uint32(0)), nil, "block of type 0x6 with 16 bytes"},
			"packet beyond":    {ng().block(blockEnhanced, [3]uint32{}, uint32(5), uint32(5), uint32(0)), nil, "packet of 5 bytes in a block of 36"},
			"option beyond":    {begin().section(0).block(blockInterface, uint64(1), uint16(9), uint16(9)), nil, "option 9 of an interface exceeds its block"},
			"option too short": {begin().section(0).block(blockInterface, uint64(1), uint16(14), uint16(4), uint32(0)), nil, "option 14 of an interface has 4 bytes"},
		} {
			t.Run(fmt.Sprintf("%v/%s", order, name), func(t *testing.T) {
				lines, err := read(bytes.NewReader(row.file.Bytes()))
				if got, want := strings.Join(lines, "\n"), strings.Join(row.want, "\n"); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				if row.fault == "" && err != io.EOF || row.fault != "" && (!errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), row.fault)) {
					t.Errorf("%v, want %q", err, row.fault)
				}
			})
		}
	}
	for _, text := range []string{"", "ab", "0 size=100\n", "\xd4\xc3\xb2\xa1"} {
		if _, err := NewReader(strings.NewReader(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzRead: no file causes a crash, and no packet is larger than the file.
func FuzzRead(f *testing.F) {
	le, be := &file{ByteOrder: binary.LittleEndian}, &file{ByteOrder: binary.BigEndian}
	f.Add(le.classic(magicNanos, 4, 1).record(1, 2, 3, "abc").Bytes())
	f.Add(be.section(0).iface(1, 0x9e, 1).enhanced(0, 7, 9, "ab").block(blockSimple, uint32(1), []byte("a")).Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b))
		for err == nil {
			var p Packet
			if p, err = r.Next(); len(p.Data) > min(len(b), p.Length) || p.Time.After(time.Unix(0, math.MaxInt64)) {
				t.Fatalf("%+v", p)
			}
		}
		if err != io.EOF && !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
	})
}
