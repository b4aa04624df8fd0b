//go:build long

package lab_test

import (
	"fmt"
	"net/netip"
	"testing"
)

// TestLongWholeLossesAreSeen: loss is exact for flows of one to three packets, of which many are
// lost whole and others at their end, and while everything is lost.
func TestLongWholeLossesAreSeen(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, perfect)
	for i, row := range []struct {
		name, encoding string
		sparse         bool
	}{{"option", "udp-option", false}, {"native", "native", false}, {"sparse", "udp-option", true}} {
		port := uint16(9000 + i)
		b.listens("b", port)
		arguments := []string{"--from", "a", "--to", "b", "--trace=-1s", "--interval=500ms", "--encoding", row.encoding, "--filter", fmt.Sprintf("dport=%d", port)}
		if row.sparse {
			arguments = append(arguments, "--sparse-marks")
		}
		b.running(row.name, arguments...)
		b.suffers(0.3)
		sent := b.short(netip.AddrPortFrom(secondIPv6, port), 1000)
		truth := b.toPort(port, true)
		if int(truth.Offered) != sent || truth.Lost < uint64(sent)/5 {
			t.Errorf("%s: %d sent, truth %+v", row.name, sent, truth)
		}
		b.accounts(port, truth)
		if row.sparse {
			b.outage(port)
		}
		b.suffers(0)
		b.stopped(row.name)
	}
}
