package destination

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pillion.dev/probe/flow"
)

// Mismatch is a source whose marks are in no flow, since they number other flows than those
// of this destination.
type Mismatch struct {
	// Source is the address that the marks come from, Ingress the agent that they name, if any.
	Source  netip.Addr `json:"source"`
	Ingress uint32     `json:"ingress,omitempty"`
	// Theirs are the fields by which its marks tell flows apart, Ours the fields of this destination.
	Theirs flow.Fields `json:"source_flow"`
	Ours   flow.Fields `json:"flow"`
	// Seen is when its last such mark came.
	Seen time.Time `json:"seen"`
}

// String says what to do.
func (m Mismatch) String() string {
	return fmt.Sprintf("marks from %v are not measured: their source numbers flows by %v, this destination tells them apart by %v; run both with the same --flow",
		m.Source, m.Theirs, m.Ours)
}

// mismatches returns the sources of marks that counted as of other flows with the settings in use.
func (d *Destination) mismatches() ([]Mismatch, error) {
	var list []Mismatch
	var key destinationMarker
	var value destinationMismatch
	all := d.objects.Mismatches.Iterate()
	for all.Next(&key, &value) {
		raw := flow.Raw{Family: uint8(key.Family)}
		for i, word := range key.Address {
			binary.NativeEndian.PutUint32(raw.Src[4*i:], word)
		}
		list = append(list, Mismatch{
			Source: raw.Key().Src, Ingress: key.Ingress, Theirs: flow.Fields(value.Fields), Ours: flow.Fields(value.Wanted),
			Seen: time.Unix(0, int64(value.SeenNs)),
		})
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("read sources of other flows: %w", err)
	}
	slices.SortFunc(list, func(a, b Mismatch) int { return cmp.Or(a.Source.Compare(b.Source), cmp.Compare(a.Ingress, b.Ingress)) })
	return list, nil
}
