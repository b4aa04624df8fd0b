package web

import (
	"fmt"
	"slices"
	"testing"

	"pillion.dev/api/pillionv1"
)

// TestPageTokens: the pages of a list have each item once, also if others come and go meanwhile.
func TestPageTokens(t *testing.T) {
	var items []string
	for n := range 25 {
		items = append(items, fmt.Sprintf("%02d", n))
	}
	slices.Reverse(items)
	same := func(s string) string { return s }
	request := &pillionv1.ListAgentsRequest{PageSize: 10}
	var got []string
	for range 3 {
		page, next, err := pageOf(request, "x", slices.Clone(items), same)
		if err != nil {
			t.Fatal(err)
		}
		got, request.PageToken = append(got, page...), next
		items = slices.DeleteFunc(append(items, "03a"), func(s string) bool { return s == "09" || s == "20" })
	}
	if len(got) != 24 || !slices.IsSorted(got) || slices.Contains(got, "20") || request.PageToken != "" {
		t.Errorf("got %v, token %q", got, request.PageToken)
	}
	if all, next, err := pageOf(&pillionv1.ListAgentsRequest{}, "", items, same); len(all) != len(items) || next != "" || err != nil {
		t.Errorf("without a size: %d items, token %q, error %v", len(all), next, err)
	}
	many := make([]string, 3000)
	for n := range many {
		many[n] = fmt.Sprintf("%04d", n)
	}
	page, next, err := pageOf(&pillionv1.ListAgentsRequest{PageSize: 5000}, "x", many, same)
	if err != nil || len(page) != pageMost {
		t.Fatalf("%d items, error %v", len(page), err)
	}
	for _, row := range []struct{ name, token, filter string }{
		{"no base64", "%", "x"}, {"no JSON", "aaaa", "x"}, {"another filter", next, "y"},
	} {
		if _, _, err := pageOf(&pillionv1.ListAgentsRequest{PageToken: row.token}, row.filter, many, same); err == nil {
			t.Errorf("%s is accepted", row.name)
		}
	}
}

func FuzzReadPage(f *testing.F) {
	f.Add(cursor{"a", "b"}.token())
	f.Add("%")
	f.Fuzz(func(t *testing.T, token string) {
		if _, after, err := readPage(&pillionv1.ListAgentsRequest{PageToken: token}, ""); err != nil && after != "" {
			t.Errorf("after %q with an error", after)
		}
	})
}
