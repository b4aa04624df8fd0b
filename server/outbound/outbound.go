// Package outbound makes the connections that the server opens by its configuration: to webhooks, OTLP collectors
// and SMTP servers. Secrets go over no plain text and to no other origin, and connections only to addresses that are allowed.
package outbound

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Limits of a connection: of its beginning, and of a request as a whole if its caller has no shorter one.
const (
	dialTime    = 10 * time.Second
	requestTime = time.Minute
)

// Errors that callers distinguish.
var (
	ErrAddress = errors.New("address is not in outbound_addresses")
	ErrSecret  = errors.New("a secret requires TLS, except on loopback")
)

// Addresses are the prefixes of the addresses to which connections may be opened; none: all. Of a host that is
// reached by a proxy (HTTPS_PROXY), the address of the proxy counts.
type Addresses []netip.Prefix

// Dialer opens connections to allowed addresses; others are an ErrAddress. Names are checked by what they resolve to.
func (a Addresses) Dialer() *net.Dialer {
	return &net.Dialer{Timeout: dialTime, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("read address: %w", err)
		}
		host := to.Addr().Unmap().WithZone("")
		if len(a) > 0 && !slices.ContainsFunc(a, func(p netip.Prefix) bool { return p.Contains(host) }) {
			return fmt.Errorf("%s: %w", host, ErrAddress)
		}
		return nil
	}}
}

// Client completes a transport. Redirects, by which secrets would go elsewhere, are not followed: they are the answer. Close its idle connections after use.
func (a Addresses) Client(transport *http.Transport) *http.Client {
	transport.Proxy, transport.DialContext, transport.TLSHandshakeTimeout = http.ProxyFromEnvironment, a.Dialer().DialContext, dialTime
	return &http.Client{Transport: transport, Timeout: requestTime, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// CheckSecret returns an ErrSecret if what is sent to a URL can be read on the way.
func CheckSecret(to *url.URL) error {
	host, err := netip.ParseAddr(to.Hostname())
	if to.Scheme == "https" || strings.EqualFold(to.Hostname(), "localhost") || err == nil && host.Unmap().IsLoopback() {
		return nil
	}
	return ErrSecret
}

// TLS returns settings with the authorities in a file; no file: the system's.
func TLS(authorities string) (*tls.Config, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities == "" {
		return settings, nil
	}
	text, err := os.ReadFile(authorities)
	if err != nil {
		return nil, fmt.Errorf("read authorities: %w", err)
	}
	settings.RootCAs = x509.NewCertPool()
	if !settings.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read authorities: no certificate in %s", authorities)
	}
	return settings, nil
}

// WithoutURL is the cause of an error of a client, whose URL may have secrets.
func WithoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
