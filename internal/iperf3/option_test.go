package iperf3

import (
	"slices"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	for text, want := range map[string][]Option{
		"-uc h -p 5":               {{Name: "u"}, {Name: "c", Value: "h"}, {Name: "p", Value: "5"}},
		"-s1p7":                    {{Name: "s"}, {Name: "1"}, {Name: "p", Value: "7"}},
		"-c h -u -b1M":             {{Name: "c", Value: "h"}, {Name: "u"}, {Name: "b", Value: "1M"}},
		"-T -u -c h":               {{Name: "T", Value: "-u"}, {Name: "c", Value: "h"}},
		"--port=7 --port 8 --udp":  {{Name: "p", Value: "7"}, {Name: "p", Value: "8"}, {Name: "u"}},
		"--title --udp x --server": {{Name: "title", Value: "--udp"}, {Name: "s"}},
		"--bidir --fq-rate 1 -":    {{Name: "bidir"}, {Name: "fq-rate", Value: "1"}},
		"-u -- -s":                 {{Name: "u"}},
		"-u -":                     {{Name: "u"}},
		"-u -p":                    {{Name: "u"}, {Name: "p"}},
		"--logfile":                {{Name: "logfile"}},
		"":                         nil,
	} {
		if got := Options(strings.Fields(text)); !slices.Equal(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
