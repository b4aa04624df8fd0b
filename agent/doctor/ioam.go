package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pillion.dev/agent/host"
	"pillion.dev/session"
)

// checkIOAM checks whether packets whose hops are traced would show this host.
func checkIOAM() []session.Check {
	state, err := host.ReadIOAM()
	if err != nil && !errors.Is(err, host.ErrNamespaces) {
		return []session.Check{unknown("ioam", err)}
	}
	return []session.Check{judgeIOAM(state, err == nil)}
}

// judgeIOAM leaves namespaces out unless they are known.
func judgeIOAM(state host.IOAM, namespaces bool) session.Check {
	check := ok("ioam", "off: traces of hops do not show this host if it forwards packets")
	if !state.Available {
		check.Found = "not available (since Linux 5.15): traces of hops do not show this host if it forwards packets"
		return check
	}
	var missing, advice []string
	if state.ID == 0 {
		missing, advice = append(missing, "no identifier is set"), append(advice, "sysctl -w net.ipv6.ioam6_id=0x101 (another one for each router)")
	}
	if len(state.Devices) == 0 {
		missing, advice = append(missing, "it is enabled on no device"), append(advice, "sysctl -w net.ipv6.conf.DEVICE.ioam6_enabled=1 for each device on which packets arrive")
	}
	if namespaces && !slices.Contains(state.Namespaces, 0) {
		missing, advice = append(missing, "there is no namespace 0"), append(advice, "ip ioam namespace add 0")
	}
	if state.ID == 0 && len(state.Devices) == 0 {
		return check
	}
	node := "ioam node"
	if state.ID != 0 {
		node = fmt.Sprintf("ioam node 0x%06x", state.ID)
	}
	if len(state.Devices) > 0 {
		node += " on " + strings.Join(state.Devices, ", ")
	}
	if check.Found = node; len(missing) > 0 {
		check.Level, check.Advice = Warning, strings.Join(advice, "; ")
		check.Found += ": " + strings.Join(missing, ", ") + ", so traces of hops do not show this host"
	}
	return check
}
