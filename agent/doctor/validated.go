package doctor

import (
	"context"
	"fmt"
	"net/netip"

	"pillion.dev/agent/validation"
	"pillion.dev/internal/quantity"
	"pillion.dev/session"
	"pillion.dev/wire"
)

// Path is what path validation has found about a path of a source.
type Path struct {
	Device string
	validation.Path
}

// pathsMax bounds the paths that are named.
const pathsMax = 16

// judgePaths reports the paths on which marked packets do not arrive intact.
func judgePaths(paths []Path) []session.Check {
	var checks []session.Check
	failing := 0
	for _, p := range paths {
		advice := p.advice()
		if advice == "" {
			continue
		}
		if failing++; failing <= pathsMax {
			checks = append(checks, session.Check{
				Name: fmt.Sprintf("path validation %s %v", p.Device, p.Address), Level: Warning, Found: p.Text(), Advice: advice,
			})
		}
	}
	switch {
	case failing > pathsMax:
		checks = append(checks, session.Check{
			Name: "path validation", Level: Warning, Found: fmt.Sprintf("%d paths fail, only the first %d are named", failing, pathsMax),
			Advice: "correct what the other checks name, and repeat the check",
		})
	case failing == 0 && len(paths) > 0:
		checks = append(checks, ok("path validation", "no path drops or alters marked packets (%s)", quantity.Count(int64(len(paths)), "path")))
	}
	return checks
}

// advice says what to do about a path that fails; empty: nothing.
func (p Path) advice() string {
	switch p.Found() {
	case validation.ChecksumFailed:
		return fmt.Sprintf("update the driver or firmware of %s, let the kernel compute checksums (ethtool -K %s tx off), or leave %s out of the encodings", p.Device, p.Device, p.Encoding)
	case validation.Failed, validation.Altered:
		clocks := ""
		if p.Tagged {
			clocks = "check that the clocks of both hosts agree; "
		}
		return clocks + fmt.Sprintf("permit packets marked with %s in firewalls and middleboxes, or leave it out of the encodings", p.Encoding)
	case validation.Unanswered:
		return fmt.Sprintf("permit UDP port %d to the peer; without a destination there, ICMP port unreachable from it", wire.ProbePort)
	}
	return ""
}

// checkPort reports other programs that keep agents on this host from answering path probes.
func checkPort(ctx context.Context) []session.Check {
	check := ok("path probes", "no other program holds UDP port %d", wire.ProbePort)
	if holders := validation.PortHolders(); holders != "" {
		for _, loopback := range []string{"127.0.0.1", "::1"} {
			reply, err := validation.Ask(ctx, netip.MustParseAddr(loopback), 0)
			if err == nil && reply != validation.Answered { // a host without the address family gives an error
				check.Level, check.Found = Warning, "path probes to this host are not answered: "+holders
				check.Advice = fmt.Sprintf("end that program, or let it use another port: ss -ulnp 'sport = :%d'", wire.ProbePort)
			}
		}
	}
	return []session.Check{check}
}
