package source

import "fmt"

// outcomeNames are the names of enum outcome, in its order.
var outcomeNames = [...]string{
	"marked", "not_ip", "malformed", "no_match", "no_lease", "not_sampled", "multicast",
	"neighbour", "fragment", "existing_option", "extension", "ip_options", "encoding", "vlan",
	"mtu", "gso", "no_room", "flows", "probe",
	"handshake", "timeout", "tcp_options", "unvalidated", "path_failed", "no_key", "counted", "retransmitted", "tcp_callbacks",
}

// Tally is what became of the packets that left the device, counted as they are
// on the wire: Seen = Marked + Counted + the sum of Skipped.
type Tally struct {
	Seen uint64 `json:"seen"`
	// Matched are the packets that a rule wants, marked or not.
	Matched uint64 `json:"matched"`
	Marked  uint64 `json:"marked"`
	// Counted packets carry no mark, but the sequence numbers of the marked ones count
	// them: see Settings.Sparse.
	Counted uint64 `json:"counted"`
	// Skipped says by reason how many were left alone. Every reason is present.
	Skipped map[string]uint64 `json:"skipped"`
	// BytesAdded is what the marks weigh.
	BytesAdded uint64 `json:"bytes_added"`
	// Flows entered and left the flow table: Evicted ones because it was full,
	// Expired ones because they were idle. All but Started are as of the last Sweep.
	FlowsStarted uint64 `json:"flows_started"`
	FlowsExpired uint64 `json:"flows_expired"`
	FlowsEvicted uint64 `json:"flows_evicted"`
	Flows        uint64 `json:"flows"`
	// MSSClamped counts the SYN and SYN-ACK whose MSS was lowered.
	MSSClamped uint64 `json:"mss_clamped"`
	// EchoesFull are packets in PDM of flows for whose round trips there was no room.
	EchoesFull uint64 `json:"echoes_full,omitempty"`
	// Connections of this host, where the tcp-option encoding marks them.
	Connections Connections `json:"connections"`
}

// PolicyTally is what became of the packets of a policy.
type PolicyTally struct{ Marked, NotSampled uint64 }

// PolicyTallies returns what the policies counted, in the order of SetPolicies, since each began.
func (s *Source) PolicyTallies() ([]PolicyTally, error) {
	tallies := make([]PolicyTally, len(s.places))
	for i, index := range s.places {
		now, err := s.policyTally(index)
		if err != nil {
			return nil, err
		}
		since := s.since[index]
		tallies[i] = PolicyTally{now.Marked - since.Marked, now.NotSampled - since.NotSampled}
	}
	return tallies, nil
}

func (s *Source) policyTally(index int) (t PolicyTally, err error) {
	cpus, err := s.tallyOf(index)
	for _, cpu := range cpus {
		t.Marked += cpu.Packets[sourceOutcomeOUTCOME_MARKED]
		t.NotSampled += cpu.Packets[sourceOutcomeOUTCOME_NOT_SAMPLED]
	}
	return t, err
}

// tallyOf returns what each CPU counted for a policy.
func (s *Source) tallyOf(index int) (cpus []sourceTally, err error) {
	if err := s.objects.Tallies.Lookup(uint32(index), &cpus); err != nil {
		return nil, fmt.Errorf("read tallies: %w", err)
	}
	return cpus, nil
}

// Tally adds up what the CPUs counted for all policies that there were.
func (s *Source) Tally() (Tally, error) {
	var cpus []sourceTally
	for index, loaded := range s.loaded {
		if !loaded {
			continue
		}
		more, err := s.tallyOf(index)
		if err != nil {
			return Tally{}, err
		}
		cpus = append(cpus, more...)
	}
	t := Tally{Skipped: map[string]uint64{}, FlowsExpired: s.expired, FlowsEvicted: s.evicted, Flows: s.present}
	for _, cpu := range cpus {
		for i, n := range cpu.Packets {
			t.Seen += n
			switch sourceOutcome(i) {
			case sourceOutcomeOUTCOME_MARKED:
				t.Marked += n
			case sourceOutcomeOUTCOME_COUNTED:
				t.Counted += n
			default:
				t.Skipped[outcomeNames[i]] += n
			}
		}
		t.BytesAdded += cpu.BytesAdded
		t.FlowsStarted += cpu.FlowsStarted
		t.MSSClamped += cpu.MssClamped
		t.Connections.add(&cpu)
	}
	if err := s.objects.EchoesFull.Get(&t.EchoesFull); err != nil {
		return Tally{}, fmt.Errorf("read tallies: %w", err)
	}
	t.Connections.Limit = s.connectionLimit()
	t.Matched = t.Seen
	for _, before := range []string{"not_ip", "vlan", "malformed", "no_match"} {
		t.Matched -= t.Skipped[before]
	}
	return t, nil
}
