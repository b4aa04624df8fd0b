package doctor

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"pillion.dev/probe/hook"
	"pillion.dev/session"
)

// privileges are the user ID and the missing capabilities of this process.
type privileges struct {
	user int
	// lacking are missing capabilities that the BPF programs need.
	lacking []string
	// raw allows raw sockets, as path traces need.
	raw bool
}

func checkCapabilities() []session.Check {
	held, err := hook.Capabilities()
	if err != nil {
		return []session.Check{unknown("capabilities", err)}
	}
	return judgeCapabilities(privileges{
		user: os.Geteuid(), lacking: hook.Lacking(held), raw: held&(1<<unix.CAP_NET_RAW) != 0,
	})
}

const capabilityAdvice = "run as root, or: setcap cap_bpf,cap_net_admin,cap_perfmon,cap_net_raw,cap_sys_nice+ep $(command -v pillion-agent)"

func judgeCapabilities(p privileges) []session.Check {
	user := fmt.Sprintf("user %d", p.user)
	if p.user == 0 {
		user = "root"
	}
	probes := ok("capabilities", "%s may load and attach BPF programs", user)
	if len(p.lacking) > 0 {
		probes = session.Check{
			Name: probes.Name, Level: Error, Advice: capabilityAdvice,
			Found: fmt.Sprintf("%s lacks %s", user, strings.Join(p.lacking, ", ")),
		}
	}
	traces := ok("raw sockets", "%s may open raw sockets", user)
	if !p.raw {
		traces = session.Check{
			Name: traces.Name, Level: Warning, Advice: capabilityAdvice, Found: user + " lacks CAP_NET_RAW: paths cannot be traced",
		}
	}
	return []session.Check{probes, traces}
}
