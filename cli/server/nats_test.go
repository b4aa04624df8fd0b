package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNATS: nats-server accepts the files of a node, with and without other nodes, and of a leaf,
// and all trust one authority.
func TestNATS(t *testing.T) {
	text, err := exec.Command("go", "tool", "-n", "nats-server").Output()
	if err != nil {
		t.Fatal(err)
	}
	program, data := strings.TrimSpace(string(text)), t.TempDir()
	authorities := map[string]bool{}
	for name, command := range map[string]natsCmd{
		"alone":  {Agent: []string{"north"}},
		"listed": {Agent: []string{"north"}, Route: []string{"192.0.2.2:6222", "[2001:db8::3]:6222"}},
		"asks":   {Route: []string{"192.0.2.2:6222", "[2001:db8::3]:6222"}},
		"leaf":   {Leaf: true, Hub: []string{"hub1.example:7422", "hub2.example:7422"}, Agent: []string{"north"}},
	} {
		out := filepath.Join(t.TempDir(), name)
		command.Name, command.Host, command.Data, command.Out = name, []string{"127.0.0.1", "n1.example"}, data, out
		command.Listen, command.ClusterListen, command.LeafListen = "127.0.0.1:4222", "127.0.0.1:6222", "127.0.0.1:7422"
		if err := command.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if said, err := exec.Command(program, "-t", "-c", filepath.Join(out, natsFile)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, said)
		}
		ca, err := os.ReadFile(filepath.Join(out, "ca.crt"))
		if err != nil {
			t.Fatal(err)
		}
		authorities[string(ca)] = true
		if info, err := os.Stat(filepath.Join(out, "node.pem")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: key file %v, %v", name, info, err)
		}
	}
	if len(authorities) != 1 {
		t.Errorf("%d authorities", len(authorities))
	}
	for want, command := range map[string]natsCmd{
		"no hubs":         {Leaf: true},
		"--hub is for":    {Hub: []string{"hub1.example:7422"}},
		"want host:port":  {Leaf: true, Hub: []string{"hub1.example"}},
		"invalid agent n": {Leaf: true, Hub: []string{"hub1.example:7422"}, Agent: []string{"*"}},
	} {
		command.Name, command.Host, command.Data, command.Out, command.Listen = "n", []string{"n.example"}, data, t.TempDir(), "127.0.0.1:4222"
		if err := command.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
