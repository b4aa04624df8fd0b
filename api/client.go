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

// DefaultPort is the default port of a server.
const DefaultPort = "8470"

// Errors that callers distinguish.
var (
	// ErrServer is an invalid server address.
	ErrServer = errors.New("invalid server address")
	// ErrFingerprint is an invalid fingerprint, or one that does not match the server's
	// authority.
	ErrFingerprint = errors.New("fingerprint of the server's authority")
)

// ClientOptions say how to reach a server.
type ClientOptions struct {
	// Server as in ParseServer.
	Server string
	// Token authenticates the caller; may be empty. It is never part of an error.
	Token string
	// Authority is the content of a PEM file; Fingerprint is the fingerprint of the authority's
	// certificate. With either, nothing else is trusted; with neither, the system's
	// roots are.
	Authority   []byte
	Fingerprint string
	// Timeout limits each unary call; 0: no limit.
	Timeout time.Duration
	// UserAgent identifies the program in the server's log.
	UserAgent string
}

// Client is a client of one server. Its calls return *connect.Error.
type Client struct {
	Agents   pillionv1connect.AgentServiceClient
	Alarms   pillionv1connect.AlarmServiceClient
	Sessions pillionv1connect.SessionServiceClient
	Data     pillionv1connect.DataServiceClient
	Flows    pillionv1connect.FlowServiceClient
	Topology pillionv1connect.TopologyServiceClient
	Server   pillionv1connect.ServerServiceClient
	// URL of the server.
	URL string

	transport *http.Transport
}

// NewClient returns a client; it connects with the first call.
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
	// A stream on which nothing arrives ends if the server's host is gone.
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second}
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
		Alarms:    pillionv1connect.NewAlarmServiceClient(caller, base, with),
		Sessions:  pillionv1connect.NewSessionServiceClient(caller, base, with),
		Data:      pillionv1connect.NewDataServiceClient(caller, base, with),
		Flows:     pillionv1connect.NewFlowServiceClient(caller, base, with),
		Topology:  pillionv1connect.NewTopologyServiceClient(caller, base, with),
		Server:    pillionv1connect.NewServerServiceClient(caller, base, with),
		URL:       base,
		transport: transport,
	}, nil
}

// Reach connects and verifies the server's certificate, and sends no token.
func (c *Client) Reach(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/healthz", nil)
	if err != nil {
		return fmt.Errorf("reach %s: %w", c.URL, err)
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("reach %s: %w", c.URL, err)
	}
	return response.Body.Close()
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// ParseServer parses HOST, HOST:PORT or a URL. The default scheme is http for loopback
// hosts and https for others, for which http is refused: it would expose the token.
func ParseServer(text string) (*url.URL, error) {
	bad := func(why string) (*url.URL, error) {
		return nil, fmt.Errorf("read server %q: %w: %s", text, ErrServer, why)
	}
	scheme, rest, given := strings.Cut(text, "://")
	if !given {
		scheme, rest = "", text
	}
	if strings.Contains(rest, "@") {
		return nil, fmt.Errorf("read server: %w: user name or password in the address", ErrServer)
	}
	if address, err := netip.ParseAddr(rest); err == nil && address.Is6() {
		rest = "[" + rest + "]"
	}
	parsed, err := url.Parse("//" + rest)
	if err != nil {
		return bad("neither HOST:PORT nor a URL")
	}
	if parsed.Hostname() == "" || strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.Fragment != "" {
		return bad("use HOST, HOST:PORT or https://HOST:PORT")
	}
	if host := parsed.Hostname(); strings.Contains(host, ":") {
		if _, err := netip.ParseAddr(host); err != nil {
			return bad("write an IPv6 address with a port as [ADDRESS]:PORT")
		}
	}
	switch {
	case scheme == "" && Loopback(parsed.Hostname()):
		scheme = "http"
	case scheme == "":
		scheme = "https"
	case scheme == "http" && !Loopback(parsed.Hostname()):
		return bad("plain HTTP is supported on loopback only")
	case scheme != "http" && scheme != "https":
		return bad("use the scheme https, or http on loopback")
	}
	port := parsed.Port()
	if port == "" {
		port = DefaultPort
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(parsed.Hostname(), port)}, nil
}

// Loopback reports whether a host is localhost or a loopback address.
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
			return nil, errors.New("read certificate of the authority: no PEM certificate")
		}
	}
	if o.Fingerprint == "" {
		return config, nil
	}
	want, err := ParseFingerprint(o.Fingerprint)
	if err != nil {
		return nil, err
	}
	// The chain is verified below, against the authority with the fingerprint, which
	// crypto/tls does not support.
	config.InsecureSkipVerify = true
	config.VerifyConnection = func(state tls.ConnectionState) error {
		return verify(state.PeerCertificates, host, want)
	}
	return config, nil
}

// bearer adds the token to each request.
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
