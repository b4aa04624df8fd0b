package service

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"pillion.dev/agent/identity"
)

// join opens this host's identity, or enrols it. It retries while the server is
// unreachable.
func join(ctx context.Context, config Config, log *slog.Logger) (*identity.Identity, error) {
	if config.Server == "" {
		return identity.Open(config.Folder)
	}
	options := identity.Options{Server: config.Server, Token: config.JoinToken, Name: config.Name, Node: config.Node, Folder: config.Folder}
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
		log.Warn("enrol", "error", err, "retry_in", wait)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait/2 + rand.N(wait/2)):
		}
	}
}

// keepIdentity renews the certificate before it expires.
func (s *service) keepIdentity(ctx context.Context) {
	for {
		if s.identity.Due(time.Now()) {
			err := s.identity.Renew(ctx)
			switch {
			case err == nil:
				s.log.Info("certificate renewed", "certificate_expires", s.identity.Expires())
			case ctx.Err() == nil:
				s.log.Warn("renew certificate", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(renewIn(time.Now(), s.identity.DueAt(), s.identity.Expires())):
		}
	}
}

// How often an agent asks for its standing, and how long after it connects: the agents of
// a server that restarts all connect at once.
const (
	standingEvery = 10 * time.Minute
	standingDelay = 5 * time.Second
)

// keepStanding asks the server for this agent's standing after it has connected, when the
// server refuses batches, and from time to time. Thereby a server that was restored from
// a backup gets to know this agent and what was revoked since.
func (s *service) keepStanding(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.ask:
		case <-time.After(standingEvery/2 + rand.N(standingEvery)):
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(standingDelay)):
		}
		if err := s.identity.Standing(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("ask for standing", "error", err)
		}
	}
}

// Limits of the pause between checks of the certificate: the clock may be stepped, so it
// is at most an hour.
const renewMin, renewMax = time.Second, time.Hour

// renewIn is the time until renewal is due. A renewal that fails is retried about ten
// times before the certificate expires.
func renewIn(now, due, expires time.Time) time.Duration {
	wait := due.Sub(now)
	if wait <= 0 {
		wait = expires.Sub(due) / 10
	}
	return min(max(wait, renewMin), renewMax)
}
