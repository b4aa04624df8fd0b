package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/server/lane"
	"pillion.dev/server/web"
)

// laned is the archive if this server shares it with others of a cluster, else nil.
func (s *server) laned() archive.Laned {
	if s.config.NATS == "" {
		return nil
	}
	laned, _ := s.archive.(archive.Laned)
	return laned
}

// serveCallout says which agents may connect to an external NATS cluster that asks.
func (s *server) serveCallout(ctx context.Context) error {
	if s.config.NATS == "" {
		return nil
	}
	secret, err := s.authority.BusSecret()
	if err != nil {
		return err
	}
	s.callout, err = bus.ServeCallout(ctx, bus.CalloutOptions{
		URL: s.config.NATS, TLS: s.authority.CalloutTLS(), System: s.authority.SystemTLS(), Secret: secret,
		Authorize: s.authority.Authorize, Leaf: s.authority.Leaf, Refused: s.refused, Log: s.log,
	})
	if errors.Is(err, bus.ErrNoCallout) {
		s.log.Info("the NATS cluster lists the agents that may connect: a revoked agent stays connected, but its batches are refused")
		return nil
	}
	return err
}

// serveBatches takes the batches of all agents, or of the lanes that this server holds.
func (s *server) serveBatches(ctx context.Context) error {
	if err := s.serveCallout(ctx); err != nil {
		return err
	}
	laned := s.laned()
	if laned == nil {
		return s.bus.ServeData(s.ingest.Accept)
	}
	if err := s.bus.CheckLanes(ctx); err != nil {
		return err
	}
	owners, err := s.bus.KV(ctx, lane.OwnersBucket, bus.KVOptions{})
	if err != nil {
		return err
	}
	leases, err := s.bus.KV(ctx, lane.Bucket, bus.KVOptions{TTL: lane.TTL})
	if err != nil {
		return err
	}
	own, err := lane.OwnLane(ctx, owners, s.config.Folder)
	if err != nil {
		return err
	}
	if err := s.bus.ServeLanes(s.ingest.Accept); err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "server"
	}
	s.lanes = lane.Start(lane.Options{
		Bus: s.bus, KV: leases, Archive: laned, Ingest: s.ingest, ID: fmt.Sprintf("%s-%d-%s", host, own, rand.Text()[:6]), Own: own,
		Agents: s.agentNames, Events: s.local, Log: s.log,
	})
	return nil
}

func (s *server) agentNames() (names []string) {
	for _, agent := range s.control.Agents() {
		names = append(names, agent.Name)
	}
	return names
}

// laneHealth is the part of health about lanes, if there are any.
func (s *server) laneHealth() []web.Part {
	if s.lanes == nil {
		return nil
	}
	status := s.lanes.Status()
	part := web.Part{Name: "lanes", OK: true, Detail: status.String()}
	if err := status.Err(); err != nil {
		part.OK, part.Detail = false, part.Detail+"; "+err.Error()
	}
	return []web.Part{part}
}

// laneFigures are the metrics of the lanes of this server.
func (s *server) laneFigures() (figures []web.Figure) {
	if s.lanes == nil {
		return nil
	}
	status := s.lanes.Status()
	figures = append(figures,
		web.Figure{Name: "pillion_lanes_open", Help: "Lanes that this server stores.", Value: float64(status.Open)},
		web.Figure{Name: "pillion_lanes_free", Help: "Lanes that no server has taken for 10 s.", Value: float64(status.Free)},
		web.Figure{Name: "pillion_lane_servers", Help: "Servers among which the lanes are divided.", Value: float64(status.Servers)})
	lanes := s.ingest.Lanes()
	for _, kind := range []struct {
		name, help string
		value      func(int) float64
	}{
		{"pillion_lane_rows_total", "Rows stored in a lane since this server took it.", func(n int) float64 { return float64(lanes[n].Rows) }},
		{"pillion_lane_commits_total", "Commits of a lane since this server took it.", func(n int) float64 { return float64(lanes[n].Commits) }},
		{"pillion_lane_commit_seconds_total", "Time spent in commits of a lane.", func(n int) float64 { return lanes[n].CommitSeconds }},
		{"pillion_lane_failed_total", "Batches of a lane that the archive failed to store, to be retried.", func(n int) float64 { return float64(lanes[n].Failed) }},
		{"pillion_lane_queue_bytes", "Bytes of batches of a lane that wait to be stored.", func(n int) float64 { return float64(lanes[n].QueueBytes) }},
	} {
		for n := range lanes {
			figures = append(figures, web.Figure{Name: kind.name, Help: kind.help, Labels: map[string]string{"lane": strconv.Itoa(lanes[n].Lane)}, Value: kind.value(n)})
		}
	}
	return figures
}
