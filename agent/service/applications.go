package service

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"pillion.dev/agent/oml"
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
	keeper    *oml.Keeper
	collector *collect.Collector
	listener  net.Listener
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
	if err := a.keeper.Use(s.spool); err != nil {
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
	a.collector = collect.New(collect.Options{Keeper: a.keeper, Log: s.log})
	go func() { s.logged("take what applications report", a.collector.Serve(listener)) }()
	s.log.Info("applications can report", "oml", listener.Addr())
	return nil
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
