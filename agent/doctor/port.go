package doctor

import (
	"context"
	"fmt"
	"net/netip"

	"pillion.dev/agent/validation"
	"pillion.dev/session"
	"pillion.dev/wire"
)

// checkPort reports other programs that keep agents on this host from answering path probes.
func checkPort(ctx context.Context) []session.Check {
	const name = "path probes"
	holders := validation.PortHolders()
	if holders == "" {
		return []session.Check{ok(name, "no other process uses UDP port %d", wire.ProbePort)}
	}
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		reply, err := validation.Ask(ctx, netip.MustParseAddr(loopback), 0)
		if err == nil && reply != validation.Answered { // an error is that of a host without the family
			return []session.Check{{
				Name: name, Level: Warning, Found: "path probes to this host are not answered: " + holders,
				Advice: fmt.Sprintf("end that program, or let it use another port: ss -ulnp 'sport = :%d'", wire.ProbePort),
			}}
		}
	}
	return []session.Check{ok(name, "an agent answers on UDP port %d", wire.ProbePort)}
}
