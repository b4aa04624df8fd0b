package bus

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Lanes divide the agents of a cluster among its servers: NATS maps the data subject of each
// agent to the subject of its lane (LaneMapping).
const Lanes = 64

// NoLane is the Lane of a Delivery from a bus without lanes.
const NoLane = -1

// LaneMapping is the subject mapping that a NATS cluster needs for lanes: from, and to.
var LaneMapping = [2]string{
	dataSubject("*", "*"), fmt.Sprintf("%s{{partition(%d,1)}}.{{wildcard(1)}}.{{wildcard(2)}}", lanePrefix, Lanes),
}

const (
	lanePrefix = "pillion.lane."
	// checkToken is in the place of an agent's name in the message that finds out whether the
	// cluster maps; no agent's name has an underscore.
	checkToken = "_check"
	checkTime  = 2 * time.Second
)

// ErrNoLanes is a cluster that does not map the subjects of agents to lanes.
var ErrNoLanes = errors.New("the NATS cluster does not map the subjects of agents to lanes; write its configuration with pillion-server nats")

// LaneOf is the lane of an agent, as the function partition of NATS computes it.
func LaneOf(agent string) int {
	hash := fnv.New32a()
	hash.Write([]byte(agent))
	return int(hash.Sum32() % Lanes)
}

func laneSubject(lane, agent, stream string) string {
	return lanePrefix + lane + "." + agent + "." + stream
}

// resendSubject is where an agent is told that what it has sent may have been lost with a
// server.
func resendSubject(agent string) string { return inboxPrefix(agent) + ".resend" }

// CheckLanes returns ErrNoLanes if the cluster does not map.
func (s *Server) CheckLanes(ctx context.Context) error {
	subscription, err := s.conn.SubscribeSync(laneSubject("*", checkToken, "*"))
	if err != nil {
		return fmt.Errorf("check lanes: %w", err)
	}
	defer func() { _ = subscription.Unsubscribe() }() // fails only on a closed connection
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	for ctx.Err() == nil { // the subscription spreads from node to node
		if err := s.conn.Publish(dataSubject(checkToken, "lanes"), nil); err != nil {
			return fmt.Errorf("check lanes: %w", err)
		}
		try, end := context.WithTimeout(ctx, checkTime/8)
		_, err = subscription.NextMsgWithContext(try)
		end()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("check lanes: %w", ErrNoLanes)
}

// ServeLanes is ServeData for a server that takes only the batches of the lanes that it opened
// by OpenLane.
func (s *Server) ServeLanes(handler func(Delivery)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving {
		return errors.New("serve lanes: already serving")
	}
	s.serving = true
	s.work(handler)
	return nil
}

// OpenLane begins to take the batches of a lane. CloseLane ends it; batches that are queued
// are still delivered.
func (s *Server) OpenLane(lane int) error {
	subscription, err := s.conn.Subscribe(laneSubject(strconv.Itoa(lane), "*", "*"), s.receive)
	if err == nil {
		err = subscription.SetPendingLimits(queueMessages, queueBytes/4)
	}
	if err == nil {
		err = s.conn.FlushTimeout(closeTime)
	}
	if err != nil {
		return fmt.Errorf("take batches of lane %d: %w", lane, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes[lane] = subscription
	return nil
}

// CloseLane ends OpenLane.
func (s *Server) CloseLane(lane int) {
	s.mu.Lock()
	subscription := s.lanes[lane]
	delete(s.lanes, lane)
	s.mu.Unlock()
	if subscription != nil {
		_ = subscription.Unsubscribe() // fails only on a closed connection
	}
}

// Resend tells an agent to send again, now, what has not been acknowledged: the server that
// had received it may be gone.
func (s *Server) Resend(agent string) error {
	if !ValidAgent(agent) {
		return fmt.Errorf("ask agent to resend: invalid name %.100q", agent)
	}
	if err := s.conn.Publish(resendSubject(agent), nil); err != nil {
		return fmt.Errorf("ask agent %q to resend: %w", agent, err)
	}
	return nil
}

// sender is the lane, agent and stream of a batch's subject.
func sender(subject string) (lane int, agent, stream string, err error) {
	lane = NoLane
	tokens := strings.Split(subject, ".")
	if len(tokens) == 5 && strings.HasPrefix(subject, lanePrefix) {
		if lane, err = strconv.Atoi(tokens[2]); err != nil || lane < 0 || lane >= Lanes {
			return NoLane, "", "", errors.New("not a subject of a lane")
		}
		tokens = tokens[1:]
	}
	if len(tokens) != 4 || !ValidAgent(tokens[2]) {
		return NoLane, "", "", errors.New("not a data subject of an agent")
	}
	// Each batch is stored once in its lane: an agent must not choose another.
	if lane != NoLane && lane != LaneOf(tokens[2]) {
		return NoLane, "", "", errors.New("not the lane of the agent")
	}
	return lane, tokens[2], tokens[3], nil
}

// resend ends the requests of batches that are under way.
func (a *Agent) resend(*nats.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.again()
	a.sending, a.again = context.WithCancel(a.ctx)
}
