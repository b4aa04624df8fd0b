package control

import (
	"fmt"
	"maps"

	"pillion.dev/server/authority"
	"pillion.dev/server/event"
	"pillion.dev/session"
)

var _ authority.Registry = (*Control)(nil)

// Claim assigns a name to the host that holds the certificate's key. A name is in use
// until its agent is revoked and deleted; for the host that has it already, the claim is
// a repeated request.
func (c *Control) Claim(name string, certificate authority.Certificate, grant authority.Grant) (joined bool, err error) {
	if !session.ValidName(name) || name == "server" {
		return false, fmt.Errorf("claim agent's name: %w", invalid("name",
			"%.70q cannot be an agent's name: use lowercase letters, digits and inner hyphens, at most 63, but not server", name))
	}
	if c.Holds(name, certificate.Key) {
		return false, c.Renewed(name, certificate)
	}
	c.mu.Lock()
	if c.agents[name] != nil {
		c.mu.Unlock()
		return false, fmt.Errorf("reserve agent name %q: %w", name, ErrExists)
	}
	if len(c.agents) >= agentsMax {
		c.mu.Unlock()
		return false, fmt.Errorf("reserve agent name %q: %w: limit of %d agents reached", name, ErrState, agentsMax)
	}
	c.agents[name] = newAgent(enrolment{
		Name: name, Serial: certificate.Serial, Key: certificate.Key, Expires: certificate.Expires, Enrolled: c.Now(),
		Token: grant.Token, ApprovedLabels: maps.Clone(grant.Labels),
	})
	c.changed.agents = true
	c.mu.Unlock()
	if err := c.commit(func() { delete(c.agents, name) }); err != nil {
		return false, fmt.Errorf("reserve agent name %q: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	with := ""
	if grant.Token != "" {
		with = " with the token " + grant.Token
	}
	c.event("agent-enrolled", event.Info, name, "", "%s has joined%s", name, with)
	return true, nil
}

// Holds reports whether the name is assigned to the host that holds the key.
func (c *Control) Holds(name, key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agents[name]
	return a != nil && !a.Revoked && key != "" && a.Key == key
}

// Standing returns why a host with that certificate is not admitted, or nil. The
// previous certificate is valid until the renewed one is first used.
func (c *Control) Standing(name string, certificate authority.Certificate) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.agents[name]
	switch {
	case a == nil:
		return fmt.Errorf("admit agent %q: %w", name, ErrNotFound)
	case a.Revoked:
		return fmt.Errorf("admit agent %q: %w", name, ErrRevoked)
	case same(a.Serial, a.Key, certificate):
		if a.Previous != "" || a.Key != certificate.Key {
			a.Previous, a.PreviousKey, a.Key = "", "", certificate.Key
			c.changed.agents = true
		}
		return nil
	case a.Previous != "" && same(a.Previous, a.PreviousKey, certificate):
		return nil
	}
	return fmt.Errorf("admit agent %q: %w", name, ErrSuperseded)
}

// Admit returns why batches of an agent are not accepted, or nil.
func (c *Control) Admit(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch a := c.agents[name]; {
	case a == nil:
		return fmt.Errorf("admit agent %q: %w", name, ErrNotFound)
	case a.Revoked:
		return fmt.Errorf("admit agent %q: %w", name, ErrRevoked)
	}
	return nil
}

// same reports whether a recorded certificate has the key of another. Of those that an
// earlier version recorded, only the serial number is known.
func same(serial, key string, certificate authority.Certificate) bool {
	if key == "" {
		return serial == certificate.Serial
	}
	return key == certificate.Key
}

// Renewed records the new certificate of an agent. Until it is used, the one that was
// last used stays valid, however often the agent asks for another.
func (c *Control) Renewed(name string, certificate authority.Certificate) error {
	return c.alter("renew certificate of", name, func(a *agent) error {
		if a.Revoked {
			return ErrRevoked
		}
		if !same(a.Serial, a.Key, certificate) && a.Previous == "" {
			a.Previous, a.PreviousKey = a.Serial, a.Key
		}
		a.Serial, a.Key, a.Expires = certificate.Serial, certificate.Key, certificate.Expires
		return nil
	})
}
