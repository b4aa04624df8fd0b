package web

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/server/alarm"
	"pillion.dev/server/authority"
	"pillion.dev/server/control"
	"pillion.dev/session"
)

// scopedAuthority has in addition a token with a scope, which can be taken away.
type scopedAuthority struct {
	fakeAuthority
	mutex sync.Mutex
	token authority.Token
}

func (a *scopedAuthority) Check(secret string) (authority.Token, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if secret == "scoped" && a.token.Revoked {
		return authority.Token{}, authority.ErrRevoked
	}
	if secret == "scoped" {
		return a.token, nil
	}
	return a.fakeAuthority.Check(secret)
}

func (a *scopedAuthority) List() []authority.Token {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return []authority.Token{a.token}
}

// scopedToken lets a site know the token.
func scopedToken(role string, scope ...string) (*scopedAuthority, func(*Options)) {
	a := &scopedAuthority{token: authority.Token{Name: "the-scoped", Role: role, Scope: scope}}
	return a, func(o *Options) { o.Authority = a }
}

// TestScopeOfAForwardedCall: the leading server limits a call that another one has passed on.
func TestScopeOfAForwardedCall(t *testing.T) {
	_, option := scopedToken("scoped-viewer", "a")
	ofLeader, ofFollower := &fakeFleet{}, &fakeFleet{}
	leader := newSite(t, option, func(o *Options) { o.Fleet = ofLeader })
	follower := newSite(t, option, func(o *Options) { o.Fleet = ofFollower })
	ofLeader.own, ofFollower.own = leader, follower
	ofLeader.lead(leader, nil)
	ofFollower.lead(leader, nil)
	for procedure, want := range map[string]struct {
		body   string
		status int
		has    string
		not    string
	}{
		"AgentService/ListAgents":      {`{}`, 200, `"name":"a"`, `"name":"b"`},
		"AgentService/GetAgent":        {`{"name":"b"}`, 404, "not found", "away"},
		"SessionService/GetSession":    {`{"name":"s"}`, 404, "not found", ""},
		"SessionService/ListRuns":      {`{}`, 200, "{}", "planned"},
		"SessionService/PlanSession":   {`{"spec":{"name":"s","sources":["*"],"destinations":["*"]}}`, 403, "has a scope", "a"},
		"SessionService/DeleteSession": {`{"name":"s"}`, 403, "requires role operator", ""},
	} {
		status, body := follower.post(t, "http1", "/pillion.v1."+procedure, "scoped", want.body)
		if status != want.status || !strings.Contains(body, want.has) || want.not != "" && procedure != "SessionService/PlanSession" && strings.Contains(body, want.not) {
			t.Errorf("%s: %d %s", procedure, status, body)
		}
	}
	if leader.answers.Load() != 6 {
		t.Errorf("%d calls were passed on", leader.answers.Load())
	}
}

// TestTokenWhoseScopeWasLost: an older version that stored the token again dropped its scope, not its role.
func TestTokenWhoseScopeWasLost(t *testing.T) {
	_, option := scopedToken("scoped-analyst")
	s := newSite(t, option)
	if status, body := s.post(t, "http1", "/pillion.v1.AgentService/ListAgents", "scoped", "{}"); status != 200 || strings.Contains(body, "name") {
		t.Errorf("%d %s", status, body)
	}
	scope := s.scopes.of("the-scoped", nil)
	if scope == nil || scope.HasAgent("a") || scope.HasPair("a", "b") {
		t.Errorf("scope %+v", scope)
	}
}

