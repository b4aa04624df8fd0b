package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"pillion.dev/internal/document"
	"pillion.dev/internal/quantity"
)

// ErrSpec marks mistakes in an experiment's file.
var ErrSpec = errors.New("invalid experiment")

// Defaults of fields that a file leaves out.
const (
	DefaultSettle   = 100 * time.Millisecond
	DefaultTimeout  = 10 * time.Minute
	DefaultAttempts = 5
	DefaultSetup    = time.Hour
	DefaultPilot    = 12
	DefaultMost     = 200
	DefaultWait     = 10 * time.Minute
	// Confidence of all intervals.
	Confidence = 0.95
	mostCells  = 1000
	longest    = 7 * 24 * time.Hour // of a run or the setup
	mostFile   = 1 << 20
)

// Read reads an experiment's file and returns its bytes too. A lab's path is relative to
// the file.
func Read(path string) (*Spec, []byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read experiment: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostFile+1))
	if err == nil && len(text) > mostFile {
		err = fmt.Errorf("%s is larger than %s", path, quantity.FormatBytes(mostFile))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read experiment: %w", err)
	}
	s, err := Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if s.Lab != "" && !filepath.IsAbs(s.Lab) {
		s.Lab = filepath.Join(filepath.Dir(path), s.Lab)
	}
	// The file of a result folder has no lab beside it; the runner reports one that is absent.
	if lab, err := os.ReadFile(s.Lab); s.Lab != "" && err == nil {
		sum := sha256.Sum256(lab)
		s.labSum = hex.EncodeToString(sum[:])
	}
	return s, text, nil
}

// Parse reads the text of an experiment's file, fills in defaults and checks it. Errors
// name the line and wrap ErrSpec; there can be several, joined.
func Parse(text []byte) (*Spec, error) {
	s := &Spec{}
	var all []error
	for _, mistake := range document.Mistakes(text, s) {
		all = append(all, fmt.Errorf("%w: %w", ErrSpec, mistake))
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	more, err := document.Decode(text, s)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: the file is empty", ErrSpec)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrSpec, err)
	case more:
		return nil, fmt.Errorf("%w: more than one document", ErrSpec)
	}
	s.complete()
	c := &checker{spec: s}
	c.check()
	return s, Mistakes(text, c.mistakes)
}

// complete fills in defaults.
func (s *Spec) complete() {
	set := func(d *Duration, value time.Duration) {
		if *d == 0 {
			*d = Duration(value)
		}
	}
	if s.Run.Settle == nil {
		settle := Duration(DefaultSettle)
		s.Run.Settle = &settle
	}
	set(&s.Run.Timeout, DefaultTimeout)
	if s.Setup != nil {
		set(&s.Setup.Timeout, DefaultSetup)
	}
	if s.Run.Format == "" {
		s.Run.Format = formatJSON
	}
	if s.Run.Attempts == 0 {
		s.Run.Attempts = DefaultAttempts
	}
	if s.Design.Order == "" {
		s.Design.Order = "random"
	}
	if s.Design.Blocks == "" {
		s.Design.Blocks = "complete"
	}
	if s.Stop.Blocks == 0 {
		if s.Stop.Pilot == 0 {
			s.Stop.Pilot = DefaultPilot
		}
		if s.Stop.Most == 0 {
			s.Stop.Most = DefaultMost
		}
	}
	if s.Environment.Require.LoadBelow > 0 {
		set(&s.Environment.Require.Wait, DefaultWait)
	}
	for i := range s.Targets {
		if s.Targets[i].Measure == "" && s.Response != nil {
			s.Targets[i].Measure = s.Response.LogRatio
		}
		if s.Targets[i].Of == "" {
			s.Targets[i].Of = OfMean
			if s.Response != nil {
				s.Targets[i].Of = OfRatio
			}
		}
	}
}
