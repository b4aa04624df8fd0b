package api

import (
	"errors"
	"slices"
	"testing"
)

func TestPages(t *testing.T) {
	pages := map[string]struct {
		items []int
		next  string
	}{"": {[]int{1, 2}, "a"}, "a": {nil, "b"}, "b": {[]int{3}, ""}}
	all, err := Pages(func(token string) ([]int, string, error) { return pages[token].items, pages[token].next, nil })
	if err != nil || !slices.Equal(all, []int{1, 2, 3}) {
		t.Errorf("got %v, %v", all, err)
	}
	fault := errors.New("x")
	if _, err := Pages(func(string) ([]int, string, error) { return nil, "a", fault }); !errors.Is(err, fault) {
		t.Errorf("error %v", err)
	}
}
