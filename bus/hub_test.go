package bus

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// TestHubConfig: nats-server reads what Config writes, with agents by list or by callout.
func TestHubConfig(t *testing.T) {
	for name, row := range map[string]struct {
		hub   Hub
		users int // of servers and agents
		asks  bool
	}{
		"agents by list":   {Hub{Agents: []string{"north", "south"}}, 3, false},
		"asks servers":     {Hub{Secret: []byte("secret")}, 3, true},
		"alone, by asking": {Hub{Secret: []byte("secret"), Routes: []string{}}, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := row.hub
			h.Name, h.Listen, h.ClusterListen, h.Folder = "hub1", "127.0.0.1:4222", "127.0.0.1:6222", t.TempDir()
			if h.Routes == nil {
				h.Routes = []string{"127.0.0.1:6223"}
			}
			p := newPKI(t)
			writeNode(t, p, h.Folder)
			text, err := h.Config()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(h.Folder, "nats.conf")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			options, err := server.ProcessConfigFile(path)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if len(options.Users) != row.users || (options.AuthCallout != nil) != row.asks || !options.TLSMap || !options.JetStream {
				t.Errorf("%d users, callout %v, mapped %v, JetStream %v", len(options.Users), options.AuthCallout, options.TLSMap, options.JetStream)
			}
			if options.MaxPayload != MaxPayload+headerRoom || len(options.Routes) != len(h.Routes) {
				t.Errorf("payload %d, routes %v", options.MaxPayload, options.Routes)
			}
		})
	}
}

// TestAgentConnectsToHub: an agent does not wait for the answer to a question that a cluster does not permit.
func TestAgentConnectsToHub(t *testing.T) {
	p := newPKI(t)
	h := Hub{Name: "hub1", Listen: "127.0.0.1:0", Folder: t.TempDir(), Agents: []string{"a"}}
	writeNode(t, p, h.Folder)
	text, err := h.Config()
	path := filepath.Join(h.Folder, "nats.conf")
	if err := errors.Join(err, os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	options.Port, options.NoSigs, options.NoLog = server.RANDOM_PORT, true, true
	n, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	n.Start()
	t.Cleanup(func() { n.Shutdown(); n.WaitForShutdown() })
	eventually(t, "the hub is ready", func() bool { return n.ReadyForConnections(time.Second) })
	var log bytes.Buffer
	a, err := ConnectAgent(t.Context(), AgentOptions{
		URL: "tls://" + n.Addr().String(), TLS: p.agent("a"), Name: "a", Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	eventually(t, "connects", func() bool { _, _, err := a.current(); return err == nil })
	conn, link, _ := a.current()
	if err := ask(link, conn); err != nil {
		t.Error(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if log.Len() > 0 {
		t.Errorf("logged: %s", &log)
	}
}

// TestHubRefuses invalid settings, which would change the meaning of the file.
func TestHubRefuses(t *testing.T) {
	for name, h := range map[string]Hub{
		"name":    {Name: "a b", Listen: ":1"},
		"address": {Name: "a", Listen: "x"},
		"route":   {Name: "a", Listen: ":1", ClusterListen: ":2", Routes: []string{"x"}},
		"agent":   {Name: "a", Listen: ":1", Agents: []string{"*"}},
	} {
		if text, err := h.Config(); err == nil || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// TestLaneMapping: the mapping of NATS and LaneOf agree.
func TestLaneMapping(t *testing.T) {
	transform, err := server.NewSubjectTransform(LaneMapping[0], LaneMapping[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range []string{"north", "south", "a", "agent-9999", strings.Repeat("x", 63)} {
		subject, err := transform.Match(dataSubject(agent, "flows"))
		if err != nil {
			t.Fatal(err)
		}
		lane, from, stream, err := sender(subject)
		if err != nil || lane != LaneOf(agent) || from != agent || stream != "flows" {
			t.Errorf("%s: lane %d of %q, want %d: %v", subject, lane, from, LaneOf(agent), err)
		}
	}
	for _, subject := range []string{"pillion.lane.64.north.flows", "pillion.lane.-1.north.flows", "pillion.lane.x.north.flows", "pillion.lane.1.*.flows", "pillion.data.north"} {
		if _, agent, _, err := sender(subject); err == nil || agent != "" {
			t.Errorf("%s: accepted", subject)
		}
	}
	if _, _, _, err := sender(laneSubject("0", "north", "flows")); (err == nil) != (LaneOf("north") == 0) {
		t.Errorf("an agent chose its lane: %v", err)
	}
}

// FuzzSender: a subject names a valid agent in its own lane, or is refused.
func FuzzSender(f *testing.F) {
	f.Add("pillion.data.north.flows")
	f.Add("pillion.lane.1.north.flows")
	f.Fuzz(func(t *testing.T, subject string) {
		lane, agent, _, err := sender(subject)
		if err == nil && (!ValidAgent(agent) || lane != NoLane && lane != LaneOf(agent)) {
			t.Errorf("%q: lane %d, agent %q", subject, lane, agent)
		}
	})
}

func writeNode(t *testing.T, p *pki, folder string) {
	t.Helper()
	for name, text := range map[string][]byte{NodeFile: p.node(), AuthorityFile: p.authority()} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
