package server

import (
	"cmp"
	"errors"
	"fmt"

	"pillion.dev/archive"
	"pillion.dev/server"
)

// checkConfig reads a configuration file, and the files that the URL of the archive names.
func checkConfig(path string) (server.Config, error) {
	config, err := server.ReadConfig(path)
	if fault := archive.Check(cmp.Or(config.Archive, server.DefaultArchive)); fault != nil {
		err = errors.Join(err, fmt.Errorf("read %s: %w: archive: %w", path, server.ErrConfig, fault))
	}
	return config, err
}
