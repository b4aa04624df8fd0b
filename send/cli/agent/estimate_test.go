package agent

import (
	"strings"
	"testing"
)

// TestEstimateRefuses: options that contradict each other or are out of range are refused with the
// cause, before anything is opened.
func TestEstimateRefuses(t *testing.T) {
	const path = "--dev eth0 --to 192.0.2.2"
	for arguments, want := range map[string]string{
		"capacity " + path: "give one of",
		"capacity " + path + " --replies --receive-dev eth1":                "give one of",
		"capacity " + path + " --replies --receive-netns b":                 "--receive-netns",
		"capacity " + path + " --receiver nowhere":                          "--receiver",
		"capacity " + path + " --replies --token-file /dev/null":            "--token-file",
		"capacity " + path + " --receiver 192.0.2.2 --token-file /dev/null": "token",
		"capacity " + path + " --replies --wait 0s":                         "--wait",
		"capacity " + path + " --replies --pairs 0 --trains 0":              "--pairs",
		"capacity " + path + " --replies --count 1":                         "--count",
		"capacity " + path + " --replies --every 0s":                        "--every",
		"capacity " + path + " --replies --size 1515":                       "--size",
		"capacity --replies --dev eth0 --to nowhere":                        "--to",
		"capacity " + path + " --replies --from nowhere":                    "--from",
		"capacity " + path + " --receive-dev eth1 --size 60 --proto icmp":   "--size",
		"available " + path + " --replies --max-rate fast":                  "--max-rate",
		"available " + path + " --replies --packets 9":                      "--packets",
		"available " + path + " --replies --streams 0":                      "--streams",
		"available " + path + " --replies --resolution 0.6":                 "--resolution",
		"available " + path:                    "give one of",
		"hops " + path + " --sizes 2":          "--sizes",
		"hops " + path + " --first 3 --last 2": "--first",
		"hops " + path + " --wait 0s":          "--wait",
	} {
		parser, err := newParser(t)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.Parse(append([]string{"estimate"}, strings.Fields(arguments)...))
		if err != nil {
			t.Errorf("%s: %v", arguments, err)
			continue
		}
		if err := parsed.Run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arguments, err, want)
		}
	}
}
