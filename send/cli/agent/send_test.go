package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pillion.dev/send/schedule"
)

// TestSendRefuses: options without an effect and values out of range are refused with the
// cause, before anything is opened.
func TestSendRefuses(t *testing.T) {
	capture := filepath.Join(t.TempDir(), "x.pcap")
	file, err := os.Create(capture)
	if err != nil {
		t.Fatal(err)
	}
	if err := schedule.WriteCapture(file, time.Unix(0, 0), func(func(time.Duration, []byte) bool) {}); err != nil {
		t.Fatal(err)
	}
	const to = " --dev none0 --to 192.0.2.2"
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		"train" + to + " --factor 2":                                            "--factor: invalid value: it has no effect with train",
		"train" + to + " --rate 5M":                                             "--rate: invalid value: it has no effect with train, only with rate",
		"rate" + to + " --rate 5M --gap 1ms":                                    "--gap: invalid value: it has no effect with rate",
		"pair" + to + " --count 2":                                              "--count: invalid value: it has no effect with pair",
		"poisson" + to + " --trains 2":                                          "--trains: invalid value: it has no effect with poisson",
		"train" + to + " --every 1s":                                            "--every: invalid value: it needs --trains",
		"train" + to + " --flows 2":                                             "--flows: invalid value: it has no effect with train",
		"train" + to + " --seed 2":                                              "--seed",
		"train" + to + " --speed 2":                                             "--speed: invalid value: it has no effect with train, only with --schedule of a capture",
		"train" + to + " --tcp-flags S":                                         "--tcp-flags: invalid value: it needs --proto tcp",
		"train" + to + " --ip-protocol 9":                                       "--ip-protocol: invalid value: it needs --proto raw",
		"train" + to + " --flow-label 9":                                        "--flow-label: invalid value: it needs an IPv6 destination",
		"train" + to + " --wait 2s":                                             "--wait: invalid value: it needs --replies",
		"train" + to + " --lab x":                                               "--lab: invalid value: it needs --netns",
		"train" + to + " --save - --late 1ms":                                   "--late: invalid value: it needs packets that are sent",
		"train" + to + " --proto tcp-stream --lead 1ms":                         "--lead: invalid value: it needs packets, not --proto tcp-stream",
		"train" + to + " --proto tcp-stream --size 65536":                       "must be 1 to 65535 bytes",
		"train" + to + " --count -5":                                            "-5 packets",
		"periodic" + to + " --count -5":                                         "must not be negative",
		"chirp" + to + " --factor -1":                                           "factor -1",
		"--schedule " + capture + to:                                            "--to: invalid value: it has no effect with --schedule of a capture",
		"--model interval=constant(1ms)":                                        "size= is missing",
		"--model interval=constant(1ms),size=constant(100B)" + to + " --size 3": "--size",
	} {
		parser, err := newParser(t)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(arguments)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], ",size", " size")
		}
		parsed, err := parser.Parse(append([]string{"send"}, words...))
		if err != nil {
			t.Errorf("%s: %v", arguments, err)
			continue
		}
		if err := parsed.Run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arguments, err, want)
		}
	}
}

// TestSendOptionsExist: the tables of options name options of the command.
func TestSendOptionsExist(t *testing.T) {
	parser, err := newParser(t)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, node := range parser.Model.Children {
		if node.Name == "send" {
			for _, flag := range node.Flags {
				known[flag.Name] = true
			}
		}
	}
	var named []string
	for _, row := range sourced {
		named = append(named, row.options...)
	}
	for _, row := range conditional {
		named = append(named, row.options...)
	}
	for _, name := range named {
		if !known[name] {
			t.Errorf("no option --%s", name)
		}
	}
}

// TestSendRemarks: a train that delays the next one is remarked on.
func TestSendRemarks(t *testing.T) {
	for arguments, want := range map[string]int{
		"train --count 101 --trains 2": 0, "train --count 102 --trains 2": 1, "train --count 102": 0,
		"rate --rate 8k --count 3 --trains 2": 1, "pair --trains 1000": 0, "chirp --gap 90ms --trains 2": 1,
	} {
		parser, err := newParser(t)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.Parse(append([]string{"send"}, strings.Fields(arguments)...))
		if err != nil {
			t.Fatal(err)
		}
		command := parsed.Selected().Target.Addr().Interface().(*sendCmd)
		if _, remarks, err := command.pattern(); err != nil || len(remarks) != want {
			t.Errorf("%s: %q, %v", arguments, remarks, err)
		}
	}
}
