package bus

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"pillion.dev/internal/quota"
)

// sources bounds what one address costs before an agent is authenticated: handshakes per
// second, and connections that wait for one.
type sources struct {
	limit      int
	handshakes *rates
}

const (
	// sourceConnections is the default limit: many agents may share an address.
	sourceConnections = 256
	sourcesEvery      = 250 * time.Millisecond
)

func newSources(limit int) *sources {
	return &sources{limit: limit, handshakes: newRates(float64(limit)/4, limit)}
}

func (s *sources) error(what string) error {
	return &quota.Error{Quota: "connections", Limit: int64(s.limit), Unit: "unauthenticated connections for each source address", What: what, Later: true}
}

// hello is called with each TLS handshake. An error ends it.
func (e *Embedded) hello(info *tls.ClientHelloInfo) (*tls.Config, error) {
	from := quota.SourceOf(info.Conn.RemoteAddr().String())
	if e.sources.handshakes.take(from, 1, time.Now()) {
		return nil, nil
	}
	e.exceeded(from, e.sources.error("begin a TLS handshake with the bus"))
	return nil, errors.New("too many handshakes from this address")
}

func (e *Embedded) exceeded(from string, err error) {
	if e.options.Exceeded != nil {
		e.options.Exceeded("address "+from, err)
	}
}

// watchSources closes the newest connections of a source that has too many which no agent
// has been authenticated on.
func (e *Embedded) watchSources() {
	ticks := time.NewTicker(sourcesEvery)
	defer ticks.Stop()
	for {
		select {
		case <-e.ended:
			return
		case <-ticks.C:
		}
		e.mu.Lock()
		known := map[uint64]bool{}
		for _, m := range e.members {
			known[m.connection] = true
		}
		e.mu.Unlock()
		if e.server.NumClients()-len(known) <= e.sources.limit {
			continue
		}
		all, err := e.server.Connz(&server.ConnzOptions{Limit: e.server.NumClients() + 1, Sort: server.ByCid})
		if err != nil {
			e.log.Debug("list bus connections", "error", err)
			continue
		}
		counts, refused := map[string]int{}, map[string]int{}
		for _, c := range all.Conns { // oldest first
			if known[c.Cid] || c.IP == "" {
				continue
			}
			from := quota.SourceOf(c.IP)
			if counts[from]++; counts[from] > e.sources.limit {
				refused[from]++
				_ = e.server.DisconnectClientByID(c.Cid) // an error: it is closed already
			}
		}
		for from, n := range refused {
			e.exceeded(from, e.sources.error(fmt.Sprintf("connect %d times to the bus", n)))
		}
	}
}
