package web

import (
	"context"
	"maps"
	"slices"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/server/live"
)

// SiteMatrix returns the figures of the last minute by site. Sums by site are of all pairs, so within a scope there are no
// sites, as if no agent had the label.
func (f *flows) SiteMatrix(ctx context.Context, request *pillionv1.SiteMatrixRequest) (*pillionv1.SiteMatrixResponse, error) {
	if err := checkText("session", request.GetSession()); err != nil {
		return nil, err
	}
	scope := live.Scope{Session: request.GetSession(), Seen: scopeOf(ctx)}
	if err := scopeTo(&scope, request.GetHosts(), "hosts"); err != nil {
		return nil, err
	}
	pairs, from := f.seconds.Sites(request.GetSession())
	agents := f.seconds.SiteAgents()
	if scope.Seen != nil {
		pairs, agents = nil, nil
	}
	response := &pillionv1.SiteMatrixResponse{Label: f.siteLabel, FromMs: from.UnixMilli()}
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		response.Sites = append(response.Sites, &pillionv1.Site{Name: validText(name), Agents: small(int64(agents[name]))})
	}
	for i := range pairs {
		pair := &pairs[i]
		one := &pillionv1.SiteFigures{
			Source: validText(pair.Source), Destination: validText(pair.Destination), Pairs: small(int64(pair.Pairs)),
			Total: windowMessage(&archive.Window{Start: from, Sum: pair.Sum}, false),
		}
		if pair.Pairs > 0 {
			one.Worst = hostMessage(&pair.Worst)
		}
		response.Pairs = append(response.Pairs, one)
	}
	if request.GetHosts() != nil {
		hosts := f.seconds.HostPairs(scope)
		for i := range hosts {
			response.Hosts = append(response.Hosts, hostMessage(&hosts[i]))
		}
	}
	return response, nil
}

// scopeTo limits a scope to a pair of sites, if there is one.
func scopeTo(scope *live.Scope, sites *pillionv1.SitePair, field string) error {
	if sites == nil {
		return nil
	}
	for _, text := range []struct{ field, value string }{{"source", sites.Source}, {"destination", sites.Destination}} {
		if err := checkText(field+"."+text.field, text.value); err != nil {
			return err
		}
	}
	scope.Source, scope.Destination = &sites.Source, &sites.Destination
	return nil
}

func hostMessage(h *live.HostPair) *pillionv1.HostFigures {
	return &pillionv1.HostFigures{
		Source: validText(h.Source), Destination: validText(h.Destination), Packets: h.Packets, Expected: h.Expected, Lost: h.Lost,
		P50Ns: h.P50, P99Ns: h.P99, WorstP99Ns: h.WorstP99,
	}
}
