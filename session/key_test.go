package session

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pillion.dev/wire"
)

// A key is in JSON, and in no text.
func TestKeyIsNotShown(t *testing.T) {
	task := Peer{Agent: "web", Key: NewKey()}
	message, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	var again Peer
	if err := json.Unmarshal(message, &again); err != nil || string(again.Key) != string(task.Key) || len(task.Key) != wire.KeyLength {
		t.Errorf("got %x from %s, %v", []byte(again.Key), message, err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("task", "task", task, "key", task.Key)
	text := log.String() + fmt.Sprintf("%v %+v %#v %x %s %d", task, task, task, task.Key, task.Key, task.Key)
	for _, bare := range []string{fmt.Sprint([]byte(task.Key)), fmt.Sprintf("%x", []byte(task.Key)), string(task.Key)} {
		if strings.Contains(text, bare) {
			t.Errorf("the key is in %q", text)
		}
	}
	if first, second := NewKey(), NewKey(); string(first) == string(second) {
		t.Error("keys are equal")
	}
}
