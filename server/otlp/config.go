package otlp

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"pillion.dev/server/outbound"
)

// Config says where metrics go. Complete fills in the defaults.
type Config struct {
	// URL of the collector: http://HOST:4318 or https://HOST:4318; without it nothing is exported.
	URL string `yaml:"url"`
	// HeadersFile is a file with headers of each request, one a line, such as the collector's token.
	HeadersFile string `yaml:"headers_file"`
	// Interval between exports; default 15 s.
	Interval time.Duration `yaml:"interval"`
	// Timeout of a request; default 10 s.
	Timeout time.Duration `yaml:"timeout"`
	// CA is a file with the certificates of authorities; default the system's.
	CA string `yaml:"ca"`
	// Certificate and Key are files with a client certificate and its key.
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
	// Resource are further attributes of the resource, or others in place of the default ones.
	Resource map[string]string `yaml:"resource"`

	to *url.URL `yaml:"-"`
}

// ErrConfig marks an invalid configuration of the export.
var ErrConfig = errors.New("invalid OTLP export")

// Defaults and bounds.
const (
	usualInterval  = 15 * time.Second
	usualTimeout   = 10 * time.Second
	leastInterval  = time.Second
	mostInterval   = time.Hour
	leastTimeout   = 100 * time.Millisecond
	mostTimeout    = time.Minute
	attributesMost = 32
	attributeMost  = 255 // bytes
)

// metricsPath is the path of the service below the URL.
const metricsPath = "/v1/metrics"

// Complete fills in the defaults and validates the configuration.
func (c Config) Complete() (Config, error) {
	if c.URL == "" {
		if c.HeadersFile != "" || c.CA != "" || c.Certificate != "" || c.Key != "" || len(c.Resource) > 0 || c.Interval != 0 || c.Timeout != 0 {
			return c, fmt.Errorf("%w: settings without url", ErrConfig)
		}
		return c, nil
	}
	c.Interval, c.Timeout = cmp.Or(c.Interval, usualInterval), cmp.Or(c.Timeout, usualTimeout)
	switch {
	case c.Interval < leastInterval || c.Interval > mostInterval:
		return c, fmt.Errorf("%w: interval %v, want 1s to 1h", ErrConfig, c.Interval)
	case c.Timeout < leastTimeout || c.Timeout > mostTimeout:
		return c, fmt.Errorf("%w: timeout %v, want 100ms to 1m", ErrConfig, c.Timeout)
	case (c.Certificate == "") != (c.Key == ""):
		return c, fmt.Errorf("%w: certificate and key belong together", ErrConfig)
	case len(c.Resource) > attributesMost:
		return c, fmt.Errorf("%w: resource: %d attributes, limit %d", ErrConfig, len(c.Resource), attributesMost)
	}
	for name, value := range c.Resource {
		if name == "" || max(len(name), len(value)) > attributeMost {
			return c, fmt.Errorf("%w: resource: attribute %.32q is empty or longer than %d bytes", ErrConfig, name, attributeMost)
		}
	}
	return c, c.setTarget()
}

// setTarget parses the URL, which may have secrets that no error shows.
func (c *Config) setTarget() error {
	to, err := url.Parse(c.URL)
	if err != nil || to.Host == "" || to.Opaque != "" {
		return fmt.Errorf("%w: url: use http:// or https://, and HOST:PORT", ErrConfig)
	}
	if to.User != nil {
		return fmt.Errorf("%w: url: has a user; give headers_file instead", ErrConfig)
	}
	if to.Scheme != "http" && to.Scheme != "https" {
		return fmt.Errorf("%w: url: scheme %q: use http or https", ErrConfig, to.Scheme)
	}
	if err := outbound.CheckSecret(to); err != nil && (c.HeadersFile != "" || c.Certificate != "") {
		return fmt.Errorf("%w: headers_file and certificate require https: %w", ErrConfig, err)
	}
	if to.Path = strings.TrimSuffix(to.Path, "/"); !strings.HasSuffix(to.Path, metricsPath) {
		to.Path += metricsPath
	}
	c.to = to
	return nil
}
