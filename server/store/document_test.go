package store

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// hosts, history and tables are documents.
type hosts struct {
	Format int `json:"format,omitempty"`
	Hosts  []host
	Left   map[uint32]time.Time `json:"left,omitempty"`
}

type host struct {
	Name  string            `json:"name"`
	Place place             `json:"place"`
	Marks map[string]string `json:"marks,omitempty"`
}

type place struct {
	City string `json:"city"`
}

var documents = []Document{
	{Collection: "hosts", Sections: []Section{
		{Name: "format", Kind: Value}, {Name: "Hosts", Key: []string{"place", "city"}}, {Name: "left", Kind: Map, Optional: true},
	}},
	{Collection: "history", Sections: []Section{{Name: "history", Kind: Bare}}},
	{Collection: "tables", Sections: []Section{{Name: "tables", Kind: Map}, {Name: "names", Kind: Claims}}},
	{Collection: "signed"},
}

// TestFormatOfFiles: files are those that json.MarshalIndent writes, byte for byte, whatever
// order the items were written in.
func TestFormatOfFiles(t *testing.T) {
	hour := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	a, b := host{Name: "x", Place: place{"Aachen"}, Marks: map[string]string{"<&>": "\u2028"}}, host{Name: "w", Place: place{"Bonn"}}
	for _, row := range []struct {
		name, collection string
		document         any
		items            map[string]any
	}{
		{"object", "hosts", hosts{1, []host{a, b}, map[uint32]time.Time{2: hour, 10: hour}}, map[string]any{
			"format": 1, "Hosts/Aachen": a, "Hosts/Bonn": b, "left/2": hour, "left/10": hour}},
		{"empty list", "hosts", hosts{}, map[string]any{}},
		{"array", "history", []host{b, a}, map[string]any{"history/" + Position(0): b, "history/" + Position(1): a}},
		{"map", "tables", map[string]any{"tables": map[string]int{"a/b\n\"": 1, "": 2}}, map[string]any{"tables/a/b\n\"": 1, "tables/": 2}},
		{"empty map", "tables", map[string]any{"tables": map[string]int{}}, map[string]any{}},
	} {
		t.Run(row.name, func(t *testing.T) {
			folder := t.TempDir()
			f := NewFiles(folder, documents...)
			want, err := json.MarshalIndent(row.document, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, '\n')
			write := func(items map[string][]byte) {
				t.Helper()
				if err := f.Write(t.Context(), row.collection, items); err != nil {
					t.Fatal(err)
				}
			}
			write(map[string][]byte{})
			keys := slices.Sorted(maps.Keys(row.items))
			slices.Reverse(keys)
			for _, key := range keys {
				text, err := json.Marshal(row.items[key])
				if err != nil {
					t.Fatal(err)
				}
				write(map[string][]byte{key: text})
			}
			path := filepath.Join(folder, row.collection+".json")
			got, err := os.ReadFile(path)
			if err != nil || string(got) != string(want) {
				t.Errorf("got %s, %v\nwant %s", got, err, want)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			items, err := NewFiles(folder, documents...).Load(t.Context(), row.collection)
			if err != nil || !slices.Equal(slices.Sorted(maps.Keys(items)), slices.Sorted(maps.Keys(row.items))) {
				t.Errorf("loaded %s, %v", items, err)
			}
		})
	}
}

// TestFaultyFiles: the error names the file, and a failed write changes nothing.
func TestFaultyFiles(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "hosts.json")
	for _, text := range []string{"{", "[]", `{"Hosts":{}}`, `{"Hosts":[{}]}`, `{"Hosts":[{"place":1}]}`, `{"left":[]}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f := NewFiles(folder, documents...)
		if _, err := f.Load(t.Context(), "hosts"); err == nil {
			t.Errorf("loaded %s", text)
		}
		if err := f.Write(t.Context(), "hosts", map[string][]byte{"format": []byte("1")}); err == nil {
			t.Errorf("overwrote %s", text)
		}
	}
	f := NewFiles(folder, documents...)
	if err := f.Write(t.Context(), "tables", map[string][]byte{"tables/a": []byte("1"), "names/a": []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), "tables", map[string][]byte{"tables/b": []byte("{")}); err == nil {
		t.Error("wrote an item that is no JSON")
	}
	if items, err := f.Load(t.Context(), "tables"); err != nil || len(items) != 1 || items["tables/a"] == nil {
		t.Errorf("after a failed write: %s, %v", items, err)
	}
	if _, err := f.Load(t.Context(), "others"); err == nil {
		t.Error("loaded an unknown collection")
	}
}
