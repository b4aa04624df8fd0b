package main

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/bench/fleet"
)

// traceEvery is how often hosts trace each path: rarely, or there would be more rows of
// paths than of flows.
const traceEvery = time.Minute

// createSession creates a session between all agents, unless it exists.
func createSession(ctx context.Context, s settings) error {
	token, err := fleet.ReadSecret(s.userFile)
	if err != nil {
		return err
	}
	client, err := api.NewClient(api.ClientOptions{Server: s.server, Token: token})
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Sessions.CreateSession(ctx, &pillionv1.CreateSessionRequest{Spec: &pillionv1.SessionSpec{
		Name: s.session, Sources: []string{"*"}, Destinations: []string{"*"},
		Interval: durationpb.New(s.interval), Trace: durationpb.New(traceEvery),
	}})
	if err != nil && connect.CodeOf(err) != connect.CodeAlreadyExists {
		return fmt.Errorf("create session %q: %w", s.session, err)
	}
	return nil
}

// label sets the label site of all hosts.
func (c *crowd) label(ctx context.Context) error {
	token, err := fleet.ReadSecret(c.settings.userFile)
	if err != nil {
		return err
	}
	client, err := api.NewClient(api.ClientOptions{Server: c.settings.server, Token: token})
	if err != nil {
		return err
	}
	defer client.Close()
	for _, h := range c.hosts {
		request := &pillionv1.SetLabelsRequest{Name: h.name, Labels: map[string]string{"site": h.labels["site"]}}
		if _, err := client.Agents.SetLabels(ctx, request); err != nil {
			return fmt.Errorf("label %s: %w", h.name, err)
		}
	}
	return nil
}
