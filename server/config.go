package server

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/internal/document"
	"pillion.dev/internal/quantity"
	"pillion.dev/measure"
	"pillion.dev/measure/application"
	"pillion.dev/server/alarm"
	"pillion.dev/server/notify"
	"pillion.dev/server/otlp"
)

// Defaults.
const (
	DefaultFolder = "/var/lib/pillion-server"
	DefaultHTTP   = ":8470"
	DefaultBus    = ":8471"
	DefaultOML    = "127.0.0.1:3003"
	// DefaultArchive is a file in the data directory.
	DefaultArchive = "duckdb:"
	// DefaultSiteLabel is the label that names the site of an agent.
	DefaultSiteLabel = "site"
)

// Config is the configuration of a server, from a YAML file or the command line.
type Config struct {
	// Folder is the data directory; default DefaultFolder.
	Folder string `yaml:"data"`
	// HTTP is the address of the API; default DefaultHTTP.
	HTTP string `yaml:"http"`
	// NATSListen is the address of the embedded bus; default DefaultBus.
	NATSListen string `yaml:"nats_listen"`
	// NATS is the URL of an external NATS cluster; without it NATS is embedded.
	NATS string `yaml:"nats"`
	// Hosts are additional names and addresses of the server, for its certificate.
	Hosts []string `yaml:"hosts"`
	// Retention limits streams, by name; "*" applies to all others.
	Retention map[string]Retention `yaml:"retention"`
	// Archive is the URL of the archive, such as duckdb:PATH; default DefaultArchive.
	Archive string `yaml:"archive"`
	// MemoryBytes limits the archive's memory; default 1 GiB.
	MemoryBytes quantity.Size `yaml:"memory_bytes"`
	// QueryMemoryBytes limits the memory of each process that answers a query; default a
	// quarter of MemoryBytes, at least 64 MiB.
	QueryMemoryBytes quantity.Size `yaml:"query_memory_bytes"`
	// QueryProcessors limits the processors of each; default half of them.
	QueryProcessors int `yaml:"query_processors"`
	// QueriesAtOnce limits their number; default 4.
	QueriesAtOnce int `yaml:"queries_at_once"`
	// OML are additional listen addresses for instrumented applications, besides DefaultOML.
	OML []string `yaml:"oml"`
	// OMLToken is the file with the token that applications must present; required
	// unless all addresses are loopback.
	OMLToken string `yaml:"oml_token_file"`
	// OMLFeedback is how applications are asked to send less while the archive's queue is
	// long: thin, slow or aggregate; default thin.
	OMLFeedback string `yaml:"oml_feedback"`
	// OMLTLS requires TLS on the addresses in OML.
	OMLTLS bool `yaml:"oml_tls"`
	// OMLOff disables all OML listeners.
	OMLOff bool `yaml:"oml_off"`
	// MetricsOpen serves /metrics without authentication.
	MetricsOpen bool `yaml:"metrics_open"`
	// OTLP is the export of metrics to a collector.
	OTLP otlp.Config `yaml:"otlp"`
	// PlainHTTP serves the API on loopback without TLS too; default true.
	PlainHTTP *bool `yaml:"plain_http"`
	// TrustedProxies are addresses and prefixes of reverse proxies, whose headers
	// X-Forwarded-For and X-Forwarded-Proto are believed.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// AgentCertificates is the validity of agent certificates; default one year.
	AgentCertificates time.Duration `yaml:"agent_certificates"`
	// LossEvent is the threshold of the built-in rule loss.
	LossEvent LossEvent `yaml:"loss_event"`
	// Alarms are rules besides the built-in ones, or in their place.
	Alarms []alarm.Rule `yaml:"alarms"`
	// Notify are receivers of notifications about alarms.
	Notify []notify.Receiver `yaml:"notify"`
	// OutboundAddresses are addresses and prefixes to which webhooks, e-mail and metrics may go; default all.
	OutboundAddresses []string `yaml:"outbound_addresses"`
	// URL of the page, for links in notifications; default the first of Hosts, and the port of HTTP; with neither there are no links.
	URL string `yaml:"url"`
	// Quotas bound what one agent, source address or user can make the server keep.
	Quotas Quotas `yaml:"quotas"`
	// Limits bound what the server keeps for the whole fleet.
	Limits Limits `yaml:"limits"`
	// SiteLabel is the label of agents that names their site; default DefaultSiteLabel.
	SiteLabel string `yaml:"site_label"`
	// ReverseDNS shows the names of routers by reverse DNS.
	ReverseDNS bool `yaml:"reverse_dns"`
	// AggregateTo is the server of a fleet to which this server, of a site, sends merged flows.
	AggregateTo Aggregate `yaml:"aggregate_to"`
	// Join is required for that.
	Join Joining `yaml:"-" json:"-"`
}

