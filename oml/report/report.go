// Package report delivers the rows of tools that are run by hand to an OMSP collector, or into an
// OMSP file.
//
// It is independent of the tools. An agent that has joined a server does not use it: its
// rows go through the spool.
package report

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"pillion.dev/agent/report"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/client"
)

// DefaultPort is the OMSP port.
const DefaultPort = "3003"

// Open opens a report to a collector or file.
func Open(o report.Options) (report.Report, error) {
	if o.Sender == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("read host name: %w", err)
		}
		o.Sender = name
	}
	for _, scheme := range []string{"file:", "flush:"} {
		if path, ok := strings.CutPrefix(o.URI, scheme); ok {
			return openFile(o, path)
		}
	}
	address, err := parseAddress(o.URI)
	if err != nil {
		return nil, err
	}
	// A domain may carry the token that some collectors require.
	domain, token := o.Domain, ""
	if name, query, found := strings.Cut(o.Domain, "?token="); found {
		domain = name
		if token, err = url.QueryUnescape(query); err != nil {
			return nil, fmt.Errorf("%w: token of domain %q", report.ErrURI, name)
		}
	}
	c, err := client.New(client.Options{
		Address: address, Domain: domain, Token: token, Sender: o.Sender, App: o.App, Buffer: bufferBytes,
	})
	if err != nil {
		return nil, err
	}
	r := &remote{address: address, client: c, points: map[*measure.Schema]*client.Point{}}
	for _, schema := range o.Points {
		s := tableOf(0, schema)
		if r.points[schema], err = c.Point(strings.TrimPrefix(s.Name, o.App+"_"), s.Fields...); err != nil {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			return nil, errors.Join(err, c.Close(ended))
		}
	}
	return r, nil
}

func parseAddress(uri string) (string, error) {
	rest := strings.TrimPrefix(strings.TrimPrefix(uri, "tcp:"), "//")
	host, port, err := net.SplitHostPort(rest)
	if err != nil {
		host, port = strings.Trim(rest, "[]"), DefaultPort
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil || host == "" || strings.ContainsAny(host, "/ ") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return "", fmt.Errorf("%w: %q", report.ErrURI, uri)
	}
	return net.JoinHostPort(host, port), nil
}

const (
	// bufferBytes bounds what waits for a collector.
	bufferBytes = 32 << 20
	// waitingMax bounds the rows that wait if the tool can be paused.
	waitingMax = 50_000
	pause      = time.Millisecond
)

// remote reports to a collector.
type remote struct {
	address string
	client  *client.Client
	points  map[*measure.Schema]*client.Point
	values  []omsp.Value
}

func (r *remote) Put(schema *measure.Schema, sample measure.Sample) error {
	at := fill(&r.values, schema, sample)
	if err := r.points[schema].InjectAt(at, r.values); err != nil && !errors.Is(err, client.ErrDropped) {
		return fmt.Errorf("report %s: %w", schema.Name, err) // drops are counted
	}
	return nil
}

func (r *remote) Note(key, value string) error {
	r.client.Note(key, value)
	return nil
}

func (r *remote) Room(ctx context.Context) error {
	for r.client.Waiting() > waitingMax {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	return nil
}

func (r *remote) Close(ctx context.Context) error {
	err := r.client.Close(ctx)
	if n := r.client.Dropped(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d rows dropped because the collector was too slow", n))
	}
	if err != nil {
		return fmt.Errorf("report to %s: %w", r.address, err)
	}
	return nil
}
