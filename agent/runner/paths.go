package runner

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pillion.dev/agent/validation"
	"pillion.dev/session"
	"pillion.dev/wire"
)

// validateTime is how long marking may be delayed by path validation, so that the first
// packets of a session are marked where the peer answers: as long as the rounds of a test take.
// Leases of the same source are not renewed meanwhile.
const validateTime = time.Second

// validatePaths starts path validation.
func (s *deviceSource) validatePaths() (err error) {
	s.paths, err = validation.New(validation.Options{
		Source: s.probe, Paths: s.pathsRoom, Device: s.device.Index, Encodings: wire.Encodings(), Changed: s.pathChanged,
		Proved: s.addressProved, Log: s.log,
	})
	return err
}

// announce begins to test the paths to the peers that are alive, before flows use them.
func (s *deviceSource) announce(pulse session.Pulse) {
	s.announceEach(func(task sourceTask) []netip.Addr { return alive(task, pulse) })
}

// announceAll does so for all peers, which read marks before their source is assigned.
func (s *deviceSource) announceAll() {
	s.announceEach(addressesOf)
}

func addressesOf(task sourceTask) []netip.Addr {
	return slices.SortedFunc(maps.Keys(task.peers), netip.Addr.Compare)
}

func (s *deviceSource) announceEach(addresses func(sourceTask) []netip.Addr) {
	if s.paths == nil || s.tasks[0].local != nil {
		return
	}
	var peers []validation.Peer
	for _, task := range s.tasks {
		for _, address := range addresses(task) {
			if s.isReserved(task, address) == "" {
				peers = append(peers, validation.Peer{
					Address: address, Agent: task.peers[address], Key: task.keyOf(address), Behind: task.edges[task.peers[address]],
					Encodings: s.testedOf(task),
				})
			}
		}
	}
	if slices.EqualFunc(peers, s.announced, validation.Peer.Equal) {
		return
	}
	s.announced, s.awaited = peers, time.Now().Add(min(validateTime, s.lease()/2))
	s.paths.Expect(peers)
}

// testedOf returns the encodings of a task whose paths are validated; none, where only addresses
// are.
func (s *deviceSource) testedOf(task sourceTask) wire.EncodingList {
	if !s.validated {
		return nil
	}
	policy, _ := policyOf(task.Policy()) // an invalid one is the task's error
	return policy.Used()
}

// doubt tests the paths to peers again where marked packets have just ceased to arrive.
func (s *deviceSource) doubt(before, pulse session.Pulse) {
	if s.paths == nil {
		return
	}
	for _, task := range s.tasks {
		for address, agent := range task.peers {
			if !slices.Contains(pulse.Missing[task.Session], agent) || slices.Contains(before.Missing[task.Session], agent) {
				continue
			}
			s.log.Debug("marked packets are missing, testing the path", "session", task.Session, "device", s.device.Name, "address", address)
			s.paths.Doubt(address)
		}
	}
}

// awaitPaths waits until the announced paths have been tested, or validateTime is over.
func (s *deviceSource) awaitPaths() {
	if s.paths != nil {
		s.paths.Await(time.Until(s.awaited))
	}
}

// pathChanged reports what path validation has found.
func (s *deviceSource) pathChanged(path validation.Path) {
	if s.pathFound != nil {
		s.pathFound(path)
		return
	}
	level := slog.LevelInfo
	if path.Found() != validation.Passed {
		level = slog.LevelWarn
	}
	s.log.Log(context.Background(), level, "path validation "+string(path.Found()), "device", *s.name.Load(),
		"address", path.Address, "encoding", path.Encoding, "found", path.Text())
}

var pathCounters = map[validation.State]string{
	validation.Pending: session.PathsPending, validation.Passed: session.PathsPassed, validation.Failed: session.PathsFailed,
	validation.Altered: session.PathsAltered, validation.ChecksumFailed: session.PathsChecksum, validation.Unanswered: session.PathsUnanswered,
	validation.Foreign: session.PathsUnanswered,
}

// countPaths counts the paths by their state.
func (s *deviceSource) countPaths(counters map[string]uint64) {
	if s.paths == nil {
		return
	}
	unproven := s.unproven()
	for _, path := range s.paths.Paths() {
		if !unproven[path.Address] {
			counters[pathCounters[path.Found()]]++
		}
	}
}

// pathLimit names the paths on which marked packets do not arrive, or not all.
func (s *deviceSource) pathLimit() string {
	if s.paths == nil {
		return ""
	}
	first, others := "", 0
	unproven := s.unproven()
	for _, path := range s.paths.Paths() {
		switch {
		case unproven[path.Address]:
		case path.Found() == validation.Passed && path.MTU == 0 || path.State == validation.Pending:
		case first == "":
			first = path.Text()
		default:
			others++
		}
	}
	if others > 0 {
		first += fmt.Sprintf("; and %d more paths", others)
	}
	return first
}

// joinLimits joins those that are not empty.
func joinLimits(limits ...string) string {
	return strings.Join(slices.DeleteFunc(limits, func(l string) bool { return l == "" }), "; ")
}
