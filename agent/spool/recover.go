package spool

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pillion.dev/measure"
)

const positionFile = "position"

// place is which records of a segment were acknowledged.
type place struct {
	// Before is the offset up to which all were.
	Before int64 `json:"before"`
	// Also are the offsets of further records.
	Also []int64 `json:"also,omitempty"`
}

func (p place) covers(offset int64) bool {
	_, also := slices.BinarySearch(p.Also, offset)
	return offset < p.Before || also
}

// alsoMax limits the size of the file; batches left out are sent once more.
const alsoMax = 1 << 16

// recover reads the batches that an earlier process left.
func (s *Spool) recover() error {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	places := s.loadPosition()
	for _, file := range files {
		number, epoch, ok := parseSegmentName(file.Name())
		if !ok || !file.Type().IsRegular() {
			continue
		}
		s.number = max(s.number, number)
		g := &segment{number: number, epoch: epoch, name: file.Name()}
		s.segments = append(s.segments, g)
	}
	slices.SortStableFunc(s.segments, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	for _, g := range slices.Clone(s.segments) {
		if err := s.load(g, places[g.name]); err != nil {
			return err
		}
	}
	for _, l := range s.lines {
		slices.SortStableFunc(l.held, func(a, b *entry) int { return cmp.Compare(a.sequence, b.sequence) })
	}
	for s.diskBytes > s.options.LimitBytes && s.makeRoom() {
	}
	if s.stats.Damaged > 0 {
		s.log.Warn("skip damaged parts of the spool", "places", s.stats.Damaged, "bytes", s.stats.DamagedBytes)
	}
	return nil
}

// load adds the batches of a segment's file.
func (s *Spool) load(g *segment, acknowledged place) error {
	info, err := os.Stat(s.path(g.name))
	if err != nil {
		return err
	}
	g.size = info.Size()
	s.diskBytes += g.size
	if g.size > segmentMax+payloadMax+1<<10 {
		s.addDamage(damage{1, g.size})
		s.remove(g)
		return nil
	}
	data, err := os.ReadFile(s.path(g.name))
	if err != nil {
		// A bad sector must not stop the agent.
		s.log.Warn("read segment of spool", "error", err)
		s.addDamage(damage{1, g.size})
		data = nil
	}
	lost := scan(data, g.epoch, func(offset int64, e measure.Envelope) {
		if s.options.Found != nil {
			s.options.Found(e)
		}
		if acknowledged.covers(offset) {
			// It stays listed in the segment, so that savePosition includes it.
			g.entries = append(g.entries, &entry{offset: offset, state: done})
			return
		}
		s.restore(g, offset, &e)
	})
	s.addDamage(lost)
	if g.held == 0 && err == nil {
		s.remove(g)
	}
	return nil
}

func (s *Spool) addDamage(d damage) {
	s.stats.Damaged += d.places
	s.stats.DamagedBytes += d.bytes
}

func (s *Spool) restore(g *segment, offset int64, envelope *measure.Envelope) {
	l := s.line(envelope.Stream, envelope.Epoch)
	// Sequence numbers ascend as written, so that the search is rarely needed.
	if envelope.Sequence < l.next &&
		slices.ContainsFunc(l.held, func(e *entry) bool { return e.sequence == envelope.Sequence }) {
		return
	}
	l.next = max(l.next, envelope.Sequence+1)
	s.hold(&entry{
		line: l, sequence: envelope.Sequence, offset: offset, size: recordSize(envelope),
		rows: uint32(envelope.Rows), checksum: envelope.Checksum,
	}, g)
}

// positionNow is what is acknowledged in segments that still hold batches.
func (s *Spool) positionNow() map[string]place {
	places := map[string]place{}
	for _, g := range s.segments {
		if g.name == "" || g.held == len(g.entries) {
			continue
		}
		p, before := place{}, true
		for _, e := range g.entries {
			switch {
			case e.state != done:
				before = false
			case before:
				p.Before = e.offset + 1
			case len(p.Also) < alsoMax:
				p.Also = append(p.Also, e.offset)
			}
		}
		if p.Before > 0 || len(p.Also) > 0 {
			places[g.name] = p
		}
	}
	return places
}

// savePosition records what was acknowledged. This only saves work: if the record is
// lost, batches are sent twice.
func (s *Spool) savePosition() {
	s.mu.Lock()
	if !s.dirty {
		s.mu.Unlock()
		return
	}
	s.dirty = false
	places := s.positionNow()
	s.mu.Unlock()
	text, err := json.Marshal(places)
	if err != nil {
		s.log.Warn("save position of spool", "error", err)
		return
	}
	note := fmt.Appendf(nil, "%08x\n%s\n", measure.Checksum(text), text)
	temporary := s.path(positionFile + ".new")
	err = os.WriteFile(temporary, note, 0o600)
	if err == nil {
		err = os.Rename(temporary, s.path(positionFile))
	}
	if err != nil {
		_ = os.Remove(temporary)
		s.log.Debug("save position of spool", "error", err)
		s.mu.Lock()
		s.dirty = true // the disk may be full only for now
		s.mu.Unlock()
	}
}

// loadPosition reads the record; a missing or damaged one is ignored.
func (s *Spool) loadPosition() map[string]place {
	note, err := os.ReadFile(filepath.Join(s.dir, positionFile))
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			s.log.Warn("read position of spool", "error", err)
		}
		return nil
	}
	return parsePosition(string(note))
}

func parsePosition(note string) map[string]place {
	sum, text, _ := strings.Cut(note, "\n")
	text = strings.TrimSuffix(text, "\n")
	if sum != fmt.Sprintf("%08x", measure.Checksum([]byte(text))) {
		return nil
	}
	var places map[string]place
	if json.Unmarshal([]byte(text), &places) != nil {
		return nil
	}
	for _, p := range places {
		slices.Sort(p.Also)
	}
	return places
}
