package service

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"pillion.dev/agent/host"
	"pillion.dev/agent/identity"
	"pillion.dev/agent/kubernetes"
	"pillion.dev/agent/loader"
	"pillion.dev/agent/policy"
	"pillion.dev/agent/runner"
	"pillion.dev/internal/document"
	"pillion.dev/internal/quantity"
	"pillion.dev/measure"
	"pillion.dev/measure/application"
	"pillion.dev/measure/point"
	"pillion.dev/session"
)

// Defaults.
const (
	DefaultFolder       = identity.DefaultFolder
	DefaultHostInterval = 10 * time.Second
)

// Choices of Config.PathValidation.
const (
	validateAuto      = "auto"
	validateAddresses = "addresses"
	validateOff       = "off"
)

// Config is the configuration of an agent, from a YAML file and the command line.
type Config struct {
	// Server is the host of the server, with a port unless that is 8470; several servers of one
	// fleet are separated by commas.
	Server string `yaml:"server"`
	// Bus are the URLs of the bus, tls://HOST:PORT, separated by commas, in the order in which they
	// are tried; default: those that the server names.
	Bus string `yaml:"bus"`
	// Name of the agent; default: the node's name, or the host name.
	Name string `yaml:"name"`
	// Node is the name of this host in Kubernetes.
	Node string `yaml:"node"`
	// Kubernetes says whether and how the pods of the node are named.
	Kubernetes kubernetes.Config `yaml:"kubernetes"`
	// Labels by which sessions select agents.
	Labels map[string]string `yaml:"labels"`
	// Folder of the agent's identity and spool; default DefaultFolder.
	Folder string `yaml:"data"`
	// SpoolBytes bounds the spool; default 1 GiB.
	SpoolBytes quantity.Size `yaml:"spool_bytes" json:"-"`
	// OMLSpoolBytes is the part of it for what applications report; default a quarter. The
	// rest is Pillion's own.
	OMLSpoolBytes quantity.Size `yaml:"oml_spool_bytes" json:"-"`
	// HostInterval is how often load and clock are measured; default 10 s.
	HostInterval time.Duration `yaml:"host_interval"`
	// Points of the host that are sampled: host, interfaces, clock, agent, nmetrics,
	// router; default all but the last two. With router the host is profiled as one.
	Points []string `yaml:"points"`
	// Processes are those that nmetrics reports, by process ID or by name, in which *
	// stands for any text.
	Processes []string `yaml:"processes"`
	// Capture are devices whose packet headers are reported.
	Capture []loader.Capture `yaml:"capture"`
	// PathValidation is auto, addresses or off: whether sources of sessions mark packets to a
	// peer only after path probes have proven its address and shown that marked packets arrive,
	// or only the former; default auto.
	PathValidation string `yaml:"path_validation"`
	// Policy is a file with what the host allows servers to have done on it; default
	// policy.DefaultFile, if it exists.
	Policy string `yaml:"policy"`
	// OML is the address of the collector for applications of this host, HOST:PORT on
	// loopback, or "off"; default DefaultOML.
	OML string `yaml:"oml"`
	// OMLShared are OML domains that all users of this host may report to; others belong to
	// the user who reported first.
	OMLShared []string `yaml:"oml_shared"`
	// OMLFeedback is how applications are asked to send less while the spool fills up: thin,
	// slow or aggregate; default thin.
	OMLFeedback string `yaml:"oml_feedback"`
	// Streams are derived by filters from points, from what applications report, and from
	// each other.
	Streams []Stream `yaml:"streams"`
	// User, by name or number, that the part which speaks to the network runs as; default: the
	// owner of Folder, or "pillion", or a number that nobody uses.
	User string `yaml:"user"`
	// JoinToken is required only to join.
	JoinToken string `yaml:"-" json:"-"`
}

