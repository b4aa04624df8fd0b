package server_test

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
)

// call is a JSON call as curl makes it.
func (s *target) call(t *testing.T, procedure, token, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequest("POST", "http://"+s.welcome.HTTP+procedure, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// changing returns the procedures that require more than the role viewer.
func changing(t *testing.T) []string {
	t.Helper()
	var names []string
	for name, method := range procedures(t) {
		short := string(method.Name())
		reads := strings.HasPrefix(short, "List") || strings.HasPrefix(short, "Get") || slices.Contains([]string{
			"PlanSession", "ExplainPair", "Tail", "Series", "Windows", "WatchWindows", "WatchPairs", "PairClocks", "SiteMatrix", "TrafficMatrix", "ServiceLevels", "Query", "Export", "Health", "BuildInfo", "WhoAmI", "Standing", "Enrol", "Renew",
		}, short)
		if !reads || short == "ListTokens" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestViewersCannotChange: every procedure that changes something is refused, changes
// nothing, and the refusal is audited.
func TestViewersCannotChange(t *testing.T) {
	s := start(t, t.TempDir()+"/data")
	s.enrol(t, "a")
	viewer, admin := s.token(t, "the-viewer", "viewer"), s.client(t, s.operator)
	kept := func() string {
		var text strings.Builder
		for _, name := range []string{"agents.json", "sessions.json"} {
			content, err := os.ReadFile(filepath.Join(s.folder, name))
			fmt.Fprintf(&text, "%s %v\n", content, err != nil)
		}
		tokens, err := admin.Server.ListTokens(t.Context(), &pillionv1.ListTokensRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range tokens.Tokens {
			fmt.Fprintln(&text, token.Name, token.Role, token.Revoked)
		}
		return text.String()
	}
	before, bodies := kept(), map[string]string{
		"CreateSession": `{"spec":{"name":"s","sources":["a"],"destinations":["a"]}}`, "SetRetention": `{"stream":"flows","retention":{"rows":"1"}}`,
		"CreateToken": `{"name":"mine","role":"admin"}`, "RevokeToken": `{"name":"admin"}`,
	}
	names := changing(t)
	if len(names) < 14 {
		t.Fatalf("only %v change something", names)
	}
	for _, name := range names {
		body := bodies[name[strings.LastIndex(name, "/")+1:]]
		if body == "" {
			body = `{"name":"a"}`
			if strings.Contains(name, "Trace") || strings.Contains(name, "ChangeSession") || strings.Contains(name, "ListTokens") {
				body = `{}`
			}
		}
		if status, text := s.call(t, name, viewer, body); status != http.StatusForbidden || !strings.Contains(text, "permission_denied") {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if after := kept(); after != before {
		t.Errorf("changed from\n%s\nto\n%s", before, after)
	}
	within(t, "every refusal is audited", func() bool {
		return number(t, admin, "SELECT count(*) FROM audit WHERE token = 'the-viewer' AND outcome LIKE 'permission_denied%'") == int64(len(names))
	})
}

// TestInvalidTokens: each is refused everywhere, and the server discloses no secret in
// answers or files.
func TestInvalidTokens(t *testing.T) {
	s := start(t, t.TempDir()+"/data")
	admin := s.client(t, s.operator)
	revoked := s.token(t, "revoked", "admin")
	if _, err := admin.Server.RevokeToken(t.Context(), &pillionv1.RevokeTokenRequest{Name: "revoked"}); err != nil {
		t.Fatal(err)
	}
	brief, err := admin.Server.CreateToken(t.Context(), &pillionv1.CreateTokenRequest{
		Name: "brief", Role: "admin", Expires: timestamppb.New(time.Now().Add(5 * time.Second)),
	})
	if err != nil {
		t.Fatal(err)
	}
	const whoAmI = "/pillion.v1.ServerService/WhoAmI"
	output := ""
	within(t, "a token expires", func() bool {
		status, text := s.call(t, whoAmI, brief.Secret, `{}`)
		output += text
		return status == http.StatusUnauthorized
	})
	for name, row := range map[string]struct {
		token  string
		status int
	}{
		"none": {"", 401}, "wrong": {"pt_guess", 401}, "revoked": {revoked, 401}, "join": {s.join, 403}, "prefix": {s.operator[:30], 401},
		"with more": {s.operator + "x", 401}, "long": {strings.Repeat("x", 4000), 401}, "good": {s.operator, 200},
	} {
		for procedure, method := range procedures(t) {
			short := string(method.Name())
			if slices.Contains([]string{"Health", "BuildInfo", "Enrol", "Renew", "Standing"}, short) || method.IsStreamingServer() || row.status == 200 {
				continue
			}
			status, text := s.call(t, procedure, row.token, `{}`)
			output += text
			if status != row.status && status != http.StatusTooManyRequests {
				t.Errorf("%s: %s: %d %s", name, procedure, status, text)
			}
		}
	}
	// A valid token is accepted although the wrong ones came from the same address.
	if status, text := s.call(t, whoAmI, s.operator, `{}`); status != 200 {
		t.Errorf("valid token: %d %s", status, text)
	}
	for _, token := range []string{s.operator, revoked, "pj_guess", ""} {
		status, text := s.call(t, "/pillion.v1.EnrolService/Enrol", token, `{"token":"`+token+`","name":"h"}`)
		output += text
		if status < 400 {
			t.Errorf("enrol with %.3s: %d %s", token, status, text)
		}
	}
	s.enrol(t, "good")
	response, err := http.Get("http://" + s.welcome.HTTP + "/metrics?token=" + s.operator)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("metrics without a token: %d", response.StatusCode)
	}
	within(t, "the audit records are stored", func() bool { return number(t, admin, "SELECT count(*) FROM audit") > 3 })
	audit, err := query(t.Context(), admin, "SELECT * FROM audit")
	if err != nil {
		t.Fatal(err)
	}
	output += fmt.Sprint(audit)
	s.stop()
	output += s.log.String()
	for name, secret := range map[string]string{"operator": s.operator, "join": s.join, "revoked": revoked, "brief": brief.Secret} {
		if strings.Contains(output, secret) || strings.Contains(output, secret[len(secret)-16:]) {
			t.Errorf("the secret of %s is disclosed", name)
		}
		filepath.WalkDir(s.folder, func(path string, _ fs.DirEntry, _ error) error {
			if text, err := os.ReadFile(path); err == nil && filepath.Ext(path) != ".token" && strings.Contains(string(text), secret) {
				t.Errorf("%s has the secret of %s", path, name)
			}
			return nil
		})
	}
}
