package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"pillion.dev/agent/oml"
	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/omsp/collect"
)

// DefaultOML is where applications of the host report; omlOff is the setting by
// which they cannot.
const (
	DefaultOML = "127.0.0.1:3003"
	omlOff     = "off"
)

// applications are those of this host that report by OML's protocol.
type applications struct {
	backend   *oml.Backend
	collector *collect.Collector
	listener  net.Listener
	policy    collect.Thinning
	// thin is what is asked of applications; busy when the server last said that it
	// has too much to do, ns since 1970.
	thin atomic.Int64
	busy atomic.Int64
}

// checkOML refuses an address that other hosts reach: nobody is asked for a token.
func checkOML(address string) error {
	if address == omlOff {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if ip, parsed := netip.ParseAddr(host); err != nil || host != "localhost" && (parsed != nil || !ip.IsLoopback()) {
		return fmt.Errorf("%w: oml %q: use an address of this host alone, such as %s, or %s", ErrConfig, address, DefaultOML, omlOff)
	}
	return nil
}

// openApplications begins to listen. A port that is in use is no reason not to
// measure: there may be a server on this host, or OML's own.
func (s *service) openApplications() error {
	a := s.applications
	if err := a.backend.Use(s.spool); err != nil {
		return fmt.Errorf("take what applications report: %w", err)
	}
	if s.config.OML == omlOff {
		return nil
	}
	listener, err := net.Listen("tcp", s.config.OML)
	if err != nil {
		s.log.Warn("take nothing from applications", "error", err)
		return nil
	}
	a.listener = listener
	a.collector = collect.New(collect.Options{Backend: a.backend, Log: s.log})
	go func() { s.logged("take what applications report", a.collector.Serve(listener, "")) }()
	s.log.Info("applications can report", "oml", listener.Addr())
	return nil
}

// send is how the spool delivers; it hears whether the server has too much to do.
func (s *service) send(ctx context.Context, envelope measure.Envelope) error {
	err := s.bus.Send(ctx, envelope)
	if errors.Is(err, bus.ErrBusy) {
		s.applications.busy.Store(time.Now().UnixNano())
	}
	return err
}

// busyFor is how long the server's word counts.
const busyFor = 2 * time.Second

// thin asks applications for fewer samples while much of the spool is full, or the
// server is overloaded.
func (s *service) thin(ctx context.Context) {
	a := s.applications
	if a.collector == nil {
		return
	}
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			held := s.spool.Stats()
			a.step(now, float64(held.Bytes)/float64(held.LimitBytes))
		}
	}
}

// step asks for what the policy says.
func (a *applications) step(now time.Time, share float64) {
	if now.Sub(time.Unix(0, a.busy.Load())) < busyFor {
		share = 1
	}
	if a.policy.Step(now, share) {
		a.thin.Store(int64(a.policy.N()))
		a.collector.Thin(a.policy.N())
	}
}

// close ends connections. While the disk refuses what came it waits only so long:
// the spool tells those that still wait when it is closed.
func (a *applications) close() {
	if a.collector == nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		a.collector.Close()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(closeTime):
	}
}
