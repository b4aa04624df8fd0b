package doctor

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"pillion.dev/probe/hook"
	"pillion.dev/session"
)

// rights are what the process may do.
type rights struct {
	user int
	// lacking of those that marking and reading marks need.
	lacking []string
	// raw allows raw sockets, as traces need.
	raw bool
}

func checkRights() []session.Check {
	held, err := hook.Capabilities()
	if err != nil {
		return []session.Check{unknown("rights", err)}
	}
	return judgeRights(rights{
		user: os.Geteuid(), lacking: hook.Lacking(held), raw: held&(1<<unix.CAP_NET_RAW) != 0,
	})
}

func judgeRights(r rights) []session.Check {
	who := fmt.Sprintf("user %d", r.user)
	if r.user == 0 {
		who = "root"
	}
	probes := ok("rights", "%s, may load and attach BPF programs", who)
	if len(r.lacking) > 0 {
		probes.Level, probes.Found = Error, fmt.Sprintf("%s without %s", who, strings.Join(r.lacking, ", "))
		probes.Advice = "run as root, or: setcap cap_bpf,cap_net_admin,cap_perfmon,cap_net_raw+ep $(command -v pillion-agent)"
	}
	traces := ok("rights to trace", "%s, may open raw sockets", who)
	if !r.raw {
		traces.Level, traces.Found = Warning, who+" without CAP_NET_RAW: paths cannot be traced"
		traces.Advice = "run as root, or: setcap cap_bpf,cap_net_admin,cap_perfmon,cap_net_raw+ep $(command -v pillion-agent)"
	}
	return []session.Check{probes, traces}
}
