package authority

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"testing"

	"pillion.dev/bus"
)

// TestLeaf: the certificate of a leaf says for which agents it speaks; no other certificate is one.
func TestLeaf(t *testing.T) {
	ours, err := OpenKeys(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	others, err := OpenKeys(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	shown := func(text []byte, err error) tls.ConnectionState {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(text, text)
		if err != nil {
			t.Fatal(err)
		}
		return tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.Leaf}}
	}
	for name, row := range map[string]struct {
		state  tls.ConnectionState
		agents []string // nil: refused
	}{
		"some agents":       {shown(ours.IssueLeaf("paris", []string{"leaf.example"}, []string{"north", "south-2"})), []string{"north", "south-2"}},
		"all agents":        {shown(ours.IssueLeaf("paris", []string{"192.0.2.1"}, nil)), []string{bus.AnyAgent}},
		"a hub":             {shown(ours.IssueNode([]string{"paris.leaf.pillion"})), nil},
		"another authority": {shown(others.IssueLeaf("paris", nil, nil)), nil},
		"none":              {tls.ConnectionState{}, nil},
	} {
		agents, err := ours.Leaf(row.state)
		if !slices.Equal(agents, row.agents) || (err == nil) != (row.agents != nil) || err != nil && !errors.Is(err, ErrCertificate) {
			t.Errorf("%s: %v, %v", name, agents, err)
		}
	}
	for _, names := range [][2]string{{"a.b", "north"}, {"paris", "*"}, {"", "north"}} {
		if _, err := ours.IssueLeaf(names[0], nil, []string{names[1]}); err == nil {
			t.Errorf("issued for %q", names)
		}
	}
	if peer, err := ours.VerifyAgent(shown(ours.IssueLeaf("paris", nil, nil))); err == nil {
		t.Errorf("a leaf is the agent %+v", peer)
	}
}
