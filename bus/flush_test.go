package bus

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TestFlush: it waits for a bus that answers, not for one that has gone.
func TestFlush(t *testing.T) {
	n, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	n.Start()
	t.Cleanup(n.Shutdown)
	eventually(t, "the bus is ready", func() bool { return n.ReadyForConnections(time.Second) })
	conn, err := nats.Connect("nats://"+n.Addr().String(), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := flush(conn); err != nil {
		t.Errorf("a bus that answers: %v", err)
	}
	n.Shutdown()
	eventually(t, "the link is down", conn.IsReconnecting)
	if err := flush(conn); !errors.Is(err, nats.ErrDisconnected) {
		t.Errorf("a bus that has gone: %v", err)
	}
}
