package web

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"pillion.dev/archive"
	"pillion.dev/server/control"
	"pillion.dev/session"
)

// scopeFresh is how long the agents that a scope selects are remembered: a change of labels takes effect after it.
const scopeFresh = time.Second

// scopes resolves the scopes of tokens to agents. Whatever cannot be determined is the empty scope, in which there is nothing.
type scopes struct {
	control Control
	now     func() time.Time

	mutex sync.Mutex
	kept  map[string]keptScope // by the name of the token and the selectors
}

// keptScope is a scope as it was at a time.
type keptScope struct {
	*archive.Scope
	at time.Time
}

// scopeOf is the scope of the caller in a context; nil: it has none.
func scopeOf(ctx context.Context) *archive.Scope { return callerOf(ctx).scope }

// of resolves the scope of a token that is valid.
func (s *scopes) of(token string, selectors session.Scope) *archive.Scope {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key, now := token+"\x00"+strings.Join(selectors, "\x00"), s.now()
	if known, has := s.kept[key]; has && now.Sub(known.at) < scopeFresh && !now.Before(known.at) {
		return known.Scope
	}
	for other, known := range s.kept { // of those that are not used any more
		if now.Sub(known.at) > time.Minute {
			delete(s.kept, other)
		}
	}
	resolved := keptScope{Scope: resolveScope(selectors, hostsOf(s.control)), at: now}
	s.kept[key] = resolved
	return resolved.Scope
}

// resolveScope returns the agents and pairs of selectors.
func resolveScope(selectors session.Scope, hosts []session.Host) *archive.Scope {
	agents, links := selectors.Resolve(hosts)
	scope := &archive.Scope{Agents: agents}
	for _, l := range links {
		scope.Links = append(scope.Links, archive.Link{Sources: l.Sources, Destinations: l.Destinations})
	}
	return scope
}

// scopedAgent is what a scope shows of an agent. Its tasks and conflicts name other agents and sessions.
func scopedAgent(a control.Agent) control.Agent {
	a.Tasks, a.AddressConflicts = nil, nil
	return a
}

// hostsOf are the agents as sessions and scopes select them.
func hostsOf(c Control) (hosts []session.Host) {
	for _, a := range c.Agents() {
		hosts = append(hosts, session.Host{Name: a.Name, Labels: a.Labels})
	}
	return hosts
}

// hostsWithin are hosts as a caller knows them: of agents beyond the scope, no labels but those that it names.
func hostsWithin(hosts []session.Host, who caller) []session.Host {
	for i, host := range hosts {
		if who.scope.HasAgent(host.Name) {
			continue
		}
		hosts[i].Labels = map[string]string{}
		for key, value := range host.Labels {
			if who.selectors.Names(key, value) {
				hosts[i].Labels[key] = value
			}
		}
	}
	return hosts
}

// siteWithin is siteOf for what a scope shows: agents beyond it have no site.
func siteWithin(scope *archive.Scope, siteOf func(agent string) string) func(agent string) string {
	return func(agent string) string {
		if !scope.HasAgent(agent) {
			return ""
		}
		return siteOf(agent)
	}
}

// scopedSession is what a scope shows of a session, and whether there is any pair of it. Whatever names other agents, or
// says something about them, is left out.
func scopedSession(s control.Session, hosts []session.Host, scope *archive.Scope) (control.Session, bool) {
	if scope == nil {
		return s, true
	}
	shown := control.Session{
		Spec: s.Spec.HowOnly(), State: s.State, Created: s.Created, NextStart: s.NextStart, Started: s.Started, Ends: s.Ends, Revision: s.Revision,
	}
	pairs := s.Pairs
	if len(pairs) == 0 { // it does not run: those that it would have
		pairs, _, _ = session.Resolve(s.Spec, hosts)
	}
	for _, pair := range pairs {
		if scope.HasPair(pair.Source, pair.Destination) {
			shown.Pairs = append(shown.Pairs, pair)
			shown.Spec.Sources, shown.Spec.Destinations = append(shown.Spec.Sources, pair.Source), append(shown.Spec.Destinations, pair.Destination)
		}
	}
	for _, names := range []*[]string{&shown.Spec.Sources, &shown.Spec.Destinations} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return shown, len(shown.Pairs) > 0
}

// scopedSessions are the sessions with pairs in a scope.
func scopedSessions(c Control, scope *archive.Scope) []control.Session {
	all := c.Sessions()
	if scope == nil {
		return all
	}
	kept, hosts := []control.Session{}, hostsOf(c)
	for _, one := range all {
		if shown, any := scopedSession(one, hosts, scope); any {
			kept = append(kept, shown)
		}
	}
	return kept
}

// scopedRuns are the runs of sessions with pairs in a scope, without the reasons of their ends.
func scopedRuns(c Control, runs []control.Run, scope *archive.Scope) []control.Run {
	if scope == nil {
		return runs
	}
	names := map[string]bool{}
	for _, one := range scopedSessions(c, scope) {
		names[one.Spec.Name] = true
	}
	kept := []control.Run{}
	for _, run := range runs {
		if names[run.Session] {
			run.Reason = ""
			kept = append(kept, run)
		}
	}
	return kept
}

// scopedAgentsAfter is Control.AgentsAfter within a scope.
func scopedAgentsAfter(c Control, scope *archive.Scope, after, label string, most int) (agents []control.Agent, more bool) {
	if scope == nil {
		return c.AgentsAfter(after, label, most)
	}
	all, _ := c.AgentsAfter(after, label, 0)
	for _, a := range all {
		if scope.HasAgent(a.Name) {
			agents = append(agents, scopedAgent(a))
		}
	}
	slices.SortFunc(agents, func(a, b control.Agent) int { return cmp.Compare(a.Name, b.Name) })
	if most > 0 && len(agents) > most {
		return agents[:most], true
	}
	return agents, false
}
