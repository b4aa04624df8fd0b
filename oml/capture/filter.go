package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"github.com/gopacket/gopacket/layers"
	"golang.org/x/net/bpf"
)

// ErrFilter marks an invalid filter expression.
var ErrFilter = errors.New("invalid filter")

// filter is a compiled expression. The language is a subset of tcpdump's, with the same
// meaning: ip ip6 arp tcp udp icmp icmp6 sctp; [src|dst] host ADDRESS; [src|dst] net
// PREFIX; [src|dst] port N; [src|dst] portrange A-B; a protocol before these; less N;
// greater N; not, and, or (of equal precedence, left to right) and parentheses.
// Everything else is refused.
type filter struct {
	code []bpf.Instruction // for the kernel
	// vm runs the same filter here. It cannot know a packet's length on the wire, so its
	// packets have that in front, 4 bytes; input is their buffer.
	vm    *bpf.VM
	input []byte
}

// compileFilter is nil for an empty expression.
func compileFilter(text string, link layers.LinkType) (*filter, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	tree, err := parseFilter(text)
	if err != nil {
		return nil, err
	}
	shape, known := shapes[link]
	if !known {
		return nil, fmt.Errorf("%w: packets of link layer %v cannot be filtered", ErrFilter, link)
	}
	code, err := generate(tree, shape)
	if err != nil {
		return nil, err
	}
	shape.network += lengthSize
	if shape.kind >= 0 {
		shape.kind += lengthSize
	}
	shape.length = true
	inner, err := generate(tree, shape)
	if err != nil {
		return nil, err
	}
	vm, err := bpf.NewVM(inner)
	return &filter{code: code, vm: vm}, err
}

// lengthSize is the size of the length in front of a packet for filter.vm.
const lengthSize = 4

// matches reports whether a packet passes the filter, as in the kernel. Length is that
// on the wire. A nil filter passes all.
func (f *filter) matches(data []byte, length int) bool {
	if f == nil {
		return true
	}
	f.input = append(binary.BigEndian.AppendUint32(f.input[:0], uint32(length)), data...)
	n, err := f.vm.Run(f.input)
	return err == nil && n > 0
}

// codeMax is the kernel's limit, less the instructions that attach adds.
const codeMax = 4096 - 8

// shape is where packets of a link layer have the fields that filters read.
type shape struct {
	// kind is the offset of the EtherType; negative if the IP version tells.
	kind    int
	network uint32
	length  bool // the packet's length is in front
}

var shapes = map[layers.LinkType]shape{
	layers.LinkTypeEthernet: {kind: 12, network: 14}, layers.LinkTypeLinuxSLL: {kind: 14, network: 16},
	layers.LinkTypeLinuxSLL2: {kind: 0, network: 20},
	layers.LinkTypeRaw:       {kind: -1}, 12: {kind: -1}, 14: {kind: -1},
	layers.LinkTypeIPv4: {kind: -1}, layers.LinkTypeIPv6: {kind: -1},
	layers.LinkTypeNull: {kind: -1, network: 4}, layers.LinkTypeLoop: {kind: -1, network: 4},
}

// node is a part of an expression: code that continues at one of two labels.
type node interface {
	generate(g *generator, yes, no int)
}

type (
	both   struct{ left, right node }
	either struct{ left, right node }
	not    struct{ of node }
	// family is an EtherType.
	family uint32
	// size of the packet: at least, or at most if less is set.
	size struct {
		bytes uint32
		less  bool
	}
	// field compares a number at an offset in the network header.
	field struct {
		offset uint32
		size   int
		mask   uint32
		test   bpf.JumpTest
		value  uint32
		// behind: the offset is from the end of the IPv4 header.
		behind bool
	}
)

func (n both) generate(g *generator, yes, no int) {
	next := g.label()
	n.left.generate(g, next, no)
	g.place(next)
	n.right.generate(g, yes, no)
}

func (n either) generate(g *generator, yes, no int) {
	next := g.label()
	n.left.generate(g, yes, next)
	g.place(next)
	n.right.generate(g, yes, no)
}

func (n not) generate(g *generator, yes, no int) { n.of.generate(g, no, yes) }

const (
	kindIP4 family = 0x0800
	kindARP family = 0x0806
	kindRev family = 0x8035
	kindIP6 family = 0x86dd
)

