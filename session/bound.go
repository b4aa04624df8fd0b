package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of what an agent reports.
const (
	StateMax     = 1 << 20 // bytes of a report
	TextMax      = 512     // bytes of a text
	AddressesMax = 4096    // of an agent

	interfacesMax   = 1024
	labelsMax       = 64
	tasksMax        = 4096
	peersMax        = 100_000 // of a task
	countersMax     = 128
	capabilitiesMax = 128
)

// Encode returns the report within its limits: Bound, and without the counters of tasks if it is too
// large with them.
func (s State) Encode() ([]byte, error) {
	s.Labels, s.Tasks = maps.Clone(s.Labels), slices.Clone(s.Tasks) // others read them, too
	s.Bound()
	text, err := json.Marshal(s)
	if err == nil && len(text) > StateMax {
		s.Omitted["counters of tasks"] += len(s.Tasks)
		for i := range s.Tasks {
			s.Tasks[i].Counters = nil
		}
		text, err = json.Marshal(s)
	}
	if err == nil && len(text) > StateMax {
		err = fmt.Errorf("it has %d bytes, limit %d", len(text), StateMax)
	}
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	return text, nil
}

// Bound leaves out what exceeds a limit or is invalid, counts it in Omitted, and truncates texts.
// Nothing of a host makes its whole report invalid.
func (s *State) Bound() {
	if s.Omitted == nil {
		s.Omitted = map[string]int{}
	}
	for _, text := range []*string{&s.Version, &s.Kernel, &s.Boot, &s.Clock.By, &s.Spool.DiskError} {
		*text = Clip(*text)
	}
	s.Omitted["capabilities"] += reduce(&s.Capabilities, capabilitiesMax, short)
	s.Omitted["labels"] += reduceMap(s.Labels, labelsMax, ValidLabel)
	s.Omitted["interfaces"] += reduce(&s.Interfaces, len(s.Interfaces), func(i Interface) bool { return short(i.Name) })
	for i := range s.Interfaces {
		s.Omitted["addresses"] += reduce(&s.Interfaces[i].Addresses, len(s.Interfaces[i].Addresses), isPrefix)
	}
	s.Omitted["addresses"] += s.BoundAddresses(AddressesMax)
	s.Omitted["interfaces"] += reduce(&s.Interfaces, interfacesMax, nil)
	s.Omitted["tasks"] += reduce(&s.Tasks, tasksMax, func(t TaskState) bool { return short(t.Session) && short(t.Role) && short(t.Device) })
	for i := range s.Tasks {
		t := &s.Tasks[i]
		t.Error, t.Limit, t.Unanswered = Clip(t.Error), Clip(t.Limit), Clip(t.Unanswered)
		s.Omitted["counters of tasks"] += reduceMap(t.Counters, countersMax, func(name string, _ uint64) bool { return short(name) })
		s.Omitted["peers of tasks"] += reduce(&t.Missing, peersMax, short)
		s.Omitted["peers of tasks"] += reduceMap(t.OtherFlows, peersMax, func(agent, fields string) bool { return short(agent) && short(fields) })
	}
	reduceMap(s.Omitted, countersMax, func(kind string, count int) bool { return short(kind) && count > 0 })
}

// BoundAddresses leaves out the addresses beyond a number, beginning with interfaces that are down, and
// returns how many. If there are too many addresses or interfaces, those that are up and have
// addresses come first.
func (s *State) BoundAddresses(limit int) (omitted int) {
	count := 0
	for _, i := range s.Interfaces {
		count += len(i.Addresses)
	}
	if count <= limit && len(s.Interfaces) <= interfacesMax {
		return 0
	}
	rank := func(i Interface) int {
		if i.Up && len(i.Addresses) > 0 {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(s.Interfaces, func(a, b Interface) int { return cmp.Compare(rank(a), rank(b)) })
	for i := range s.Interfaces {
		omitted += reduce(&s.Interfaces[i].Addresses, limit, nil)
		limit -= len(s.Interfaces[i].Addresses)
	}
	return omitted
}

// OmittedText names what a report leaves out, with counts; empty: nothing.
func (s *State) OmittedText() string {
	var texts []string
	for _, kind := range slices.Sorted(maps.Keys(s.Omitted)) {
		texts = append(texts, fmt.Sprintf("%d %s", s.Omitted[kind], kind))
	}
	return strings.Join(texts, ", ")
}

// reduce keeps the first elements that are valid, and returns how many others there were.
func reduce[T any](list *[]T, limit int, valid func(T) bool) (omitted int) {
	before := len(*list)
	if valid != nil {
		*list = slices.DeleteFunc(*list, func(element T) bool { return !valid(element) })
	}
	*list = (*list)[:min(len(*list), limit)]
	return before - len(*list)
}

// reduceMap keeps the first valid entries in the order of their keys.
func reduceMap[V any](entries map[string]V, limit int, valid func(string, V) bool) (omitted int) {
	before := len(entries)
	maps.DeleteFunc(entries, func(key string, value V) bool { return !valid(key, value) })
	if len(entries) > limit {
		for _, key := range slices.Sorted(maps.Keys(entries))[limit:] {
			delete(entries, key)
		}
	}
	return before - len(entries)
}

func short(text string) bool { return len(text) <= TextMax }

func isPrefix(text string) bool {
	_, err := netip.ParsePrefix(text)
	return err == nil
}

// Clip truncates a text to TextMax bytes of UTF-8.
func Clip(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= TextMax {
		return text
	}
	end := TextMax
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
