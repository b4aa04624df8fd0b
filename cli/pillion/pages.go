package pillion

import (
	"context"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

// listAgents returns the agents with a label, or all, by name. If all are asked for with a token that has a scope, ends are the
// names of other agents at the ends of its pairs.
func listAgents(ctx context.Context, client *api.Client, label string) (agents []*pillionv1.Agent, ends []string, err error) {
	agents, err = api.Pages(func(token string) ([]*pillionv1.Agent, string, error) {
		page, err := client.Agents.ListAgents(ctx, &pillionv1.ListAgentsRequest{Label: label, PageSize: api.PageSize, PageToken: token})
		ends = append(ends, page.GetEnds()...)
		return page.GetAgents(), page.GetNextPageToken(), err
	})
	return agents, ends, err
}

// listSessions returns all sessions, newest first.
func listSessions(ctx context.Context, client *api.Client) ([]*pillionv1.Session, error) {
	return api.Pages(func(token string) ([]*pillionv1.Session, string, error) {
		page, err := client.Sessions.ListSessions(ctx, &pillionv1.ListSessionsRequest{PageSize: api.PageSize, PageToken: token})
		return page.GetSessions(), page.GetNextPageToken(), err
	})
}

// listTokens returns all tokens, by name.
func listTokens(ctx context.Context, client *api.Client) ([]*pillionv1.Token, error) {
	return api.Pages(func(token string) ([]*pillionv1.Token, string, error) {
		page, err := client.Server.ListTokens(ctx, &pillionv1.ListTokensRequest{PageSize: api.PageSize, PageToken: token})
		return page.GetTokens(), page.GetNextPageToken(), err
	})
}

// listAlarms returns alarms, by ID.
func listAlarms(ctx context.Context, client *api.Client, active bool) ([]*pillionv1.Alarm, error) {
	return api.Pages(func(token string) ([]*pillionv1.Alarm, string, error) {
		page, err := client.Alarms.ListAlarms(ctx, &pillionv1.ListAlarmsRequest{Active: active, PageSize: api.PageSize, PageToken: token})
		return page.GetAlarms(), page.GetNextPageToken(), err
	})
}
