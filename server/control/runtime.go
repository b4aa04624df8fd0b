package control

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/session"
)

// link is the other end of a pair, in one session: the destination that a source marks for, or
// the source whose marks a destination reads.
type link struct{ session, peer string }

// mark is a link that a source may be marking packets for.
type mark struct {
	lease time.Duration
	// renewed is when its lease was last renewed, or could have been.
	renewed time.Time
	// until is set when the source has stopped, to when the last marked packets
	// must have arrived.
	until time.Time
}

// agent is the server's state of one agent.
type agent struct {
	enrolment
	state      session.State
	lastReport time.Time // by the server's clock
	connected  bool
	// former is the instance before the current one.
	former     string
	duplicated time.Time
	// ahead is the difference between its clock and the server's; clockApart: an event said
	// that it is large.
	ahead      time.Duration
	clockApart bool

	// sent is the desired assignment; digest is the hash of sent without the revision.
	sent   session.Assignment
	digest [sha256.Size]byte
	// sources are the links for which the agent marks packets by sent, destinations the links whose marks it reads,
	// by session and source.
	sources, destinations map[link]bool
	// restricted is, by session, why it does not mark or measure as the session asks for.
	restricted map[string]string
	// confirmed: the agent has acknowledged sent.
	confirmed  bool
	mismatches int
	// status are its tasks as it last reported them.
	status []session.TaskState
	// reading is, by session, since when it has reported without a break that it reads marks; covered is the time of its
	// report before the last one.
	reading map[string]time.Time
	covered time.Time
	// asking, retryAt, wait and fault are the state of its delivery.
	asking  bool
	retryAt time.Time
	wait    time.Duration
	hurried time.Time // when it last caused a round
	fault   string
	// marking is every link that it may be marking for, including those whose end it has
	// not confirmed. Destinations read the marks of all of them.
	marking map[link]mark

	// conflicts are its addresses that another agent keeps, and which.
	conflicts map[string]string
	// addresses are its global addresses.
	addresses []string
	// releasing: some links in marking are not in its assignment any more.
	releasing bool

	lastEvent map[string]time.Time // by kind
	// thinning: an event has reported its beginning, and none its end.
	thinning bool
}

func newAgent(e enrolment) *agent {
	return &agent{enrolment: e, marking: map[link]mark{}, reading: map[string]time.Time{}, lastEvent: map[string]time.Time{}, addresses: global(e.Interfaces)}
}

// view returns a copy of one of the agents for callers. What it shares is immutable.
func (a *agent) view(agents map[string]*agent) Agent {
	v := Agent{
		Name: a.Name, Labels: a.labels(), Site: a.Site, State: Away, Enrolled: a.Enrolled, Seen: a.lastReport,
		Started: a.state.Started, Version: a.Version, Kernel: a.Kernel, Interfaces: a.Interfaces,
		Boot: a.state.Boot, IOAMID: a.state.IOAMID, Clock: a.state.Clock, Spool: a.state.Spool, CertificateExpires: a.Expires,
		TokenLabels: maps.Clone(a.TokenLabels), ApprovedLabels: maps.Clone(a.ApprovedLabels), SetLabels: maps.Clone(a.enrolment.Labels),
		ClaimedLabels: a.claimed(), AddressConflicts: a.conflictList(),
	}
	switch {
	case a.Revoked:
		v.State = Revoked
	case a.connected:
		v.State = Connected
	}
	for _, prefix := range a.ApprovedAddresses {
		v.ApprovedAddresses = append(v.ApprovedAddresses, prefix.String())
	}
	v.Tasks = a.tasks(agents)
	return v
}

// tasks returns its tasks as it last reported them, with what limits their assignment, and what of others limits them.
func (a *agent) tasks(agents map[string]*agent) []Task {
	var tasks []Task
	for _, t := range a.status {
		t.Limit = a.explained(t, agents)
		if a.ahead.Abs() > clockApart && (t.Role == roleSource || t.Role == roleDestination) {
			t.Limit = strings.TrimSuffix(a.clockText()+"; "+t.Limit, "; ")
		}
		if why := a.restricted[t.Session]; why != "" && (t.Role == roleSource || t.Role == roleDestination && !a.runs(t.Session, roleSource)) {
			t.Limit = strings.TrimSuffix(why+"; "+t.Limit, "; ")
		}
		tasks = append(tasks, Task{TaskState: t, Agent: a.Name})
	}
	return tasks
}

