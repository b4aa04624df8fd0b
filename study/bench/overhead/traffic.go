package main

import (
	"fmt"
	"strconv"
	"strings"
)

// traffic is one kind of load.
type traffic struct {
	v6      bool
	payload int // of a UDP packet, or of a request and its reply
	tcp     tcpTraffic
}

type tcpTraffic string

const (
	// datagrams are UDP.
	datagrams tcpTraffic = ""
	// bulk crosses the pair in buffers that no device segments.
	bulk tcpTraffic = "bulk"
	// segmented is a bulk stream that leaves in segments, as on a wire; the receiver merges them (GRO).
	segmented tcpTraffic = "segmented"
	// requests are transactions of a short request and reply.
	requests tcpTraffic = "requests"
)

const (
	requestBytes = 100 // of a request unless the user says otherwise
	mostPayload  = 60000
)

// parseTraffic reads a name such as udp6-56 or tcp4-requests-100.
func parseTraffic(name string) (traffic, error) {
	wrong := func(why string) (traffic, error) {
		return traffic{}, fmt.Errorf("traffic %q: %s; examples are udp6-56, tcp4, tcp6-segmented, tcp4-requests and tcp4-requests-512", name, why)
	}
	parts := strings.Split(name, "-")
	protocol, version := strings.TrimRight(parts[0], "46"), strings.TrimLeft(parts[0], "udtcp")
	k := traffic{v6: version == "6"}
	if version != "4" && version != "6" || protocol != "udp" && protocol != "tcp" {
		return wrong("it begins with neither udp nor tcp and the version of IP")
	}
	size := ""
	switch {
	case protocol == "udp" && len(parts) == 2:
		size = parts[1]
	case protocol == "udp":
		return wrong("UDP needs the bytes of a payload")
	case len(parts) == 1:
		k.tcp = bulk
	case len(parts) == 2 && parts[1] == string(segmented):
		k.tcp = segmented
	case parts[1] == string(requests) && len(parts) <= 3:
		k.tcp, k.payload = requests, requestBytes
		if len(parts) == 3 {
			size = parts[2]
		}
	default:
		return wrong("this kind of TCP is unknown")
	}
	if size != "" {
		bytes, err := strconv.Atoi(size)
		if err != nil || bytes < 1 || bytes > mostPayload {
			return wrong(fmt.Sprintf("%q is not a number of bytes from 1 to %d", size, mostPayload))
		}
		k.payload = bytes
	}
	return k, nil
}

func (k traffic) String() string {
	switch k.tcp {
	case datagrams:
		return "udp" + k.family() + "-" + strconv.Itoa(k.payload)
	case bulk:
		return "tcp" + k.family()
	case segmented:
		return "tcp" + k.family() + "-segmented"
	}
	return "tcp" + k.family() + "-requests-" + strconv.Itoa(k.payload)
}

func (k traffic) isUDP() bool    { return k.tcp == datagrams }
func (k traffic) isStream() bool { return k.tcp == bulk || k.tcp == segmented }

// family is the version of IP.
func (k traffic) family() string {
	if k.v6 {
		return "6"
	}
	return "4"
}

// unit of the rates by CPU time.
func (k traffic) unit() string {
	switch {
	case k.isUDP():
		return "packets/CPU s"
	case k.isStream():
		return "bits/CPU s"
	}
	return "transactions/CPU s"
}

// bits are the payload of one unit; of requests, in one direction.
func (k traffic) bits() float64 {
	if k.isStream() {
		return 1
	}
	return 8 * float64(k.payload)
}

// Bytes of the headers of a packet on an Ethernet link.
const (
	ethernetHeader = 14
	// ethernetGaps are preamble, check sequence and gap.
	ethernetGaps = 8 + 4 + 12
	udpHeader    = 8
)

// ipHeader is its length in bytes.
func (k traffic) ipHeader() int {
	if k.v6 {
		return 40
	}
	return 20
}

// frame is the length of the frame that a packet socket sees, without a mark.
func (k traffic) frame() int { return ethernetHeader + k.ipHeader() + udpHeader + k.payload }
