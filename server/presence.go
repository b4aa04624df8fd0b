package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"pillion.dev/internal/version"
	"pillion.dev/server/ingest"
	"pillion.dev/server/web"
)

// presence is the announcement that a server of a fleet sends to the others.
type presence struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Leads   bool      `json:"leads"`
	Term    uint64    `json:"term,omitempty"` // revision of its lease as the leader
	Since   time.Time `json:"since,omitzero"`
	// Rows is the number of rows that it has stored, Agents the number of agents connected to it.
	Rows   uint64 `json:"rows"`
	Agents int    `json:"agents"`
	// Wants are the streams that it shows live, also if another server stores their rows.
	Wants []string  `json:"wants,omitempty"`
	at    time.Time // when it was received
}

const (
	// announceEvery is how often a server announces itself, goneAfter the silence after which it counts as gone.
	announceEvery = time.Second
	goneAfter     = 4 * time.Second
	// leaderless is how long a fleet without a leader still counts as healthy.
	leaderless = 10 * time.Second
	// Limits of received announcements: bytes of a name or version, servers, and the silence after which
	// a server is removed from the list.
	nameMost    = 300
	serversMost = 1000
	forgetAfter = time.Hour
)

// announce announces this server to the fleet.
func (f *fleet) announce(ctx context.Context) {
	ticks := time.NewTicker(announceEvery)
	defer ticks.Stop()
	for changed := f.leader.Changed(); ; changed = f.leader.Changed() {
		term := f.leader.Term()
		own := presence{Name: f.name, Version: version.String(), Started: f.began, Leads: term.Leads, Rows: f.s.ingest.Stats().Rows, Agents: f.s.connected(), Wants: f.s.ingest.Live().Wanted()}
		if term.Leads {
			own.Term, own.Since = term.Revision, term.Since
		}
		text, err := json.Marshal(own)
		if err == nil {
			err = f.s.bus.Announce(text)
		}
		if err != nil && ctx.Err() == nil {
			f.s.log.Debug("announce this server", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		case <-changed:
		}
	}
}

// hear records the announcement of a server. If a leader with a later term announces itself, it cancels
// the calls in progress, because the former leader no longer answers them.
func (f *fleet) hear(text []byte, at time.Time) {
	var p presence
	if err := json.Unmarshal(text, &p); err != nil || p.Name == "" || len(p.Name) > nameMost || len(p.Version) > nameMost {
		f.s.log.Warn("invalid announcement from a server of the fleet", "error", err)
		return
	}
	p.at = at
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.Leads {
		f.led = at
		if p.Name != f.name {
			f.ledByOther = at
		}
	}
	for name, other := range f.heard {
		if name != p.Name && p.Leads && other.Leads && other.Term < p.Term {
			other.Leads = false
			f.heard[name] = other
			for cancel := range f.calls {
				(*cancel)(errLeaderGone)
			}
		}
		if at.Sub(other.at) > forgetAfter {
			delete(f.heard, name)
		}
	}
	if len(f.heard) < serversMost {
		f.heard[p.Name] = p
	}
}

// servers returns the servers that announced themselves within goneAfter, sorted by name.
func (f *fleet) servers() (all []presence) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.heard {
		if time.Since(p.at) < goneAfter {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b presence) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// wanted reports whether another server shows rows of a stream.
func (f *fleet) wanted(stream string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.heard {
		if p.Name != f.name && time.Since(p.at) < goneAfter && (slices.Contains(p.Wants, stream) || slices.Contains(p.Wants, ingest.EveryStream)) {
			return true
		}
	}
	return false
}

// lastLed returns when any leader, and when a leader other than this server, last announced itself.
func (f *fleet) lastLed() (any, other time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.led, f.ledByOther
}

// health reports the state of the fleet, for the health page; nil without a fleet.
func (f *fleet) health() []web.Part {
	if f == nil {
		return nil
	}
	all := f.servers()
	part := web.Part{Name: "fleet", OK: true, Detail: fmt.Sprintf("%d servers", len(all))}
	if i := slices.IndexFunc(all, func(p presence) bool { return p.Leads }); i >= 0 {
		part.Detail += fmt.Sprintf("; %s leads", all[i].Name)
	} else {
		part.Detail += "; none leads"
		last, _ := f.lastLed()
		part.OK = time.Since(last) < leaderless || time.Since(f.began) < leaderless
	}
	parts := []web.Part{part}
	for _, p := range all {
		detail := "follows"
		if p.Leads {
			detail = fmt.Sprintf("leads since %s", p.Since.UTC().Format(time.RFC3339))
		}
		if p.Name == f.name {
			detail += "; answers here"
		}
		parts = append(parts, web.Part{Name: "server " + p.Name, OK: true, Detail: fmt.Sprintf("%s; version %s; started %s; %d rows stored",
			detail, p.Version, p.Started.UTC().Format(time.RFC3339), p.Rows)})
	}
	return parts
}

// figures returns the metrics of the fleet; nil without a fleet.
func (f *fleet) figures() []web.Figure {
	if f == nil {
		return nil
	}
	term, stored := f.leader.Term(), f.stored.Stats()
	leads, age := 0.0, 0.0
	if term.Leads {
		leads, age = 1, time.Since(term.Since).Seconds()
	}
	return []web.Figure{
		{Name: "pillion_fleet_servers", Help: "Servers of the fleet that this one hears, itself included.", Value: float64(len(f.servers()))},
		{Name: "pillion_fleet_leads", Help: "1 if this server leads the fleet, else 0.", Value: leads},
		{Name: "pillion_fleet_led_seconds", Help: "How long this server has led without interruption.", Value: age},
		{Name: "pillion_fleet_terms_total", Help: "How often this server came to lead.", Value: float64(term.Terms)},
		{Name: "pillion_fleet_published_total", Help: "Stored batches that this server published for the others.", Value: float64(stored.Published)},
		{Name: "pillion_fleet_unpublished_total", Help: "Stored batches that were not published because they came too fast: live views on other servers lack them.", Value: float64(stored.Dropped)},
		{Name: "pillion_fleet_received_total", Help: "Batches that other servers stored and this one received.", Value: float64(stored.Received)},
		{Name: "pillion_fleet_missed_total", Help: "Batches of other servers that came too fast, or were invalid: live views on this server lack them.", Value: float64(stored.Missed + stored.Broken)},
	}
}