// Stream is derived from the samples of a point by filters, a row per window.
type Stream struct {
	Name string `yaml:"name"`
	// Point is flows, packets, hops, clock, host, interfaces or agent; one of
	// nmetrics_cpu and pcap_ip, say, where these are wanted; another stream, whose rows
	// are filtered once more; or, with Domain, a table of applications.
	Point string `yaml:"point"`
	// Domain is the OML domain of applications whose table Point is; * is any.
	Domain string `yaml:"domain"`
	// Filters such as avg(cpu_percent) or quantiles(delay_ns; 0.5, 0.99).
	Filters []string `yaml:"filters"`
	// Keys are columns; each combination of their values has its own windows.
	Keys []string `yaml:"keys"`
	// Every is the length of a window in time, Samples in samples; set one of them.
	Every   time.Duration `yaml:"every"`
	Samples int           `yaml:"samples"`
	// Replace says that the rows of Point itself are neither sent nor stored.
	Replace bool `yaml:"replace"`
}

// pipeline is the definition for package measure.
func (s Stream) pipeline() (measure.Pipeline, error) {
	p := measure.Pipeline{Name: s.Name, Keys: s.Keys, Every: s.Every, Samples: s.Samples}
	if len(s.Filters) == 0 || s.Name == "" {
		return p, fmt.Errorf("%w: stream %q of point %q: a name and filters are required", ErrConfig, s.Name, s.Point)
	}
	for _, taken := range []string{application.Prefix, application.RelayedPrefix} {
		if strings.HasPrefix(s.Name, taken) {
			return p, fmt.Errorf("%w: stream %q: the prefix %s is reserved for applications", ErrConfig, s.Name, taken)
		}
	}
	for _, text := range s.Filters {
		filter, err := measure.ParseFilter(text)
		if err != nil {
			return p, fmt.Errorf("%w: stream %q: %w", ErrConfig, s.Name, err)
		}
		p.Filters = append(p.Filters, filter)
	}
	return p, nil
}

// ErrConfig marks an invalid configuration.
var ErrConfig = errors.New("invalid configuration")

// ReadConfig reads a YAML file. Its error has all mistakes; unknown keys are errors that name the line.
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
		_, faults := c.complete()
		err = errors.Join(err, faults)
	}
	if err != nil {
		return c, fmt.Errorf("read %s: %w", path, err)
	}
	return c, nil
}

// complete fills in defaults and validates. Its error joins all faults, each of which is ErrConfig.
func (c Config) complete() (_ Config, err error) {
	c.Folder = cmp.Or(c.Folder, DefaultFolder)
	c.HostInterval = cmp.Or(c.HostInterval, DefaultHostInterval)
	c.OML = cmp.Or(c.OML, DefaultOML)
	c.PathValidation = cmp.Or(c.PathValidation, validateAuto)
	var faults []error
	within := func(key string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%w: %s%w", ErrConfig, key, err))
		}
	}
	if c.Bus != "" {
		c.Bus, err = identity.ParseBus(c.Bus)
		within("", err)
	}
	c.Kubernetes, err = c.Kubernetes.Complete(c.Node)
	within("kubernetes: ", err)
	faults = append(faults, checkOML(c.OML))
	_, err = application.ParseFeedback(c.OMLFeedback)
	within("oml_feedback: ", err)
	_, err = policy.Open(c.Policy)
	within("", err)
	_, err = c.hostPoints()
	faults = append(faults, err)
	within("processes: ", host.CheckProcesses(c.Processes))
	for _, capture := range c.Capture {
		within("", capture.Check())
	}
	for _, stream := range c.Streams {
		_, err = stream.pipeline()
		faults = append(faults, err)
	}
	return c, errors.Join(append(append(faults, c.checkStreams()), c.faults()...)...)
}

