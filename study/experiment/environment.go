package experiment

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pillion.dev/internal/machine"
	"pillion.dev/internal/store"
)

// Names of what is found in the environment besides facts.
const (
	// HostDifferences are the facts in which the hosts differ.
	HostDifferences = "differences"
	// environmentChanges are those since the results were begun.
	environmentChanges = "changes"
)

// compared reports whether a change of a fact is noted: all but those that always change, and those
// of the runner rather than of the machines. Of a host that could not be described, before or
// now, nothing is.
func compared(fact string, lines []string) bool {
	for _, prefix := range []string{HostDifferences, environmentChanges, "load_before", "runner", "file"} {
		if fact == prefix || strings.HasPrefix(fact, prefix+"[") {
			return false
		}
	}
	return !slices.ContainsFunc(lines, func(line string) bool {
		other, _, _ := strings.Cut(line, ": ")
		host, partly := strings.CutSuffix(other, "."+machine.Incomplete)
		return partly && strings.HasPrefix(fact, host+".")
	})
}

// mostChanges bounds what is noted of an environment that never rests.
const mostChanges = 100

// NoteChanges compares the environment with the environment recorded with the results in a folder and notes the
// changes there, with the number of the first block that can be affected. It returns the changes that were not
// known.
func NoteChanges(folder string, now map[string]any, complete int) ([]string, error) {
	d, err := readDesign(folder)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(d.Environment)
	if err != nil {
		return nil, fmt.Errorf("note changes of the environment: %w", err)
	}
	after, err := json.Marshal(now)
	if err != nil {
		return nil, fmt.Errorf("note changes of the environment: %w", err)
	}
	known := texts(d.Environment[environmentChanges])
	lines := differences(before, after)
	var added []string
	for _, line := range lines {
		fact, _, _ := strings.Cut(line, ": ")
		fresh := !slices.ContainsFunc(known, func(k string) bool { return strings.HasSuffix(k, line) })
		if compared(fact, lines) && fresh && len(known)+len(added) < mostChanges {
			added = append(added, fmt.Sprintf("seen after %d complete blocks: %s", complete, line))
		}
	}
	if len(added) == 0 {
		return nil, nil
	}
	d.Environment[environmentChanges] = append(known, added...)
	text, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = store.Replace(filepath.Join(folder, DesignFile), text, 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("note changes of the environment: %w", err)
	}
	return added, nil
}

// EnvironmentFindings are the facts in which the hosts of the results in a folder differ, and
// those that changed since they were begun.
func EnvironmentFindings(folder string) (hosts, changes []string) {
	d, err := readDesign(folder)
	if err != nil { // the caller has read it before
		return nil, nil
	}
	return texts(d.Environment[HostDifferences]), texts(d.Environment[environmentChanges])
}

func texts(list any) []string {
	all, _ := list.([]any) // absent without a finding
	var found []string
	for _, one := range all {
		if text, ok := one.(string); ok {
			found = append(found, text)
		}
	}
	return found
}

func readDesign(folder string) (d design, err error) {
	text, err := os.ReadFile(filepath.Join(folder, DesignFile))
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		return d, fmt.Errorf("read results in %s: %w", folder, err)
	}
	if d.Environment == nil {
		d.Environment = map[string]any{}
	}
	return d, nil
}
