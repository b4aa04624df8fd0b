package source

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"pillion.dev/probe/flow"
	"pillion.dev/wire/fivetuple"
)

// RulesMax is how many rules there can be at once.
const RulesMax = flow.RulesMax

// Bits of rule_choice in rule.h.
const (
	choiceTable   = 1 << 31
	choiceTargets = 1 << 30
)

// SetRules replaces the rules while traffic flows; no packet sees half of a change, and
// sequence numbers continue. With targets, a packet must also be addressed to one of them. All
// rules have the first policy.
func (s *Source) SetRules(rules []fivetuple.Filter, targets []netip.Addr) error {
	if len(rules) > RulesMax {
		return fmt.Errorf("choose packets: %w: %d rules, at most %d", fivetuple.ErrFilter, len(rules), RulesMax)
	}
	all := make([]Rule, len(rules))
	for i, rule := range rules {
		all[i] = Rule{Filter: rule, Policy: s.places[0]}
	}
	s.filters = rules
	if err := s.choose(all, targets); err != nil {
		return fmt.Errorf("choose packets: %w", err)
	}
	return nil
}

// choose has rules whose policies are indices of variants.
func (s *Source) choose(rules []Rule, targets []netip.Addr) error {
	var both [2 * RulesMax]flow.Rule
	if err := s.objects.Rules.Get(&both); err != nil {
		return err
	}
	choice, first := uint32(len(rules)), 0
	if s.choice&choiceTable == 0 {
		choice, first = choice|choiceTable, RulesMax
	}
	for i, rule := range rules {
		both[first+i] = flow.NewRule(rule.Filter)
		both[first+i].Policy = uint8(rule.Policy)
	}
	if err := s.objects.Rules.Set(both); err != nil {
		return err
	}
	wanted := map[sourceRuleTarget]bool{}
	for _, address := range targets {
		wanted[rawTarget(address)] = true
		choice |= choiceTargets
	}
	if err := s.addTargets(wanted); err != nil {
		return err
	}
	if err := s.objects.RuleChoice.Set(choice); err != nil {
		return err
	}
	s.choice = choice
	if err := errors.Join(s.removeTargets(wanted), s.changed()); err != nil {
		return err
	}
	return s.takeUp()
}

func (s *Source) addTargets(wanted map[sourceRuleTarget]bool) error {
	if s.targets == nil {
		s.targets = map[sourceRuleTarget]bool{}
	}
	for target := range wanted {
		if s.targets[target] {
			continue
		}
		if err := s.objects.Targets.Put(target, uint8(0)); err != nil {
			return fmt.Errorf("add target: %w", err)
		}
		s.targets[target] = true
	}
	return nil
}

func (s *Source) removeTargets(wanted map[sourceRuleTarget]bool) error {
	for target := range s.targets {
		if wanted[target] {
			continue
		}
		if err := s.objects.Targets.Delete(target); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove target: %w", err)
		}
		delete(s.targets, target)
	}
	return nil
}

func rawTarget(address netip.Addr) sourceRuleTarget {
	target := sourceRuleTarget{Address: flow.RawAddress(address), Family: 6}
	if address.Is4() {
		target.Family = 4
	}
	return target
}
