package web

import (
	"cmp"
	"context"
	"fmt"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/server/traffic"
	"pillion.dev/session"
)

const (
	defaultVolumes = 1000
	maxVolumes     = 50_000
	// volumesRead is the most sums of the archive that are put together.
	volumesRead = 200_000
)

// TrafficMatrix returns packets and bytes between hosts or groups of them.
func (f *flows) TrafficMatrix(ctx context.Context, request *pillionv1.TrafficMatrixRequest) (*pillionv1.TrafficMatrixResponse, error) {
	shape, err := shapeOf(request)
	if err != nil {
		return nil, err
	}
	label := cmp.Or(request.GetLabel(), f.siteLabel)
	if err := checkText("label", label); err != nil {
		return nil, err
	}
	question := archive.Volumes{Granularity: shape.Archived(), Limit: volumesRead}
	if question.Selection, err = selectionOf(request.GetSelection()); err != nil {
		return nil, err
	}
	if question.From, question.To, err = f.span(request.GetFrom(), request.GetTo()); err != nil {
		return nil, err
	}
	answer, err := answerOf(ctx, f.questions, f.archive.Volumes, question)
	if err != nil {
		return nil, fmt.Errorf("read traffic matrix: %w", err)
	}
	matrix := traffic.Make(answer, shape, f.network(scopeOf(ctx), label))
	response := &pillionv1.TrafficMatrixResponse{
		Total: volumeMessage(&matrix.Total), Found: small(int64(matrix.Found)), Label: validText(label), UnreadPackets: matrix.Unread,
	}
	for i := range matrix.Volumes {
		response.Volumes = append(response.Volumes, volumeMessage(&matrix.Volumes[i]))
	}
	return response, nil
}

func shapeOf(request *pillionv1.TrafficMatrixRequest) (traffic.Shape, error) {
	shape := traffic.Shape{
		Granularity: cmp.Or(request.GetGranularity(), traffic.ByPair), Order: cmp.Or(request.GetOrder(), traffic.ByBytes), Protocol: request.GetByProtocol(),
		IPv4: int(cmp.Or(request.GetPrefixIpv4(), 24)), IPv6: int(cmp.Or(request.GetPrefixIpv6(), 48)), Limit: int(cmp.Or(request.GetLimit(), defaultVolumes)),
	}
	if shape.Limit > maxVolumes {
		return shape, invalid("limit", "read limit %d: use at most %d", request.GetLimit(), maxVolumes)
	}
	if field, err := shape.Check(); err != nil {
		return shape, invalid(field, "%w", err)
	}
	return shape, nil
}

// network is what a matrix needs to know of agents and sessions. Labels of agents beyond the scope are not shown.
func (f *flows) network(scope *archive.Scope, label string) traffic.Network {
	var specs []session.Spec
	for _, s := range f.control.Sessions() {
		specs = append(specs, s.Spec)
	}
	labels, mtus := map[string]string{}, map[string]int{}
	for _, agent := range f.control.Agents() {
		if scope.HasAgent(agent.Name) {
			labels[agent.Name] = agent.Labels[label]
		}
		for _, i := range agent.Interfaces {
			if !i.Loopback {
				mtus[agent.Name] = max(mtus[agent.Name], i.MTU)
			}
		}
	}
	return traffic.Network{
		Sampling: traffic.NewSampling(specs),
		Label:    func(agent string) string { return labels[agent] },
		MTU:      func(agent string) int { return mtus[agent] },
	}
}

func volumeMessage(v *traffic.Volume) *pillionv1.TrafficVolume {
	return &pillionv1.TrafficVolume{
		Src: validText(v.Src), Dst: validText(v.Dst), Proto: validText(v.Proto), Sport: v.Sport, Dport: v.Dport,
		Packets: v.Packets, Bytes: v.Bytes, Scaling: string(v.Scaling),
		EstimatedPackets: v.EstimatedPackets, PacketsError: v.PacketsError, EstimatedBytes: v.EstimatedBytes, BytesError: v.BytesError,
	}
}
