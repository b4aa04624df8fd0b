// Package hops describes a traced path as agents report it to the server, which shows it and keeps its own picture of the
// network. trace.Samples returns the rows of the stream.
package hops

import (
	"pillion.dev/session"
	"pillion.dev/trace"
)

// Result is the report of a path; hops that did not answer have no address.
func Result(path *trace.Path) session.TraceResult {
	result := session.TraceResult{
		Time: path.Time, Source: path.Source.String(), Address: path.Destination.String(),
		Protocol: path.Protocol, Reached: path.Reached,
	}
	for _, hop := range path.Hops {
		h := session.TraceHop{TTL: hop.TTL, RTT: int64(hop.RTT), Sent: hop.Sent, Answers: hop.Answers}
		if hop.Address.IsValid() {
			h.Address = hop.Address.String()
		}
		result.Hops = append(result.Hops, h)
	}
	return result
}
