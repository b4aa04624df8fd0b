package control

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"pillion.dev/server/event"
	"pillion.dev/session"
)

// labels returns the labels by which sessions select the agent: labels of its join token, approved labels, and
// labels that operators set; the latter take precedence. Labels that the agent claims do not count.
func (e *enrolment) labels() map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, e.TokenLabels)
	maps.Copy(labels, e.ApprovedLabels)
	maps.Copy(labels, e.Labels)
	return labels
}

// claimed returns the labels of its own configuration that no session selects it by.
func (a *agent) claimed() map[string]string {
	labels, claimed := a.labels(), map[string]string{}
	for key, value := range a.OwnLabels {
		if approved, found := labels[key]; !found || approved != value {
			claimed[key] = value
		}
	}
	return claimed
}

// approvedOf returns which of the addresses an operator has approved.
func (a *agent) approvedOf(addresses []string) (approved []string) {
	for _, text := range addresses {
		address, err := netip.ParseAddr(text)
		if err == nil && slices.ContainsFunc(a.ApprovedAddresses, func(p netip.Prefix) bool { return p.Contains(address) }) {
			approved = append(approved, text)
		}
	}
	return approved
}

const approvedAddressesMax = 256

// origin says where a label comes from by which sessions select the agent.
func (a *agent) origin(key string) string {
	if _, set := a.Labels[key]; set {
		return "set by an operator"
	}
	if _, approved := a.ApprovedLabels[key]; approved {
		return "approved by an operator"
	}
	return "of the join token " + a.Token
}

// Approve approves labels that an agent claims, by which sessions select it then, and
// addresses or prefixes, which count as its own without a proof. Withdraw lists keys of
// labels, addresses and prefixes that are no longer approved, labels of the join token
// included.
func (c *Control) Approve(name string, labels map[string]string, addresses, withdraw []string) error {
	if err := checkLabels(labels); err != nil {
		return fmt.Errorf("approve agent %q: %w", name, err)
	}
	var prefixes []netip.Prefix
	for i, text := range addresses {
		prefix, err := parsePrefix(text)
		if err != nil {
			return fmt.Errorf("approve agent %q: %w", name, invalid(fmt.Sprintf("addresses[%d]", i), "%v", err))
		}
		prefixes = append(prefixes, prefix)
	}
	err := c.alter("approve", name, func(a *agent) error {
		approved, given, own := maps.Clone(a.ApprovedLabels), maps.Clone(a.TokenLabels), slices.Clone(a.ApprovedAddresses)
		if approved == nil {
			approved = map[string]string{}
		}
		if err := a.checkClaims(labels); err != nil {
			return err
		}
		for i, text := range withdraw {
			prefix, err := parsePrefix(text)
			at := slices.Index(own, prefix)
			_, found := approved[text]
			_, token := given[text]
			switch {
			case found:
				delete(approved, text)
			case token:
				delete(given, text)
			case err == nil && at >= 0:
				own = slices.Delete(own, at, at+1)
			default:
				return invalid(fmt.Sprintf("withdraw[%d]", i), "%.70q is not approved", text)
			}
		}
		maps.Copy(approved, labels)
		for _, prefix := range prefixes {
			if !slices.Contains(own, prefix) {
				own = append(own, prefix)
			}
		}
		if len(approved) > labelsMax || len(own) > approvedAddressesMax {
			return invalid("labels", "%d labels and %d addresses, limits %d and %d", len(approved), len(own), labelsMax, approvedAddressesMax)
		}
		a.ApprovedLabels, a.TokenLabels, a.ApprovedAddresses = approved, given, own
		return nil
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	words := slices.Concat(pairsOf(labels), addresses)
	if len(words) > 0 {
		c.event("agent-approved", event.Info, name, "", "%s of %s approved", strings.Join(words, ", "), name)
	}
	if len(withdraw) > 0 {
		c.event("agent-approved", event.Info, name, "", "%s of %s no longer approved%s", strings.Join(withdraw, ", "), name, c.remaining(name, withdraw))
	}
	return nil
}

// checkClaims returns an error for a label that the agent does not claim: only those need an
// approval.
func (a *agent) checkClaims(labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if own, claims := a.OwnLabels[key]; claims && own == labels[key] {
			continue
		}
		claims := "no label"
		if len(a.OwnLabels) > 0 {
			claims = strings.Join(pairsOf(a.OwnLabels), ", ")
		}
		return invalid("labels["+key+"]", "%s does not claim %s (it claims %s); 'pillion agents label %s %s' sets a label that it does not claim",
			a.Name, key+"="+labels[key], claims, a.Name, key+"="+labels[key])
	}
	return nil
}

// remaining says which of the withdrawn labels the agent still has.
func (c *Control) remaining(name string, withdrawn []string) string {
	a := c.agents[name]
	if a == nil {
		return ""
	}
	text, labels := "", a.labels()
	for _, key := range withdrawn {
		if value, found := labels[key]; found {
			text += fmt.Sprintf("; %s=%s remains: it is %s", key, value, a.origin(key))
		}
	}
	return text
}

func parsePrefix(text string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Masked(), nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%.70q is neither an address nor a prefix, such as 10.0.0.0/24", text)
	}
	return netip.PrefixFrom(address, address.BitLen()), nil
}

// checkLabels validates labels that an operator gives to an agent.
func checkLabels(labels map[string]string) error {
	if len(labels) > labelsMax {
		return invalid("labels", "%d labels, at most %d", len(labels), labelsMax)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if !session.ValidLabel(key, labels[key]) {
			return invalid("labels["+key+"]",
				"%q: use letters, digits and ._/- inside, at most 63 for key and value", key+"="+labels[key])
		}
	}
	return nil
}

func pairsOf(labels map[string]string) (pairs []string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return pairs
}

// claim raises an event when an agent begins to claim labels that are not approved.
func (c *Control) claim(a *agent, before map[string]string) {
	claimed, replaced := a.claimed(), ""
	for _, key := range slices.Sorted(maps.Keys(claimed)) {
		if value, found := a.labels()[key]; found {
			replaced += fmt.Sprintf("; it would replace %s=%s, which is %s", key, value, a.origin(key))
		}
	}
	if len(claimed) > 0 && !maps.Equal(a.OwnLabels, before) && a.quietly("label-unapproved", c.Now()) {
		c.event("label-unapproved", event.Info, a.Name, "",
			"%s claims %s, by which no session selects it: pillion agents approve %s %s%s", a.Name,
			strings.Join(pairsOf(claimed), ", "), a.Name, strings.Join(pairsOf(claimed), " "), replaced)
	}
}
