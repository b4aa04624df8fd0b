package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/study/bench/fleet"
)

// traceEvery is how often hosts trace each path: rarely, or there would be more rows of
// paths than of flows.
const traceEvery = time.Minute

// createSession creates a session between all agents, unless it exists.
func createSession(ctx context.Context, s settings) error {
	client, err := s.client()
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
	client, err := c.settings.client()
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

// listAgents returns the number of all agents that the first server lists, and the time that it takes, in ms, by pages;
// 0 without an operator's token.
func (c *crowd) listAgents(ctx context.Context) (listed int, ms float64, err error) {
	if c.settings.userFile == "" {
		return 0, 0, nil
	}
	client, err := c.settings.client()
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	begun := time.Now()
	agents, err := api.Pages(func(token string) ([]*pillionv1.Agent, string, error) {
		answer, err := client.Agents.ListAgents(ctx, &pillionv1.ListAgentsRequest{PageSize: api.PageSize, PageToken: token})
		return answer.GetAgents(), answer.GetNextPageToken(), err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("list agents: %w", err)
	}
	return len(agents), time.Since(begun).Seconds() * 1000, nil
}

// client returns a client of the first server, which the caller closes.
func (s *settings) client() (*api.Client, error) {
	token, err := fleet.ReadSecret(s.userFile)
	if err != nil {
		return nil, err
	}
	server, _, _ := strings.Cut(s.server, ",")
	return api.NewClient(api.ClientOptions{Server: server, Token: token})
}