// Quotas of one agent or source; zero: the default.
type Quotas struct {
	// Streams that an agent may create or extend, and Columns that it may add to them.
	Streams int `yaml:"streams"`
	Columns int `yaml:"columns"`
	// Sequences of batches of an agent that the server tells apart, and Gaps in them.
	Sequences int `yaml:"sequences"`
	Gaps      int `yaml:"gaps"`
	// Backlog are the queued batches of an agent.
	Backlog quantity.Size `yaml:"backlog_bytes"`
	// States are reports of an agent per second.
	States int `yaml:"states"`
	// Addresses of an agent that the server considers.
	Addresses int `yaml:"addresses"`
	// Connections of a source address: to the bus before an agent is authenticated, and to the API.
	Connections int `yaml:"connections"`
	// Requests of a source address or a token that are in progress.
	Requests quantity.Size `yaml:"request_bytes"`
	// Applications of an address or a local user that may be connected.
	Applications int `yaml:"oml_connections"`
	// Domains and Tables of OML that an agent, an address or a local user may create.
	Domains int `yaml:"oml_domains"`
	Tables  int `yaml:"oml_tables"`
}

func (q Quotas) archive() archive.Quota {
	return archive.Quota{Streams: q.Streams, Columns: q.Columns, Sequences: q.Sequences, Gaps: q.Gaps}
}

// LossEvent is the loss ratio of a pair above which an event is raised.
type LossEvent struct {
	// Share is the loss ratio; default 0.01; 0 disables loss events.
	Share *float64 `yaml:"share"`
	// Over is the time over which it is computed; default 10 s.
	Over time.Duration `yaml:"over"`
	// Packets is the minimum number of expected packets in that time; default 100.
	Packets uint64 `yaml:"packets"`
}

// rules are the built-in rules: loss above the threshold, pairs of which no packet arrives, and flows lost whole.
func (e LossEvent) rules() []alarm.Rule {
	if *e.Share == 0 {
		return nil
	}
	return []alarm.Rule{
		{Name: alarm.Loss, On: alarm.Loss, Above: alarm.FormatShare(*e.Share), Over: e.Over, Packets: e.Packets},
		{Name: alarm.Silence, On: alarm.Silence},
		{Name: alarm.FlowSilence, On: alarm.FlowSilence},
	}
}

// complete fills in the defaults.
func (e LossEvent) complete() (LossEvent, error) {
	if e.Share == nil {
		usual := 0.01
		e.Share = &usual
	}
	e.Over, e.Packets = cmp.Or(e.Over, 10*time.Second), cmp.Or(e.Packets, 100)
	switch {
	case !(*e.Share >= 0 && *e.Share < 1):
		return e, fmt.Errorf("%w: loss_event: share %v, want 0 to below 1", ErrConfig, *e.Share)
	case e.Over < time.Second || e.Over > time.Hour:
		return e, fmt.Errorf("%w: loss_event: over %v, want 1s to 1h", ErrConfig, e.Over)
	}
	return e, nil
}

// Retention limits the rows of a stream; zero: no limit.
type Retention struct {
	Age   time.Duration `yaml:"age"`
	Rows  quantity.Size `yaml:"rows"`
	Bytes quantity.Size `yaml:"bytes"`
}

// ErrConfig marks an invalid configuration.
var ErrConfig = errors.New("invalid configuration")

// Bounds of the settings of queries.
const (
	leastQueryMemory = 64 << 20
	mostQueries      = 64
)

// ReadConfig reads a YAML file. Its error has all mistakes; unknown keys are errors with their line.
func ReadConfig(path string) (Config, error) {
	var c Config
	text, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	read, err := document.DecodeAll(text, &c)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if read {
		_, faults := c.Complete()
		err = errors.Join(err, faults)
	}
	if err != nil {
		return c, fmt.Errorf("read %s: %w", path, err)
	}
	return c, nil
}

// defaultRetention bounds the archive of an unconfigured server: a month of
// everything, two days of per-packet records, a year of the audit log.
var defaultRetention = map[string]Retention{
	"*":                  {Age: 31 * 24 * time.Hour},
	measure.Packets.Name: {Age: 2 * 24 * time.Hour},
	measure.Audit.Name:   {Age: 365 * 24 * time.Hour},
}