// TestEveryQuestionHasTheScope: whatever a handler asks the archive, the scope of the caller is in it.
func TestEveryQuestionHasTheScope(t *testing.T) {
	scope := &archive.Scope{Agents: []string{"a"}, Links: []archive.Link{{Sources: []string{"a"}, Destinations: []string{"a"}}}}
	ctx := context.WithValue(t.Context(), callerKey{}, caller{role: viewer, scope: scope})
	fake := newFakeArchive(t)
	r := reads{fake}
	_, _ = r.Series(ctx, archive.Series{Stream: "flows"})
	_, _ = r.Windows(ctx, archive.Windows{})
	_, _ = r.Flows(ctx, archive.Flows{})
	_ = r.Export(ctx, archive.Export{Stream: "flows"}, nil)
	for _, question := range fake.asked {
		var got *archive.Scope
		switch q := question.(type) {
		case archive.Series:
			got = q.Scope
		case archive.Windows:
			got = q.Scope
		case archive.Flows:
			got = q.Scope
		case archive.Export:
			got = q.Scope
		}
		if got != scope {
			t.Errorf("%T lacks the scope", question)
		}
	}
	asked := len(fake.asked)
	_ = r.Traces(ctx, archive.Traces{Source: "a", Destination: "b"}, nil)
	if answer, err := r.RouterDelays(ctx, archive.RouterDelays{Agent: "b"}); err != nil || len(answer.Stages) > 0 {
		t.Errorf("router of another: %v, %v", answer, err)
	}
	if asked != 4 || len(fake.asked) != asked {
		t.Errorf("asked %v", fake.asked)
	}
}

// TestScopedSession: nothing that names others is left.
func TestScopedSession(t *testing.T) {
	scope := &archive.Scope{Links: []archive.Link{{Sources: []string{"a"}, Destinations: []string{"b"}}}}
	all := control.Session{
		Spec: session.Spec{Name: "s", Sources: []string{"customer=rival"}, Destinations: []string{"*"}, SamplingFor: map[string]session.Sampling{"rival": {}},
			Device: map[string]string{"rival": "eth0"}, Transit: map[string]string{"rival": "192.0.2.0/24"}, Waypoints: []string{"rival"}, Routers: []string{"rival"},
			Points: []session.PointRequest{{Agents: []string{"rival"}}}},
		State: "running", Reason: "rival is away", CreatedBy: "rival",
		Pairs: []session.Pair{{Source: "a", Destination: "b"}, {Source: "rival", Destination: "b"}, {Source: "a", Destination: "rival"}},
		Tasks: []control.Task{{Agent: "rival"}}, Reasons: []session.Reason{{Agent: "rival"}},
	}
	shown, seen := scopedSession(all, nil, scope)
	if text := sessionMessage(shown).String(); !seen || strings.Contains(text, "rival") || !slices.Equal(shown.Spec.Sources, []string{"a"}) || len(shown.Pairs) != 1 || shown.Reasons != nil {
		t.Errorf("shown %v, %s", seen, text)
	}
	if _, seen = scopedSession(all, nil, &archive.Scope{}); seen {
		t.Error("seen in the empty scope")
	}
}

// manyAlarms are of the pairs of a and b, and of agents.
type manyAlarms struct{ otherAlarms }

type otherAlarms = Alarms

func (manyAlarms) Alarms() []alarm.Alarm {
	var all []alarm.Alarm
	for id, subject := range map[string]alarm.Subject{"own": {Source: "a", Destination: "a"}, "pair": {Source: "a", Destination: "b"}, "agent": {Agent: "a"}, "other": {Agent: "b"}, "none": {Session: "s"}} {
		rule := cmp.Or(map[string]string{"own": "route", "agent": "silent"}[id], "rivals")
		all = append(all, alarm.Alarm{ID: id, Rule: rule, Subject: subject, Labels: map[string]string{"source_site": "near", "destination_site": "far"}, Summary: "names rival", Annotations: map[string]string{"summary": "names rival"}, SilencedBy: []string{"x"},
			Acknowledged: &alarm.Acknowledgement{By: "rival", At: epoch}})
	}
	return all
}

func (manyAlarms) AllRules() []alarm.Rule {
	return []alarm.Rule{{Name: "route", On: alarm.Path}, {Name: "silent", On: alarm.AgentSilence}, {Name: "rivals", On: alarm.Loss}}
}

