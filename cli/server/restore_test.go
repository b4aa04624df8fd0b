package server

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/agent/identity"
	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/server"
)

// joinIn enrols a host whose identity is in that folder.
func joinIn(t *testing.T, w server.Welcome, folder, name string) *identity.Identity {
	t.Helper()
	token, err := os.ReadFile(w.JoinFile)
	if err != nil {
		t.Fatal(err)
	}
	own, _, err := identity.Enrol(t.Context(), identity.Options{
		Server: w.HTTP, Token: strings.TrimSpace(string(token)), Name: name, Folder: filepath.Join(folder, name),
	})
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// moveTo returns the identity at a server that has another port now.
func moveTo(t *testing.T, w server.Welcome, folder, name string) *identity.Identity {
	t.Helper()
	path := filepath.Join(folder, name, "identity.json")
	var kept map[string]any
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err == nil {
		kept["server"] = w.HTTP
		text, err = json.Marshal(kept)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	own, err := identity.Open(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return own
}

func operator(t *testing.T, w server.Welcome) *api.Client {
	t.Helper()
	token, err := os.ReadFile(w.AdminFile)
	if err != nil {
		t.Fatal(err)
	}
	client, err := api.NewClient(api.ClientOptions{Server: "https://" + w.HTTP, Token: strings.TrimSpace(string(token)), Fingerprint: w.Fingerprint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// TestRestoreLocksNobodyOutAndRevivesNothing: after a backup a host joins, another renews
// its certificate, a third is revoked and deleted. The restored server accepts the first
// two. It refuses the third: at once if it was given the replaced directory, and without
// that, as on a new machine, once an agent has told it.
func TestRestoreLocksNobodyOutAndRevivesNothing(t *testing.T) {
	base := t.TempDir()
	folder, destination, hosts := filepath.Join(base, "data"), filepath.Join(base, "backup"), filepath.Join(base, "hosts")
	w, stop := serving(t, folder)
	own := map[string]*identity.Identity{}
	for _, name := range []string{"old", "renews", "gone"} {
		own[name] = joinIn(t, w, hosts, name)
	}
	if code := Main([]string{"backup", destination, "--data", folder}); code != 0 {
		t.Fatalf("backup: exit code %d", code)
	}
	joinIn(t, w, hosts, "new")
	for range 2 {
		if err := own["renews"].Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	client := operator(t, w)
	if _, err := client.Agents.RevokeAgent(t.Context(), &pillionv1.RevokeAgentRequest{Name: "gone"}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Agents.DeleteAgent(t.Context(), &pillionv1.DeleteAgentRequest{Name: "gone"}); err != nil {
		t.Fatal(err)
	}
	if err := own["gone"].Standing(t.Context()); !errors.Is(err, identity.ErrRefused) {
		t.Errorf("deleted agent, before: %v", err)
	}
	if err := own["old"].Standing(t.Context()); err != nil { // it carries the revocation from now on
		t.Fatal(err)
	}
	stop()
	for _, row := range []struct {
		name      string
		arguments []string
	}{{"with the replaced directory", []string{"--previous", folder}}, {"on a new machine", nil}} {
		t.Run(row.name, func(t *testing.T) {
			restored := t.TempDir()
			if code := Main(append([]string{"restore", destination, "--data", restored}, row.arguments...)); code != 0 {
				t.Fatalf("restore: exit code %d", code)
			}
			w, stop := serving(t, restored)
			gone := func() error { return moveTo(t, w, hosts, "gone").Standing(t.Context()) }
			if row.arguments != nil {
				if err := gone(); !errors.Is(err, identity.ErrRefused) {
					t.Errorf("deleted agent: %v", err)
				}
			}
			for _, name := range []string{"old", "renews", "new"} {
				own := moveTo(t, w, hosts, name)
				if err := own.Standing(t.Context()); err != nil {
					t.Errorf("%s is locked out: %v", name, err)
				}
				connect(t, w, own).Close()
			}
			if err := gone(); !errors.Is(err, identity.ErrRefused) || !strings.Contains(err.Error(), "revoked") {
				t.Errorf("deleted agent: %v", err)
			}
			stop()
			w, stop = serving(t, restored)
			if err := gone(); !errors.Is(err, identity.ErrRefused) {
				t.Errorf("deleted agent, after a restart: %v", err)
			}
			if err := moveTo(t, w, hosts, "renews").Renew(t.Context()); err != nil {
				t.Errorf("renew: %v", err)
			}
			stop()
		})
	}
}
