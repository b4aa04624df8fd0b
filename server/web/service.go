package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/internal/version"
	"pillion.dev/measure"
	"pillion.dev/server/authority"
)

const (
	healthTimeout = 5 * time.Second
	healthAge     = time.Second
	defaultEvents = 200
	maxEvents     = 10_000
	// Of join tokens: who finds one later cannot join with it.
	defaultUses = 1
	defaultJoin = 24 * time.Hour
)

// serverService implements ServerService.
type serverService struct {
	*Server
	questions *slots
}

// Health reports the health of the server's parts.
func (s *serverService) Health(ctx context.Context, _ *pillionv1.HealthRequest) (*pillionv1.HealthResponse, error) {
	parts, ok := s.health(ctx)
	response := &pillionv1.HealthResponse{Status: "ok"}
	if !ok {
		response.Status = "failing"
	}
	for _, part := range parts {
		response.Parts = append(response.Parts, &pillionv1.Part{Name: part.Name, Ok: part.OK, Detail: validText(part.Detail)})
	}
	return response, nil
}

// health returns the last check, or a new one after healthAge: anyone may ask, and a check
// uses the archive. Callers at once share it, so it does not end with one of them.
func (s *Server) health(ctx context.Context) ([]Part, bool) {
	s.checked.Lock()
	defer s.checked.Unlock()
	if now := s.now(); s.checked.parts == nil || now.Sub(s.checked.at) >= healthAge {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
		defer cancel()
		s.checked.parts, s.checked.at = s.parts(ctx), now
	}
	return s.checked.parts, !slices.ContainsFunc(s.checked.parts, func(p Part) bool { return !p.OK })
}

// BuildInfo returns version and start time.
func (s *serverService) BuildInfo(context.Context, *pillionv1.BuildInfoRequest) (*pillionv1.BuildInfoResponse, error) {
	response := &pillionv1.BuildInfoResponse{Version: version.Short(), Started: timestamppb.New(s.started)}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return response, nil
	}
	response.Go = info.GoVersion
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			response.Revision = setting.Value
		}
	}
	return response, nil
}

// WhoAmI returns the caller's token name and role.
func (s *serverService) WhoAmI(ctx context.Context, _ *pillionv1.WhoAmIRequest) (*pillionv1.WhoAmIResponse, error) {
	who := callerOf(ctx)
	return &pillionv1.WhoAmIResponse{Name: who.token, Role: who.role.String(), Scope: who.selectors}, nil
}

// ListEvents returns events, newest first.
func (s *serverService) ListEvents(ctx context.Context, request *pillionv1.ListEventsRequest) (*pillionv1.ListEventsResponse, error) {
	question := archive.Export{Stream: measure.Events.Name}
	var err error
	if question.From, question.To, err = rangeOf(request.GetFrom(), request.GetTo()); err != nil {
		return nil, err
	}
	if question.To.IsZero() {
		question.To = s.now()
	}
	if question.From.IsZero() {
		question.From = question.To.Add(-day)
	}
	question.Newest, question.Limit = true, int64(cmp.Or(request.GetLimit(), defaultEvents))
	if question.Limit > maxEvents {
		return nil, invalid("limit", "read limit %d: use at most %d", question.Limit, maxEvents)
	}
	if request.GetKind() != "" {
		question.Where = map[string]string{"kind": request.GetKind()}
	}
	release, err := s.questions.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	response := &pillionv1.ListEventsResponse{}
	err = s.archive.Export(ctx, question, func(record arrow.RecordBatch) error {
		response.Events = append(response.Events, eventMessages(record)...)
		return nil
	})
	if err != nil && !errors.Is(err, archive.ErrUnknown) { // no event was ever stored
		return nil, fmt.Errorf("list events: %w", err)
	}
	return response, nil
}

// eventMessages reads columns by name; the archive may have additional ones, in another
// order.
func eventMessages(record arrow.RecordBatch) []*pillionv1.Event {
	columns := map[string]cells{}
	for j, field := range record.Schema().Fields() {
		columns[field.Name] = cellsOf(record.Column(j))
	}
	text := func(name string, i int) string {
		column, has := columns[name]
		if !has || column.IsNull(i) {
			return ""
		}
		return validText(string(column.text(nil, i)))
	}
	var messages []*pillionv1.Event
	for i := range int(record.NumRows()) {
		message := &pillionv1.Event{
			Kind: text("kind", i), Level: text("level", i), Agent: text("about", i),
			Session: text("session", i), Message: text("message", i), Peer: text("peer", i),
		}
		if column, has := columns["time"]; has && !column.IsNull(i) {
			message.Time = timestamppb.New(time.Unix(0, column.value(i).GetTime()))
		}
		messages = append(messages, message)
	}
	return messages
}

// CreateToken creates a token.
func (s *serverService) CreateToken(_ context.Context, request *pillionv1.CreateTokenRequest) (*pillionv1.CreateTokenResponse, error) {
	expires, err := api.TimeOf(request.GetExpires())
	if err != nil {
		return nil, invalid("expires", "read expires: %w", err)
	}
	if _, known := parseRole(request.GetRole()); !known && request.GetRole() != authority.RoleJoin {
		return nil, invalid("role", "read role %q: use viewer, analyst, operator, admin or join", request.GetRole())
	}
	wanted := authority.Token{Name: request.GetName(), Role: request.GetRole(), Expires: expires}
	wanted.MaxUses, wanted.Agents, wanted.Labels, wanted.Site = request.GetMaxUses(), request.GetAgents(), request.GetLabels(), request.GetSite()
	wanted.Scope = request.GetScope()
	if wanted.Role == authority.RoleJoin {
		if request.MaxUses == nil {
			wanted.MaxUses = defaultUses
		}
		if expires.IsZero() && !request.GetNeverExpires() {
			wanted.Expires = s.now().Add(defaultJoin).UTC()
		}
	}
	token, secret, err := s.authority.Create(wanted)
	if err != nil {
		return nil, err
	}
	return &pillionv1.CreateTokenResponse{Token: tokenMessage(token), Secret: secret}, nil
}

// ListTokens returns tokens without their secrets.
func (s *serverService) ListTokens(_ context.Context, request *pillionv1.ListTokensRequest) (*pillionv1.ListTokensResponse, error) {
	page, next, err := pageOf(request, "", s.authority.List(), func(t authority.Token) string { return t.Name })
	if err != nil {
		return nil, err
	}
	response := &pillionv1.ListTokensResponse{NextPageToken: next}
	for _, token := range page {
		response.Tokens = append(response.Tokens, tokenMessage(token))
	}
	return response, nil
}

// RevokeToken revokes a token.
func (s *serverService) RevokeToken(_ context.Context, request *pillionv1.RevokeTokenRequest) (*pillionv1.RevokeTokenResponse, error) {
	return &pillionv1.RevokeTokenResponse{}, s.authority.Revoke(request.GetName())
}

func tokenMessage(t authority.Token) *pillionv1.Token {
	return &pillionv1.Token{
		Name: t.Name, Role: strings.TrimPrefix(t.Role, authority.ScopedPrefix), Scope: t.Scope, Created: api.TimeMessage(t.Created), Expires: api.TimeMessage(t.Expires),
		Used: api.TimeMessage(t.Used), Revoked: t.Revoked,
		MaxUses: t.MaxUses, Uses: t.Uses, Agents: t.Agents, Labels: t.Labels, Site: t.Site,
	}
}
