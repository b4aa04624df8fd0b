package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/application"
	"pillion.dev/server/event"
	"pillion.dev/server/ingest"
	"pillion.dev/server/store"
)

// ApplicationOptions are what the backend for applications works with.
type ApplicationOptions struct {
	Store   store.Store
	Ingest  *ingest.Ingest
	Archive archive.Archive
	// Clock says when domains and tables are used, and from when they are unused for too long.
	Clock interface {
		Now() time.Time
		Cutoff() time.Time
	}
	// Domains and tables that one source may create, and its connections; zero: the default.
	Domains, Tables, Connections int
	// Refused is called with what is refused from a source because of a quota.
	Refused  func(source string, err error)
	Feedback application.Feedback
	Log      *slog.Logger
}

// ApplicationBackend stores what applications report.
type ApplicationBackend interface {
	// Adopt names a relayed stream; see ingest.Ingest.
	Adopt(b archive.Batch) (archive.Batch, error)
	// Follow takes over what other servers of the fleet change, until the context ends.
	Follow(ctx context.Context) error
	Collector() application.Collector
	Close() error
}

var openBackend func(ApplicationOptions) (ApplicationBackend, error)

// RegisterApplications sets what opens the backend for applications. Without it the server accepts
// nothing from them.
func RegisterApplications(open func(ApplicationOptions) (ApplicationBackend, error)) {
	openBackend = open
}

// applications are the listeners for OMSP clients: unauthenticated on loopback, with
// a token elsewhere.
type applications struct {
	backend   ApplicationBackend
	collector application.Collector
	listeners []listener
}

// listener is a socket and the token that its clients must present.
type listener struct {
	net.Listener
	token string
}

func (s *server) openApplications() (err error) {
	if s.config.OMLOff || openBackend == nil {
		return nil
	}
	a := &applications{}
	a.backend, err = openBackend(ApplicationOptions{
		Store: s.store, Ingest: s.ingest, Archive: s.archive, Clock: s.clock, Domains: s.config.Quotas.Domains, Tables: s.config.Quotas.Tables,
		Connections: s.config.Quotas.Applications, Refused: s.refusals.Source, Feedback: application.Feedback(s.config.OMLFeedback), Log: s.log,
	})
	if err != nil {
		return err
	}
	a.collector = a.backend.Collector()
	s.applications = a
	s.ingest.Adopt(a.backend.Adopt)
	token, err := s.applicationToken()
	if err != nil {
		return err
	}
	for _, address := range s.config.OML {
		socket, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("listen for OML: %w", err)
		}
		if s.config.OMLTLS {
			socket = tls.NewListener(socket, s.authority.TLS())
		}
		a.add(socket, token)
	}
	socket, err := net.Listen("tcp", DefaultOML)
	if err != nil {
		// It was not configured explicitly, and another server may run on this host.
		s.log.Info("OML port unavailable: applications cannot report", "error", err)
		return nil
	}
	a.add(socket, token)
	return nil
}

// add adds a listener; on loopback it requires no token.
func (a *applications) add(socket net.Listener, token string) {
	if address, err := netip.ParseAddrPort(socket.Addr().String()); err == nil && address.Addr().IsLoopback() {
		token = ""
	}
	a.listeners = append(a.listeners, listener{socket, token})
}

// addresses returns the listen addresses.
func (a *applications) addresses() []string {
	var all []string
	for _, l := range a.listeners {
		all = append(all, l.Addr().String())
	}
	return all
}

// applicationToken reads the token file, which is required for addresses other than loopback.
func (s *server) applicationToken() (string, error) {
	if s.config.OMLToken == "" {
		for _, address := range s.config.OML {
			host, _, err := net.SplitHostPort(address)
			if ip, parsed := netip.ParseAddr(host); err != nil || parsed != nil && host != "localhost" || parsed == nil && !ip.IsLoopback() {
				return "", fmt.Errorf("listen for OML on %s: not a loopback address; set a token (oml_token_file)", address)
			}
		}
		return "", nil
	}
	text, err := os.ReadFile(s.config.OMLToken)
	if err != nil {
		return "", fmt.Errorf("read token for OML: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("read token for OML: %s is empty", s.config.OMLToken)
	}
	return token, nil
}

// thin asks applications for fewer samples while the archive queue is long.
func (s *server) thin(ctx context.Context, ticks <-chan time.Time) {
	var policy application.Thinning
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks:
			before := policy.N()
			if !policy.Step(now, s.ingest.Share()) {
				continue
			}
			s.reportThinning(before, policy.N())
			s.applications.collector.Thin(policy.N())
		}
	}
}

func (s *server) reportThinning(before, n int) {
	s.log.Info("set sampling of applications", "one_of", n)
	switch {
	case before == 1:
		s.local.Event(event.Event{Kind: "thinning", Level: event.Warning,
			Message: "archive queue is long: applications that report to the server are asked to send fewer samples"})
	case n == 1:
		s.local.Event(event.Event{Kind: "thinning-ended", Level: event.Info,
			Message: "applications that report to the server are asked to send all samples again"})
	}
}

// serve accepts connections until close.
func (a *applications) serve(fail context.CancelCauseFunc) {
	for _, l := range a.listeners {
		go func() {
			if err := a.collector.Serve(l.Listener, l.token); err != nil {
				fail(err)
			}
		}()
	}
}

// close closes connections and waits until received tuples are on disk, unless the
// archive is failing.
func (a *applications) close(hurry func()) error {
	for _, l := range a.listeners {
		l.Close()
	}
	a.collector.Close()
	hurry()
	return a.backend.Close()
}
