package identity

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/bus"
)

// Options of Enrol.
type Options struct {
	// Server is host or host:port of the server's HTTP port; default port 8470. Several servers
	// of one fleet are separated by commas: any of them enrols the host.
	Server string
	// Token is the join token.
	Token string
	// Name of the agent; default: NodeName(Node), or without Node the host name up to the first dot.
	Name string
	// Node is the name of this host in Kubernetes; empty if it has none.
	Node string
	// Folder of the identity; default DefaultFolder.
	Folder string
}

// DefaultPort is the server's HTTP port.
const DefaultPort = "8470"

// Enrol obtains an identity for this host. If the host already has an identity of that server and name, Enrol
// returns it, whatever the token, and fresh is false; it is replaced only if it has expired. After an error the
// next Enrol repeats the request, with the same key.
func Enrol(ctx context.Context, options Options) (i *Identity, fresh bool, err error) {
	if options.Folder == "" {
		options.Folder = DefaultFolder
	}
	server, err := serverAddresses(options.Server)
	if err != nil {
		return nil, false, fmt.Errorf("enrol this host: %w", err)
	}
	existing, err := Open(options.Folder)
	if err != nil && !errors.Is(err, ErrNotEnrolled) {
		return nil, false, err
	}
	if existing != nil {
		d := existing.document()
		if !share(d.Server, server) || options.Name != "" && d.Name != options.Name {
			return nil, false, fmt.Errorf("enrol this host: %w: at %s as %q; remove %s to enrol it again",
				ErrEnrolled, d.Server, d.Name, existing.path)
		}
		if time.Now().Before(existing.Expires()) {
			return existing, false, existing.move(server)
		}
		options.Name = d.Name
		defer func() {
			if err != nil {
				err = fmt.Errorf("certificate of agent %q expired on %s: %w", d.Name, existing.Expires().UTC().Format("2006-01-02 15:04 MST"), err)
			}
		}()
	}
	if options.Name == "" && options.Node != "" {
		options.Name = NodeName(options.Node)
	}
	if options.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, false, fmt.Errorf("enrol this host: %w; use --name", err)
		}
		options.Name, _, _ = strings.Cut(strings.ToLower(host), ".")
	}
	if !bus.ValidAgent(options.Name) {
		return nil, false, fmt.Errorf("enrol this host: invalid agent name %.70q; "+
			"use --name with up to 63 lowercase letters, digits and inner hyphens", options.Name)
	}
	if i, err = enrol(ctx, server, options); err != nil {
		return nil, false, fmt.Errorf("enrol this host as %q at %s: %w", options.Name, server, err)
	}
	return i, true, nil
}

func enrol(ctx context.Context, server string, options Options) (*Identity, error) {
	fingerprint, err := parseToken(options.Token)
	if err != nil {
		return nil, err
	}
	key, request, err := prepare(options.Folder, options.Name, server, "")
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection checks the fingerprint in the token
		VerifyConnection:   func(state tls.ConnectionState) error { return verifyByFingerprint(state, fingerprint) },
	}
	var answer enrolResponse
	asked, err := callAny(ctx, config, server, "Enrol", enrolRequest{options.Token, options.Name, request}, &answer)
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(answer.Authority) != fingerprint {
		return nil, fmt.Errorf("%w: the fingerprint of its CA differs", ErrImpostor)
	}
	address, err := busURL(answer.Bus, asked)
	if err != nil {
		return nil, err
	}
	d := document{
		Name: options.Name, Server: server, Bus: address, Key: key,
		Authority: encodePEM("CERTIFICATE", answer.Authority), Certificate: encodePEM("CERTIFICATE", answer.Certificate),
	}
	i := &Identity{path: filepath.Join(options.Folder, fileName)}
	if err := i.use(d); err != nil {
		return nil, fmt.Errorf("invalid response of the server: %w", err)
	}
	for range 2 { // twice, so that the backup of the previous version has the same content
		if err := save(i.path, d); err != nil {
			return nil, err
		}
	}
	return i, finish(options.Folder)
}

