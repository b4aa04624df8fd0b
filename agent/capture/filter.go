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
	layers.LinkTypeRaw: {kind: -1}, 12: {kind: -1}, 14: {kind: -1},
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
	// protocol of IP, in IPv4 (4), IPv6 (6) or both (0).
	protocol struct {
		number uint32
		only   int
	}
	// size of the packet: at least, or at most if less is set.
	size struct {
		bytes uint32
		less  bool
	}
	// address in a prefix, at one end.
	address struct {
		prefix netip.Prefix
		source bool
	}
	// port in a range, at one end (src, dst) or either.
	port struct {
		low, high uint32
		end       string
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

func (n protocol) generate(g *generator, yes, no int) {
	at := g.shape.network
	if n.only != 4 {
		six, four, fragment := g.label(), g.label(), g.label()
		if n.only == 6 {
			four = no
		}
		kindIP6.generate(g, six, four)
		g.place(six)
		g.load(at+6, 1)
		g.jump(bpf.JumpEqual, n.number, yes, fragment)
		g.place(fragment)
		inside := g.label()
		g.jump(bpf.JumpEqual, uint32(layers.IPProtocolIPv6Fragment), inside, no)
		g.place(inside)
		g.load(at+40, 1)
		g.jump(bpf.JumpEqual, n.number, yes, no)
		if n.only == 6 {
			return
		}
		g.place(four)
	}
	inside := g.label()
	kindIP4.generate(g, inside, no)
	g.place(inside)
	g.load(at+9, 1)
	g.jump(bpf.JumpEqual, n.number, yes, no)
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

func (n address) generate(g *generator, yes, no int) {
	if n.prefix.Addr().Is6() {
		offset := uint32(24)
		if n.source {
			offset = 8
		}
		n.at(kindIP6, offset).generate(g, yes, no)
		return
	}
	offset, arp := uint32(16), uint32(24)
	if n.source {
		offset, arp = 12, 14
	}
	either{n.at(kindIP4, offset), either{n.at(kindARP, arp), n.at(kindRev, arp)}}.generate(g, yes, no)
}

// at is an address of packets of a family, at an offset in the network header.
func (n address) at(f family, offset uint32) node { return both{f, words{n.prefix, offset}} }

// words compares an address in the packet.
type words struct {
	prefix netip.Prefix
	offset uint32
}

func (n words) generate(g *generator, yes, no int) {
	bytes := n.prefix.Addr().AsSlice()
	for i, bits := 0, n.prefix.Bits(); i < len(bytes); i, bits = i+4, bits-32 {
		g.load(g.shape.network+n.offset+uint32(i), 4) // even if any value matches: the packet must have it
		if bits < 32 {
			g.add(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: uint32(math.MaxUint32 << (32 - max(bits, 0)))})
		}
		next := g.label()
		g.jump(bpf.JumpEqual, binary.BigEndian.Uint32(bytes[i:]), next, no)
		g.place(next)
	}
	g.always(yes)
}

func (n port) generate(g *generator, yes, no int) {
	at := g.shape.network
	six, other, four := g.label(), g.label(), g.label()
	kindIP6.generate(g, six, other)
	g.place(six)
	ports := g.label()
	g.load(at+6, 1)
	g.carries(ports, no)
	g.place(ports)
	n.compare(g, yes, no, func(offset uint32) { g.load(at+40+offset, 2) })
	g.place(other)
	kindIP4.generate(g, four, no)
	g.place(four)
	g.load(at+9, 1)
	whole, first := g.label(), g.label()
	g.carries(whole, no)
	g.place(whole)
	g.load(at+6, 2)
	g.jump(bpf.JumpBitsSet, 0x1fff, no, first) // later fragments have no ports
	g.place(first)
	g.add(bpf.LoadMemShift{Off: at})
	n.compare(g, yes, no, func(offset uint32) { g.add(bpf.LoadIndirect{Off: at + offset, Size: 2}) })
}

// carries continues at yes if the loaded protocol has ports.
func (g *generator) carries(yes, no int) {
	for _, p := range []layers.IPProtocol{layers.IPProtocolTCP, layers.IPProtocolUDP} {
		next := g.label()
		g.jump(bpf.JumpEqual, uint32(p), yes, next)
		g.place(next)
	}
	g.jump(bpf.JumpEqual, uint32(layers.IPProtocolSCTP), yes, no)
}

func (n port) compare(g *generator, yes, no int, load func(offset uint32)) {
	one := func(offset uint32, no int) {
		load(offset)
		enough := g.label()
		g.jump(bpf.JumpGreaterOrEqual, n.low, enough, no)
		g.place(enough)
		g.jump(bpf.JumpGreaterThan, n.high, no, yes)
	}
	if n.end != "dst" {
		next := no
		if n.end == "" {
			next = g.label()
		}
		one(0, next)
		if n.end == "src" {
			return
		}
		g.place(next)
	}
	one(2, no)
}

// parseNumber parses an unsigned number of so many bits.
func parseNumber(text string, bits int) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%w: %q is not a number of up to %d bits", ErrFilter, text, bits)
	}
	return uint32(n), nil
}
