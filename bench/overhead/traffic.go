package main

import (
	"strconv"

	"pillion.dev/wire"
)

// traffic is one kind of load. Payload 0 means TCP: a bulk stream, or requests and replies.
type traffic struct {
	v6      bool
	payload int
	tcp     tcpTraffic
}

type tcpTraffic string

const (
	// bulk crosses the pair in buffers that no device segments.
	bulk tcpTraffic = ""
	// segmented is a bulk stream that leaves in segments, as on a wire; the receiver merges them (GRO).
	segmented tcpTraffic = "-segmented"
	// requests are transactions of a short request and reply.
	requests tcpTraffic = "-requests"
)

func (k traffic) String() string {
	if k.isUDP() {
		return "udp" + k.family() + "-" + strconv.Itoa(k.payload)
	}
	return "tcp" + k.family() + string(k.tcp)
}

func (k traffic) isUDP() bool    { return k.payload > 0 }
func (k traffic) isStream() bool { return !k.isUDP() && k.tcp != requests }

// family is the version of IP.
func (k traffic) family() string {
	if k.v6 {
		return "6"
	}
	return "4"
}

// class is that of the packets, for the choice of an encoding.
func (k traffic) class() wire.Class {
	c := wire.ClassIPv4
	if k.v6 {
		c = wire.ClassIPv6
	}
	if k.isUDP() {
		return c | wire.ClassUDP
	}
	return c | wire.ClassTCP
}

// unit is that of the rates by CPU time.
func (k traffic) unit() string {
	switch {
	case k.isUDP():
		return "packets/CPU s"
	case k.isStream():
		return "bits/CPU s"
	}
	return "transactions/CPU s"
}

// sample is what the ends of one run of traffic saw.
type sample struct {
	TCP      *tcpResult     `json:"tcp,omitempty"`
	UDP      *udpResult     `json:"udp,omitempty"`
	Requests *requestResult `json:"requests,omitempty"`
}

// byCPU is the rate by CPU time: packets, bits or transactions a CPU second.
func (s sample) byCPU() float64 {
	switch {
	case s.TCP != nil:
		return s.TCP.BitsPerCPUSecond
	case s.Requests != nil:
		return 1e9 / s.Requests.CPUNs
	}
	return 1e9 / s.UDP.CPUNs
}

// byClock is the rate by elapsed time: packets, bits or transactions a second.
func (s sample) byClock() float64 {
	switch {
	case s.TCP != nil:
		return s.TCP.BitsPerSecond
	case s.Requests != nil:
		return 1e9 / s.Requests.ClockNs
	}
	return 1e9 / s.UDP.ClockNs
}
