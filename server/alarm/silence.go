package alarm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"pillion.dev/server/store"
)

// SilenceRecord mutes the notifications of alarms whose labels match, for a time.
type SilenceRecord struct {
	ID       string    `json:"id"`
	Matchers []string  `json:"matchers"`
	By       string    `json:"by"`
	Comment  string    `json:"comment,omitempty"`
	Begins   time.Time `json:"begins"`
	Ends     time.Time `json:"ends"`
	matchers Matchers
}

// Errors that callers distinguish.
var (
	ErrUnknown = errors.New("not found")
	ErrSilence = errors.New("invalid silence")
	// ErrFollows is a server that does not lead its fleet.
	ErrFollows = errors.New("this server does not lead at the moment")
)

const (
	silencesMost = 1000
	silenceMost  = 366 * 24 * time.Hour
	commentMost  = 500 // bytes
)

func (s *SilenceRecord) parse() (err error) {
	s.matchers, err = ParseMatchers(s.Matchers)
	return err
}

// silencing returns the active silences that match labels.
func (s *state) silencing(labels map[string]string, now time.Time) (ids []string) {
	for id, silence := range s.silences {
		if !now.Before(silence.Begins) && now.Before(silence.Ends) && silence.matchers.Matches(labels) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Silences returns all silences, those that end last first. They expire from the list after a day.
func (e *Evaluator) Silences() (all []SilenceRecord) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, silence := range e.state.silences {
		all = append(all, *silence)
	}
	slices.SortFunc(all, func(a, b SilenceRecord) int {
		if order := b.Ends.Compare(a.Ends); order != 0 {
			return order
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}

// Silence mutes the alarms whose labels satisfy all matchers, from now on and for so long.
func (e *Evaluator) Silence(ctx context.Context, matchers []string, length time.Duration, by, comment string) (SilenceRecord, error) {
	parsed, err := ParseMatchers(matchers)
	switch {
	case err != nil:
		return SilenceRecord{}, err
	case len(parsed) == 0:
		return SilenceRecord{}, fmt.Errorf("%w: name at least one label, such as alertname=loss", ErrSilence)
	case length <= 0 || length > silenceMost:
		return SilenceRecord{}, fmt.Errorf("%w: for %v, want more than 0 and at most 366 days", ErrSilence, length)
	}
	if err := checkComment(comment); err != nil {
		return SilenceRecord{}, err
	}
	now := e.Now().UTC()
	silence := &SilenceRecord{
		ID: strings.ToLower(rand.Text()[:10]), Matchers: parsed.Texts(), By: by, Comment: comment, Begins: now, Ends: now.Add(length), matchers: parsed,
	}
	err = e.change(ctx, silencesKept, silence.ID, func() error {
		if len(e.state.silences) >= silencesMost {
			return fmt.Errorf("%w: there are %d already: expire some", ErrSilence, len(e.state.silences))
		}
		e.state.silences[silence.ID] = silence
		return nil
	})
	return *silence, err
}

// Expire ends a silence now.
func (e *Evaluator) Expire(ctx context.Context, id string) error {
	return e.change(ctx, silencesKept, id, func() error {
		silence := e.state.silences[id]
		if silence == nil {
			return fmt.Errorf("silence %q %w", id, ErrUnknown)
		}
		ended := *silence
		if now := e.Now().UTC(); ended.Ends.After(now) {
			ended.Ends = now
		}
		e.state.silences[id] = &ended
		return nil
	})
}

// Acknowledge notes who looks after an active alarm; withdraw: that nobody does any more.
func (e *Evaluator) Acknowledge(ctx context.Context, id, by, comment string, withdraw bool) error {
	if err := checkComment(comment); err != nil {
		return err
	}
	return e.change(ctx, alarmsKept, id, func() error {
		a := e.state.alarms[id]
		if a == nil || !a.Active() {
			return fmt.Errorf("active alarm %q %w", id, ErrUnknown)
		}
		changed := *a
		if changed.Acknowledged = nil; !withdraw {
			changed.Acknowledged = &Acknowledgement{By: by, At: e.Now().UTC(), Comment: comment}
		}
		e.state.put(&changed)
		return nil
	})
}

func checkComment(text string) error {
	if len(text) > commentMost || !utf8.ValidString(text) {
		return fmt.Errorf("%w: the comment is not UTF-8 of at most %d bytes", ErrSilence, commentMost)
	}
	return nil
}

// change changes an item and writes it.
func (e *Evaluator) change(ctx context.Context, section, id string, change func() error) error {
	e.mu.Lock()
	err := ErrFollows
	if e.state.leads {
		err = change()
	}
	if err == nil {
		e.state.changed[store.Key(section, id)] = true
	}
	e.mu.Unlock()
	if err != nil {
		return err
	}
	defer e.signal()
	return e.Save(ctx)
}
