package destination

import "fmt"

// rejectedNames are the names of the verdicts that reject, in the order of enum
// verdict, from VERDICT_MALFORMED on.
var rejectedNames = [...]string{"malformed", "inner", "peer", "filter", "forged", "replayed", "flow", "transit"}

// Tally is what became of the packets that came to the device, counted as they
// were on the wire: Seen = Packets + Unmarked + Rejected.
type Tally struct {
	Seen uint64 `json:"seen"`
	Counts
	// Counted is the part of Packets that carries no mark, but belongs to a sparse flow.
	Counted  uint64 `json:"counted"`
	Unmarked uint64 `json:"unmarked"`
	// Rejected marks were left in their packets; Reasons says why. Those in transit are meant
	// for another host.
	Rejected uint64            `json:"rejected"`
	Reasons  map[string]uint64 `json:"rejected_reasons"`
	// Mismatches are the sources of marks that were rejected for one of these: flow.
	Mismatches []Mismatch `json:"mismatches,omitempty"`
	// Restored, Amended and Unrestored are buffers: packets after merging. Amended ones are in
	// transit, unless Settings.Amend is set.
	Restored   uint64 `json:"restored"`
	Amended    uint64 `json:"amended"`
	Unrestored uint64 `json:"unrestored"`
	// Kept are marks that were read and left: in an option of the transport, or in a header
	// of IPv6 options that a source of ours does not write in this form.
	Kept uint64 `json:"kept"`
	// FlowsFull and Contended packets are in Packets but in no flow.
	FlowsFull uint64 `json:"flows_full"`
	// ModuleStatesFull are packets of which a module kept nothing, for lack of room.
	ModuleStatesFull uint64 `json:"module_states_full"`
	Contended        uint64 `json:"contended"`
	// Uncounted delays and variations are in no histogram, for lack of room.
	Uncounted uint64 `json:"uncounted"`
	// DelaysLeftOut were measured in intervals in which the clock was stepped.
	DelaysLeftOut  uint64 `json:"delays_left_out"`
	Flows          uint64 `json:"flows"`
	FlowsExpired   uint64 `json:"flows_expired"`
	FlowsEvicted   uint64 `json:"flows_evicted"`
	Records        uint64 `json:"records"`
	RecordsDropped uint64 `json:"records_dropped"`
	// Delay and Variation are over everything since Open.
	Delay     Summary `json:"delay_ns"`
	Variation Summary `json:"ipdv_ns"`
}

// Tally adds up what the CPUs counted and what Read has seen of the flows so far.
func (d *Destination) Tally() (Tally, error) {
	var cpus []destinationTally
	if err := d.objects.Tallies.Lookup(uint32(0), &cpus); err != nil {
		return Tally{}, fmt.Errorf("read tallies: %w", err)
	}
	t := Tally{
		Counts: d.total.Counts, Reasons: map[string]uint64{}, Flows: uint64(len(d.flows)),
		FlowsExpired: d.expired, FlowsEvicted: d.evicted, DelaysLeftOut: d.delaysLeftOut,
		Delay: d.total.delay.summary(), Variation: d.total.variation.summary(),
	}
	if err := d.objects.ModuleStatesFull.Get(&t.ModuleStatesFull); err != nil {
		return Tally{}, fmt.Errorf("read tallies: %w", err)
	}
	var err error
	if t.Mismatches, err = d.mismatches(); err != nil {
		return Tally{}, err
	}
	// Of losses that were found later, those that no row could pay back.
	for _, s := range d.flows {
		t.Lost -= min(t.Lost, s.owed)
	}
	t.Packets, t.Bytes = 0, 0
	for _, name := range rejectedNames {
		t.Reasons[name] = 0
	}
	for _, cpu := range cpus {
		for i, n := range cpu.Verdicts {
			t.enter(destinationVerdict(i), n)
		}
		t.Bytes += cpu.Bytes
		t.Restored += cpu.Restored
		t.Amended += cpu.Amended
		t.Unrestored += cpu.Unrestored
		t.Kept += cpu.Kept
		t.FlowsFull += cpu.FlowsFull
		t.Contended += cpu.Contended
		t.Uncounted += cpu.Uncounted
		t.Records += cpu.Records
		t.RecordsDropped += cpu.RecordsDropped
	}
	return t, nil
}

func (t *Tally) enter(verdict destinationVerdict, n uint64) {
	t.Seen += n
	switch verdict {
	case destinationVerdictVERDICT_MARKED:
		t.Packets += n
	case destinationVerdictVERDICT_COUNTED:
		t.Packets += n
		t.Counted += n
	case destinationVerdictVERDICT_UNMARKED:
		t.Unmarked += n
	default:
		t.Rejected += n
		t.Reasons[rejectedNames[verdict-destinationVerdictVERDICT_MALFORMED]] += n
	}
}