// parseToken returns the fingerprint of the CA in a join token.
func parseToken(token string) (fingerprint [sha256.Size]byte, err error) {
	if token == "" {
		return fingerprint, errors.New("a join token is required: the contents of join.token in the data directory of the server")
	}
	if strings.HasPrefix(token, "pt_") {
		return fingerprint, fmt.Errorf("%w: this is a user's token; a join token starts with pj_", ErrToken)
	}
	rest, ok := strings.CutPrefix(token, "pj_")
	text, secret, ok2 := strings.Cut(rest, "_")
	sum, err := hex.DecodeString(text)
	if !ok || !ok2 || secret == "" || err != nil || len(sum) != len(fingerprint) || len(token) > 256 {
		return fingerprint, fmt.Errorf("%w: it is not of the form pj_FINGERPRINT_SECRET; was it copied completely?", ErrToken)
	}
	return [sha256.Size]byte(sum), nil
}

// verifyByFingerprint finds the CA in the chain and verifies the server with it.
func verifyByFingerprint(state tls.ConnectionState, fingerprint [sha256.Size]byte) error {
	var root *x509.Certificate
	for _, c := range state.PeerCertificates {
		if sha256.Sum256(c.Raw) == fingerprint {
			root = c
		}
	}
	if root == nil || !root.IsCA {
		return fmt.Errorf("%w: the fingerprint of its CA differs", ErrImpostor)
	}
	return verifyServer(state, root)
}

// serverAddresses parses a user's server argument into host:port, or several of them separated
// by commas.
func serverAddresses(text string) (string, error) {
	var all []string
	for one := range strings.SplitSeq(text, ",") {
		address, err := serverAddress(strings.TrimSpace(one))
		if err != nil {
			return "", err
		}
		if !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	if len(all) > serversMax {
		return "", fmt.Errorf("%d servers, at most %d", len(all), serversMax)
	}
	return strings.Join(all, ","), nil
}

// serversMax bounds the servers in a list, and thereby the time until callAny fails if none of them responds.
const serversMax = 16

// share reports whether two lists of servers, separated by commas, have a server in common.
func share(a, b string) bool {
	other := strings.Split(b, ",")
	return slices.ContainsFunc(strings.Split(a, ","), func(server string) bool { return slices.Contains(other, server) })
}

// serverAddress parses one server of the argument into host:port.
func serverAddress(text string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("server %.100q: %s; want host or host:port", text, why)
	}
	if strings.HasPrefix(text, "http://") {
		return bad("agents require TLS")
	}
	rest := strings.TrimSuffix(strings.TrimPrefix(text, "https://"), "/")
	host, port := strings.TrimSuffix(strings.TrimPrefix(rest, "["), "]"), DefaultPort
	if net.ParseIP(host) == nil && strings.Contains(rest, ":") {
		var err error
		if host, port, err = net.SplitHostPort(rest); err != nil {
			return bad("invalid address")
		}
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return bad("the port is not from 1 to 65535")
	}
	if host == "" || strings.ContainsAny(host, "/?#@[] \\\t\r\n") {
		return bad("invalid host")
	}
	return net.JoinHostPort(host, port), nil
}

// ParseBus checks bus URLs from a configuration, tls://host:port, separated by commas.
func ParseBus(text string) (string, error) {
	address, err := busURL(text, "")
	if err != nil {
		return "", fmt.Errorf("bus %.100q: want tls://host:port, several separated by commas", text)
	}
	return address, nil
}

// busURL completes the bus URLs from the server, separated by commas: an empty host stands for the server's.
func busURL(text, server string) (string, error) {
	var urls []string
	for one := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Scheme != "tls" || u.Port() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" {
			return "", fmt.Errorf("invalid bus URL %.100q from the server; want tls://host:port", one)
		}
		host := u.Hostname()
		if host == "" {
			if host, _, err = net.SplitHostPort(server); err != nil {
				return "", err
			}
		}
		urls = append(urls, "tls://"+net.JoinHostPort(host, u.Port()))
	}
	return strings.Join(urls, ","), nil
}