// explained returns the limit of a task, of a source with why peers cannot prove their addresses.
func (a *agent) explained(t session.TaskState, agents map[string]*agent) string {
	if t.Role != roleSource || t.Counters[session.AddressesUnproven] == 0 {
		return t.Limit
	}
	reasons := map[string]bool{}
	for l := range a.sources {
		if peer := agents[l.peer]; peer != nil && l.session == t.Session {
			for _, other := range peer.status {
				if other.Session == t.Session && other.Unanswered != "" {
					reasons[fmt.Sprintf("; %s on %s: %s", other.Role, l.peer, other.Unanswered)] = true
				}
			}
		}
	}
	return strings.TrimPrefix(t.Limit+strings.Join(slices.Sorted(maps.Keys(reasons)), ""), "; ")
}

// quietly reports whether an event of that kind may be raised now: at most one a minute.
func (a *agent) quietly(kind string, now time.Time) bool {
	if last, ok := a.lastEvent[kind]; ok && now.Sub(last) < quiet {
		return false
	}
	a.lastEvent[kind] = now
	return true
}

// adopt restores the assignment that was sent before the server restarted.
func (a *agent) adopt(sent session.Assignment, now time.Time) {
	a.send(sent, digest(sent))
	a.note(now)
}

// assign sets the desired assignment, with a revision greater than any that the agent has
// seen, even if the server has lost its state.
func (a *agent) assign(next session.Assignment, sum [sha256.Size]byte, now time.Time) {
	next.Revision = max(a.sent.Revision+1, a.state.Revision+1, uint64(now.UnixMilli()))
	a.send(next, sum)
	a.confirmed, a.retryAt, a.wait, a.mismatches = false, time.Time{}, 0, 0
	a.note(now)
}

// send makes an assignment the one to be sent.
func (a *agent) send(next session.Assignment, sum [sha256.Size]byte) {
	a.sent, a.digest, a.releasing = next, sum, true
	a.sources, a.destinations = map[link]bool{}, map[link]bool{}
	for _, task := range next.Sources {
		for _, peer := range task.Peers {
			a.sources[link{task.Session, peer.Agent}] = true
		}
	}
	for _, task := range next.Destinations {
		for _, peer := range task.Peers {
			a.destinations[link{task.Session, peer.Agent}] = true
		}
	}
}

// note records the links of the assignment.
func (a *agent) note(now time.Time) {
	for _, task := range a.sent.Sources {
		for _, peer := range task.Peers {
			l := link{task.Session, peer.Agent}
			a.marking[l] = mark{lease: max(time.Duration(task.Lease), a.marking[l].lease), renewed: now}
		}
	}
}

// renewed records that leases of an assignment may have been renewed until now.
func (a *agent) renewed(sent session.Assignment, now time.Time) {
	for _, task := range sent.Sources {
		for _, peer := range task.Peers {
			l := link{task.Session, peer.Agent}
			if m, marks := a.marking[l]; marks {
				m.renewed = now
				a.marking[l] = m
			}
		}
	}
}

// marksFor reports whether its assignment marks for the link.
func (a *agent) marksFor(l link) bool { return a.sources[l] }

// reads reports whether its assignment reads marks of that source.
func (a *agent) reads(session, source string) bool { return a.destinations[link{session, source}] }

// Roles of tasks.
const (
	roleSource      = "source"
	roleDestination = "destination"
)

// runs reports whether its task of that role runs, wherever it should.
func (a *agent) runs(session, role string) bool {
	found := false
	for _, t := range a.status {
		if t.Session == session && t.Role == role {
			if !t.Running {
				return false
			}
			found = true
		}
	}
	return found
}

// leaseEnd returns when its last lease expires if none is renewed.
func (a *agent) leaseEnd() time.Time {
	var last time.Time
	for _, m := range a.marking {
		if end := m.renewed.Add(m.lease); end.After(last) {
			last = end
		}
	}
	return last
}

// digest identifies an assignment, without its revision.
func digest(a session.Assignment) [sha256.Size]byte {
	a.Revision = 0
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // it has neither cycles nor numbers that JSON cannot represent
	}
	return sha256.Sum256(text)
}
