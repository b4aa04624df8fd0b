package server_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"pillion.dev/api/pillionv1"
	local "pillion.dev/internal/store"
	"pillion.dev/server"
)

// TestDamagedFilesOfTheServer: it starts without what it can do without, and says so, and refuses to start in
// one line without what it cannot.
func TestDamagedFilesOfTheServer(t *testing.T) {
	whole := t.TempDir()
	s := start(t, whole)
	s.agent(t, "north")
	within(t, "the agent is written", func() bool {
		_, err := os.Stat(filepath.Join(whole, "agents.json"))
		return err == nil
	})
	s.stop()
	for _, file := range local.Files {
		name := file.Name
		if filepath.Ext(name) == ".pem" {
			name = filepath.Join("authority", name)
		}
		if _, err := os.Stat(filepath.Join(whole, name)); err != nil {
			continue // what this server does not have
		}
		t.Run(file.Name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.CopyFS(folder, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, name)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text[:len(text)/2], 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(path + ".previous"); err != nil {
				t.Fatal(err)
			}
			if file.Class == local.Required {
				config := server.Config{Folder: folder, HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0", OMLOff: true}
				err := server.Run(t.Context(), config, fstest.MapFS{}, slog.New(slog.DiscardHandler), func(server.Welcome) { t.Error("it is ready") })
				if err == nil || !strings.Contains(err.Error(), path+" is damaged") || !strings.Contains(err.Error(), file.Lost) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %v", err)
				}
				return
			}
			s := start(t, folder)
			client := s.client(t, s.operator)
			within(t, "an event says it", func() bool {
				events, err := client.Server.ListEvents(t.Context(), &pillionv1.ListEventsRequest{Kind: "state-damaged", Limit: 9})
				return err == nil && len(events.Events) == 1 && strings.Contains(events.Events[0].Message, path+" is damaged and set aside")
			})
		})
	}
}

// TestMissingFilesOfTheServer: neither an archive nor the authority is replaced in silence.
func TestMissingFilesOfTheServer(t *testing.T) {
	folder := t.TempDir()
	start(t, folder).stop()
	if err := os.Remove(filepath.Join(folder, "archive.duckdb")); err != nil {
		t.Fatal(err)
	}
	s := start(t, folder)
	client, fingerprint := s.client(t, s.operator), s.welcome.Fingerprint
	within(t, "events say it, and how many rows are lost", func() bool {
		events, err := client.Server.ListEvents(t.Context(), &pillionv1.ListEventsRequest{Kind: "state-damaged", Limit: 9})
		said := ""
		for _, e := range events.GetEvents() {
			said += e.Message + "\n"
		}
		return err == nil && len(events.Events) == 2 && strings.Contains(said, "archive.duckdb is missing, and a new archive begins") &&
			strings.Contains(said, "that were acknowledged are lost unless a backup is restored")
	})
	s.stop()
	key := filepath.Join(folder, "authority", "authority.pem")
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	s = start(t, folder) // by the copy
	if again := s.welcome.Fingerprint; again != fingerprint {
		t.Errorf("another authority: %s, was %s", again, fingerprint)
	}
	s.stop()
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(key + ".previous"); err != nil {
		t.Fatal(err)
	}
	err := server.Run(t.Context(), server.Config{Folder: folder, HTTP: "127.0.0.1:0", NATSListen: "127.0.0.1:0", OMLOff: true}, fstest.MapFS{},
		slog.New(slog.DiscardHandler), func(server.Welcome) { t.Error("it is ready") })
	if err == nil || !strings.Contains(err.Error(), "authority.pem is missing") || !strings.Contains(err.Error(), "restore it from a backup") {
		t.Errorf("got %v", err)
	}
}
