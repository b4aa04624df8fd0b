package pillion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"pillion.dev/api"
	"pillion.dev/internal/document"
	"pillion.dev/internal/outfile"
)

// config is the configuration file. Its settings for a server apply to Server only.
type config struct {
	Server        string `yaml:"server,omitempty"`
	CA            string `yaml:"ca,omitempty"`
	CAFingerprint string `yaml:"ca_fingerprint,omitempty"`
	Token         string `yaml:"token,omitempty"`
	TokenFile     string `yaml:"token_file,omitempty"`
	// Output is table, json or csv.
	Output string `yaml:"output,omitempty"`
	Color  *bool  `yaml:"color,omitempty"`

	// readable: users other than the owner can read the file.
	readable bool
}

func (c *connection) configPath() string {
	if c.Config != "" {
		return c.Config
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "pillion", "config.yaml")
}

// readConfig reads the file, which may be missing unless it was named.
func readConfig(path string, named bool) (config, error) {
	if path == "" {
		return config{}, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return config{}, nil
	}
	if err != nil {
		return config{}, fmt.Errorf("read configuration: %w", err)
	}
	c, err := parseConfig(text)
	if err != nil {
		return config{}, fmt.Errorf("read configuration %s: %w: %w", path, errConfig, err)
	}
	info, err := os.Stat(path)
	c.readable = err == nil && info.Mode().Perm()&0o077 != 0
	return c, nil
}

// parseConfig never repeats the text in an error: it may contain a token.
func parseConfig(text []byte) (config, error) {
	var c config
	_, err := document.Decode(text, &c)
	if err != nil && !errors.Is(err, io.EOF) {
		return c, err
	}
	switch c.Output {
	case "", "table", "json", "csv":
	default:
		return c, fmt.Errorf("output %q is not table, json or csv", c.Output)
	}
	return c, nil
}

// isOf reports whether the file is for that server.
func (c *config) isOf(server *url.URL) bool {
	mine, err := api.ParseServer(cmp.Or(c.Server, "localhost:"+api.DefaultPort))
	return err == nil && mine.String() == server.String()
}

// writeConfig replaces the file, readable by its owner only.
func writeConfig(path string, c config) error {
	text, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	err = outfile.Path(path).Replace(context.Background(), 0o600, func(file *os.File) error {
		_, err := file.Write(text)
		return err
	})
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

func expandHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}
