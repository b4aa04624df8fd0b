package pcap

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Types of blocks of pcapng (draft-ietf-opsawg-pcapng). Others have no packets.
const (
	blockSection   = 0x0a0d0d0a // as sectionMagic, in both byte orders
	blockInterface = 1
	blockObsolete  = 2 // Packet Block
	blockSimple    = 3
	blockEnhanced  = 6
)

// bodyMin is the least size of a body, bytes.
var bodyMin = map[uint32]int{blockInterface: 8, blockObsolete: 20, blockSimple: 4, blockEnhanced: 20}

// Options of an interface.
const (
	optionEnd    = 0
	optionUnit   = 9  // if_tsresol
	optionOffset = 14 // if_tsoffset, s
)

// sectionMagic begins a pcapng file.
var sectionMagic = [4]byte{0x0a, 0x0d, 0x0d, 0x0a}

const byteOrderMagic = 0x1a2b3c4d

// nextBlock reads blocks up to the next packet.
func (r *Reader) nextBlock() (Packet, error) {
	for {
		kind, body, err := r.block()
		if err != nil {
			return Packet{}, err
		}
		p, isPacket := Packet{}, false
		switch kind {
		case blockSection:
			r.interfaces = r.interfaces[:0]
		case blockInterface:
			err = r.describe(body)
		case blockEnhanced, blockObsolete:
			isPacket = true
			p, err = r.timed(body, kind == blockObsolete)
		case blockSimple:
			isPacket = true
			p, err = r.simple(body)
		}
		if err != nil || isPacket {
			return p, err
		}
	}
}

// block reads a block and its length at the end. A section sets the byte order.
func (r *Reader) block() (kind uint32, body []byte, err error) {
	magic, err := r.in.Peek(4)
	if err == nil && [4]byte(magic) == sectionMagic {
		err = r.section()
	}
	if err != nil {
		if len(magic) == 0 && err == io.EOF {
			return 0, nil, io.EOF
		}
		return 0, nil, unexpected(err)
	}
	head, err := r.in.Peek(8)
	if err != nil {
		return 0, nil, unexpected(err)
	}
	kind, total := r.order.Uint32(head), r.order.Uint32(head[4:])
	if total%4 != 0 || int64(total) < int64(bodyMin[kind]+12) {
		return 0, nil, fmt.Errorf("block of type %#x with %d bytes", kind, total)
	}
	whole, err := r.read(total)
	if err != nil {
		return 0, nil, unexpected(err)
	}
	if end := r.order.Uint32(whole[total-4:]); end != total {
		return 0, nil, fmt.Errorf("block of %d bytes ends with the length %d", total, end)
	}
	return kind, whole[8 : total-4], nil
}

// section checks the head of a section and takes over its byte order.
func (r *Reader) section() error {
	head, err := r.in.Peek(16)
	if err != nil {
		return unexpected(err)
	}
	switch uint32(byteOrderMagic) {
	case binary.LittleEndian.Uint32(head[8:]):
		r.order = binary.LittleEndian
	case binary.BigEndian.Uint32(head[8:]):
		r.order = binary.BigEndian
	default:
		return fmt.Errorf("unknown byte order %x of a section", head[8:12])
	}
	// Files with minor version 2 exist, and mean 0.
	if major, minor := r.order.Uint16(head[12:]), r.order.Uint16(head[14:]); major != 1 || minor != 0 && minor != 2 {
		return fmt.Errorf("version %d.%d of pcapng is not supported", major, minor)
	}
	return nil
}

// describe takes an Interface Description Block.
func (r *Reader) describe(body []byte) error {
	d := description{link: r.order.Uint16(body), snap: r.order.Uint32(body[4:]), unit: 6}
	for options := body[8:]; len(options) >= 4; {
		code, size := r.order.Uint16(options), int(r.order.Uint16(options[2:]))
		if code == optionEnd {
			break
		}
		if len(options) < 4+size {
			return fmt.Errorf("option %d of an interface exceeds its block", code)
		}
		value := options[4 : 4+size]
		switch {
		case code == optionUnit && size == 1:
			d.unit = unit(value[0])
		case code == optionOffset && size == 8:
			d.offset = int64(r.order.Uint64(value))
		case code == optionUnit || code == optionOffset:
			return fmt.Errorf("option %d of an interface has %d bytes", code, size)
		}
		options = options[min(4+(size+3)&^3, len(options)):]
	}
	r.interfaces = append(r.interfaces, d)
	return nil
}

// timed takes an Enhanced Packet Block, or a Packet Block, which it replaced.
func (r *Reader) timed(body []byte, obsolete bool) (Packet, error) {
	const head = 20
	id := r.order.Uint32(body)
	if obsolete { // with a 16-bit number of drops behind
		id = uint32(r.order.Uint16(body))
	}
	captured, length := r.order.Uint32(body[12:]), r.order.Uint32(body[16:])
	if int64(captured) > int64(len(body)-head) {
		return Packet{}, fmt.Errorf("packet of %d bytes in a block of %d", captured, len(body)+12)
	}
	of, err := r.of(id)
	if err != nil {
		return Packet{}, err
	}
	p := packet(of, body[head:head+captured], length)
	p.Time = of.unit.time(uint64(r.order.Uint32(body[4:]))<<32|uint64(r.order.Uint32(body[8:])), of.offset)
	return p, nil
}

// simple takes a Simple Packet Block, which is of the first interface and has no time.
func (r *Reader) simple(body []byte) (Packet, error) {
	of, err := r.of(0)
	if err != nil {
		return Packet{}, err
	}
	length := r.order.Uint32(body)
	captured := length
	if of.snap > 0 {
		captured = min(captured, of.snap)
	}
	return packet(of, body[4:4+min(int64(captured), int64(len(body)-4))], length), nil
}

func (r *Reader) of(id uint32) (description, error) {
	if int64(id) >= int64(len(r.interfaces)) {
		return description{}, fmt.Errorf("interface %d is not described in this section, which has %d", id, len(r.interfaces))
	}
	return r.interfaces[id], nil
}
