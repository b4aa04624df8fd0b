package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNATS: nats-server accepts the files of a node, with and without other nodes, and all nodes
// trust one authority.
func TestNATS(t *testing.T) {
	text, err := exec.Command("go", "tool", "-n", "nats-server").Output()
	if err != nil {
		t.Fatal(err)
	}
	program, data := strings.TrimSpace(string(text)), t.TempDir()
	authorities := map[string]bool{}
	for name, routes := range map[string][]string{"alone": nil, "n1": {"192.0.2.2:6222", "[2001:db8::3]:6222"}} {
		out := filepath.Join(t.TempDir(), name)
		command := &natsCmd{
			Name: name, Host: []string{"127.0.0.1", "n1.example"}, Route: routes, Agent: []string{"north"},
			Listen: "127.0.0.1:4222", ClusterListen: "127.0.0.1:6222", Data: data, Out: out,
		}
		if err := command.Run(); err != nil {
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
}
