package codec_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

var update = flag.Bool("update", false, "write testdata/vectors.json")

const vectorsFile = "testdata/vectors.json"

// load returns the golden vectors.
func load(t testing.TB) []codec.Vector {
	t.Helper()
	all, err := codec.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestVectors(t *testing.T) {
	for _, v := range load(t) {
		t.Run(v.Name, func(t *testing.T) {
			marked, err := codec.Insert(v.Original, v.Encoding, v.Mark, v.Port)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(marked, v.Marked) {
				t.Errorf("Insert gave\n%x, want\n%x", marked, v.Marked)
			}
			if got, want := len(v.Marked)-len(v.Original), overhead(v.Encoding, v.Mark, v.Original); got != want {
				t.Errorf("%d bytes more, Overhead returns %d", got, want)
			}
			original, mark, encoding, err := codec.Extract(v.Marked, v.Port)
			if err != nil {
				t.Fatal(err)
			}
			if v.Mark.Tagged {
				if again, err := codec.Tag(v.Original, v.Encoding, v.Mark, v.Key, v.Now); err != nil || again != v.Mark {
					t.Errorf("Tag gave %08x %v, want %08x", again.Tag, err, v.Mark.Tag)
				}
			}
			if !bytes.Equal(original, v.Original) || mark != v.Mark || encoding != v.Encoding {
				t.Errorf("Extract gave %v %+v\n%x, want %v %+v\n%x", encoding, mark, original, v.Encoding, v.Mark, v.Original)
			}
		})
	}
}

// TestVectorsFile checks that the file has exactly the vectors of the list below.
func TestVectorsFile(t *testing.T) {
	all := makeVectors(t)
	names := map[string]bool{}
	want := bytes.NewBufferString("[\n")
	for i, v := range all {
		if names[v.Name] {
			t.Errorf("two vectors are named %q", v.Name)
		}
		names[v.Name] = true
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			want.WriteString(",\n")
		}
		want.Write(line)
	}
	want.WriteString("\n]\n")
	if *update {
		if err := os.WriteFile(vectorsFile, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s differs from the vectors of the tests; if that is intended, run go test -update", vectorsFile)
	}
}

// A sample is an unmarked packet that can travel in some encodings.
type sample struct {
	name      string
	packet    []byte
	encodings []wire.Encoding
}

var (
	native = of(wire.ClassIPv6 | wire.ClassOther)
	behind = of(wire.ClassIPv6 | wire.ClassOther | wire.ClassExtended)
	ipv4   = of(wire.ClassIPv4 | wire.ClassOther)
	inUDP  = []wire.Encoding{wire.UDP}
	tcp6   = of(wire.ClassIPv6 | wire.ClassTCP)
	tcp4   = of(wire.ClassIPv4 | wire.ClassTCP)
	udp6   = of(wire.ClassIPv6 | wire.ClassUDP)
	udp4   = of(wire.ClassIPv4 | wire.ClassUDP)
)

// overhead returns how many bytes a mark adds to this packet.
func overhead(e wire.Encoding, m codec.Mark, original []byte) int {
	carried := m.Modules
	if codec.HasBlocks(e) {
		carried = wire.Loss // all are alike
	}
	size := e.Size(carried, m.Tagged, m.Sparse || m.Aggregate != 0, len(m.Options))
	if e == wire.UDPOption {
		size += len(original) % 2
	}
	return size
}

// of returns the encodings for packets with these properties.
func of(c wire.Class) []wire.Encoding {
	return slices.DeleteFunc(wire.Encodings(), func(e wire.Encoding) bool { return !e.Applies(c) })
}

// samples are the packets that are marked in every applicable encoding and with every set
// of modules.
func samples() []sample {
	text := []byte("the seat behind the rider")
	h4, h6 := header{}, header{v6: true}
	hop := header{v6: true, extra: []byte{0, 0, 5, 2, 0, 0, 1, 0}} // router alert (RFC 2711)
	hop16 := header{v6: true, extra: append([]byte{0, 1, 1, 12}, make([]byte, 12)...)}
	options := header{extra: []byte{0x94, 4, 0, 0, 1, 1, 1, 0}} // router alert (RFC 2113), no-ops
	return []sample{
		{"ipv6 tcp", h6.with(6, tcp(text)), tcp6},
		{"ipv6 udp", h6.with(17, udp(text)), udp6},
		{"ipv6 icmpv6", h6.with(58, echo(128, text)), native},
		{"ipv6 unknown", h6.with(200, text), native},
		{"ipv6 hop-by-hop udp", hop.with(17, udp(text)), behind},
		{"ipv6 hop-by-hop of 16 bytes tcp", hop16.with(6, tcp(text)), behind},
		{"ipv6 no next header", h6.with(59, nil), native},
		{"ipv4 tcp", h4.with(6, tcp(text)), tcp4},
		{"ipv4 udp", h4.with(17, udp(text)), udp4},
		{"ipv4 icmp", h4.with(1, echo(8, text)), ipv4},
		{"ipv4 unknown", h4.with(200, text), ipv4},
		{"ipv4 no payload", h4.with(200, nil), ipv4},
		{"ipv4 options tcp", options.with(6, tcp(text)), inUDP},
	}
}

// segments are TCP segments with options, as kernels build them.
func segments() []struct {
	name string
	segment
} {
	stamps := []byte{1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8}
	block := []byte{1, 1, 5, 10, 9, 8, 7, 6, 5, 4, 3, 2}
	return []struct {
		name string
		segment
	}{
		{"timestamps", tcpOptions(0x18, stamps, []byte("the seat behind the rider"))},
		{"acknowledgement", tcpOptions(0x10, stamps, nil)},
		{"timestamps, SACK", tcpOptions(0x10, append(stamps[:len(stamps):len(stamps)], block...), nil)},
		{"SYN", tcpOptions(0x02, append([]byte{2, 4, 5, 0xb4, 4, 2}, append(stamps[2:len(stamps):len(stamps)], 1, 3, 3, 7)...), nil)},
		{"long", tcpOptions(0x10, stamps, bytes.Repeat([]byte{0xa5}, 1399))},
	}
}

// vectorTime is when the packets of the vectors are sent, as far as their tags tell.
var vectorTime = time.Date(2026, time.November, 19, 10, 14, 47, 0, time.UTC)

// modules has all sets of modules.
var modules = []wire.Module{wire.Delay, wire.Loss, wire.Delay | wire.Loss}

// taggedModules has the sets with which a mark can have a tag.
var taggedModules = []wire.Module{wire.Loss, wire.Delay | wire.Loss}

// markOf returns a mark with these modules and no bytes alike.
func markOf(e wire.Encoding, set wire.Module) codec.Mark {
	m := codec.Mark{Modules: set}
	if set&wire.Delay != 0 && codec.HasTicks(e) {
		m.Ticks = 0x9a8b7c6d
	} else if set&wire.Delay != 0 {
		m.Sent = 0xeea94a97_12345678
		if codec.HasReceived(e) {
			m.Received = 0xeea94a97_23456789
		}
	}
	if set&wire.Loss != 0 {
		m.Sequence, m.Single = codec.Number(e, 0x5b3c0102), true
	}
	if e.Carries()&wire.CarriesEcho != 0 {
		m.Echo = pdmReply.Echo
	}
	return m
}

// modulesOf returns those of the sets of modules that a mark in an encoding can carry whole.
func modulesOf(e wire.Encoding, sets []wire.Module) []wire.Module {
	return slices.DeleteFunc(slices.Clone(sets), func(set wire.Module) bool { return !e.Carries().Allows(set) })
}

// mostOf returns the largest set of modules that a mark in an encoding can carry.
func mostOf(e wire.Encoding) wire.Module {
	sets := modulesOf(e, modules)
	return sets[len(sets)-1]
}

// A maker makes golden vectors.
type maker struct {
	t   *testing.T
	all []codec.Vector
}

func (mk *maker) add(name string, packet []byte, e wire.Encoding, m codec.Mark, port uint16) {
	mk.t.Helper()
	mk.append(codec.Vector{Name: name, Encoding: e, Port: port, Mark: m, Original: packet})
}

// addTagged adds a vector whose mark gets its tag.
func (mk *maker) addTagged(name string, packet []byte, e wire.Encoding, m codec.Mark) {
	mk.t.Helper()
	m, err := codec.Tag(packet, e, m, countingKey, vectorTime)
	if err != nil {
		mk.t.Fatalf("make vector %q: %v", name, err)
	}
	mk.append(codec.Vector{Name: name, Encoding: e, Port: wire.Port, Mark: m, Original: packet, Key: countingKey, Now: vectorTime})
}

func (mk *maker) append(v codec.Vector) {
	mk.t.Helper()
	var err error
	if v.Marked, err = codec.Insert(v.Original, v.Encoding, v.Mark, v.Port); err != nil {
		mk.t.Fatalf("make vector %q: %v", v.Name, err)
	}
	mk.all = append(mk.all, v)
}

// makeVectors returns the golden vectors.
func makeVectors(t *testing.T) []codec.Vector {
	t.Helper()
	mk := &maker{t: t}
	for _, s := range samples() {
		for _, e := range s.encodings {
			if codec.HasBlocks(e) {
				mk.addBlocks(s, e)
				continue
			}
			for _, set := range modulesOf(e, modules) {
				mk.add(e.String()+" "+set.String()+" "+s.name, s.packet, e, markOf(e, set), wire.Port)
			}
			for _, set := range modulesOf(e, taggedModules) {
				mk.addTagged(e.String()+" tagged "+set.String()+" "+s.name, s.packet, e, markOf(e, set))
			}
			if e.Carries()&wire.CarriesSparse == 0 {
				continue
			}
			sparse := markOf(e, wire.Delay|wire.Loss)
			sparse.Sparse = true
			mk.add(e.String()+" sparse "+s.name, s.packet, e, sparse, wire.Port)
			mk.addTagged(e.String()+" tagged sparse "+s.name, s.packet, e, sparse)
		}
	}
	mk.addDatagrams()
	mk.addSegments()
	low := header{bare: true}.with(17, udp([]byte("bare")))
	for _, e := range udp4 {
		mk.add(e.String()+" ttl 1, no DF, no tos, no id", low, e, markOf(e, wire.Delay), wire.Port)
	}
	mk.add("udp to port 4000", low, wire.UDP, markOf(wire.UDP, wire.Delay|wire.Loss), 4000)
	return mk.all
}

// addBlocks adds marks that carry a block.
func (mk *maker) addBlocks(s sample, e wire.Encoding) {
	mk.t.Helper()
	for _, row := range []struct {
		name string
		codec.AltMark
	}{
		{"", codec.AltMark{Flow: 0xabcde}},
		{"L ", codec.AltMark{Flow: 0xfffff, Loss: true}},
		{"L, D ", codec.AltMark{Flow: 1, Loss: true, Delay: true}},
	} {
		mk.add(e.String()+" "+row.name+s.name, s.packet, e, codec.Mark{Block: row.AltMark}, wire.Port)
		mk.addTagged(e.String()+" tagged "+row.name+s.name, s.packet, e, codec.Mark{Block: row.AltMark})
	}
}

// addDatagrams adds UDP datagrams of some lengths, and marks with numbers at an edge.
func (mk *maker) addDatagrams() {
	mk.t.Helper()
	for _, e := range slices.DeleteFunc(of(wire.ClassUDP), codec.HasBlocks) {
		h := header{v6: e.Applies(wire.ClassIPv6)}
		plain := h.with(17, udp([]byte("odd")))
		for _, n := range []int{1, 3, 7, 101, 1399} {
			packet := h.with(17, udp(bytes.Repeat([]byte{0xa5}, n)))
			mk.add(e.String()+" payload of "+strconv.Itoa(n), packet, e, markOf(e, mostOf(e)), wire.Port)
		}
		for _, n := range []int{1, 4, 1396, 1399} {
			packet := h.with(17, udp(bytes.Repeat([]byte{0xa5}, n)))
			mk.addTagged(e.String()+" tagged payload of "+strconv.Itoa(n), packet, e, markOf(e, mostOf(e)))
		}
		for _, edge := range edges {
			if edge.ticks != codec.HasTicks(e) || edge.mark.Received != 0 && !codec.HasReceived(e) ||
				edge.mark.Modules&wire.Loss != 0 && !edge.mark.Single && !codec.HasBursts(e) ||
				!e.Carries().Allows(edge.mark.Modules) || codec.Number(e, edge.mark.Sequence) != edge.mark.Sequence {
				continue // such a mark cannot travel in this encoding
			}
			mk.add(e.String()+" "+edge.name, plain, e, edge.mark, wire.Port)
			if edge.mark.Modules&wire.Loss != 0 {
				mk.addTagged(e.String()+" tagged "+edge.name, plain, e, edge.mark)
			}
		}
	}
}

// addSegments adds TCP segments whose options are the marks.
func (mk *maker) addSegments() {
	mk.t.Helper()
	for _, s := range segments() {
		v4, v6 := header{}.with(6, s.segment), header{v6: true}.with(6, s.segment)
		for _, set := range modules {
			mk.add("tcp-option "+set.String()+" ipv4 "+s.name, v4, wire.TCPOption, markOf(wire.TCPOption, set), wire.Port)
			mk.add("tcp-option "+set.String()+" ipv6 "+s.name, v6, wire.TCPOption, markOf(wire.TCPOption, set), wire.Port)
		}
		for _, set := range taggedModules {
			mk.addTagged("tcp-option tagged "+set.String()+" ipv4 "+s.name, v4, wire.TCPOption, markOf(wire.TCPOption, set))
			mk.addTagged("tcp-option tagged "+set.String()+" ipv6 "+s.name, v6, wire.TCPOption, markOf(wire.TCPOption, set))
		}
	}
	for _, edge := range edges {
		if !edge.ticks {
			continue
		}
		plain := header{}.with(6, tcp([]byte("odd")))
		mk.add("tcp-option "+edge.name, plain, wire.TCPOption, edge.mark, wire.Port)
		if edge.mark.Modules&wire.Loss != 0 {
			mk.addTagged("tcp-option tagged "+edge.name, plain, wire.TCPOption, edge.mark)
		}
	}
}

// edges are marks whose numbers are at an edge, of encodings with ticks or without.
var edges = []struct {
	name  string
	mark  codec.Mark
	ticks bool
}{
	{"not received", codec.Mark{Modules: wire.Delay, Sent: 0xeea94a97_00000000}, false},
	{"last of era 0, first of era 1", codec.Mark{Modules: wire.Delay, Sent: 0xffffffff_ffffffff, Received: 1}, false},
	{"start of era 1", codec.Mark{Modules: wire.Delay, Sent: 0, Received: 1 << 32}, false},
	{"burst", codec.Mark{Modules: wire.Loss, Sequence: 0x5b3c0102}, false},
	{"burst with delay", codec.Mark{Modules: wire.Delay | wire.Loss, Sent: 0xeea94a97_80000000, Sequence: 0x00010000}, false},
	{"last single number", codec.Mark{Modules: wire.Loss, Sequence: 0x7fffffff, Single: true}, false},
	{"last burst number", codec.Mark{Modules: wire.Loss, Sequence: 0x7fffffff}, false},
	{"number zero, burst", codec.Mark{Modules: wire.Loss}, false},
	{"number zero, single", codec.Mark{Modules: wire.Loss, Single: true}, false},
	{"last number of 16 bits", codec.Mark{Modules: wire.Loss, Sequence: 0xffff, Single: true}, false},
	{"checksum of all ones", codec.Mark{Modules: wire.Loss, Sequence: 0x0001b096, Single: true}, true},
	{"checksum of all ones with a tag", codec.Mark{Modules: wire.Loss, Sequence: 0x00013535, Single: true}, true},
	{"first tick, not numbered", codec.Mark{Modules: wire.Delay, Ticks: 1}, true},
	{"last tick, not numbered", codec.Mark{Modules: wire.Delay, Ticks: 0xffffffff}, true},
	{"first tick", codec.Mark{Modules: wire.Delay | wire.Loss, Sequence: 1, Single: true, Ticks: 1}, true},
	{"last tick", codec.Mark{Modules: wire.Delay | wire.Loss, Sequence: 1, Single: true, Ticks: 0xffffffff}, true},
	{"burst, unstamped", codec.Mark{Modules: wire.Loss, Sequence: 1}, true},
	{"last number, unstamped", codec.Mark{Modules: wire.Loss, Sequence: 0x7fffffff, Single: true}, true},
	{"number zero, single, unstamped", codec.Mark{Modules: wire.Loss, Single: true}, true},
}
