package web

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// pageMost is the maximum number of items of a page.
const pageMost = 1000

// paging is what a request says about pages, in the way of Google AIP-158.
type paging interface {
	GetPageSize() uint32
	GetPageToken() string
}

// cursor is the content of a page token, which clients do not read. A token names the last item and not
// a position, so that items that come or go meanwhile neither repeat nor hide others.
type cursor struct {
	After string `json:"after"`
	// Of is the filter of the list: a token is of no use with another.
	Of string `json:"of,omitempty"`
}

func (c cursor) token() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // it consists of strings
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// readPage returns the size of the page, 0 for all items, and the key after which it begins.
func readPage(request paging, filter string) (size int, after string, err error) {
	size = int(min(request.GetPageSize(), pageMost))
	if request.GetPageToken() == "" {
		return size, "", nil
	}
	var c cursor
	text, err := base64.RawURLEncoding.DecodeString(request.GetPageToken())
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return 0, "", invalid("page_token", "read page token %.70q: %v", request.GetPageToken(), err)
	}
	if c.Of != filter {
		return 0, "", invalid("page_token", "read page token: it is of a list of %q, and this one is of %q", c.Of, filter)
	}
	return size, c.After, nil
}

// pageOf sorts items by their keys, which are unique, and returns the requested page and the token of
// the next one.
func pageOf[T any](request paging, filter string, items []T, key func(T) string) (page []T, next string, err error) {
	size, after, err := readPage(request, filter)
	if err != nil {
		return nil, "", err
	}
	slices.SortStableFunc(items, func(a, b T) int { return strings.Compare(key(a), key(b)) })
	if after != "" {
		items = items[firstAfter(items, after, key):]
	}
	if size == 0 || len(items) <= size {
		return items, "", nil
	}
	return items[:size], cursor{key(items[size-1]), filter}.token(), nil
}

// firstAfter returns the index of the first item with a greater key.
func firstAfter[T any](items []T, after string, key func(T) string) int {
	i, _ := slices.BinarySearchFunc(items, after, func(item T, after string) int {
		if key(item) <= after {
			return -1
		}
		return 1
	})
	return i
}
