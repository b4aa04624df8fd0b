package session

import (
	"cmp"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// FlowTable is how a destination of a session tells flows apart and keeps them.
type FlowTable struct {
	// Flow are the fields in which two flows differ; 0: all.
	Flow fivetuple.Fields `json:"flow,omitzero"`
	// Flows is the size of the table; 0: the agent's default.
	Flows uint32 `json:"flows,omitempty"`
	// Idle is how long a flow stays in the table without a packet; 0: the agent's default.
	Idle Duration `json:"idle,omitzero"`
}

// Fields are the fields in which two flows differ.
func (t FlowTable) Fields() fivetuple.Fields { return cmp.Or(t.Flow, fivetuple.All) }

// pairFields are those without which a row does not name the pair of hosts that it is about.
const pairFields = fivetuple.Src | fivetuple.Dst

// IdleAtDestination is how long a destination keeps a flow without a packet: longer than its
// source, so that one which goes on at the source is not a new one there. 0: no value is given.
func (s *Spec) IdleAtDestination() Duration { return 2 * s.Idle }

// flowTable is the table of a destination; it has no value where that is the agent's default.
func (s Spec) flowTable() FlowTable {
	own := s.marking("")
	t := FlowTable{Flow: own.Flow, Flows: s.Flows}
	if own.Idle != 0 {
		t.Idle = s.IdleAtDestination()
	}
	return t
}

// flows checks how flows are told apart and kept.
func (p *problems) flows(s Spec) {
	if s.Fields() == fivetuple.All {
		return
	}
	if s.Flow&pairFields != pairFields {
		p.add("flow", "add src and dst: a row names the hosts that it is about")
	}
	if s.SparseMarks {
		p.add("flow", "sparse marks require flows by all fields: %s", fivetuple.All)
	}
	if s.Hops == HopsIOAM {
		p.add("flow", "packets in which routers write carry marks that do not name the fields of flows: use all of them, %s, or hops traceroute", fivetuple.All)
	}
	list, _ := wire.ParseEncodings(s.Encoding)
	for _, e := range list {
		if e.Carries()&wire.CarriesSparse == 0 { // the encodings with flags of our own
			p.add("flow", "%v marks do not name the fields of flows: use all of them, %s, or remove %v from the encodings", e, fivetuple.All, e)
		}
	}
}
