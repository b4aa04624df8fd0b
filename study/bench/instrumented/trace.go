package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/gopacket/gopacket/layers"

	"pillion.dev/internal/pcap"
)

// packet is one of the traffic as a capture has it; times are ns since 1970.
type packet struct {
	at   int64
	ipID uint16
	// id and sent are of the payload, and size is the payload's; final: it ends the test.
	id    uint32
	sent  int64
	size  int
	final bool
}

// readTrace reads a file of tcpdump.
func readTrace(path string) ([]packet, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	defer file.Close()
	from, err := pcap.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("read trace %s: %w", path, err)
	}
	var packets []packet
	for {
		captured, err := from.Next()
		if err == io.EOF {
			return packets, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read trace %s: %w", path, err)
		}
		if link := layers.LinkType(captured.Link); link != layers.LinkTypeEthernet {
			return nil, fmt.Errorf("read trace %s: link type %v", path, link)
		}
		if p, ok := parsePacket(captured.Data); ok {
			p.at = captured.Time.UnixNano()
			packets = append(packets, p)
		}
	}
}

// parsePacket reads an Ethernet frame with IPv4, UDP and the head of the traffic's payload.
func parsePacket(frame []byte) (p packet, ok bool) {
	const ethernet, udp, head = 14, 8, 12
	if len(frame) < ethernet+20 || frame[12] != 8 || frame[13] != 0 || frame[ethernet]>>4 != 4 {
		return p, false
	}
	ip := frame[ethernet:]
	length := int(ip[0]&15) * 4
	if length < 20 || len(ip) < length+udp+head || ip[9] != 17 || binary.BigEndian.Uint16(ip[6:])&0x1fff != 0 {
		return p, false
	}
	p.ipID = binary.BigEndian.Uint16(ip[4:])
	p.size = int(binary.BigEndian.Uint16(ip[length+4:])) - udp
	data := ip[length+udp:]
	p.id = binary.BigEndian.Uint32(data)
	p.final = p.id == 1<<32-1
	p.sent = int64(binary.BigEndian.Uint32(data[4:]))*1e9 + int64(binary.BigEndian.Uint32(data[8:]))
	return p, true
}
