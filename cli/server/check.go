package server

import (
	"cmp"
	"fmt"

	"pillion.dev/archive"
	"pillion.dev/server"
)

// checkConfig reads a configuration file, and the files that the URL of the archive names.
func checkConfig(path string) (server.Config, error) {
	config, err := server.ReadConfig(path)
	if err != nil {
		return config, err
	}
	if err := archive.Check(cmp.Or(config.Archive, server.DefaultArchive)); err != nil {
		return config, fmt.Errorf("read %s: %w: archive: %w", path, server.ErrConfig, err)
	}
	return config, nil
}
