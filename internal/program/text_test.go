package program

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	text := newText(10, "")
	for _, part := range []string{"12345", "6789", "abc", "def"} {
		if n, err := text.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	if limit, over := text.Limit(); limit != 10 || !over || string(text.Bytes()) != "123456789a" {
		t.Errorf("limit %d, over %v, %q", limit, over, text.Bytes())
	}
	long := newText(1<<20, "")
	_, _ = long.Write([]byte(strings.Repeat("x", 5000) + " the\n last words\n"))
	if tail := long.Tail(); !strings.HasSuffix(tail, "x the last words") || len(tail) > tailSize+3 {
		t.Errorf("tail %q", tail)
	}
}

func TestLastObject(t *testing.T) {
	for name, c := range map[string]struct {
		text, key string
		want      any
	}{
		"none":          {"text\n", "a", nil},
		"empty":         {"", "a", nil},
		"last":          {"{\"a\": 1}\n{\"a\": 2}\n", "a", 2.0},
		"before text":   {"{\"a\": 1}\nbye\n", "a", 1.0},
		"summary":       {`{"summary": {"a": 3}}`, "a", 3.0},
		"no summary":    {`{"summary": 4}`, "summary", 4.0},
		"cut off":       {"{\"a\": 1}\n{\"a\": ", "a", 1.0},
		"not an object": {"{\"a\": 1}\n[2]\n", "a", 1.0},
	} {
		t.Run(name, func(t *testing.T) {
			text := newText(1<<20, "")
			_, _ = text.Write([]byte(c.text))
			if got := text.LastObject()[c.key]; got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func FuzzLastObject(f *testing.F) {
	f.Add("{\"summary\":{\"marked\":1}}\n{", uint8(30))
	f.Fuzz(func(t *testing.T, printed string, cut uint8) {
		text := newText(len(printed), "}")
		at := min(int(cut), len(printed))
		_, _ = text.Write([]byte(printed[:at]))
		_, _ = text.Write([]byte(printed[at:]))
		_ = text.LastObject()
		select {
		case <-text.seen:
		default:
			if strings.Contains(printed, "}") {
				t.Errorf("%q was not noticed in %q, cut at %d", "}", printed, at)
			}
		}
	})
}
