package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"sync"

	"pillion.dev/internal/store"
)

// Files keeps each collection in one file, which a single server owns: a JSON object whose members
// are the items, by key.
type Files struct {
	folder string

	mu sync.Mutex
	// items of the collections that were loaded or written.
	items map[string]map[string]json.RawMessage
}

// NewFiles keeps collections in a folder, which exists.
func NewFiles(folder string) *Files {
	return &Files{folder: folder, items: map[string]map[string]json.RawMessage{}}
}

func (f *Files) path(collection string) string { return filepath.Join(f.folder, collection+".json") }

// Load reads the file.
func (f *Files) Load(_ context.Context, collection string) (map[string][]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept, err := f.load(collection)
	items := make(map[string][]byte, len(kept))
	for key, item := range kept {
		items[key] = item
	}
	return items, err
}

// load reads the file. The caller holds the lock.
func (f *Files) load(collection string) (items map[string]json.RawMessage, err error) {
	path := f.path(collection)
	text, err := store.Read(path, func(text []byte) error {
		_, err := parse(text)
		return err
	})
	if text != nil && err == nil {
		items, err = parse(text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	f.items[collection] = items
	return items, nil
}

// parse returns the items of a file.
func parse(text []byte) (items map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(text, &items); err != nil {
		return nil, err
	}
	for key := range items {
		if key != Whole && !strings.Contains(key, "/") {
			return nil, fmt.Errorf("%.100q is not the key of an item", key)
		}
	}
	return items, nil
}

// Write replaces the file and syncs it to disk.
func (f *Files) Write(_ context.Context, collection string, items map[string][]byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.items[collection]
	if !known {
		var err error
		if before, err = f.load(collection); err != nil {
			return err
		}
	}
	after := maps.Clone(before)
	if after == nil {
		after = map[string]json.RawMessage{}
	}
	for key, item := range items {
		if item == nil {
			delete(after, key)
		} else {
			after[key] = item
		}
	}
	text, err := json.MarshalIndent(after, "", "  ")
	if err == nil {
		err = store.Write(f.path(collection), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", f.path(collection), err)
	}
	f.items[collection] = after
	return nil
}

// Follow waits for the end of the context: nobody else writes the files.
func (f *Files) Follow(ctx context.Context, _ string, _ sync.Locker, _ func(string, []byte)) error {
	<-ctx.Done()
	return nil
}

// Shared is false.
func (f *Files) Shared() bool { return false }
