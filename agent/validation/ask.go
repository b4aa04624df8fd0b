package validation

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/probe/source"
	"pillion.dev/wire"
)

// Reply is what answers a path probe without a mark.
type Reply int

const (
	// NoReply: nothing.
	NoReply Reply = iota
	// Answered: a Responder.
	Answered
	// Unreachable: an ICMP port unreachable, as a host without a Responder sends it.
	Unreachable
)

// askEvery is the interval of the probes of Ask, of which there are askTries.
const (
	askEvery = 300 * time.Millisecond
	askTries = 4
)

// Ask sends path probes without a mark to a host until one is answered. Without privileges
// a source on this host may mark them. They leave by the device with this index, or by any if it is 0.
func Ask(ctx context.Context, to netip.Addr, device int) (Reply, error) {
	to = to.WithZone("")
	s, err := openSocket(to.Is6(), source.ProbeMark, device)
	if errors.Is(err, unix.EPERM) {
		s, err = openSocket(to.Is6(), 0, device)
	}
	if err != nil {
		return NoReply, err
	}
	probe := wire.Probe{Token: randomToken()}
	replies := make(chan Reply, 1)
	received := make(chan error, 1)
	go func() {
		received <- s.receive(func(from netip.Addr, answer wire.Probe, _ []byte) {
			if from == to && answer.Token == probe.Token {
				offer(replies, Answered)
			}
		}, func(from netip.Addr, _ wire.Probe) {
			if from == to {
				offer(replies, Unreachable)
			}
		})
	}()
	defer func() { <-received }()
	defer s.Close()
	return ask(ctx, replies, func() error { return s.send(to, probe.Append(nil)) })
}

// ask sends until there is a reply. If nothing was sent, its error says why.
func ask(ctx context.Context, replies <-chan Reply, send func() error) (Reply, error) {
	var failed error
	sent := false
	for range askTries {
		err := send()
		if sent = sent || err == nil; err != nil {
			failed = err
		}
		timer := time.NewTimer(askEvery)
		select {
		case reply := <-replies:
			timer.Stop()
			return reply, nil
		case <-ctx.Done():
			timer.Stop()
			return NoReply, nil
		case <-timer.C:
		}
	}
	if !sent {
		return NoReply, failed
	}
	return NoReply, nil
}

func offer(replies chan<- Reply, reply Reply) {
	select {
	case replies <- reply:
	default:
	}
}
