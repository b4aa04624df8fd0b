package archive

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pillion.dev/measure"
)

// ErrScope is a question that cannot be limited to a scope, or is not about anything in it.
var ErrScope = errors.New("not available within a scope")

// Scope limits a question to the rows of some agents and pairs of agents. A nil scope does not limit; an
// empty one permits no row.
type Scope struct {
	// Agents own the rows that are about one host. Sorted.
	Agents []string
	// Links are the pairs whose rows may be read.
	Links []Link
}

// Link is every pair of a source and a destination of these. Both are sorted.
type Link struct{ Sources, Destinations []string }

// HasAgent reports whether rows of an agent are in the scope.
func (s *Scope) HasAgent(name string) bool { return s == nil || has(s.Agents, name) }

// HasPair reports whether rows of a pair of agents are in the scope.
func (s *Scope) HasPair(source, destination string) bool {
	return s == nil || slices.ContainsFunc(s.Links, func(l Link) bool { return has(l.Sources, source) && has(l.Destinations, destination) })
}

// Ends are the agents at the ends of its pairs that are not in the scope themselves. Sorted.
func (s *Scope) Ends() (names []string) {
	if s == nil {
		return nil
	}
	for _, l := range s.Links {
		if len(l.Sources) == 0 || len(l.Destinations) == 0 {
			continue
		}
		for _, name := range slices.Concat(l.Sources, l.Destinations) {
			if !s.HasAgent(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// And is the scope of what both permit.
func (s *Scope) And(o *Scope) *Scope {
	if s == nil {
		return o
	}
	if o == nil {
		return s
	}
	both := &Scope{Agents: common(s.Agents, o.Agents)}
	for _, one := range s.Links {
		for _, other := range o.Links {
			l := Link{Sources: common(one.Sources, other.Sources), Destinations: common(one.Destinations, other.Destinations)}
			if len(l.Sources) > 0 && len(l.Destinations) > 0 {
				both.Links = append(both.Links, l)
			}
		}
	}
	return both
}

func common(names, sorted []string) (both []string) {
	for _, name := range names {
		if has(sorted, name) {
			both = append(both, name)
		}
	}
	return both
}

func has(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}

// Equal reports whether both permit the same, written the same way.
func (s *Scope) Equal(o *Scope) bool {
	if s == nil || o == nil {
		return s == o
	}
	return slices.Equal(s.Agents, o.Agents) && slices.EqualFunc(s.Links, o.Links, func(a, b Link) bool {
		return slices.Equal(a.Sources, b.Sources) && slices.Equal(a.Destinations, b.Destinations)
	})
}

// Ownership says to whom the rows of a stream belong, by its columns.
type Ownership struct {
	// Source and Destination are the columns of the agents of a pair. Without a destination, rows belong to the agent in
	// the column Source; without either, to nobody in a scope.
	Source, Destination string
	// Alone: a row without a destination belongs to its source.
	Alone bool
	// Either: a row belongs to the pair in both directions.
	Either bool
	// Kinds are the only values of the column kind with which a row belongs to somebody; none: all.
	Kinds []string
}

// ofAgent is the ownership of streams about the host that delivers them.
var ofAgent = Ownership{Source: AgentColumn}

// eventKinds are the kinds of events whose messages name only their subjects.
var eventKinds = []string{
	"agent-connected", "agent-lost", "agent-recovered", "agent-revoked", "batch-rejected", "clock-agrees", "clock-apart",
	"clock-synchronised", "clock-unsynchronised", "loss", "loss-ended", "spool-damaged", "spool-disk", "spool-dropped", "thinning", "thinning-ended",
}

// ownerships of the standard streams. A new one has to be declared here: until then its rows are in no scope.
var ownerships = map[string]Ownership{
	measure.Flows.Name:       {Source: "source", Destination: AgentColumn},
	measure.Packets.Name:     {Source: "source", Destination: AgentColumn},
	measure.HopDelays.Name:   {Source: "source", Destination: AgentColumn},
	"flows_1m":               {Source: "source", Destination: AgentColumn}, // roll-ups, as streams
	"flows_1h":               {Source: "source", Destination: AgentColumn},
	"flows_6h":               {Source: "source", Destination: AgentColumn},
	measure.ClockPairs.Name:  {Source: "source", Destination: "destination", Either: true},
	measure.Sent.Name:        {Source: AgentColumn, Destination: "peer", Alone: true},
	measure.RoundTrips.Name:  {Source: AgentColumn, Destination: "peer", Alone: true},
	measure.Hops.Name:        {Source: AgentColumn, Destination: "peer", Alone: true},
	measure.Send.Name:        {Source: AgentColumn, Destination: "destination", Alone: true},
	measure.SendPackets.Name: {Source: AgentColumn, Destination: "destination", Alone: true},
	measure.Events.Name:      {Source: "about", Destination: "peer", Alone: true, Kinds: eventKinds},
	measure.Audit.Name:       {},
	"segments":               {}, // names agents on the way
	measure.Router.Name:      ofAgent, measure.RouterQueues.Name: ofAgent, measure.RouterBreaks.Name: ofAgent,
	measure.RouterAccount.Name: ofAgent, measure.RouterPackets.Name: ofAgent, measure.Clock.Name: ofAgent, measure.Host.Name: ofAgent,
	measure.Interfaces.Name: ofAgent, measure.Agent.Name: ofAgent, measure.Pods.Name: ofAgent,
}

// OwnershipOf returns the ownership of a stream. Rows of applications belong to the agent that delivered them.
func OwnershipOf(s *measure.Schema) Ownership {
	o, declared := ownerships[s.Name]
	if !declared && measure.FindStandard(s.Name) == nil {
		return ofAgent
	}
	for _, column := range []string{o.Source, o.Destination} {
		if column != "" && column != AgentColumn && s.Index(column) < 0 { // another stream of the name
			return Ownership{}
		}
	}
	return o
}

// Owns reports whether a row is in the scope, by the texts of its columns; null is the empty text.
func (s *Scope) Owns(o Ownership, text func(column string) string) bool {
	if s == nil {
		return true
	}
	if o.Source == "" || len(o.Kinds) > 0 && !slices.Contains(o.Kinds, text("kind")) {
		return false
	}
	source := text(o.Source)
	if o.Destination == "" {
		return s.HasAgent(source)
	}
	destination := text(o.Destination)
	return s.HasPair(source, destination) || o.Either && s.HasPair(destination, source) || o.Alone && destination == "" && s.HasAgent(source)
}

// Term is Owns in SQL, empty for a nil scope. in is the SQL that is true if the text of a column, null as the empty text, is
// one of a list, which is not empty. It is called in the order of the SQL.
func (s *Scope) Term(o Ownership, in func(column string, list []string) string) string {
	if s == nil {
		return ""
	}
	agents, links := s.Agents, slices.DeleteFunc(slices.Clone(s.Links), func(l Link) bool { return len(l.Sources) == 0 || len(l.Destinations) == 0 })
	if o.Destination != "" && !o.Alone {
		agents = nil
	}
	if o.Destination == "" {
		links = nil
	}
	if o.Source == "" || len(agents) == 0 && len(links) == 0 {
		return "1 = 0"
	}
	kinds := ""
	if len(o.Kinds) > 0 {
		kinds = in("kind", o.Kinds) + " AND "
	}
	var terms []string
	if len(agents) > 0 {
		terms = append(terms, in(o.Source, agents))
		if o.Destination != "" {
			terms[0] = "(" + terms[0] + " AND " + in(o.Destination, []string{""}) + ")"
		}
	}
	for _, l := range links {
		terms = append(terms, fmt.Sprintf("(%s AND %s)", in(o.Source, l.Sources), in(o.Destination, l.Destinations)))
		if o.Either {
			terms = append(terms, fmt.Sprintf("(%s AND %s)", in(o.Destination, l.Sources), in(o.Source, l.Destinations)))
		}
	}
	return "(" + kinds + "(" + strings.Join(terms, " OR ") + "))"
}
