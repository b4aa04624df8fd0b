package control

import (
	"net/netip"
	"slices"
)

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
