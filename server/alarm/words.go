package alarm

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"pillion.dev/measure/flows"
)

// words names the subject of an alarm.
func (s *Subject) words() string {
	source := s.Source
	if source == "" {
		source = "an unknown source"
	}
	switch {
	case s.Agent != "":
		return s.Agent
	case s.Flow != flows.Flow{}:
		return source + " > " + s.Destination + ", flow " + flowText(s.Flow)
	}
	return source + " > " + s.Destination
}

// flowText names a flow: udp 192.0.2.1:7 > 192.0.2.2:9.
func flowText(f flows.Flow) string {
	end := func(address string, port uint32) string {
		if port == 0 {
			return address
		}
		return net.JoinHostPort(address, strconv.FormatUint(uint64(port), 10))
	}
	return f.Proto + " " + end(f.Src, f.Sport) + " > " + end(f.Dst, f.Dport)
}

// percent formats a share with enough digits to distinguish a small one from zero.
func percent(share float64) string {
	p := share * 100
	switch {
	case p > 0 && p < 0.01:
		return "<0.01 %"
	case p < 1:
		return trimmed(fmt.Sprintf("%.2f", p)) + " %"
	}
	return trimmed(fmt.Sprintf("%.1f", p)) + " %"
}

func trimmed(figure string) string { return strings.TrimRight(strings.TrimRight(figure, "0"), ".") }

// count formats a number with thousands separators.
func count(n uint64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// span formats a duration: 10 s, 2 min 10 s, 3 h 5 min.
func span(d time.Duration) string {
	if d < time.Minute {
		return trimmed(fmt.Sprintf("%.1f", d.Seconds())) + " s"
	}
	big, small, names := d/time.Minute, d%time.Minute/time.Second, [2]string{"min", "s"}
	if d >= time.Hour {
		big, small, names = d/time.Hour, d%time.Hour/time.Minute, [2]string{"h", "min"}
	}
	if small == 0 {
		return fmt.Sprintf("%d %s", big, names[0])
	}
	return fmt.Sprintf("%d %s %d %s", big, names[0], small, names[1])
}
