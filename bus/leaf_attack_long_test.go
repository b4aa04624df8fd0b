//go:build long

package bus_test

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestLongOtherCertificates: the certificate of a leaf is not that of an agent, and that of an agent
// not that of a leaf.
func TestLongOtherCertificates(t *testing.T) {
	s := startSite(t)
	refused := func(certificate tls.Certificate) bool {
		config := s.cluster.ServerTLS()
		config.Certificates = []tls.Certificate{certificate}
		conn, err := nats.Connect(s.cluster.URL(), nats.Secure(config))
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, nats.ErrAuthorization)
	}
	if !refused(s.leaf.Certificate()) {
		t.Error("a leaf connects as a client")
	}
	agent := s.cluster.TLS("north").Certificates[0]
	if refused(agent) {
		t.Error("an agent is refused")
	}
	node, err := tls.LoadX509KeyPair(s.cluster.NodeFile(), s.cluster.NodeFile())
	if err != nil {
		t.Fatal(err)
	}
	if !s.joins(node) {
		t.Error("a hub is no hub")
	}
	for name, certificate := range map[string]tls.Certificate{"an agent": agent, "a leaf": s.leaf.Certificate()} {
		if s.joins(certificate) {
			t.Errorf("%s joins the hubs as one of them", name)
		}
	}
	n, _ := s.rogue(agent)
	eventually(t, "the hubs refuse the agent as a leaf", func() bool { return strings.Contains(s.cluster.Log(), "allowed to use connection type") })
	if n.NumLeafNodes() > 0 {
		t.Error("an agent connects as a leaf")
	}
}
