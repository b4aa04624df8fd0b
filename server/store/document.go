package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Document describes the file of a collection: a JSON object whose members are sections. A
// document without sections is its only item, with the key Whole.
type Document struct {
	Collection string // the file is called after it
	Sections   []Section
}

// Whole is the key of the only item of a document without sections.
const Whole = "whole"

// Kind says how the items of a section are written.
type Kind int

// Kinds of sections.
const (
	// List is an array in the order of the keys.
	List Kind = iota
	// Map is an object whose members are the items.
	Map
	// Value is a single item; its key is the name of the section.
	Value
	// Bare is a List that is the whole document, in the order of the keys.
	Bare
	// Claims are by what several servers agree who does something first. A single server needs
	// none, so that files do not have them.
	Claims
)

// Section of a document. Except that of a Value, the key of an item is that of the section and
// its own, joined by a slash.
type Section struct {
	Name string
	Kind Kind
	// Key is where a List's item has its own key: the names of nested members; none: its
	// position in the list.
	Key []string
	// Optional sections are left out while they are empty.
	Optional bool
}

// Key returns the key of an item of a section.
func Key(section, own string) string { return section + "/" + own }

// Own splits the key of an item into that of its section and its own.
func Own(key string) (section, own string) {
	section, own, _ = strings.Cut(key, "/")
	return section, own
}

// Position is the key of an item that is sorted by number.
func Position(number uint64) string { return fmt.Sprintf("%012d", number) }

// parse returns the items of a file.
func (d *Document) parse(text []byte) (map[string][]byte, error) {
	items := map[string][]byte{}
	if len(d.Sections) == 0 {
		items[Whole] = text
		return items, nil
	}
	members := map[string]json.RawMessage{}
	if first := d.Sections[0]; first.Kind == Bare {
		members[first.Name] = text
	} else if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	for _, s := range d.Sections {
		text, found := members[s.Name]
		if !found {
			continue
		}
		if err := s.parse(text, items); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return items, nil
}

func (s *Section) parse(text []byte, items map[string][]byte) error {
	switch s.Kind {
	case Value:
		items[s.Name] = text
	case Map:
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			return err
		}
		for name, item := range members {
			items[Key(s.Name, name)] = item
		}
	case List, Bare:
		var list []json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		for i, item := range list {
			own := Position(uint64(i))
			if len(s.Key) > 0 {
				var err error
				if own, err = textAt(item, s.Key); err != nil {
					return fmt.Errorf("item %d: %w", i, err)
				}
			}
			items[Key(s.Name, own)] = item
		}
	}
	return nil
}

// textAt returns a string that is nested in an object.
func textAt(item json.RawMessage, names []string) (text string, err error) {
	for _, name := range names {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(item, &members); err != nil {
			return "", err
		}
		item = members[name]
	}
	if err := json.Unmarshal(item, &text); err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(names, "."), err)
	}
	return text, nil
}

const indent = "  "

// format returns the file with these items, as json.MarshalIndent would write the document.
func (d *Document) format(items map[string][]byte) ([]byte, error) {
	if len(d.Sections) == 0 {
		return items[Whole], nil
	}
	bySection := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(items)) {
		section, _ := Own(key)
		bySection[section] = append(bySection[section], key)
	}
	var out bytes.Buffer
	if first := d.Sections[0]; first.Kind == Bare {
		err := first.format(&out, items, bySection[first.Name], "")
		out.WriteByte('\n')
		return out.Bytes(), err
	}
	out.WriteByte('{')
	separator := "\n"
	for _, s := range d.Sections {
		keys := bySection[s.Name]
		if s.Kind == Claims || len(keys) == 0 && (s.Optional || s.Kind == Value) {
			continue
		}
		name, err := json.Marshal(s.Name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s%s%s: ", separator, indent, name)
		if err := s.format(&out, items, keys, indent); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		separator = ",\n"
	}
	out.WriteString("\n}\n")
	return out.Bytes(), nil
}

// format writes the items of a section, which have these keys.
func (s *Section) format(out *bytes.Buffer, items map[string][]byte, keys []string, prefix string) error {
	switch {
	case s.Kind == Value:
		return json.Indent(out, items[keys[0]], prefix, indent)
	case len(keys) == 0 && s.Kind == Map:
		out.WriteString("{}")
		return nil
	case len(keys) == 0:
		out.WriteString("null")
		return nil
	}
	open, end := byte('['), byte(']')
	if s.Kind == Map {
		open, end = '{', '}'
	}
	separator := string(open)
	for _, key := range keys {
		fmt.Fprintf(out, "%s\n%s%s", separator, prefix, indent)
		if s.Kind == Map {
			_, own := Own(key)
			name, err := json.Marshal(own)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s: ", name)
		}
		if err := json.Indent(out, items[key], prefix+indent, indent); err != nil {
			return fmt.Errorf("item %.100q: %w", key, err)
		}
		separator = ","
	}
	fmt.Fprintf(out, "\n%s%c", prefix, end)
	return nil
}
