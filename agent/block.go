package agent

import (
	"pillion.dev/probe/block"
	"pillion.dev/wire/fivetuple"
)

// blockLine is what this end counted of a flow in a block of packets of one colour.
type blockLine struct {
	Number   uint64 `json:"number"`
	Period   int64  `json:"period_ns"`
	Src      string `json:"src"`
	Dst      string `json:"dst"`
	Protocol string `json:"proto"`
	Sport    uint16 `json:"sport"`
	Dport    uint16 `json:"dport"`
	Packets  uint64 `json:"packets"`
	// Marked is when the packet left or arrived whose delay is measured, ns since 1970; null: none did.
	Marked   *int64 `json:"marked_ns"`
	Doubtful uint64 `json:"doubtful"`
}

// blocks prints what was counted in blocks that are over. As text it would say nothing without the
// counts of the other end.
func (v deviceView) blocks(counts []block.Count) error {
	if !v.JSON {
		return nil
	}
	for _, c := range counts {
		line := blockLine{
			Number: c.Number, Period: int64(c.Period), Src: addressText(c.Key.Src), Dst: addressText(c.Key.Dst),
			Protocol: fivetuple.ProtocolName(c.Key.Protocol), Sport: c.Key.Sport, Dport: c.Key.Dport, Packets: c.Packets, Doubtful: c.Doubtful,
		}
		if !c.Marked.IsZero() {
			marked := c.Marked.UnixNano()
			line.Marked = &marked
		}
		err := v.Print(struct {
			Block blockLine `json:"block"`
		}{line}, "")
		if err != nil {
			return err
		}
	}
	return nil
}