// Complete fills in the defaults and validates the configuration. Its error joins all faults, each of which is ErrConfig.
func (c Config) Complete() (Config, error) {
	c.Folder = cmp.Or(c.Folder, DefaultFolder)
	c.HTTP = cmp.Or(c.HTTP, DefaultHTTP)
	c.Archive = cmp.Or(c.Archive, DefaultArchive)
	c.SiteLabel = cmp.Or(c.SiteLabel, DefaultSiteLabel)
	c.NATSListen = cmp.Or(c.NATSListen, DefaultBus)
	faults := c.faults()
	within := func(key string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%w: %s: %w", ErrConfig, key, err))
		}
	}
	_, err := c.proxies()
	faults = append(faults, err)
	_, err = c.outbound()
	faults = append(faults, err)
	_, err = application.ParseFeedback(c.OMLFeedback)
	within("oml_feedback", err)
	c.LossEvent, err = c.LossEvent.complete()
	faults = append(faults, err)
	_, err = c.rules()
	faults = append(faults, err)
	c.Notify, err = notify.Complete(c.Notify)
	within("notify", err)
	c.OTLP, err = c.OTLP.Complete()
	within("otlp", err)
	c.Limits, err = c.Limits.complete()
	faults = append(faults, err)
	c.AggregateTo, err = c.AggregateTo.complete()
	return c, errors.Join(append(faults, err)...)
}

// faults are those that a few lines find.
func (c Config) faults() (all []error) {
	unless := func(valid bool, format string, values ...any) {
		if !valid {
			all = append(all, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, values...)...))
		}
	}
	for _, stream := range slices.Sorted(maps.Keys(c.Retention)) {
		r := c.Retention[stream]
		unless(stream == "*" || measure.ValidName(stream), "retention: invalid stream name %q", stream)
		unless(r.Age >= 0 && r.Rows >= 0 && r.Bytes >= 0, "retention of %q is negative", stream)
	}
	unless(c.MemoryBytes >= 0 && c.AgentCertificates >= 0, "memory_bytes and agent_certificates cannot be negative")
	q := c.Quotas
	unless(min(q.Streams, q.Columns, q.Sequences, q.Gaps, int(q.Backlog), q.States, q.Addresses, q.Connections, int(q.Requests), q.Applications, q.Domains, q.Tables) >= 0,
		"quotas cannot be negative")
	unless(c.QueryMemoryBytes == 0 || c.QueryMemoryBytes >= leastQueryMemory, "query_memory_bytes %d, want at least %d MiB", c.QueryMemoryBytes, leastQueryMemory>>20)
	unless(c.QueryProcessors >= 0 && c.QueriesAtOnce >= 0 && c.QueriesAtOnce <= mostQueries,
		"query_processors %d, queries_at_once %d: want 0 (default) or more, and at most %d queries", c.QueryProcessors, c.QueriesAtOnce, mostQueries)
	u, err := url.Parse(c.URL)
	unless(c.URL == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery+u.Fragment == "",
		"url: use https://HOST or http://HOST, with a path if need be") // it may have secrets
	return all
}

// rules are all rules of alarms.
func (c Config) rules() ([]alarm.Rule, error) {
	rules, err := alarm.CompleteRules(c.LossEvent.rules(), c.Alarms)
	if err != nil {
		return nil, fmt.Errorf("%w: alarms: %w", ErrConfig, err)
	}
	return rules, nil
}

// pageURL is the address of the page for links.
func (c Config) pageURL() string {
	if c.URL != "" || len(c.Hosts) == 0 {
		return strings.TrimSuffix(c.URL, "/")
	}
	_, port, _ := net.SplitHostPort(c.HTTP)
	return "https://" + net.JoinHostPort(c.Hosts[0], port)
}

// proxies are the trusted ones, outbound the addresses to which the server connects.
func (c Config) proxies() ([]netip.Prefix, error) {
	return prefixes("trusted_proxies", c.TrustedProxies)
}
func (c Config) outbound() ([]netip.Prefix, error) {
	return prefixes("outbound_addresses", c.OutboundAddresses)
}

// prefixes reads addresses and prefixes.
func prefixes(key string, texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if address, failed := netip.ParseAddr(text); failed == nil {
			prefix, err = netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), nil
		}
		if err != nil || prefix.Bits() == 0 {
			return nil, fmt.Errorf("%w: %s: %q is not an address or a prefix such as 10.0.0.0/24", ErrConfig, key, text)
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}

// retention returns the retention of a stream for which the API set none.
func (c Config) retention(stream string) archive.Retention {
	if _, named := c.Retention[stream]; stream == application.Tables && !named {
		return archive.Retention{} // it maps the other OML streams to their tables
	}
	for _, from := range []map[string]Retention{c.Retention, defaultRetention} {
		for _, name := range []string{stream, "*"} {
			if r, ok := from[name]; ok {
				return archive.Retention{Age: r.Age, Rows: int64(r.Rows), Bytes: int64(r.Bytes)}
			}
		}
	}
	return archive.Retention{}
}