// faults are those that a few lines find.
func (c Config) faults() (all []error) {
	unless := func(valid bool, format string, values ...any) {
		if !valid {
			all = append(all, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, values...)...))
		}
	}
	unless(slices.Contains([]string{validateAuto, validateAddresses, validateOff}, c.PathValidation),
		"path_validation %q is none of auto, addresses and off", c.PathValidation)
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		unless(session.ValidLabel(key, c.Labels[key]),
			"label %.70q: use letters, digits and inner ._/- in key and value, at most 63 each; repeat --label for several labels", key+"="+c.Labels[key])
	}
	unless(c.HostInterval >= time.Second, "host interval %v is below 1 s", c.HostInterval)
	unless(len(c.Processes) == 0 || slices.Contains(c.Points, "nmetrics"),
		"processes are reported by nmetrics: use points: [nmetrics], with the other points that are wanted")
	for i, capture := range c.Capture {
		unless(!slices.ContainsFunc(c.Capture[:i], func(other loader.Capture) bool { return other.Device == capture.Device }),
			"two captures on device %q: combine their filters with or", capture.Device)
	}
	unless(c.SpoolBytes >= 0 && c.OMLSpoolBytes >= 0, "spool of %d bytes, %d of them for applications", c.SpoolBytes, c.OMLSpoolBytes)
	own, _ := c.shares()
	unless(own > 0, "oml_spool_bytes %d leaves nothing of spool_bytes %d for Pillion's own rows", c.OMLSpoolBytes, c.SpoolBytes)
	return all
}

// spoolDefault is the default of SpoolBytes.
const spoolDefault = 1 << 30

// shares divides the spool between Pillion's own rows and the rows of applications.
func (c Config) shares() (own, applications int64) {
	all := cmp.Or(int64(c.SpoolBytes), spoolDefault)
	applications = cmp.Or(int64(c.OMLSpoolBytes), max(all/4, 1))
	return all - applications, applications
}

// ownPoints are those that are measured whatever sessions ask for.
func (c Config) ownPoints() []session.PointTask {
	if !slices.Contains(c.Points, point.Router.Name) {
		return nil
	}
	return []session.PointTask{{Point: point.Router.Name, Interval: session.Duration(c.HostInterval), Lease: session.Forever}}
}

// hostPoints are the schemas of those that are chosen.
func (c Config) hostPoints() ([]*measure.Schema, error) {
	if c.Points == nil {
		return host.Points(), nil
	}
	schemas := []*measure.Schema{}
	for _, name := range c.Points {
		if name == point.Router.Name {
			continue // the runner of probes does it
		}
		if name == "nmetrics" {
			schemas = append(schemas, host.Nmetrics()...)
			continue
		}
		i := slices.IndexFunc(host.Points(), func(s *measure.Schema) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%w: point %q: host, interfaces, clock, agent, nmetrics and router can be chosen", ErrConfig, name)
		}
		schemas = append(schemas, host.Points()[i])
	}
	return schemas, nil
}

// checkStreams finds streams that cannot be computed.
func (c Config) checkStreams() error {
	points, err := c.hostPoints()
	if err != nil {
		return err
	}
	points = append(append(measure.Standard(), points...), loader.CapturePoints(c.Capture)...)
	return tree(c.Streams).check(points)
}

// privileged are the options of the privileged part.
func (c Config) privileged(sink runner.Sink, allowed *policy.Policy, log *slog.Logger) (loader.Options, error) {
	points, err := c.hostPoints()
	if len(c.Capture) > 0 {
		err = errors.Join(err, allowed.Captures())
	}
	token := ""
	if c.Kubernetes.Enabled {
		token = c.Kubernetes.TokenFile
	}
	return loader.Options{
		Sink: sink, Log: log, Points: c.ownPoints(), Policy: allowed,
		ValidatePaths: c.PathValidation == validateAuto, ProveAddresses: c.PathValidation != validateOff,
		Captures: c.Capture, Interval: c.HostInterval, ReportClock: slices.Contains(points, &measure.Clock), Folder: c.Folder,
		TokenFile: token,
	}, err
}
