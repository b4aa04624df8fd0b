package live

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pillion.dev/measure/flows"
)

const (
	// siteStep is the length of the windows of sites, siteWindows how many cover the last minute and what is ahead of it.
	siteStep    = 10 * time.Second
	siteWindows = (History+ahead)/10 + 1
	// sitesFresh is how long an answer is given again: many watchers ask at the same time.
	sitesFresh = time.Second
	// siteKeysMost bounds the pairs of sites, per session: each takes up to 20 KB.
	siteKeysMost = 20_000
	siteStripes  = 16
)

// siteEnds are the sites of two hosts; the empty name stands for hosts without a site.
type siteEnds struct{ Source, Destination string }

// siteKey is the key of a sum: two sites and a session.
type siteKey struct {
	siteEnds
	session string
}

// labelling says which agent is at which site.
type labelling struct {
	of      map[string]string
	version uint32
}

// sites keeps, for every session and pair of sites, sums of the last minute in windows.
type sites struct {
	labels  atomic.Pointer[labelling] // nil: no agent has a site
	seed    maphash.Seed
	kept    atomic.Int64
	answers struct {
		mutex sync.Mutex
		of    map[string]siteAnswer // by session
	}
	// refused are rows of pairs beyond siteKeysMost.
	refused atomic.Uint64
	stripes [siteStripes]struct {
		mutex sync.Mutex
		sums  map[siteKey]*siteSums
	}
}

// siteSums are the windows of a siteKey, by their start modulo siteWindows.
type siteSums [siteWindows]siteWindow

type siteWindow struct {
	start int64
	// elected sums rows of pairs for which the session counts, rest rows of other pairs.
	elected, rest flows.Sum
}

type siteAnswer struct {
	pairs []SitePair
	from  time.Time
	at    time.Time
}

func newSites() *sites {
	s := &sites{seed: maphash.MakeSeed()}
	s.answers.of = map[string]siteAnswer{}
	for i := range s.stripes {
		s.stripes[i].sums = map[siteKey]*siteSums{}
	}
	return s
}

// SetSites says which agent is at which site, also that agents have none, or that there are no sites at all. Sums of earlier rows stay with the
// sites that agents had then.
func (p *Pairs) SetSites(of map[string]string) {
	before := p.sites.labels.Load()
	switch {
	case before == nil && len(of) == 0:
	case before == nil:
		p.sites.labels.Store(&labelling{of: of, version: 1})
	case !maps.Equal(before.of, of):
		p.sites.labels.Store(&labelling{of: of, version: before.version + 1})
	}
}

// SiteAgents returns the number of agents of each site, also of those without one; none if no agent has a site.
func (p *Pairs) SiteAgents() map[string]int {
	agents := map[string]int{}
	if labels := p.sites.labels.Load(); labels != nil {
		for _, site := range labels.of {
			agents[site]++
		}
	}
	return agents
}

// SiteOf returns the site of an agent; empty: none.
func (p *Pairs) SiteOf(agent string) string {
	if labels := p.sites.labels.Load(); labels != nil {
		return labels.of[agent]
	}
	return ""
}

func (s *sites) add(k siteKey, row *flows.Row, elected bool) {
	stripe := &s.stripes[maphash.Comparable(s.seed, k)%siteStripes]
	stripe.mutex.Lock()
	defer stripe.mutex.Unlock()
	sums := stripe.sums[k]
	if sums == nil {
		if s.kept.Add(1) > siteKeysMost {
			s.kept.Add(-1)
			s.refused.Add(1)
			return
		}
		sums = &siteSums{}
		k.session = strings.Clone(k.session)
		stripe.sums[k] = sums
	}
	start := floor(row.Middle().UnixNano(), int64(siteStep)) / int64(siteStep)
	w := &sums[uint64(start)%siteWindows]
	if w.start > start {
		return // a later one has its place
	}
	if w.start != start {
		*w = siteWindow{start: start}
	}
	sum := row.Sum
	sum.IPDV = flows.Distribution{}
	if elected {
		w.elected.Merge(&sum)
	} else {
		w.rest.Merge(&sum)
	}
}

// purge drops pairs of sites without rows in any window.
func (s *sites) purge(now time.Time) {
	oldest := now.Add(-History*time.Second).UnixNano() / int64(siteStep)
	for i := range s.stripes {
		stripe := &s.stripes[i]
		stripe.mutex.Lock()
		for k, sums := range stripe.sums {
			if !slices.ContainsFunc(sums[:], func(w siteWindow) bool { return w.start >= oldest }) {
				delete(stripe.sums, k)
				s.kept.Add(-1)
			}
		}
		stripe.mutex.Unlock()
	}
}

// SitePair has the figures of a pair of sites in the last minute: sums over the pairs of their hosts, from merged
// histograms, without the change of delay from packet to packet.
type SitePair struct {
	Source, Destination string
	flows.Sum
	// Pairs of hosts with figures, and the worst of them: with the highest loss, or else the highest delays.
	Pairs int
	Worst HostPair
}

// Sites returns the figures of all pairs of sites in the last minute, in order, and when it begins. Without a session, each pair of
// hosts counts by the session that had most of its packets in the last second that was published before.
func (p *Pairs) Sites(session string) (pairs []SitePair, from time.Time) {
	answers := &p.sites.answers
	answers.mutex.Lock()
	defer answers.mutex.Unlock()
	now := p.now()
	maps.DeleteFunc(answers.of, func(_ string, a siteAnswer) bool { return now.Sub(a.at) >= sitesFresh })
	if known, ok := answers.of[session]; ok {
		return known.pairs, known.from
	}
	pairs, from = p.sumSites(session, now)
	answers.of[session] = siteAnswer{pairs, from, now}
	return pairs, from
}

func (p *Pairs) sumSites(session string, now time.Time) (pairs []SitePair, from time.Time) {
	from = now.Add(-History * time.Second).Truncate(siteStep)
	found := map[siteEnds]*SitePair{}
	for i := range p.sites.stripes {
		stripe := &p.sites.stripes[i]
		stripe.mutex.Lock()
		for k, sums := range stripe.sums {
			if session == "" || k.session == session {
				sums.addTo(found, k.siteEnds, from, session != "")
			}
		}
		stripe.mutex.Unlock()
	}
	for pair, ends := range p.hostPairs(Scope{Session: session}) {
		to := found[ends]
		if to == nil {
			continue
		}
		if to.Pairs++; to.Pairs == 1 || pair.Worse(&to.Worst) {
			to.Worst = *pair
		}
	}
	for _, pair := range found {
		pairs = append(pairs, *pair)
	}
	slices.SortFunc(pairs, func(a, b SitePair) int {
		return cmpTexts(a.Source, b.Source, a.Destination, b.Destination)
	})
	return pairs, from
}

func cmpTexts(a, b, c, d string) int {
	if n := strings.Compare(a, b); n != 0 {
		return n
	}
	return strings.Compare(c, d)
}

// addTo adds the windows since a time.
func (s *siteSums) addTo(found map[siteEnds]*SitePair, ends siteEnds, from time.Time, all bool) {
	for i := range s {
		w := &s[i]
		if w.start < from.UnixNano()/int64(siteStep) {
			continue
		}
		to := found[ends]
		if to == nil {
			to = &SitePair{Source: ends.Source, Destination: ends.Destination}
			found[ends] = to
		}
		to.Merge(&w.elected)
		if all {
			to.Merge(&w.rest)
		}
	}
}
