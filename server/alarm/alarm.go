// Package alarm evaluates the rules of alarms: loss and delay of pairs of hosts, marked packets of which none arrives,
// agents that do not report, and changes of paths. It keeps active alarms, who has acknowledged them, and silences.
//
// It sees rows as they are stored and keeps short windows of sums for each pair. Rows come from agents and are not
// trusted: impossible values are ignored, and all state is bounded. All servers of a fleet evaluate the same rows; the
// leading one alone raises alarms, and keeps them in the state that they share, so that the next one continues with them.
// It notifies nobody: package notify does.
package alarm

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"pillion.dev/measure/flows"
)

// Subject is what an alarm is about: a pair of agents in a session, a flow of a pair, or an agent.
type Subject struct {
	Session     string     `json:"session,omitempty"`
	Source      string     `json:"source,omitempty"`
	Destination string     `json:"destination,omitempty"`
	Agent       string     `json:"agent,omitempty"`
	Flow        flows.Flow `json:"flow,omitzero"`
}

// pair is the subject of the pair of a flow.
func (s Subject) pair() Subject {
	s.Flow = flows.Flow{}
	return s
}

// key is a rule and what it is evaluated for.
type key struct {
	rule string
	Subject
}

// Alarm is one that is active, or has ended lately. What it points to is not changed.
type Alarm struct {
	// ID is the fingerprint of the labels but the sites of the agents, which can change.
	ID   string `json:"id"`
	Rule string `json:"rule"`
	Subject
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Summary says in a sentence what was found when it began, and Ending when it ended.
	Summary string `json:"summary"`
	Ending  string `json:"ending,omitempty"`
	// Began is when the condition began to hold; Ended is zero while it is active.
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	// Shown: an event was raised, so that its end raises one.
	Shown bool `json:"shown,omitempty"`
	// Acknowledged is by whom, or nil.
	Acknowledged *Acknowledgement `json:"acknowledged,omitempty"`
	// SilencedBy are the active silences that match its labels.
	SilencedBy []string `json:"-"`
}

// Acknowledgement says that somebody looks after an alarm: it is not repeated.
type Acknowledgement struct {
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	Comment string    `json:"comment,omitempty"`
}

// Active reports whether the alarm has not ended.
func (a *Alarm) Active() bool { return a.Ended.IsZero() }

func (a *Alarm) key() key { return key{a.Rule, a.Subject} }

// Labels of alarms.
const (
	labelName            = "alertname"
	labelSeverity        = "severity"
	labelSession         = "session"
	labelSource          = "source"
	labelDestination     = "destination"
	labelSourceSite      = "source_site"
	labelDestinationSite = "destination_site"
	labelAgent           = "agent"
	labelFlow            = "flow"

	annotationSummary = "summary"
)

// labelsOf returns the labels of an alarm; site returns the site of an agent, or nothing.
func labelsOf(rule *Rule, s Subject, site func(agent string) string) map[string]string {
	labels := maps.Clone(rule.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for name, value := range map[string]string{
		labelName: rule.Name, labelSeverity: rule.Severity, labelSession: s.Session, labelSource: s.Source, labelDestination: s.Destination,
		labelAgent: s.Agent, labelSourceSite: site(s.Source), labelDestinationSite: site(s.Destination),
	} {
		if value != "" {
			labels[name] = value
		}
	}
	if s.Flow != (flows.Flow{}) {
		labels[labelFlow] = flowText(s.Flow)
	}
	return labels
}

// idOf returns the identifier of an alarm.
func idOf(rule *Rule, s Subject) string {
	return Fingerprint(labelsOf(rule, s, func(string) string { return "" }))
}

// HideSites drops the sites of the agents that are hidden from the labels.
func (a *Alarm) HideSites(hidden func(agent string) bool) {
	a.Labels = maps.Clone(a.Labels)
	if hidden(a.Source) {
		delete(a.Labels, labelSourceSite)
	}
	if hidden(a.Destination) {
		delete(a.Labels, labelDestinationSite)
	}
}

// Fingerprint identifies labels, as Prometheus and Alertmanager do: 64-bit FNV-1a of the sorted names and values.
func Fingerprint(labels map[string]string) string {
	sum := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		sum.Write([]byte(name))
		sum.Write([]byte{0xff})
		sum.Write([]byte(labels[name]))
		sum.Write([]byte{0xff})
	}
	return fmt.Sprintf("%016x", sum.Sum64())
}
