package iperf3

import "strings"

// Option is an option of a command line: the short letter if it has one, otherwise the long
// name.
type Option struct {
	Name, Value string
	// Missing is set if the option needs a value and has none.
	Missing bool
}

// shortValues are the letters of options with a value, in iperf3's call of getopt_long.
const shortValues = "pficbtnklPwBMSLOFATCIX"

// longOptions are the long names with the letter, if any; those of shortValues and those marked
// with = have a value.
var longOptions = strings.Fields(`port:p format:f interval:i daemon:D one-off:1 verbose:V json:J json-stream json-stream-full-output
	version:v server:s client:c udp:u bitrate:b bandwidth:b server-bitrate-limit= server-max-duration= time:t bytes:n blockcount:k length:l
	parallel:P reverse:R bidir window:w bind:B bind-dev= cport= set-mss:M no-delay:N version4:4 version6:6 tos:S dscp= extra-data=
	flowlabel:L zerocopy:Z omit:O file:F repeating-payload timestamps affinity:A title:T congestion:C linux-congestion:C sctp nstreams=
	xbind:X pidfile:I logfile= forceflush get-server-output udp-counters-64bit no-fq-socket-pacing dont-fragment skip-rx-copy username=
	rsa-public-key-path= rsa-private-key-path= authorized-users-path= time-skew-threshold= use-pkcs1-padding fq-rate= pacing-timer=
	connect-timeout= idle-timeout= rcv-timeout= snd-timeout= cntl-ka mptcp:m gsro debug:d help:h`)

// Options splits arguments as getopt_long does: letters share a dash, a value may follow
// directly, and long names may be shortened. Unknown and ambiguous names are left out, since
// iperf3 refuses them.
func Options(args []string) (options []Option) {
	next := func(attached string, has bool) (string, bool) {
		if has {
			return attached, false
		}
		if len(args) == 0 {
			return "", true
		}
		attached, args = args[0], args[1:]
		return attached, false
	}
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		long, isLong := strings.CutPrefix(arg, "--")
		switch {
		case isLong && long == "":
			return options
		case isLong:
			long, attached, has := strings.Cut(long, "=")
			name, valued := longOption(long)
			if name == "" {
				continue
			}
			o := Option{Name: name, Value: attached}
			if valued {
				o.Value, o.Missing = next(attached, has)
			}
			options = append(options, o)
		case len(arg) > 1 && arg[0] == '-':
			for letters := arg[1:]; letters != ""; {
				o := Option{Name: letters[:1]}
				letters = letters[1:]
				if strings.Contains(shortValues, o.Name) {
					o.Value, o.Missing = next(letters, letters != "")
					letters = ""
				}
				options = append(options, o)
			}
		}
	}
	return options
}

// longOption finds a name, or the only one that begins so.
func longOption(text string) (name string, valued bool) {
	for _, entry := range longOptions {
		long, letter, _ := strings.Cut(strings.TrimSuffix(entry, "="), ":")
		if !strings.HasPrefix(long, text) {
			continue
		}
		known := letter
		if known == "" {
			known = long
		}
		has := strings.HasSuffix(entry, "=") || letter != "" && strings.Contains(shortValues, letter)
		if long == text {
			return known, has
		}
		if name != "" && name != known {
			name = "?"
		} else {
			name, valued = known, has
		}
	}
	if name == "?" {
		return "", false
	}
	return name, valued
}
