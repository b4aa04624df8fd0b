package session

import (
	"cmp"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// FlowTable is how a destination of a session identifies flows, and how many it keeps for how long.
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

// pairFields are the fields that a row needs to name the pair of hosts that it is about.
const pairFields = fivetuple.Src | fivetuple.Dst

// IdleAtDestination is how long a destination keeps a flow without a packet: longer than the source does, so that a
// flow that continues at the source is not a new one at the destination. 0: not specified.
func (s *Spec) IdleAtDestination() Duration { return 2 * s.Idle }

// flowTable returns the table of a destination; fields are zero where the agent's defaults apply.
func (s Spec) flowTable() FlowTable {
	own := s.marking("")
	t := FlowTable{Flow: own.Flow, Flows: s.Flows}
	if own.Idle != 0 {
		t.Idle = s.IdleAtDestination()
	}
	return t
}

// flows checks the settings of flows.
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
