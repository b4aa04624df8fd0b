package service

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"pillion.dev/agent/identity"
)

// Defaults.
const (
	DefaultFolder       = identity.DefaultFolder
	DefaultHostInterval = 10 * time.Second
)

// Config is what an agent is told, in a YAML file or on the command line.
type Config struct {
	// Server is its host, with a port if that is not 8470.
	Server string `yaml:"server"`
	// Name of the agent; default the host's name.
	Name string `yaml:"name"`
	// Labels by which sessions choose agents.
	Labels map[string]string `yaml:"labels"`
	// Folder holds the agent's identity and spool; default DefaultFolder.
	Folder string `yaml:"data"`
	// SpoolBytes bounds the spool; default 1 GiB.
	SpoolBytes int64 `yaml:"spool_bytes"`
	// HostInterval is how often load and clock are measured; default 10 s.
	HostInterval time.Duration `yaml:"host_interval"`
	// JoinToken is needed once.
	JoinToken string `yaml:"-"`
}

// ErrConfig marks a configuration that cannot be.
var ErrConfig = errors.New("bad configuration")

// ReadConfig reads a YAML file; unknown keys are errors with their line.
func ReadConfig(path string) (Config, error) {
	var c Config
	text, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	if err := yaml.UnmarshalWithOptions(text, &c, yaml.Strict()); err != nil {
		return c, fmt.Errorf("read %s: %w: %s", path, ErrConfig, strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	return c, nil
}

// complete fills in the defaults and says what is wrong.
func (c Config) complete() (Config, error) {
	c.Folder = cmp.Or(c.Folder, DefaultFolder)
	c.HostInterval = cmp.Or(c.HostInterval, DefaultHostInterval)
	if c.HostInterval < time.Second {
		return c, fmt.Errorf("%w: host interval %v is below 1 s", ErrConfig, c.HostInterval)
	}
	if c.SpoolBytes < 0 {
		return c, fmt.Errorf("%w: spool of %d bytes", ErrConfig, c.SpoolBytes)
	}
	return c, nil
}
