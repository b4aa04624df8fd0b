package service

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/agent/loader"
	"pillion.dev/agent/policy"
)

func TestConfiguredPoints(t *testing.T) {
	for name, test := range map[string]struct{ text, points, fault string }{
		"default":        {"server: noc\n", "host interfaces clock agent", ""},
		"nmetrics":       {"points: [nmetrics, clock]\n", "nmetrics_cpu nmetrics_memory nmetrics_net nmetrics_process clock", ""},
		"processes":      {"points: [nmetrics]\nprocesses: [iperf3, nginx*, '1']\n", "nmetrics_cpu nmetrics_memory nmetrics_net nmetrics_process", ""},
		"no nmetrics":    {"processes: [iperf3]\n", "", "points: [nmetrics]"},
		"feedback":       {"oml_feedback: aggregate\n", "host interfaces clock agent", ""},
		"bad feedback":   {"oml_feedback: loud\n", "", "slow"},
		"bad process":    {"points: [nmetrics]\nprocesses: ['a[']\n", "", "a["},
		"router":         {"points: [router, clock]\n", "clock", ""},
		"none":           {"points: []\n", "", ""},
		"unknown":        {"points: [weather]\n", "", `point "weather"`},
		"capture":        {"capture: [{device: eth0, filter: udp port 53}, {device: lo}]\n", "host interfaces clock agent", ""},
		"no device":      {"capture: [{filter: udp}]\n", "", "a device"},
		"bad filter":     {"capture: [{device: eth0, filter: udp prot 53}]\n", "", "prot"},
		"bad snap":       {"capture: [{device: eth0, snap: 3}]\n", "", "snapshot length 3"},
		"same device":    {"capture: [{device: eth0}, {device: eth0, filter: tcp}]\n", "", "two captures"},
		"bus":            {"bus: tls://leaf:4222, tls://hub1:4222\n", "host interfaces clock agent", ""},
		"plain bus":      {"bus: nats://leaf:4222\n", "", "want tls://host:port"},
		"misspelled key": {"capture: [{devise: eth0}]\n", "", "devise"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "agent.yaml")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := ReadConfig(path)
			if test.fault != "" {
				if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), test.fault) {
					t.Error(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			points, err := c.hostPoints()
			var names []string
			for _, p := range points {
				names = append(names, p.Name)
			}
			if err != nil || points == nil || strings.Join(names, " ") != test.points {
				t.Errorf("%v, %v", names, err)
			}
		})
	}
}

// TestCaptureUnderAPolicy: an agent whose configuration captures does not start where the
// policy of the host forbids it.
func TestCaptureUnderAPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte("capture: false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	allowed, err := policy.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	config, err := (Config{}).complete()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.privileged(nil, allowed, nil); err != nil {
		t.Errorf("without a capture: %v", err)
	}
	config.Capture = []loader.Capture{{Device: "eth0"}}
	_, err = config.privileged(nil, allowed, nil)
	if want := path + ":1: capture: packets are not captured on this host"; !errors.Is(err, policy.ErrRefused) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestLabelsAreChecked: a label that no server would take is refused at once.
func TestLabelsAreChecked(t *testing.T) {
	for _, labels := range []map[string]string{{"role": "edge,team=x"}, {"bad key": "v"}, {"": "x"}} {
		if _, err := (Config{Labels: labels}).complete(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "repeat --label") {
			t.Errorf("%v: %v", labels, err)
		}
	}
	if _, err := (Config{Labels: map[string]string{"site": "a", "edge": ""}}).complete(); err != nil {
		t.Error(err)
	}
}

// TestReadConfigReportsAll: one reading suffices to correct a file.
func TestReadConfigReportsAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	text := "sevrer: noc\nhost_interval: 1ms\npath_validation: sure\noml_feedback: shout\npoints: [whim]\nlabels: {site: 'a b'}\n" +
		"processes: ['']\nspool_bytes: 1\noml_spool_bytes: 2\nspool: 1\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadConfig(path)
	if !errors.Is(err, ErrConfig) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"line 1: ", "line 10: ", "host interval 1ms", `path_validation "sure"`, "oml_feedback: ", "whim", `label "site=a b"`, "nmetrics", "oml_spool_bytes 2"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
}
