package runner

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"pillion.dev/probe/source"
	"pillion.dev/session"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// choice is how the packets of a device are marked: the arguments of SetPolicies.
type choice struct {
	policies []source.Policy
	rules    []source.Rule
	targets  []netip.Addr
	// of are the policies that mark the packets of each session.
	of map[string][]int
	// limits say what of a session is united with others.
	limits map[string]string
}

// differs reports whether packets are marked differently.
func (c *choice) differs(o *choice) bool {
	return !reflect.DeepEqual(c.policies, o.policies) || !slices.Equal(c.rules, o.rules) || !slices.Equal(c.targets, o.targets)
}

// policyOf is a policy of sessions as the program has it.
func policyOf(p session.Policy) (source.Policy, error) {
	modules, extra := session.Marked(strings.Split(p.Modules, ","))
	encodings, err := wire.ParseEncodings(p.Encoding)
	if err != nil {
		return source.Policy{}, err
	}
	return source.Policy{Modules: modules, Extra: extra, Encodings: encodings, Tagged: p.Authenticated, Ingress: p.Ingress, Marking: p.Marking}, nil
}

// choose has the BPF program mark packets to the peers that are alive and whose addresses are proven, for each
// session as its task asks.
func (s *deviceSource) choose(pulse session.Pulse) error {
	if err := s.apply(pulse); err != nil {
		return err
	}
	if s.tasks[0].local != nil || len(s.announced) != 0 && !s.anyAlive(pulse) { // the first heartbeat has not come yet
		return nil
	}
	s.announce(pulse) // the program can mark the probes now
	s.awaitPaths()
	return s.apply(pulse)
}

// apply sets the policies and rules that are wanted now.
func (s *deviceSource) apply(pulse session.Pulse) error {
	wanted, err := s.choice(pulse)
	if err != nil {
		return err
	}
	if err := s.collect(); err != nil {
		return err
	}
	if wanted.differs(&s.chosen) {
		if err := s.probe.SetPolicies(wanted.policies, wanted.rules, wanted.targets); err != nil {
			return err
		}
		if s.last, err = s.probe.PolicyTallies(); err != nil {
			return err
		}
	}
	s.chosen = wanted
	return s.setKeys()
}

// setKeys gives the program the keys of its peers, if any marks carry tags.
func (s *deviceSource) setKeys() error {
	if s.tasks[0].local != nil || !slices.ContainsFunc(s.chosen.policies, func(p source.Policy) bool { return p.Tagged }) {
		return nil
	}
	return s.probe.SetKeys(pairKeys(s.tasks))
}

// choice returns the policies and rules of all tasks: a rule for each filter and address if they
// fit, and otherwise, where all sessions mark the same packets in the same way, their filters and
// a table of addresses.
func (s *deviceSource) choice(pulse session.Pulse) (choice, error) {
	if local := s.tasks[0].local; local != nil {
		return localChoice(local), nil
	}
	claims := make([]session.Claim, len(s.tasks))
	var targets []netip.Addr
	same, uniform, wide := true, true, false
	for i, task := range s.tasks {
		addresses := s.admitted(task, pulse)
		targets = append(targets, addresses...)
		same = same && slices.Equal(task.Filters, s.tasks[0].Filters)
		uniform = uniform && task.Policy() == s.tasks[0].Policy()
		wide = wide || len(task.edges) > 0
		claims[i] = session.Claim{Session: task.Session, Policy: task.Policy()}
		prefixes := task.endsOf(addresses)
		if len(prefixes) == 0 || s.holds(task.Session) {
			continue
		}
		filters, err := fivetuple.Combine(task.rules, prefixes)
		if err != nil && !errors.Is(err, fivetuple.ErrFilter) {
			return choice{}, err
		}
		claims[i].Filters = filters
	}
	count := 0
	for _, claim := range claims {
		count += len(claim.Filters)
	}
	if !uniform || count <= source.RulesMax {
		return united(claims)
	}
	if !same {
		return choice{}, fmt.Errorf("choose packets on %q: %d filters and peers are more than %d, and the sessions' filters differ",
			s.device.Name, count, source.RulesMax)
	}
	if wide {
		return choice{}, fmt.Errorf("choose packets on %q: %d filters, peers and prefixes behind them are more than %d; use fewer of them in a session, or an interface for each",
			s.device.Name, count, source.RulesMax)
	}
	first := claims[0]
	if first.Filters = s.tasks[0].rules; len(first.Filters) == 0 {
		first.Filters = []fivetuple.Filter{{}}
	}
	c, err := united([]session.Claim{first})
	if err != nil {
		return choice{}, err
	}
	c.targets = targets
	for _, task := range s.tasks {
		c.of[task.Session] = []int{0}
	}
	return c, nil
}

