package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"sync"

	"pillion.dev/internal/store"
)

// Files keeps each collection in one file, which a single server owns.
type Files struct {
	folder    string
	documents map[string]Document

	mu sync.Mutex
	// items of the collections that were loaded or written.
	items map[string]map[string][]byte
}

// NewFiles keeps these documents in a folder, which exists.
func NewFiles(folder string, documents ...Document) *Files {
	f := &Files{folder: folder, documents: map[string]Document{}, items: map[string]map[string][]byte{}}
	for _, d := range documents {
		f.documents[d.Collection] = d
	}
	return f
}

// path returns that of a collection, and its description.
func (f *Files) path(collection string) (string, Document, error) {
	d, known := f.documents[collection]
	if !known {
		return "", d, fmt.Errorf("no document describes the collection %q", collection)
	}
	return filepath.Join(f.folder, collection+".json"), d, nil
}

// Load reads the file.
func (f *Files) Load(_ context.Context, collection string) (map[string][]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	items, err := f.load(collection)
	return maps.Clone(items), err
}

// load reads the file. The caller holds the lock.
func (f *Files) load(collection string) (map[string][]byte, error) {
	path, d, err := f.path(collection)
	if err != nil {
		return nil, err
	}
	items := map[string][]byte{}
	text, err := store.Read(path, func(text []byte) error {
		_, err := d.parse(text)
		return err
	})
	if text != nil && err == nil {
		items, err = d.parse(text)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	f.items[collection] = items
	return items, nil
}

// Write replaces the file and syncs it to disk.
func (f *Files) Write(_ context.Context, collection string, items map[string][]byte) error {
	path, d, err := f.path(collection)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before, known := f.items[collection]
	if !known {
		if before, err = f.load(collection); err != nil {
			return err
		}
	}
	after := maps.Clone(before)
	for key, item := range items {
		if item == nil {
			delete(after, key)
		} else if !d.claims(key) {
			after[key] = item
		}
	}
	text, err := d.format(after)
	if err == nil {
		err = store.Write(path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", path, err)
	}
	f.items[collection] = after
	return nil
}

// claims reports whether the key is in a section that files do not have.
func (d *Document) claims(key string) bool {
	section, _ := Own(key)
	for _, s := range d.Sections {
		if s.Name == section {
			return s.Kind == Claims
		}
	}
	return false
}

// Follow waits for the end of the context: nobody else writes the files.
func (f *Files) Follow(ctx context.Context, _ string, _ sync.Locker, _ func(string, []byte)) error {
	<-ctx.Done()
	return nil
}

// Shared is false.
func (f *Files) Shared() bool { return false }
