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

// labels returns those by which sessions select the agent: approved ones, and those that
// operators set, which take precedence. What it says of itself does not count.
func (a *agent) labels() map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, a.ApprovedLabels)
	maps.Copy(labels, a.Labels)
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

// approvedOf returns those of the addresses that an operator has approved.
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

// Approve approves labels of an agent, by which sessions select it then, and addresses or
// prefixes, which count as its own without a proof. Withdraw lists keys of labels, addresses
// and prefixes that are no longer approved.
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
		approved, own := maps.Clone(a.ApprovedLabels), slices.Clone(a.ApprovedAddresses)
		if approved == nil {
			approved = map[string]string{}
		}
		for i, text := range withdraw {
			prefix, err := parsePrefix(text)
			at := slices.Index(own, prefix)
			switch _, found := approved[text]; {
			case found:
				delete(approved, text)
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
		a.ApprovedLabels, a.ApprovedAddresses = approved, own
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
		c.event("agent-approved", event.Info, name, "", "%s of %s no longer approved", strings.Join(withdraw, ", "), name)
	}
	return nil
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
	claimed := a.claimed()
	if len(claimed) > 0 && !maps.Equal(a.OwnLabels, before) && a.quietly("label-unapproved", c.Now()) {
		c.event("label-unapproved", event.Info, a.Name, "",
			"%s claims %s, by which no session selects it: pillion agents approve %s %s", a.Name,
			strings.Join(pairsOf(claimed), ", "), a.Name, strings.Join(pairsOf(claimed), " "))
	}
}
