package service

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"pillion.dev/agent/identity"
)

// join opens this host's identity, or gets it one. While the server cannot be
// reached it tries again.
func join(ctx context.Context, config Config, log *slog.Logger) (*identity.Identity, error) {
	if config.Server == "" {
		return identity.Open(config.Folder)
	}
	options := identity.Options{Server: config.Server, Token: config.JoinToken, Name: config.Name, Folder: config.Folder}
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		joined, fresh, err := identity.Enrol(ctx, options)
		if err == nil {
			if fresh {
				log.Info("enrolled", "server", joined.Server(), "agent", joined.Name(), "certificate_expires", joined.Expires())
			}
			return joined, nil
		}
		if !errors.Is(err, identity.ErrUnreachable) || ctx.Err() != nil {
			return nil, err
		}
		log.Warn("enrol", "error", err, "again_in", wait)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait/2 + rand.N(wait/2)):
		}
	}
}

const renewEvery = time.Hour

// keepIdentity renews the certificate in time.
func (s *service) keepIdentity(ctx context.Context) {
	ticks := time.NewTicker(renewEvery)
	defer ticks.Stop()
	for {
		if s.identity.Due(time.Now()) {
			if err := s.identity.Renew(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("renew certificate", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}