// localChoice returns the policies and rules of a source that runs without a session.
func localChoice(settings *source.Settings) choice {
	c := choice{policies: []source.Policy{settings.Policy}}
	for _, filter := range settings.Rules {
		c.rules = append(c.rules, source.Rule{Filter: filter})
	}
	return c
}

// united returns the policies and rules that satisfy all claims. The policies of a session whose
// peers are not alive stay, so that they need not be loaded again.
func united(claims []session.Claim) (choice, error) {
	policies, rules, err := session.Unite(claims)
	if err != nil {
		return choice{}, err
	}
	c := choice{rules: rules, of: map[string][]int{}, limits: map[string]string{}}
	for _, rule := range rules {
		for _, claim := range claims {
			if of := c.of[claim.Session]; policies[rule.Policy].Satisfies(claim) && claim.Wants(rule) && !slices.Contains(of, rule.Policy) {
				c.of[claim.Session] = append(of, rule.Policy)
			}
		}
	}
	for _, claim := range claims {
		c.limits[claim.Session] = unitedLimit(claim, policies, c.of[claim.Session])
		if len(policies) < wire.PoliciesMax && !slices.Contains(policies, claim.Policy) {
			policies = append(policies, claim.Policy)
		}
	}
	for _, p := range policies {
		policy, err := policyOf(p)
		if err != nil {
			return choice{}, err
		}
		c.policies = append(c.policies, policy)
	}
	return c, nil
}

// unitedLimit says which packets of a session carry more than it asks for, since another session
// measures them, too; empty: none.
func unitedLimit(claim session.Claim, policies []session.Policy, of []int) string {
	var texts []string
	for _, index := range of {
		p := policies[index]
		if p.Modules != claim.Modules {
			texts = append(texts, "carry the modules "+p.Modules)
		}
		if p.Sampling != claim.Sampling {
			texts = append(texts, "are marked by the sampling of both: "+p.Sampling.String())
		}
	}
	slices.Sort(texts)
	if texts = slices.Compact(texts); len(texts) == 0 {
		return ""
	}
	return "packets that another session measures, too, " + strings.Join(texts, ", ")
}

// collect adds to the counters of sessions what their policies have counted.
func (s *deviceSource) collect() error {
	now, err := s.probe.PolicyTallies()
	if err != nil {
		return err
	}
	counted := map[string]source.PolicyTally{}
	for _, task := range s.tasks {
		sum := s.counted[task.Session]
		for _, index := range s.chosen.of[task.Session] {
			sum.Marked += now[index].Marked - s.last[index].Marked
			sum.NotSampled += now[index].NotSampled - s.last[index].NotSampled
		}
		counted[task.Session] = sum
	}
	s.last, s.counted = now, counted
	s.differed = s.differed || len(s.chosen.policies) > 1
	return nil
}

// hold suspends the marking of sessions that omit tags from now on, until their peers no longer
// require them: those that wrote tags before, and those whose packets others wrote tags into.
func (s *deviceSource) hold(tasks []sourceTask) {
	now := s.now().steady
	for session, until := range s.resume {
		if now >= until {
			delete(s.resume, session)
		}
	}
	for _, before := range s.tasks {
		if !before.Authenticated || slices.ContainsFunc(tasks, func(t sourceTask) bool { return t.Session == before.Session && t.Authenticated }) {
			continue
		}
		for _, task := range tasks {
			if !task.Authenticated && task.Overlaps(before.SourceTask) {
				s.resume[task.Session] = now + untaggedAfter
			}
		}
	}
}

// holds reports whether the marking of a session is suspended.
func (s *deviceSource) holds(session string) bool { return s.now().steady < s.resume[session] }
