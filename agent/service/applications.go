package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"pillion.dev/agent/spool"
	"pillion.dev/bus"
	"pillion.dev/internal/every"
	"pillion.dev/measure"
	"pillion.dev/measure/application"
)

// DefaultOML is the address of the OML collector for applications of the host; omlOff
// disables it.
const (
	DefaultOML = "127.0.0.1:3003"
	omlOff     = "off"
)

var openBackend func(folder string, shared []string, log *slog.Logger) (application.AgentBackend, error)

// RegisterApplications sets what opens the backend for applications of the host, with its state in a
// folder, and the domains that all users share. Without it applications cannot report.
func RegisterApplications(open func(folder string, shared []string, log *slog.Logger) (application.AgentBackend, error)) {
	openBackend = open
}

// applications are the applications of this host that report measurements of their own.
type applications struct {
	backend application.AgentBackend // nil: none is registered
	// spool has only what applications report, so that it cannot evict Pillion's own rows.
	spool     *spool.Spool
	collector application.Collector
	listener  net.Listener
	policy    application.Thinning
	// thin is the thinning requested of applications; busy is when the server last
	// reported overload, ns since 1970.
	thin atomic.Int64
	busy atomic.Int64
}

// checkOML rejects addresses that other hosts can reach, since there is no authentication.
func checkOML(address string) error {
	if address == omlOff {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if ip, parsed := netip.ParseAddr(host); err != nil || host != "localhost" && (parsed != nil || !ip.IsLoopback()) {
		return fmt.Errorf("%w: oml %q: use a loopback address such as %s, or %s", ErrConfig, address, DefaultOML, omlOff)
	}
	return nil
}

// openApplications starts the collector. It is optional: its port may be in use by a
// server on this host, or by OML's own.
func (s *service) openApplications() error {
	a := s.applications
	if a.backend == nil {
		return nil
	}
	if s.streams != nil && s.streams.reported.wanted() {
		s.streams.reported.origin = a.backend.Origin
		a.backend.Filter(s.streams.reported)
	}
	if err := a.backend.Use(a.spool); err != nil {
		return fmt.Errorf("open OML collector: %w", err)
	}
	if s.config.OML == omlOff {
		return nil
	}
	listener, err := net.Listen("tcp", s.config.OML)
	if err != nil {
		s.log.Warn("OML port unavailable: applications cannot report", "error", err)
		return nil
	}
	a.listener = listener
	a.collector = a.backend.Collector(application.Feedback(s.config.OMLFeedback), s.log)
	go func() { s.logged("serve OML collector", a.collector.Serve(listener, "")) }()
	s.log.Info("OML collector listening", "address", listener.Addr())
	return nil
}

// send delivers a batch of the spool, and notes if the server is overloaded.
func (s *service) send(ctx context.Context, envelope measure.Envelope) error {
	err := s.bus.Send(ctx, envelope)
	if errors.Is(err, bus.ErrBusy) {
		s.applications.busy.Store(time.Now().UnixNano())
	}
	if errors.Is(err, bus.ErrRefused) {
		select {
		case s.ask <- struct{}{}:
		default:
		}
	}
	return err
}

// busyFor is how long a report of overload is valid.
const busyFor = 2 * time.Second

// thin requests fewer samples of applications while the spool is filling up or the
// server is overloaded.
func (s *service) thin(ctx context.Context) {
	a := s.applications
	if a.collector == nil {
		return
	}
	every.Do(ctx, time.Second, func() {
		held := a.spool.Stats()
		a.step(time.Now(), float64(held.Bytes)/float64(held.LimitBytes))
	})
}

// step applies the thinning policy.
func (a *applications) step(now time.Time, share float64) {
	if now.Sub(time.Unix(0, a.busy.Load())) < busyFor {
		share = 1
	}
	if a.policy.Step(now, share) {
		a.thin.Store(int64(a.policy.N()))
		a.collector.Thin(a.policy.N())
	}
}

// close closes connections. If writing to the disk fails it gives up after closeTimeout:
// the spool reports to the remaining ones when it is closed.
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
	case <-time.After(closeTimeout):
	}
}
