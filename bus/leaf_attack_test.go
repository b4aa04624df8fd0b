package bus_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"pillion.dev/bus"
	"pillion.dev/internal/test/hang"
)

// rogue starts a NATS server without any permissions, which connects to the hubs as a leaf with
// that certificate, and returns it and a client of it.
func (s *site) rogue(certificate tls.Certificate) (*server.Server, *nats.Conn) {
	s.t.Helper()
	var hubs []*url.URL
	for _, address := range s.cluster.Leaves {
		hubs = append(hubs, &url.URL{Scheme: "tls", Host: address})
	}
	account := server.NewAccount("PILLION")
	n, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, ServerName: "rogue-" + s.t.Name(),
		Accounts: []*server.Account{account}, Users: []*server.User{{Username: "u", Password: "p", Account: account}},
		LeafNode: server.LeafNodeOpts{ReconnectInterval: 100 * time.Millisecond, Remotes: []*server.RemoteLeafOpts{{
			LocalAccount: "PILLION", URLs: hubs, TLS: true, TLSTimeout: 5,
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: s.cluster.ServerTLS().RootCAs},
		}}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	n.Start()
	s.t.Cleanup(func() { n.Shutdown(); n.WaitForShutdown() })
	if !n.ReadyForConnections(10 * time.Second) {
		s.t.Fatal("the rogue server does not start")
	}
	conn, err := nats.Connect(n.ClientURL(), nats.UserInfo("u", "p"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	return n, conn
}

// heard collects the subjects of messages with that text.
type heard struct {
	mu       sync.Mutex
	subjects map[string]bool
}

func listen(t *testing.T, conn *nats.Conn, text string, subjects ...string) *heard {
	t.Helper()
	h := &heard{subjects: map[string]bool{}}
	for _, subject := range subjects {
		if _, err := conn.Subscribe(subject, func(m *nats.Msg) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.subjects[m.Subject] = h.subjects[m.Subject] || string(m.Data) == text
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *heard) has(subject string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.subjects[subject]
}

func (h *heard) among(subjects []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(subjects), func(subject string) bool { return !h.subjects[subject] })
}

func laneSubject(agent string) string {
	return fmt.Sprintf("pillion.lane.%d.%s.numbers", bus.LaneOf(agent), agent)
}

// TestLeafAttack: who has the certificate of a leaf speaks for its agents only, and hears only
// what is for them; nothing of servers.
func TestLeafAttack(t *testing.T) {
	servers := []string{"pillion.leader.call", "pillion.servers", "pillion.stored.flows", "$JS.API.INFO", "$KV.pillion-state.x", "_INBOX._server.x.y"}
	ofSouth := []string{"pillion.data.south.numbers", laneSubject("south"), "pillion.state.south"}
	toSouth := []string{"pillion.control.south", "pillion.pulse.south", "_INBOX.south.x"}
	for name, row := range map[string]struct {
		agents    []string
		forbidden []string // to publish
		deaf      []string // to hear
	}{
		"of some agents": {[]string{"north"}, slices.Concat(servers, ofSouth), slices.Concat(servers, toSouth)},
		"of all agents":  {nil, servers, servers},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSite(t, row.agents...)
			own, err := nats.Connect(s.cluster.URL(), nats.Secure(s.cluster.ServerTLS()))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(own.Close)
			everything := slices.Concat(servers, ofSouth, toSouth)
			atServer := listen(t, own, "forged", append(slices.Clone(everything), laneSubject("north"))...)
			s.leaf.Kill() // the rogue one takes its place
			_, conn := s.rogue(s.leaf.Certificate())
			atLeaf := listen(t, conn, "secret", append(slices.Clone(everything), "pillion.pulse.north", ">")...)
			eventually(t, "the rogue leaf speaks for its own agent", func() bool {
				for _, subject := range row.forbidden {
					_ = conn.Publish(subject, []byte("forged"))
				}
				_ = conn.Publish("pillion.data.north.numbers", []byte("forged"))
				return atServer.has(laneSubject("north"))
			})
			if got := atServer.among(row.forbidden); len(got) > 0 {
				t.Errorf("the leaf published %v", got)
			}
			eventually(t, "the rogue leaf hears its own agent's pulse", func() bool {
				for _, subject := range row.deaf {
					_ = own.Publish(subject, []byte("secret"))
				}
				_ = own.Publish("pillion.pulse.north", []byte("secret"))
				return atLeaf.has("pillion.pulse.north")
			})
			if got := atLeaf.among(row.deaf); len(got) > 0 {
				t.Errorf("the leaf heard %v", got)
			}
		})
	}
}

// joins reports whether the hubs accept a server with that certificate as one of them.
func (s *site) joins(certificate tls.Certificate) bool {
	s.t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: s.cluster.ServerTLS().RootCAs, ServerName: "127.0.0.1"}
	conn, err := net.Dial("tcp", s.cluster.Routes[0])
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(hang.Limit))
	secure := tls.Client(conn, config)
	fmt.Fprint(secure, "CONNECT {\"verbose\":false,\"tls_required\":true,\"name\":\"rogue\",\"cluster\":\"pillion\"}\r\nPING\r\n")
	for lines := bufio.NewReader(secure); ; {
		line, err := lines.ReadString('\n')
		switch {
		case err != nil || strings.HasPrefix(line, "-ERR"):
			return false
		case strings.HasPrefix(line, "PONG"):
			return true
		}
	}
}
