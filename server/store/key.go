package store

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// Keys of a bucket have letters, digits and -_/=. only, and dots between their parts: the
// collection, the section, and the item's own key. Other bytes of the latter are =XX.

// prefixOf is the prefix of all keys of a collection.
func prefixOf(collection string) string { return collection + "." }

// barrierOf is a key that no item has.
func barrierOf(collection string) string { return prefixOf(collection) + "=" }

// bucketKey returns the key of an item in the bucket.
func bucketKey(collection, key string) string {
	section, own, found := strings.Cut(key, "/")
	if !found {
		return prefixOf(collection) + escape(section)
	}
	return prefixOf(collection) + escape(section) + "." + escape(own)
}

// itemKey returns the key of the item that has a key in the bucket.
func itemKey(name string) (string, error) {
	_, rest, _ := strings.Cut(name, ".")
	section, own, found := strings.Cut(rest, ".")
	section, err := unescape(section)
	if err != nil || !found {
		return section, err
	}
	own, err = unescape(own)
	return Key(section, own), err
}

func escape(text string) string {
	var out strings.Builder
	out.WriteByte('_') // a part is never empty
	for i := range len(text) {
		c := text[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "=%02X", c)
		}
	}
	return out.String()
}

func unescape(text string) (string, error) {
	rest, found := strings.CutPrefix(text, "_")
	if !found {
		return "", fmt.Errorf("key %q has no item", text)
	}
	var out strings.Builder
	for len(rest) > 0 {
		if rest[0] != '=' {
			out.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		c, err := hex.DecodeString(rest[1:min(len(rest), 3)])
		if err != nil || len(c) != 1 {
			return "", fmt.Errorf("key %q has an invalid escape", text)
		}
		out.Write(c)
		rest = rest[3:]
	}
	return out.String(), nil
}
