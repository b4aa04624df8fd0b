package control

import (
	"errors"
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
	if len(c.agents) >= c.Options.Agents {
		c.unenrolled++
		c.mu.Unlock()
		return false, fmt.Errorf("reserve agent name %q: %w: limit of %d agents reached (limits.agents in the server's configuration)", name, ErrState, c.Options.Agents)
	}
	c.addAgent(enrolment{
		Name: name, Serial: certificate.Serial, Key: certificate.Key, Expires: certificate.Expires, Enrolled: c.Now(),
		Token: grant.Token, TokenLabels: maps.Clone(grant.Labels), Site: grant.Site,
	})
	c.changed.agent(name)
	c.mu.Unlock()
	if err := c.commit(func() { c.removeAgent(name) }); err != nil {
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

// Generation returns the generation of the latest certificate of an agent, or 0.
func (c *Control) Generation(name string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.agents[name]; a != nil {
		return authority.Generation(a.Serial)
	}
	return 0
}

// Standing returns why a host with that certificate of the authority is not admitted, or
// nil. The previous certificate is valid until the renewed one is first used. A
// certificate later than all that are recorded, or of a name that is not, was issued
// before the documents were restored from a backup: it is recorded again.
func (c *Control) Standing(name string, certificate authority.Certificate) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, generation := c.agents[name], authority.Generation(certificate.Serial)
	switch {
	case c.Revocations != nil && c.Revocations.AgentRevoked(name, generation), a != nil && a.Revoked:
		return fmt.Errorf("admit agent %q: %w", name, ErrRevoked)
	case a == nil && (c.Revocations == nil || len(c.agents) >= c.Options.Agents):
		return fmt.Errorf("admit agent %q: %w", name, ErrNotFound)
	case a == nil && !c.Leads(), a != nil && !c.Leads() && generation > authority.Generation(a.Serial):
		return nil // the leading server has issued it, or records it
	case a == nil:
		c.recover(c.addAgent(enrolment{Name: name, Enrolled: c.Now()}), certificate)
		return nil
	case a.Key == certificate.Key:
		if a.PreviousKey != "" {
			a.PreviousKey = ""
			c.changed.agent(name)
		}
		return nil
	case certificate.Key != "" && a.PreviousKey == certificate.Key:
		return nil
	case generation > authority.Generation(a.Serial):
		c.recover(a, certificate)
		return nil
	}
	return fmt.Errorf("admit agent %q: %w", name, ErrSuperseded)
}

// recover records a certificate that was issued after the backup from which the documents
// were restored.
func (c *Control) recover(a *agent, certificate authority.Certificate) {
	a.Serial, a.Key, a.Expires = certificate.Serial, certificate.Key, certificate.Expires
	a.PreviousKey = ""
	c.changed.agent(a.Name)
	c.event("agent-recovered", event.Warning, a.Name, "", "the certificate of %s was issued after the backup from which this server was restored, and is accepted; approve its labels again", a.Name)
	c.hurry()
}

// reconcile brings a stored agent and the list of revocations together: the agent may be
// older, from a backup.
func (c *Control) reconcile(e *enrolment) error {
	if c.Revocations == nil {
		return nil
	}
	generation := authority.Generation(e.Serial)
	listed := c.Revocations.AgentRevoked(e.Name, generation)
	if e.Revoked && !listed {
		return c.Revocations.RevokeAgent(e.Name, generation)
	}
	if listed && !e.Revoked {
		e.Revoked = true
		c.changed.agent(e.Name)
	}
	return nil
}

// recordRevocation adds an agent that exists to the list of revocations.
func (c *Control) recordRevocation(name string) error {
	c.mu.Lock()
	a := c.agents[name]
	var generation uint64
	if a != nil {
		generation = authority.Generation(a.Serial)
	}
	c.mu.Unlock()
	if a == nil || c.Revocations == nil {
		return nil
	}
	return c.Revocations.RevokeAgent(name, generation)
}

// ApplyRevocations revokes the agents of a list that are revoked according to the list of
// revocations, to which they were added.
func (c *Control) ApplyRevocations(names []string) error {
	var failed error
	for _, name := range names {
		c.mu.Lock()
		a := c.agents[name]
		apply := a != nil && !a.Revoked && c.Revocations.AgentRevoked(name, authority.Generation(a.Serial))
		c.mu.Unlock()
		if apply {
			failed = errors.Join(failed, c.Revoke(name))
		}
	}
	return failed
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

// Site returns the site for whose agents an agent may send rows; empty: for none.
func (c *Control) Site(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.agents[name]; a != nil && !a.Revoked {
		return a.Site
	}
	return ""
}

// Renewed records the new certificate of an agent. Until it is used, the one that was
// last used stays valid, however often the agent asks for another.
func (c *Control) Renewed(name string, certificate authority.Certificate) error {
	return c.alter("renew certificate of", name, func(a *agent) error {
		if a.Revoked {
			return ErrRevoked
		}
		if a.Key != certificate.Key && a.PreviousKey == "" {
			a.PreviousKey = a.Key
		}
		a.Serial, a.Key, a.Expires = certificate.Serial, certificate.Key, certificate.Expires
		return nil
	})
}
