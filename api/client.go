package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1/pillionv1connect"
)

// DefaultPort is where a server listens if nothing else is said.
const DefaultPort = "8470"

// Errors that callers tell apart.
var (
	// ErrServer is an address that cannot be one of a server.
	ErrServer = errors.New("bad server address")
	// ErrFingerprint is a fingerprint that cannot be one, or that the server's
	// authority does not have.
	ErrFingerprint = errors.New("fingerprint of the server's authority")
)

// ClientOptions say how to reach a server.
type ClientOptions struct {
	// Server as in ParseServer.
	Server string
	// Token proves who asks; empty: nobody. It is never part of an error.
	Token string
	// Authority is a PEM file's content; Fingerprint is that of the authority's
	// certificate (Fingerprint). With either nothing else is trusted; without,
	// the roots of the system are.
	Authority   []byte
	Fingerprint string
	// Timeout bounds each call that is not a stream; 0: not at all.
	Timeout time.Duration
	// UserAgent names the program in the server's log.
	UserAgent string
}

// Client speaks to one server. Its calls return *connect.Error.
type Client struct {
	Agents   pillionv1connect.AgentServiceClient
	Sessions pillionv1connect.SessionServiceClient
	Data     pillionv1connect.DataServiceClient
	Flows    pillionv1connect.FlowServiceClient
	Topology pillionv1connect.TopologyServiceClient
	Server   pillionv1connect.ServerServiceClient
	// URL is where the server is.
	URL string

	transport *http.Transport
}

// NewClient makes a client; it connects at the first call.
func NewClient(o ClientOptions) (*Client, error) {
	server, err := ParseServer(o.Server)
	if err != nil {
		return nil, err
	}
	config, err := trust(server.Hostname(), o)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	if Loopback(server.Hostname()) {
		transport.Proxy = nil
	}
	caller := &http.Client{
		Transport: &bearer{token: o.Token, agent: o.UserAgent, next: transport},
		// The token belongs to this server only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	base := server.String()
	with := connect.WithInterceptors(timeout(o.Timeout))
	return &Client{
		Agents:    pillionv1connect.NewAgentServiceClient(caller, base, with),
		Sessions:  pillionv1connect.NewSessionServiceClient(caller, base, with),
		Data:      pillionv1connect.NewDataServiceClient(caller, base, with),
		Flows:     pillionv1connect.NewFlowServiceClient(caller, base, with),
		Topology:  pillionv1connect.NewTopologyServiceClient(caller, base, with),
		Server:    pillionv1connect.NewServerServiceClient(caller, base, with),
		URL:       base,
		transport: transport,
	}, nil
}

// Close gives back idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// ParseServer reads HOST, HOST:PORT or a URL. Without a scheme a loopback host
// is asked by plain HTTP and any other by HTTPS; a token would be readable on
// the way in plain HTTP, so that is refused for other hosts.
func ParseServer(text string) (*url.URL, error) {
	bad := func(why string) (*url.URL, error) {
		return nil, fmt.Errorf("read server %q: %w: %s", text, ErrServer, why)
	}
	scheme, rest, given := strings.Cut(text, "://")
	if !given {
		scheme, rest = "", text
	}
	if strings.Contains(rest, "@") {
		return nil, fmt.Errorf("read server: %w: it holds a name or a password", ErrServer)
	}
	if address, err := netip.ParseAddr(rest); err == nil && address.Is6() {
		rest = "[" + rest + "]"
	}
	parsed, err := url.Parse("//" + rest)
	if err != nil {
		return bad("it is neither HOST:PORT nor a URL")
	}
	if parsed.Hostname() == "" || strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.Fragment != "" {
		return bad("use HOST, HOST:PORT or https://HOST:PORT")
	}
	if host := parsed.Hostname(); strings.Contains(host, ":") {
		if _, err := netip.ParseAddr(host); err != nil {
			return bad("an IPv6 address with a port is written [ADDRESS]:PORT")
		}
	}
	switch {
	case scheme == "" && Loopback(parsed.Hostname()):
		scheme = "http"
	case scheme == "":
		scheme = "https"
	case scheme == "http" && !Loopback(parsed.Hostname()):
		return bad("plain HTTP is for this machine only")
	case scheme != "http" && scheme != "https":
		return bad("the scheme is https, or http on this machine")
	}
	port := parsed.Port()
	if port == "" {
		port = DefaultPort
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(parsed.Hostname(), port)}, nil
}

// Loopback reports whether a host is this machine by its name or address.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

func trust(host string, o ClientOptions) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(o.Authority) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(o.Authority) {
			return nil, errors.New("read certificate of the authority: no PEM certificate in it")
		}
	}
	if o.Fingerprint == "" {
		return config, nil
	}
	want, err := ParseFingerprint(o.Fingerprint)
	if err != nil {
		return nil, err
	}
	// The chain is verified below, against the one authority that has the
	// fingerprint; the usual way knows no such thing.
	config.InsecureSkipVerify = true
	config.VerifyConnection = func(state tls.ConnectionState) error {
		return verify(state.PeerCertificates, host, want)
	}
	return config, nil
}

// bearer puts the token on each request.
type bearer struct {
	token, agent string
	next         http.RoundTripper
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b.token != "" {
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	if b.agent != "" {
		r.Header.Set("User-Agent", b.agent)
	}
	return b.next.RoundTrip(r)
}

func timeout(limit time.Duration) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			if limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}
			return next(ctx, r)
		}
	}
}
