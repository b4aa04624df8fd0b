package server_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/api/pillionv1"
	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/server"
	"pillion.dev/server/aggregate"
)

// member is the identity of an aggregator that has joined a fleet.
type member struct {
	name, bus string
	tls       *tls.Config
}

func (m member) Name() string                   { return m.name }
func (m member) Server() string                 { return "fleet" }
func (m member) Bus() string                    { return m.bus }
func (m member) TLS() *tls.Config               { return m.tls }
func (m member) DueAt() time.Time               { return time.Now().Add(time.Hour) }
func (m member) Renew(context.Context) error    { return nil }
func (m member) Standing(context.Context) error { return nil }

// TestAggregateToAFleet: the server of a site sends to several servers by lanes. Each row counts once on
// every one of them, also when the server that holds the lane dies.
func TestAggregateToAFleet(t *testing.T) {
	f := startFleet(t, "paris-server")
	leader := f.leads()
	admin := f.servers[leader].client(t, f.servers[leader].operator)
	made, err := admin.Server.CreateToken(t.Context(), &pillionv1.CreateTokenRequest{Name: "paris", Role: "join", Site: "paris"})
	if err != nil {
		t.Fatal(err)
	}
	joining := *f.servers[leader].target
	joining.join = made.Secret
	identity := member{"paris-server", strings.Join(f.cluster.URLs, ","), joining.enrol(t, "paris-server")}
	site := startWith(t, t.TempDir(), server.Config{
		AggregateTo: server.Aggregate{Server: "fleet", Window: time.Second, Lateness: time.Millisecond},
		Join:        func(context.Context, server.Aggregate, string) (aggregate.Identity, error) { return identity, nil },
	})
	north := site.agent(t, "north")
	begin := time.Now().Add(-time.Minute).Truncate(time.Second)
	sent := uint64(0)
	send := func(n uint64) {
		t.Helper()
		for range n {
			row := flows.Row{End: begin.Add(time.Duration(sent/3)*time.Second + 500*time.Millisecond), Interval: time.Second, Session: "s", Source: "south", Destination: "north"}
			row.Packets, row.Expected, row.Lost = 10, 11, 1
			batch := batchOf(t, &measure.Flows, sent, row.Sample(nil))
			within(t, "the site stores a batch", func() bool { return north.Send(t.Context(), batch) == nil })
			sent++
		}
	}
	packets := func(s *mortal) (n uint64) {
		answer, err := s.client(t, s.operator).Flows.Windows(t.Context(), &pillionv1.WindowsRequest{
			Selection: &pillionv1.Selection{Source: "paris/south", Destination: "paris/north", Session: "s"},
		})
		if err != nil {
			return 0 // while the lanes are taken over
		}
		for _, window := range answer.Windows {
			n += window.Packets
		}
		return n
	}
	everywhere := func(dead ...int) {
		t.Helper()
		for i, s := range f.servers {
			if len(dead) == 0 || i != dead[0] {
				within(t, "a server shows all rows of the site", func() bool { return packets(s) >= 10*sent })
				if n := packets(s); n != 10*sent {
					t.Errorf("server %d shows %d packets, want %d", i, n, 10*sent)
				}
			}
		}
	}
	send(9)
	everywhere()
	holder := f.holder("paris-server")
	f.servers[holder].die()
	send(9)
	everywhere(holder)
	f.servers[holder].stop()
	f.start(holder)
	send(9)
	everywhere()
}

// holder is the server that stores the lane of an agent.
func (f *fleetOf) holder(agent string) (holder int) {
	f.t.Helper()
	within(f.t, "a server has the lane", func() bool {
		holder = slices.IndexFunc(f.servers[:], func(s *mortal) bool {
			return strings.Contains(s.metrics(f.t), fmt.Sprintf("pillion_lane_rows_total{lane=\"%d\"}", bus.LaneOf(agent)))
		})
		return holder >= 0
	})
	return holder
}
