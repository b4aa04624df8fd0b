package lab_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestHostCanMeasure: the agent starts, and its own checks find that the kernel has what probes
// require, and compiles their programs.
func TestHostCanMeasure(t *testing.T) {
	b := up(t, pair)
	version, stderr, code := agent(t, "version")
	if code != 0 || !strings.Contains(version, runtime.Version()) {
		t.Errorf("version: exit code %d, %q, %q", code, version, stderr)
	}
	text := b.exec("a", agentPath, "doctor", "--json", "--data", t.TempDir())
	var checks []struct{ Name, Level, Found string }
	if err := json.Unmarshal([]byte(text), &checks); err != nil {
		t.Fatalf("doctor: %v: %s", err, text)
	}
	found := map[string]string{}
	for _, c := range checks {
		t.Log(c.Level, c.Name, c.Found)
		found[c.Name] = fmt.Sprint(c.Level, ": ", c.Found)
	}
	for name, want := range map[string]string{
		"kernel":                        "ok: Linux ",
		"kernel BPF ring buffer":        "ok: available",
		"kernel bpf_ktime_get_tai_ns":   "ok: available",
		"kernel BPF TCP header options": "ok: available",
		"BPF JIT":                       "ok: enabled",
		"device b":                      "ok: MTU",
		"capabilities":                  "ok: root",
	} {
		if !strings.HasPrefix(found[name], want) {
			t.Errorf("%s: %q, want %q", name, found[name], want)
		}
	}
}
