package lab_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/lab"
)

// TestRun: commands of a host run in it and end with the lab, with all their child
// processes; their output is in a log.
func TestRun(t *testing.T) {
	b := up(t, `
hosts:
  a: {run: ["ip -o address show dev b", "sleep 1000 & wait", "exit 3"]}
  b: {}
links: [{ends: [a, b]}]
`)
	eventually(t, "the address in the log", func() bool {
		text, err := os.ReadFile(b.path("run-a.log"))
		return err == nil && strings.Contains(string(text), "10.77.1.1/24")
	})
	inside := b.where("a")
	sleeping := func() (found []string) {
		commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range commands {
			text, _ := os.ReadFile(path)
			if where, _ := os.Readlink(filepath.Join(filepath.Dir(path), "ns/net")); strings.HasPrefix(string(text), "sleep\x001000\x00") && where == inside {
				found = append(found, path)
			}
		}
		return found
	}
	eventually(t, "the command to run", func() bool { return len(sleeping()) == 1 })
	process := filepath.Dir(sleeping()[0])
	if err := lab.Down(context.Background(), b.Spec.Name); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command to end", func() bool { _, err := os.Stat(process); return err != nil })
	expectGone(t, b.Spec.Name)
}

// where returns a host's network namespace as named in /proc.
func (b *bed) where(host string) (name string) {
	b.do(host, func() (err error) {
		name, err = os.Readlink("/proc/thread-self/ns/net")
		return err
	})
	return name
}
