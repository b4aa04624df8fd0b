package server

import (
	"context"
	"errors"
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
	keeper     *oml.Keeper
	collectors []*collect.Collector
	listeners  []net.Listener
}

func (s *server) openApplications() (err error) {
	if s.config.OMLOff {
		return nil
	}
	a := &applications{}
	if a.keeper, err = oml.New(s.config.Folder, s.ingest, s.archive, s.log); err != nil {
		return err
	}
	s.applications = a
	s.ingest.Adopt(a.keeper.Adopt)
	token, err := s.applicationToken()
	if err != nil {
		return err
	}
	for _, address := range s.config.OML {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("listen for OML: %w", err)
		}
		a.add(listener, s, token)
	}
	listener, err := net.Listen("tcp", DefaultOML)
	if err != nil {
		// Nobody asked for this one, and there may be another server on this host.
		s.log.Info("no collector of OML on loopback", "error", err)
		return nil
	}
	a.add(listener, s, token)
	return nil
}

// add serves a listener; who is on the same host needs no token.
func (a *applications) add(listener net.Listener, s *server, token string) {
	if address, err := netip.ParseAddrPort(listener.Addr().String()); err == nil && address.Addr().IsLoopback() {
		token = ""
	}
	a.listeners = append(a.listeners, listener)
	a.collectors = append(a.collectors, collect.New(collect.Options{Keeper: a.keeper, Log: s.log, Token: token}))
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
			for _, collector := range s.applications.collectors {
				collector.Thin(policy.N())
			}
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
	for i, collector := range a.collectors {
		go func() {
			if err := collector.Serve(a.listeners[i]); err != nil {
				fail(err)
			}
		}()
	}
}

// close ends connections and waits until what came is on disk.
func (a *applications) close() error {
	for i, collector := range a.collectors {
		a.listeners[i].Close()
		collector.Close()
	}
	return errors.Join(a.keeper.Close())
}
