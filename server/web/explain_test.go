package web

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/server/control"
	"pillion.dev/session"
)

func (s *site) sessions(t testing.TB, token string) pillionv1connect.SessionServiceClient {
	t.Helper()
	client, url := s.client(t, "tls")
	return pillionv1connect.NewSessionServiceClient(client, url, bearer(token))
}

// TestExplainPair: the answer is about the session that measures the pair, or the one that is named, or says that none does; a
// token with a scope learns nothing of other pairs.
func TestExplainPair(t *testing.T) {
	_, option := scopedToken("scoped-viewer", "a")
	s := newSite(t, option)
	now := time.Now()
	for _, one := range []control.Session{
		{Spec: session.Spec{Name: "old", Sources: []string{"a"}, Destinations: []string{"b"}}, State: control.Paused},
		{Spec: session.Spec{Name: "new"}, State: control.Running, Started: now.Add(-time.Hour), Pairs: []session.Pair{{Source: "a", Destination: "b"}}},
	} {
		s.control.sessions[one.Spec.Name] = one
	}
	for _, row := range []struct {
		name, token string
		request     *pillionv1.ExplainPairRequest
		want        string // place, check, level and words of a reason
	}{
		{"agent that is away", "viewer", &pillionv1.ExplainPairRequest{Source: "a", Destination: "b"}, "b, agent, error, away, last seen before the server started"},
		{"session that runs", "viewer", &pillionv1.ExplainPairRequest{Source: "a", Destination: "b"}, "a > b, session, ok, session new measures it"},
		{"packets", "viewer", &pillionv1.ExplainPairRequest{Source: "a", Destination: "b"}, "a > b, marks, ok, 7 marked packets arrived in 1m, 0 lost"},
		{"session by name", "viewer", &pillionv1.ExplainPairRequest{Source: "a", Destination: "b", Session: "old"}, "a > b, session, warning, session old is paused"},
		{"no session", "viewer", &pillionv1.ExplainPairRequest{Source: "b", Destination: "a"}, "b > a, session, warning, no session measures it"},
		{"unknown agent", "viewer", &pillionv1.ExplainPairRequest{Source: "a", Destination: "x"}, "x, agent, error, no agent of this name"},
		{"beyond the scope", "scoped", &pillionv1.ExplainPairRequest{Source: "a", Destination: "b"}, "a > b, scope, warning, this token does not show"},
	} {
		t.Run(row.name, func(t *testing.T) {
			answer, err := s.sessions(t, row.token).ExplainPair(t.Context(), row.request)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range answer.Reasons {
				if strings.HasPrefix(strings.Join([]string{r.Where, r.Name, r.Level, r.Found}, ", "), row.want) {
					if row.token == "scoped" && len(answer.Reasons) != 1 {
						t.Errorf("%v", answer.Reasons)
					}
					return
				}
			}
			t.Errorf("no %q in %v", row.want, answer.Reasons)
		})
	}
	if _, err := s.sessions(t, "viewer").ExplainPair(t.Context(), &pillionv1.ExplainPairRequest{Source: "a\x00"}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("no text: %v", err)
	}
}
