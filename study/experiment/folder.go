package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pillion.dev/internal/store"
)

// Errors about result folders that a user can correct.
var (
	// ErrChanged: the design differs from the design of the results.
	ErrChanged = errors.New("the design has changed")
	// ErrExists: there are results already.
	ErrExists = errors.New("it has results already")
	// ErrNoResults: the folder has no results.
	ErrNoResults = errors.New("no results")
)

// Design is the resolved design in a result folder, experiment.json.
type design struct {
	Experiment  string              `json:"experiment"`
	Description string              `json:"description,omitempty"`
	Hash        string              `json:"hash"`
	Seed        uint64              `json:"seed"`
	Factors     []designFactor      `json:"factors"`
	Cells       []map[string]string `json:"cells"`
	Measures    map[string]Measure  `json:"measures"`
	Response    *Response           `json:"response"`
	Targets     []designTarget      `json:"targets"`
	Stop        designStop          `json:"stop"`
	Quick       bool                `json:"quick,omitempty"`
	Design      Design              `json:"design"`
	Environment map[string]any      `json:"environment"`
	Started     time.Time           `json:"started"`
	// Spec is the file as it was resolved, for comparison with a later one.
	Spec json.RawMessage `json:"spec"`
}

type designFactor struct {
	Name       string                       `json:"name"`
	Levels     []string                     `json:"levels"`
	Parameters map[string]map[string]string `json:"parameters,omitempty"`
}

type designTarget struct {
	Where   map[string]any `json:"where"`
	Measure string         `json:"measure"`
	Of      string         `json:"of"`
	AtLeast *float64       `json:"at_least,omitempty"`
	AtMost  *float64       `json:"at_most,omitempty"`
	Within  *Share         `json:"within,omitempty"`
}

type designStop struct {
	Blocks    int     `json:"blocks,omitempty"`
	Effect    string  `json:"effect,omitempty"`
	HalfWidth Share   `json:"half_width,omitempty"`
	Pilot     int     `json:"pilot,omitempty"`
	Most      int     `json:"most,omitempty"`
	Budget    float64 `json:"budget_s,omitempty"`
}

// resolved is the specification with its defaults, from which the hash is made.
func (s *Spec) resolved() ([]byte, error) {
	copied := *s
	copied.Lab = filepath.Base(s.Lab) // the folder may move
	if s.Lab == "" {
		copied.Lab = ""
	}
	type withMeasures struct {
		Spec
		Measures []measureWithName `json:"measures"`
		LabSum   string            `json:"lab_sha256,omitempty"`
		Quick    bool              `json:"quick,omitempty"`
	}
	w := withMeasures{Spec: copied, LabSum: s.labSum, Quick: s.quick}
	for _, m := range s.Measures {
		w.Measures = append(w.Measures, measureWithName{m.Name, m})
	}
	return json.Marshal(w)
}

type measureWithName struct {
	Name string `json:"name"`
	Measure
}

// Hash identifies the design: everything in the file but its description.
func (s *Spec) Hash() (string, error) {
	text, err := s.resolved()
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// HasResults reports whether a folder has results.
func HasResults(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, DesignFile))
	return err == nil
}

// Create makes a result folder with the file and the design. It refuses a folder that has
// results.
func Create(folder string, s *Spec, file []byte, environment map[string]any, started time.Time) error {
	if HasResults(folder) {
		return fmt.Errorf("create results in %s: %w", folder, ErrExists)
	}
	text, err := s.describe(environment, started)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("create results: %w", err)
	}
	if err := store.Replace(filepath.Join(folder, SpecFile), file, 0o644); err != nil {
		return fmt.Errorf("create results: %w", err)
	}
	if err := store.Replace(filepath.Join(folder, DesignFile), text, 0o644); err != nil {
		return fmt.Errorf("create results: %w", err)
	}
	return nil
}

func (s *Spec) describe(environment map[string]any, started time.Time) ([]byte, error) {
	spec, err := s.resolved()
	if err != nil {
		return nil, err
	}
	hash, err := s.Hash()
	if err != nil {
		return nil, err
	}
	d := design{
		Experiment: s.Experiment, Description: s.Description, Hash: hash, Seed: s.Seed, Measures: s.Measures.byName(),
		Response: s.Response, Design: s.Design, Environment: environment, Started: started, Spec: spec, Quick: s.quick, Targets: []designTarget{},
		Stop: designStop{s.Stop.Blocks, s.Stop.Effect, s.Stop.HalfWidth, s.Stop.Pilot, s.Stop.Most,
			time.Duration(s.Stop.Budget).Seconds()},
	}
	for _, f := range s.Factors {
		factor := designFactor{Name: f.Name, Levels: f.names()}
		for _, l := range f.Levels {
			if len(l.Parameters) > 0 {
				if factor.Parameters == nil {
					factor.Parameters = map[string]map[string]string{}
				}
				factor.Parameters[l.Name] = l.Parameters
			}
		}
		d.Factors = append(d.Factors, factor)
	}
	for _, c := range s.Cells() {
		d.Cells = append(d.Cells, c.Levels)
	}
	for _, t := range s.Targets {
		target := designTarget{map[string]any{}, t.Measure, t.Of, t.AtLeast, t.AtMost, t.Within}
		for name, list := range t.Where {
			target.Where[name] = list
			if len(list) == 1 {
				target.Where[name] = list[0]
			}
		}
		d.Targets = append(d.Targets, target)
	}
	return json.MarshalIndent(d, "", "  ")
}

// Compare returns an error that wraps ErrChanged and names the differences if the results
// in a folder are of another design.
func Compare(folder string, s *Spec) error {
	text, err := os.ReadFile(filepath.Join(folder, DesignFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open results in %s: %w", folder, ErrNoResults)
	}
	var before design
	if err == nil {
		err = json.Unmarshal(text, &before)
	}
	if err != nil {
		return fmt.Errorf("open results in %s: %w", folder, err)
	}
	hash, err := s.Hash()
	if err != nil || hash == before.Hash {
		return err
	}
	now, err := s.resolved()
	if err != nil {
		return err
	}
	all := []error{fmt.Errorf("open results in %s: %w", folder, ErrChanged)}
	for _, line := range differences(before.Spec, now) {
		all = append(all, errors.New(line))
	}
	return errors.Join(all...)
}

// differences lists the fields that differ between two JSON texts.
func differences(before, now []byte) []string {
	left, right := map[string]string{}, map[string]string{}
	for into, text := range map[*map[string]string][]byte{&left: before, &right: now} {
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return []string{"the design cannot be compared: " + err.Error()}
		}
		flatten("", value, *into)
	}
	keys := maps.Clone(left)
	maps.Copy(keys, right)
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		was, had := left[key]
		is, has := right[key]
		switch {
		case was == is && had == has:
		case !had:
			lines = append(lines, fmt.Sprintf("%s: added: %s", key, is))
		case !has:
			lines = append(lines, fmt.Sprintf("%s: removed: %s", key, was))
		default:
			lines = append(lines, fmt.Sprintf("%s: %s, now %s", key, was, is))
		}
	}
	return lines
}

func flatten(path string, value any, into map[string]string) {
	join := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	switch value := value.(type) {
	case map[string]any:
		for name, element := range value {
			flatten(join(name), element, into)
		}
	case []any:
		for i, element := range value {
			flatten(fmt.Sprintf("%s[%d]", path, i), element, into)
		}
	default:
		text := new(strings.Builder)
		encoder := json.NewEncoder(text)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(value) // it was just read from JSON
		into[path] = strings.TrimSpace(text.String())
	}
}
