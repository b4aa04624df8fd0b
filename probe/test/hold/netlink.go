package hold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// What of the kernel's netfilter messages (linux/netfilter/nfnetlink.h, nf_tables.h,
// nfnetlink_queue.h) is needed to send all forwarded IPv4 packets to queue 0.
const (
	batchBegin, batchEnd = 16, 17
	tables               = 10 << 8
	newTable             = tables
	newChain             = tables | 3
	newRule              = tables | 6
	queues               = 3 << 8
	queueVerdict         = queues | 1
	queueConfig          = queues | 2

	nested        = 1 << 15
	ipv4          = 2 // family of a table
	hookForward   = 2
	verdictAccept = 1
	copyMeta      = 1
	commandBind   = 1

	headerSize = 20 // of a netlink message, and netfilter's behind it
)

// message is a netlink message that grows.
type message []byte

func newMessage(kind, flags uint16, family uint8, resource uint16) message {
	m := make(message, headerSize, 256)
	binary.NativeEndian.PutUint16(m[4:], kind)
	binary.NativeEndian.PutUint16(m[6:], flags|unix.NLM_F_REQUEST)
	m[16] = family
	binary.BigEndian.PutUint16(m[18:], resource)
	return m
}

// add appends an attribute.
func (m message) add(kind uint16, value ...byte) message {
	m = binary.NativeEndian.AppendUint16(m, uint16(4+len(value)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = append(m, value...)
	return append(m, make([]byte, -len(m)&3)...)
}

// bytes are the message with its length.
func (m message) bytes() []byte {
	binary.NativeEndian.PutUint32(m, uint32(len(m)))
	return m
}

func attribute(kind uint16, value ...byte) []byte { return message(nil).add(kind, value...) }

func number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

func text(s string) []byte { return append([]byte(s), 0) }

// queueAll are the messages that make a table, a chain at FORWARD in it, and a rule that
// sends all packets to queue 0.
func queueAll() []byte {
	const table, chain = "hold", "forward"
	hook := append(attribute(1, number(hookForward)...), attribute(2, number(0)...)...)
	// The target of iptables, its first revision: its argument, padded, is the queue's
	// number. Not every kernel has the tables' own expression for it.
	target := slices.Concat(attribute(1, text("NFQUEUE")...), attribute(2, number(0)...), attribute(3, make([]byte, 8)...))
	expression := append(attribute(1, text("target")...), attribute(2|nested, target...)...)
	messages := []message{
		newMessage(batchBegin, 0, 0, tables>>8),
		newMessage(newTable, unix.NLM_F_CREATE, ipv4, 0).add(1, text(table)...),
		newMessage(newChain, unix.NLM_F_CREATE, ipv4, 0).add(1, text(table)...).add(3, text(chain)...).
			add(4|nested, hook...).add(7, text("filter")...),
		newMessage(newRule, unix.NLM_F_CREATE|unix.NLM_F_APPEND|unix.NLM_F_ACK, ipv4, 0).add(1, text(table)...).
			add(2, text(chain)...).add(4|nested, attribute(1|nested, expression...)...),
		newMessage(batchEnd, 0, 0, tables>>8),
	}
	var all []byte
	for _, m := range messages {
		all = append(all, m.bytes()...)
	}
	return all
}

// bind are the messages that make the socket queue 0's, which gets no packet's content.
func bind() []byte {
	command := newMessage(queueConfig, 0, 0, 0).add(1, commandBind, 0, 0, 0)
	parameters := newMessage(queueConfig, unix.NLM_F_ACK, 0, 0).add(2, append(number(0), copyMeta)...)
	return append(command.bytes(), parameters.bytes()...)
}

// accept is the message that lets a packet go.
func accept(id uint32) []byte {
	return newMessage(queueVerdict, 0, 0, 0).add(2, append(number(verdictAccept), number(id)...)...).bytes()
}

// talk sends messages to the kernel and waits for its acknowledgement of the last.
func talk(socket int, messages []byte) error {
	if err := unix.Sendto(socket, messages, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buffer := make([]byte, 8192)
	n, _, err := unix.Recvfrom(socket, buffer, 0)
	if err != nil {
		return err
	}
	if n < headerSize || binary.NativeEndian.Uint16(buffer[4:]) != unix.NLMSG_ERROR {
		return errors.New("an answer that is none")
	}
	if code := int32(binary.NativeEndian.Uint32(buffer[16:])); code != 0 {
		return fmt.Errorf("the kernel says: %w", unix.Errno(-code))
	}
	return nil
}

// packetID finds the number of a queued packet in the message of it.
func packetID(m []byte) (uint32, bool) {
	for at := headerSize; at+8 <= len(m); {
		size, kind := int(binary.NativeEndian.Uint16(m[at:])), binary.NativeEndian.Uint16(m[at+2:])
		if kind == 1 {
			return binary.BigEndian.Uint32(m[at+4:]), true
		}
		if size < 4 {
			return 0, false
		}
		at += (size + 3) &^ 3
	}
	return 0, false
}