func (n family) generate(g *generator, yes, no int) {
	if g.shape.kind >= 0 {
		g.load(uint32(g.shape.kind), 2)
		g.jump(bpf.JumpEqual, uint32(n), yes, no)
		return
	}
	version := map[family]uint32{kindIP4: 0x40, kindIP6: 0x60}[n]
	g.load(g.shape.network, 1)
	g.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf0})
	g.jump(bpf.JumpEqual, max(version, 1), yes, no) // ARP never matches
}

func (n size) generate(g *generator, yes, no int) {
	if g.shape.length {
		g.load(0, lengthSize)
	} else {
		g.add(bpf.LoadExtension{Num: bpf.ExtLen})
	}
	if n.less {
		g.jump(bpf.JumpGreaterThan, n.bytes, no, yes)
		return
	}
	g.jump(bpf.JumpGreaterOrEqual, n.bytes, yes, no)
}

func (n field) generate(g *generator, yes, no int) {
	if n.behind {
		g.add(bpf.LoadMemShift{Off: g.shape.network})
		g.add(bpf.LoadIndirect{Off: g.shape.network + n.offset, Size: n.size})
	} else {
		g.load(g.shape.network+n.offset, n.size)
	}
	if n.mask != math.MaxUint32 {
		g.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: n.mask})
	}
	g.jump(n.test, n.value, yes, no)
}

// octet compares one byte.
func octet(offset, value uint32) node {
	return field{offset: offset, size: 1, mask: math.MaxUint32, test: bpf.JumpEqual, value: value}
}

// protocol of IP, in IPv4 (4), IPv6 (6) or both (0). In IPv6 a fragment header may come
// before it.
func protocol(number uint32, only int) node {
	four := both{kindIP4, octet(9, number)}
	fragment := both{octet(6, uint32(layers.IPProtocolIPv6Fragment)), octet(40, number)}
	six := both{kindIP6, either{octet(6, number), fragment}}
	switch only {
	case 4:
		return four
	case 6:
		return six
	}
	return either{six, four}
}

// address in a prefix, at one end.
func address(prefix netip.Prefix, source bool) node {
	at := func(f family, sourceOffset, offset uint32) node {
		if source {
			offset = sourceOffset
		}
		return both{f, inPrefix(prefix, offset)}
	}
	if prefix.Addr().Is6() {
		return at(kindIP6, 8, 24)
	}
	return either{at(kindIP4, 12, 16), either{at(kindARP, 14, 24), at(kindRev, 14, 24)}}
}

// inPrefix compares all words of an address, even where any value matches: the packet must
// have them.
func inPrefix(prefix netip.Prefix, offset uint32) (all node) {
	bytes := prefix.Addr().AsSlice()
	for i, bits := 0, prefix.Bits(); i < len(bytes); i, bits = i+4, bits-32 {
		word := field{
			offset: offset + uint32(i), size: 4, mask: uint32(math.MaxUint32 << max(32-max(bits, 0), 0)),
			test: bpf.JumpEqual, value: binary.BigEndian.Uint32(bytes[i:]),
		}
		if all == nil {
			all = word
		} else {
			all = both{all, word}
		}
	}
	return all
}

// port in a range, at one end (src, dst) or either, in packets of protocols with ports.
func port(low, high uint32, end string) node {
	ends := func(offset uint32, behind bool) node {
		in := func(offset uint32) node {
			n := field{offset: offset, size: 2, mask: math.MaxUint32, test: bpf.JumpGreaterOrEqual, value: low, behind: behind}
			above := n
			above.test, above.value = bpf.JumpGreaterThan, high
			return both{n, not{above}}
		}
		switch end {
		case "src":
			return in(offset)
		case "dst":
			return in(offset + 2)
		}
		return either{in(offset), in(offset + 2)}
	}
	carries := func(offset uint32) node {
		tcp, udp, sctp := layers.IPProtocolTCP, layers.IPProtocolUDP, layers.IPProtocolSCTP
		return either{octet(offset, uint32(tcp)), either{octet(offset, uint32(udp)), octet(offset, uint32(sctp))}}
	}
	later := field{offset: 6, size: 2, mask: math.MaxUint32, test: bpf.JumpBitsSet, value: 0x1fff} // fragments without ports
	return either{
		both{kindIP6, both{carries(6), ends(40, false)}},
		both{kindIP4, both{carries(9), both{not{later}, ends(0, true)}}},
	}
}

// parseNumber parses an unsigned number of so many bits.
func parseNumber(text string, bits int) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is not a number of up to %d bits", ErrFilter, text, bits)
	}
	return uint32(n), nil
}
