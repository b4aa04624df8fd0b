package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"pillion.dev/omsp/collect"
	"pillion.dev/server/event"
	"pillion.dev/server/oml"
)

// applications are those that report by OML's protocol: on loopback everybody, else
// those that show the token.
type applications struct {
	backend   *oml.Backend
	collector *collect.Collector
	doors     []door
}

// door is a listener, and what clients show there.
type door struct {
	net.Listener
	token string
}

func (s *server) openApplications() (err error) {
	if s.config.OMLOff {
		return nil
	}
	a := &applications{}
	if a.backend, err = oml.New(s.config.Folder, s.ingest, s.archive, s.log); err != nil {
		return err
	}
	a.collector = collect.New(collect.Options{Backend: a.backend, Log: s.log})
	s.applications = a
	s.ingest.Adopt(a.backend.Adopt)
	token, err := s.applicationToken()
	if err != nil {
		return err
	}
	for _, address := range s.config.OML {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("listen for OML: %w", err)
		}
		if s.config.OMLTLS {
			listener = tls.NewListener(listener, s.authority.TLS())
		}
		a.add(listener, token)
	}
	listener, err := net.Listen("tcp", DefaultOML)
	if err != nil {
		// Nobody asked for this one, and there may be another server on this host.
		s.log.Info("no collector of OML on loopback", "error", err)
		return nil
	}
	a.add(listener, token)
	return nil
}

// add takes a listener; who is on the same host needs no token.
func (a *applications) add(listener net.Listener, token string) {
	if address, err := netip.ParseAddrPort(listener.Addr().String()); err == nil && address.Addr().IsLoopback() {
		token = ""
	}
	a.doors = append(a.doors, door{listener, token})
}

// addresses are those that clients can use.
func (a *applications) addresses() []string {
	var all []string
	for _, d := range a.doors {
		all = append(all, d.Addr().String())
	}
	return all
}

// applicationToken is what the file holds; addresses that others reach need one.
func (s *server) applicationToken() (string, error) {
	if s.config.OMLToken == "" {
		for _, address := range s.config.OML {
			host, _, err := net.SplitHostPort(address)
			if ip, parsed := netip.ParseAddr(host); err != nil || parsed != nil && host != "localhost" || parsed == nil && !ip.IsLoopback() {
				return "", fmt.Errorf("listen for OML on %s: others reach that address; name a file with a token (oml_token_file)", address)
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

// thin asks applications for fewer samples while much waits for the archive.
func (s *server) thin(ctx context.Context, ticks <-chan time.Time) {
	var policy collect.Thinning
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks:
			before := policy.N()
			if !policy.Step(now, s.ingest.Share()) {
				continue
			}
			s.tellThinning(before, policy.N())
			s.applications.collector.Thin(policy.N())
		}
	}
}

func (s *server) tellThinning(before, n int) {
	s.log.Info("ask applications for fewer samples", "one_of", n)
	switch {
	case before == 1:
		s.local.Event(event.Event{Kind: "thinning", Level: event.Warning,
			Message: "much waits for the archive: applications that report to the server are asked for fewer samples"})
	case n == 1:
		s.local.Event(event.Event{Kind: "thinning-ended", Level: event.Info,
			Message: "applications that report to the server are asked for all samples again"})
	}
}

// serve takes connections until close.
func (a *applications) serve(fail context.CancelCauseFunc) {
	for _, d := range a.doors {
		go func() {
			if err := a.collector.Serve(d.Listener, d.token); err != nil {
				fail(err)
			}
		}()
	}
}

// close ends connections and waits until what came is on disk, as long as that has a
// point.
func (a *applications) close(hurry func()) error {
	for _, d := range a.doors {
		d.Close()
	}
	a.collector.Close()
	hurry()
	return a.backend.Close()
}
