//go:build long

package lab_test

import (
	"net/netip"
	"strings"
	"testing"
)

func TestLongOffloads(t *testing.T) {
	tests := map[string]struct{ source, destination string }{
		"default":             {"", ""},
		"tso off":             {"tso off", ""},
		"gso off":             {"tso off gso off", ""},
		"gro on":              {"", "gro on"},
		"gro on, tso off":     {"tso off", "gro on"},
		"tx checksums off":    {"tx off", ""},
		"everything off":      {"tso off gso off tx off rx off", "gro off tx off rx off"},
		"udp tunnels unknown": {"tx-udp_tnl-segmentation off", ""},
	}
	for name, test := range tests {
		for family, to := range toB {
			for encodings, options := range map[string]string{"native,udp": "--encoding native,udp", "by default": ""} {
				t.Run(name+", "+family+", "+encodings, func(t *testing.T) {
					b := up(t, pair)
					b.offload("a", "b", test.source)
					b.offload("b", "a", test.destination)
					d := b.probe("b", "destination", "a")
					b.tryTraffic(b.probe("a", "source", "b", strings.Fields(options)...), d, to, 8<<20)
				})
			}
		}
	}
}

func TestLongEncodingsAndHooks(t *testing.T) {
	tests := map[string]struct {
		to                  netip.Addr
		source, destination string
		offload             string
	}{
		"shim":                  {secondIPv4, "--encoding shim", "", ""},
		"ipip":                  {secondIPv4, "--encoding ipip", "", ""},
		"clsact, ipv6":          {secondIPv6, "--clsact", "--clsact", ""},
		"clsact, ipv4":          {secondIPv4, "--clsact", "--clsact", ""},
		"xdp, ipv6":             {secondIPv6, "", "--hook xdp", ""},
		"xdp, ipv4":             {secondIPv4, "", "--hook xdp", ""},
		"udp-option, ipv4":      {secondIPv4, "--encoding udp-option", "", ""},
		"udp-option, ipv6":      {secondIPv6, "--encoding udp-option", "", ""},
		"udp-option, clsact":    {secondIPv4, "--encoding udp-option --clsact", "--clsact", ""},
		"udp-option, xdp":       {secondIPv4, "--encoding udp-option", "--hook xdp", ""},
		"udp-option, xdp, ipv6": {secondIPv6, "--encoding udp-option", "--hook xdp --strip always", ""},
		"udp-option, strip":     {secondIPv6, "--encoding udp-option", "--strip always", ""},
		"udp-option, amend":     {secondIPv4, "--encoding udp-option", "--amend", ""},
		"pdm":                   {secondIPv6, "--encoding pdm,native", "", ""},
		"pdm, clsact":           {secondIPv6, "--encoding pdm,native --clsact", "--clsact", ""},
		"pdm, xdp":              {secondIPv6, "--encoding pdm,native", "--hook xdp", ""},
		"ioam-e2e":              {secondIPv6, "--encoding ioam-e2e,native", "", ""},
		"ioam-e2e, clsact":      {secondIPv6, "--encoding ioam-e2e,native --clsact", "--clsact", ""},
		"ioam-e2e, xdp":         {secondIPv6, "--encoding ioam-e2e,native", "--hook xdp", ""},
		"ioam-trace":            {secondIPv6, "--encoding ioam-trace,native", "", ""},
		"ioam-trace, clsact":    {secondIPv6, "--encoding ioam-trace,native --clsact", "--clsact", ""},
		"ioam-trace, xdp":       {secondIPv6, "--encoding ioam-trace,native", "--hook xdp", ""},
		"amend":                 {secondIPv6, "", "--amend", ""},
		"by host":               {secondIPv4, "", "--by host", ""},
		"xdp, shim":             {secondIPv4, "--encoding shim", "--hook xdp", ""},
		"xdp, ipip":             {secondIPv4, "--encoding ipip", "--hook xdp", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := up(t, pair)
			b.offload("a", "b", test.offload)
			d := b.probe("b", "destination", "a", strings.Fields(test.destination)...)
			b.tryTraffic(b.probe("a", "source", "b", strings.Fields(test.source)...), d, test.to, 4<<20)
		})
	}
}

// A mark in a UDP option passes routers that know nothing of it, and whichever device has
// to compute the checksum. The first one that reads it and forwards the packet removes it.
func TestLongUDPOptionIsForwarded(t *testing.T) {
	tests := map[string]string{"default": "", "gso off": "tso off gso off", "tx off": "tx off"}
	addresses := map[string]string{"ipv6": "fd77:0:0:3::2", "ipv4": "10.77.3.2"}
	for name, features := range tests {
		for family, address := range addresses {
			t.Run(name+", "+family, func(t *testing.T) {
				b := up(t, chain)
				b.offload("r1", "r2", features)
				b.offload("r2", "b", features)
				strips, reads := b.probe("r2", "destination", "r1"), b.probe("b", "destination", "r2")
				s := b.probe("a", "source", "r1", "--encoding", "udp-option", "--stamp-every", "1")
				b.datagrams("a", "b", netip.MustParseAddr(address), 200, 1000)
				b.datagrams("a", "b", netip.MustParseAddr(address), 200, 33)
				marked, read := both(s, strips)
				var after destinationSummary
				reads.finish(&after)
				if marked.Marked < 400 || read.Packets != marked.Marked || read.Restored != marked.Marked || read.Lost != 0 {
					t.Errorf("marked %+v, read %+v", marked, read)
				}
				if after.Packets != 0 || after.Rejected != 0 || after.Unmarked < 400 {
					t.Errorf("behind the router that removed the marks: %+v", after)
				}
			})
		}
	}
}

// Routers measure forwarded packets, and forward buffers that were marked and restored
// before they are segmented.
func TestLongForwarding(t *testing.T) {
	tests := map[string]string{"default": "", "tso off": "tso off", "gso off": "tso off gso off", "tx off": "tx off"}
	addresses := map[string]string{"ipv6": "fd77:0:0:3::2", "ipv4": "10.77.3.2"}
	for name, features := range tests {
		for family, address := range addresses {
			t.Run(name+", "+family, func(t *testing.T) {
				b := up(t, chain)
				b.offload("r1", "r2", features)
				b.offload("r2", "b", features)
				d := b.probe("r2", "destination", "r1")
				b.tryTraffic(b.probe("r1", "source", "r2"), d, netip.MustParseAddr(address), 8<<20)
			})
		}
	}
}
