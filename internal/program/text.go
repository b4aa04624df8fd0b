package program

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
)

const (
	// mostText is how much of an output is kept, tailSize how much of it Tail returns, bytes.
	mostText = 64 << 20
	tailSize = 2048
)

// Text collects the beginning of what a program prints to its standard output or standard error.
type Text struct {
	mutex sync.Mutex
	kept  bytes.Buffer
	limit int
	over  bool
	ready string        // a text to wait for
	seen  chan struct{} // closed when it was printed
}

func newText(limit int, ready string) *Text {
	return &Text{limit: limit, ready: ready, seen: make(chan struct{})}
}

// Write keeps the beginning of an output, up to the limit.
func (t *Text) Write(text []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	begin := max(0, t.kept.Len()-len(t.ready))
	if room := t.limit - t.kept.Len(); len(text) > room {
		t.over = true
		t.kept.Write(text[:room])
	} else {
		t.kept.Write(text)
	}
	if t.ready != "" && bytes.Contains(t.kept.Bytes()[begin:], []byte(t.ready)) {
		t.ready = ""
		close(t.seen)
	}
	return len(text), nil
}

// Limit returns how many bytes are kept at most, and whether the program printed more.
func (t *Text) Limit() (bytes int, over bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.limit, t.over
}

// Bytes returns a copy of what is kept.
func (t *Text) Bytes() []byte {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return bytes.Clone(t.kept.Bytes())
}

// Tail returns the last tailSize bytes as one line, for messages.
func (t *Text) Tail() string {
	text := strings.TrimSpace(string(t.Bytes()))
	if len(text) > tailSize {
		text = "…" + text[len(text)-tailSize:]
	}
	return strings.Join(strings.Fields(text), " ")
}

// LastObject returns the last JSON object of an output with one object per line, or nil. If that object has a member
// "summary", the member is returned instead.
func (t *Text) LastObject() map[string]any {
	lines := bytes.Split(t.Bytes(), []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		var object map[string]any
		if line := bytes.TrimSpace(lines[i]); len(line) > 0 && line[0] == '{' && json.Unmarshal(line, &object) == nil {
			if summary, ok := object["summary"].(map[string]any); ok {
				return summary
			}
			return object
		}
	}
	return nil
}
