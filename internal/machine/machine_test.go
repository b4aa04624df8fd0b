package machine

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestScriptReadsTheSame: the script of a shell yields what is read here, for each shell that
// is installed.
func TestScriptReadsTheSame(t *testing.T) {
	want := Read()
	for _, name := range []string{"kernel", "kernel_build", "host", "machine", "processors", "memory_mb", "boot_options"} {
		if want[name] == "" {
			t.Errorf("no %s in %v", name, want)
		}
	}
	for _, shell := range []string{"sh", "dash", "bash", "busybox"} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil && shell != "sh" {
				return // other shells are a bonus
			}
			arguments := []string{"-c", Script()}
			if shell == "busybox" {
				arguments = append([]string{"sh"}, arguments...)
			}
			text, err := exec.Command(path, arguments...).Output()
			if err != nil {
				t.Fatal(err)
			}
			got, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := exec.LookPath("ethtool"); err != nil { // without it there are no offloads
				maps.DeleteFunc(want, func(name, _ string) bool { return strings.HasPrefix(name, Offloads) })
			}
			if !maps.Equal(got, want) {
				for _, name := range slices.Sorted(maps.Keys(want)) {
					if got[name] != want[name] {
						t.Errorf("%s is %q, want %q", name, got[name], want[name])
					}
				}
				for name := range got {
					if _, known := want[name]; !known {
						t.Errorf("%s is %q, want none", name, got[name])
					}
				}
			}
		})
	}
}

func TestParse(t *testing.T) {
	text := "\x01/proc/sys/kernel/osrelease\n6.1.0-1\n\x01/proc/cmdline\nquiet\x01/sys/devices/system/cpu/vulnerabilities/meltdown\nMitigation: PTI\n" +
		"\x01/etc/os-release\nNAME=x\nPRETTY_NAME=\"Debian 12\"\n\x01/proc/meminfo\nMemTotal:       2048 kB\n\x01/proc/cpuinfo\nprocessor : 0\nmodel name : A B\nprocessor : 1\n" +
		"\x01uname\nx86_64\n\x01ethtool:eth0\nFeatures for eth0:\nrx-checksumming: on [fixed]\n\ttx-udp-segmentation: off\nnetns-local: off\n"
	got, err := Parse([]byte(text))
	want := Facts{"kernel": "6.1.0-1", "boot_options": "quiet", "mitigations.meltdown": "Mitigation: PTI", "system": "Debian 12", "memory_mb": "2",
		"processors": "2", "processor": "A B", "machine": "x86_64", "offloads.eth0.rx-checksum": "on", "offloads.eth0.tx-udp-segmentation": "off"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("read %v, %v, want %v", got, err, want)
	}
	if _, err := Parse([]byte("Permission denied")); err == nil || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("error is %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("\x01/proc/sys/kernel/osrelease\n6.1\n\x01ethtool:eth0\nrx-gro: on\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		facts, err := Parse(text)
		if err != nil {
			return
		}
		if len(facts) > mostFacts || facts["kernel"] == "" {
			t.Errorf("%d facts: %v", len(facts), facts)
		}
		_ = Differences(map[string]Facts{"a": facts, "b": {}})
	})
}

func TestDifferences(t *testing.T) {
	a := Facts{"kernel": "6.1", "host": "a", "governor": "performance", "offloads.eth0.rx-gro": "on"}
	b := Facts{"kernel": "6.8", "host": "b", "offloads.ens1.rx-gro": "off"}
	got := Differences(map[string]Facts{"a": a, "b": b})
	want := []string{"governor: performance of a, none of b", "kernel: 6.1 of a, 6.8 of b", "offloads.rx-gro: on of a, off of b"}
	if !slices.Equal(got, want) {
		t.Errorf("differences are %q, want %q", got, want)
	}
	b["offloads.ens2.rx-gro"] = "on"
	if got := Differences(map[string]Facts{"a": a, "b": b}); len(got) != 2 {
		t.Errorf("devices of a host with several are compared: %q", got)
	}
	if got := Differences(map[string]Facts{"a": a, "old": {"kernel": "6.1", Incomplete: "of an earlier version"}}); got != nil {
		t.Errorf("what is not known of a host differs: %q", got)
	}
	if got := Differences(map[string]Facts{"a": a, "c": a}); got != nil {
		t.Errorf("equal hosts differ: %q", got)
	}
}

func TestBound(t *testing.T) {
	got := Bound(map[string]string{"kernel": "6.1", "evil": "\x1b[2J", strings.Repeat("x", 200): "y", "long": strings.Repeat("x", 3000)})
	if !maps.Equal(got, Facts{"kernel": "6.1"}) {
		t.Errorf("kept %v", got)
	}
}
