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

// Agents of earlier versions reject fields that they do not know.
func TestKeyIsGivenToAgentsThatKnowIt(t *testing.T) {
	hosts := lab()
	hosts[1].Capabilities = earliest
	for _, host := range hosts[:2] {
		a := Assignment{Sources: []SourceTask{{Session: "web", Peers: []Peer{{Key: NewKey()}}}}, Destinations: []DestinationTask{{Session: "web", Peers: []Peer{{Key: NewKey()}}, Authenticated: true}}}
		Restrict(&a, host.Name, hosts)
		if given := a.Sources[0].Peers[0].Key != nil && a.Destinations[0].Peers[0].Key != nil && a.Destinations[0].Authenticated; given != host.can(MarkKeys) || !given && a.Sources[0].Peers[0].Key != nil {
			t.Errorf("%s: source %t, destination %t", host.Name, a.Sources[0].Peers[0].Key != nil, a.Destinations[0].Peers[0].Key != nil)
		}
	}
}
