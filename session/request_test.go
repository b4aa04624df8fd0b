package session

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestTaskOfALaterVersion: a task with an unknown field is refused with the reason, and
// the tasks beside it are carried out.
func TestTaskOfALaterVersion(t *testing.T) {
	text := `{"apply":{"revision":7,"note":"ignored","limits":{"x":1},
		"sources":[{"session":"a","device":"eth0","peers":[],"future":1},{"session":"b","peers":[]}],
		"destinations":[{"session":"b","peers":[{"agent":"h","addresses":[],"future":{}}]}],
		"points":[{"session":"c","point":"queues","future":true},{"session":"c","point":"routes"}],
		"captures":[{"session":"d","snap":64}]}}`
	request, refused, err := ReadRequest([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	a := request.Apply
	if a.Revision != 7 || len(a.Sources) != 1 || a.Sources[0].Session != "b" || len(a.Destinations) != 0 || len(a.Points) != 1 || a.Points[0].Point != "routes" {
		t.Errorf("got %+v", a)
	}
	var got []string
	for _, task := range refused {
		if task.Running || !strings.HasPrefix(task.Error, "requires a newer agent: ") {
			t.Errorf("got %+v", task)
		}
		got = append(got, task.Session+" "+task.Role+" "+task.Device)
	}
	if want := []string{"d captures ", "b destination ", "c queues ", "a source eth0"}; !reflect.DeepEqual(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
}

func TestReadRequest(t *testing.T) {
	for _, request := range []Request{
		{Apply: &Assignment{Revision: 1, Sources: []SourceTask{{Session: "a", Peers: []Peer{{Agent: "b", Addresses: []string{"10.0.0.1"}}}, Modules: []string{"delay"}}}}},
		{Trace: &TraceTask{Address: "10.0.0.1", Protocol: "udp"}}, {Doctor: &Doctor{}},
		{Sent: []SentReport{{Session: "s", Source: "a", Interval: Duration(time.Second), Flows: []SentFlow{{
			Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), Protocol: 17, Sport: 1, Start: 0x10000, First: 0x10000, Next: 0x10005,
		}}}}},
	} {
		text, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		if got, refused, err := ReadRequest(text); err != nil || len(refused) != 0 || !reflect.DeepEqual(got, request) {
			t.Errorf("got %+v, %v, %v", got, refused, err)
		}
	}
	for text, want := range map[string]string{
		`{"future":{}}`: "requires a newer agent", `{"trace":{"address":"x","future":1}}`: "requires a newer agent",
		`[]`: "read request", `{"apply":[]}`: "read assignment", `{"apply":{"sources":[1]}}`: "sources", `{"apply":{"revision":-1}}`: "revision",
	} {
		if _, _, err := ReadRequest([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(`{"apply":{"revision":1,"sources":[{"session":"a","x":1}],"x":[{"session":"b"}]}}`))
	f.Add([]byte(`{"trace":{"address":"::1"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		request, refused, err := ReadRequest(text)
		if err != nil && (request.Apply != nil || refused != nil) {
			t.Error("a request and an error")
		}
		for _, task := range refused {
			if task.Running || task.Error == "" {
				t.Errorf("got %+v", task)
			}
		}
	})
}
