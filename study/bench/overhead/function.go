package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"pillion.dev/wire"
)

// functionsResult is a run of the measure functions: the time of a packet in each function
// of source and destination, ns, as differences of programs that go further and further.
type functionsResult struct {
	Arm     string `json:"arm"`
	Traffic string `json:"traffic"`
	// FilterNs is what finding out that no filter matches takes, SamplingNs that the
	// packet is not selected, RoomNs what the kernel takes to make room, InsertNs the
	// rest at the source: time, number, flow and header.
	FilterNs   float64 `json:"filter_ns"`
	SamplingNs float64 `json:"sampling_ns"`
	RoomNs     float64 `json:"room_ns"`
	InsertNs   float64 `json:"insert_ns"`
	SourceNs   float64 `json:"source_ns"`
	// RetrieveNs is all of the destination's.
	RetrieveNs float64 `json:"retrieve_ns"`
	TotalNs    float64 `json:"total_ns"`
	CPUNs      float64 `json:"cpu_ns"` // CPU time of a packet at both ends
	// The shares are of CPUNs.
	FilterShare   float64 `json:"filter_share"`
	SamplingShare float64 `json:"sampling_share"`
	RoomShare     float64 `json:"room_share"`
	InsertShare   float64 `json:"insert_share"`
	SourceShare   float64 `json:"source_share"`
	RetrieveShare float64 `json:"retrieve_share"`
}

const (
	everyPacket = "proto=udp"
	noPacket    = "proto=udp dport=1"
	// rarely is a sampling that selects no packet of a run after the first.
	rarely     = 1 << 30
	roomEgress = "room_egress"
)

// measureFunctions times the stages, one after the other. Packets carry native marks, the
// ones that need room inside the packet.
func measureFunctions(ctx context.Context, b *bench) (any, error) {
	source := append([]string{"--encoding", wire.Native.String(), "--stamp-every", "1"}, b.arm.source...)
	agent := func(filter string, every int, idle bool) agents {
		return agents{b.agent, every, append([]string{"--filter", filter}, source...), b.arm.keyed, idle}
	}
	bytes, err := b.markBytes()
	if err != nil {
		return nil, err
	}
	var stages [5]times
	for i, t := range []treatment{
		empty{}, agent(noPacket, 1, true), agent(everyPacket, rarely, true), room{bytes}, agent(everyPacket, 1, false),
	} {
		if stages[i], err = b.stage(ctx, t); err != nil {
			return nil, fmt.Errorf("time stage %d: %w", i, err)
		}
	}
	base, filter, sampling, room, all := stages[0], stages[1], stages[2], stages[3], stages[4]
	r := functionsResult{
		Arm: b.arm.String(), Traffic: b.traffic.String(), CPUNs: all.cpu,
		FilterNs: filter.source - base.source, SamplingNs: sampling.source - filter.source,
		RoomNs: room.source - base.source, SourceNs: all.source - base.source, RetrieveNs: all.destination - base.destination,
	}
	r.InsertNs = r.SourceNs - r.RoomNs - r.SamplingNs - r.FilterNs
	r.TotalNs = r.SourceNs + r.RetrieveNs
	for _, share := range []struct {
		to *float64
		ns float64
	}{
		{&r.FilterShare, r.FilterNs}, {&r.SamplingShare, r.SamplingNs}, {&r.RoomShare, r.RoomNs},
		{&r.InsertShare, r.InsertNs}, {&r.SourceShare, r.SourceNs}, {&r.RetrieveShare, r.RetrieveNs},
	} {
		*share.to = share.ns / r.CPUNs
	}
	return r, nil
}

// markBytes is the length of a native mark of the modules that the user chose.
func (b *bench) markBytes() (int32, error) {
	modules := wire.Delay | wire.Loss
	if i := slices.Index(b.arm.source, "--modules"); i >= 0 && i+1 < len(b.arm.source) {
		var err error
		if modules, err = wire.ParseModule(b.arm.source[i+1]); err != nil {
			return 0, usageError(fmt.Sprintf("read arguments: %v", err))
		}
	}
	if b.arm.keyed {
		return int32(wire.Native.TaggedOverhead(modules)), nil
	}
	return int32(wire.Native.Overhead(modules)), nil
}

// stage times a treatment. One that leaves the packets unusable sends them without looking.
func (b *bench) stage(ctx context.Context, t treatment) (times, error) {
	if _, drops := t.(room); !drops {
		return b.timed(ctx, t)
	}
	var found times
	_, err := b.treated(ctx, t, func(running) error {
		return b.counted(func() error {
			if b.rate > 0 {
				_, err := sendPaced(ctx, b.testbed, b.traffic, b.rate, b.core, b.length)
				return err
			}
			_, err := sendUDP(ctx, b.testbed, b.traffic.v6, b.traffic.payload, b.core, b.length)
			return err
		}, &found)
	})
	return found, err
}

// room makes room for a mark as the source does, and writes none: it drops the packet.
type room struct{ bytes int32 }

func (r room) start(_ context.Context, t *testbed) (running, error) {
	const (
		behindNetworkHeader = 0 // BPF_ADJ_ROOM_NET
		drop                = 2 // TCX_DROP
	)
	return plain{roomEgress, t.source, ebpf.AttachTCXEgress, asm.Instructions{
		asm.Mov.Imm(asm.R2, r.bytes), asm.Mov.Imm(asm.R3, behindNetworkHeader), asm.Mov.Imm(asm.R4, 0),
		asm.FnSkbAdjustRoom.Call(), asm.Mov.Imm(asm.R0, drop), asm.Return(),
	}}.attach()
}
