package iperf3

import (
	"cmp"
	"slices"
	"strings"
)

// Option is an option of a command line: the short letter if it has one, otherwise the long
// name. A value that is missing is empty.
type Option struct{ Name, Value string }

// shortValues are the letters of options with a value, in iperf3's call of getopt_long.
const shortValues = "pficbtnklPwBMSLOFATCIX"

// letters of long names.
var letters = map[string]string{"port": "p", "server": "s", "udp": "u"}

// longValues are the other long names of options with a value.
var longValues = strings.Fields(`format interval client bitrate bandwidth server-bitrate-limit server-max-duration time bytes blockcount
	length parallel window bind bind-dev cport set-mss tos dscp extra-data flowlabel omit file affinity title congestion linux-congestion
	nstreams xbind pidfile logfile username rsa-public-key-path rsa-private-key-path authorized-users-path time-skew-threshold fq-rate
	pacing-timer connect-timeout idle-timeout rcv-timeout snd-timeout`)

// Options splits arguments as getopt_long does: letters share a dash, and a value may follow
// directly. It does not know shortened long names.
func Options(args []string) (options []Option) {
	for len(args) > 0 && args[0] != "--" {
		long, isLong := strings.CutPrefix(args[0], "--")
		short, isShort := strings.CutPrefix(args[0], "-")
		args = args[1:]
		var valued, attached bool
		switch {
		case isLong:
			var o Option
			o.Name, o.Value, attached = strings.Cut(long, "=")
			valued = o.Name == "port" || slices.Contains(longValues, o.Name)
			o.Name = cmp.Or(letters[o.Name], o.Name)
			options = append(options, o)
		case isShort:
			for short != "" && !valued {
				o := Option{Name: short[:1]}
				short = short[1:]
				if valued = strings.Contains(shortValues, o.Name); valued {
					o.Value, attached = short, short != ""
				}
				options = append(options, o)
			}
		}
		if valued && !attached && len(args) > 0 {
			options[len(options)-1].Value, args = args[0], args[1:]
		}
	}
	return options
}
