package authority

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"pillion.dev/bus"
)

// agentURN names an agent in the certificate of a leaf.
const agentURN = "urn:pillion:agent:"

// IssueLeaf returns the certificate, and the key, of the NATS server of a site, as IssueNode does.
// The certificate says for which agents the leaf may speak; none: for all.
func (a *Authority) IssueLeaf(name string, hosts, agents []string) ([]byte, error) {
	if !bus.ValidAgent(name) {
		return nil, fmt.Errorf("issue certificate of a leaf: invalid name %.70q", name)
	}
	var of []*url.URL
	for _, agent := range agents {
		if !bus.ValidAgent(agent) {
			return nil, fmt.Errorf("issue certificate of leaf %q: invalid agent name %.70q", name, agent)
		}
		of = append(of, &url.URL{Scheme: "urn", Opaque: strings.TrimPrefix(agentURN, "urn:") + agent})
	}
	return a.issueNode(bus.LeafName(name), hosts, of)
}

// Leaf returns the agents for which a leaf may speak, by its certificate.
func (a *Authority) Leaf(state tls.ConnectionState) (agents []string, err error) {
	if len(state.PeerCertificates) == 0 {
		return nil, fmt.Errorf("%w: no certificate", ErrCertificate)
	}
	leaf := state.PeerCertificates[0]
	refuse := func(reason error) ([]string, error) {
		return nil, fmt.Errorf("%w: leaf %.90q: %w", ErrCertificate, leaf.Subject.CommonName, reason)
	}
	if _, is := bus.LeafOf(leaf.Subject.CommonName); !is || leaf.IsCA || !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return refuse(errors.New("not a leaf"))
	}
	if err := leaf.CheckSignatureFrom(a.certificate); err != nil {
		return refuse(errors.New("not signed by this server's authority"))
	}
	if now := a.options.Now(); now.After(leaf.NotAfter) || now.Before(leaf.NotBefore) {
		return refuse(errors.New("expired or not yet valid"))
	}
	if len(leaf.URIs) == 0 {
		return []string{bus.AnyAgent}, nil
	}
	for _, of := range leaf.URIs {
		agent, is := strings.CutPrefix(of.String(), agentURN)
		if !is || !bus.ValidAgent(agent) {
			return refuse(fmt.Errorf("%.90q is no agent", of))
		}
		agents = append(agents, agent)
	}
	return agents, nil
}
