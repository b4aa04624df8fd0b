package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"pillion.dev/agent/identity"
	"pillion.dev/bus"
)

// Joining has the parameters for joining a server.
type Joining struct {
	// Server is host:port of its API, Token its join token.
	Server, Token string
	// Folder has the identities, each in a folder with the agent's name.
	Folder string
}

const joinTime = 30 * time.Second

// Join enrols an agent, or loads its existing identity, and waits until it is connected.
// The agent ends with the context.
func (j Joining) Join(ctx context.Context, name string) (*bus.Agent, error) {
	i, _, err := identity.Enrol(ctx, identity.Options{
		Server: j.Server, Token: j.Token, Name: name, Folder: filepath.Join(j.Folder, name),
	})
	if err != nil {
		return nil, err
	}
	linked := make(chan struct{})
	var once sync.Once
	a, err := bus.ConnectAgent(ctx, bus.AgentOptions{
		URL: i.Bus(), TLS: i.TLS(), Name: name, Log: slog.New(slog.DiscardHandler),
		Changed: func(connected bool, _ error) {
			if connected {
				once.Do(func() { close(linked) })
			}
		},
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-linked:
		return a, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(joinTime):
		err = fmt.Errorf("connect %s: no answer in %v", name, joinTime)
	}
	a.Close()
	return nil, err
}
