package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"pillion.dev/agent/identity"
	"pillion.dev/server"
	"pillion.dev/server/aggregate"
)

// fleetFolder has the identity of a site's server as an agent of the fleet, in its data directory.
const fleetFolder = "fleet"

// joinFleet opens the identity of a site's server as an agent of the fleet, or enrols it.
func joinFleet(ctx context.Context, to server.Aggregate, folder string) (aggregate.Identity, error) {
	options := identity.Options{Server: to.Server, Name: to.Name, Folder: filepath.Join(folder, fleetFolder)}
	existing, err := identity.Open(options.Folder)
	if err != nil && !errors.Is(err, identity.ErrNotEnrolled) {
		return nil, err
	}
	if existing == nil && to.TokenFile == "" {
		return nil, errors.New("join the fleet: a join token is required: aggregate_to.token_file or --aggregate-token-file")
	}
	if to.TokenFile != "" {
		text, err := os.ReadFile(to.TokenFile)
		if err != nil && existing == nil {
			return nil, fmt.Errorf("read join token: %w", err)
		}
		options.Token = strings.TrimSpace(string(text))
	}
	joined, _, err := identity.Enrol(ctx, options)
	if err != nil {
		return nil, err
	}
	return joined, nil
}