func TestScopedAlarms(t *testing.T) {
	_, option := scopedToken("scoped-viewer", "a")
	s := newSite(t, option, func(o *Options) { o.Alarms = manyAlarms{o.Alarms} })
	_, body := s.post(t, "http1", "/pillion.v1.AlarmService/ListAlarms", "scoped", "{}")
	for word, want := range map[string]bool{`"own"`: true, `"agent"`: true, `"pair"`: false, `"other"`: false, `"none"`: false, "acknowledgement": false, "silenced": false} {
		if strings.Contains(body, `"id":`+word) != want && strings.Contains(body, word) != want {
			t.Errorf("%s: %s", word, body)
		}
	}
	if strings.Count(body, "names rival") != 2 { // summary and annotation of the silent agent
		t.Errorf("summaries: %s", body)
	}
	_, option = scopedToken("scoped-viewer", "a:b")
	s = newSite(t, option, func(o *Options) { o.Alarms = manyAlarms{o.Alarms} })
	if _, body := s.post(t, "http1", "/pillion.v1.AlarmService/ListAlarms", "scoped", "{}"); !strings.Contains(body, `"pair"`) || strings.Contains(body, "near") || strings.Contains(body, "far\"") {
		t.Errorf("sites of the ends of a pair: %s", body)
	}
	_, option = scopedToken("scoped-viewer", "a")
	s = newSite(t, option, func(o *Options) { o.Alarms = manyAlarms{o.Alarms} })
	if _, body = s.post(t, "http1", "/pillion.v1.AlarmService/ListAlarmRules", "scoped", "{}"); strings.Contains(body, "rivals") || !strings.Contains(body, "route") {
		t.Errorf("rules: %s", body)
	}
}

// TestPlacesWithoutValuesAreCleared: nothing of the memory of a database is left in places without a value.
func TestPlacesWithoutValuesAreCleared(t *testing.T) {
	values := arrow.Int64Traits.CastToBytes([]int64{1, 42, 3, 43})
	data := array.NewData(arrow.PrimitiveTypes.Int64, 3, []*memory.Buffer{memory.NewBufferBytes([]byte{0b0101 << 1}), memory.NewBufferBytes(values)}, nil, 1, 1)
	record := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "v", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil), []arrow.Array{array.NewInt64Data(data)}, 3)
	clean := cleared(record).Column(0).(*array.Int64)
	if got := clean.Int64Values(); !slices.Equal(got, []int64{42, 0, 43}) || !clean.IsNull(1) || clean.NullN() != 1 {
		t.Errorf("got %v", got)
	}
}

// TestHostsWithin: labels are known of agents in the scope, and those that its selectors name.
func TestHostsWithin(t *testing.T) {
	labels := map[string]string{"customer": "acme", "site": "depot"}
	all := []session.Host{{Name: "a", Labels: labels}, {Name: "b", Labels: labels}}
	who := caller{selectors: session.Scope{"a", "customer=acme:b"}, scope: &archive.Scope{Agents: []string{"a"}}}
	got := hostsWithin(slices.Clone(all), who)
	if len(got[0].Labels) != 2 || len(got[1].Labels) != 1 || got[1].Labels["customer"] != "acme" {
		t.Errorf("got %v", got)
	}
	if got := hostsWithin(slices.Clone(all), caller{}); len(got[1].Labels) != 2 {
		t.Errorf("without a scope: %v", got)
	}
}

// TestEveryPlainPathDeclaresItsScoping: what is no procedure either limits its answer to the scope, or is open to anyone.
func TestEveryPlainPathDeclaresItsScoping(t *testing.T) {
	for path, rule := range plain {
		if rule.scoping != within && rule.scoping != open || (rule.scoping == open) != (rule.role == anyone) {
			t.Errorf("%s: role %v, scoping %d", path, rule.role, rule.scoping)
		}
	}
}
