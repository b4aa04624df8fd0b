package notify

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pillion.dev/server/alarm"
	"pillion.dev/server/outbound"
)

// source are alarms that a test sets.
type source struct {
	mu      sync.Mutex
	alarms  []alarm.Alarm
	kept    map[string]json.RawMessage
	changed chan struct{}
}

func newSource() *source {
	return &source{kept: map[string]json.RawMessage{}, changed: make(chan struct{}, 1)}
}

func (s *source) Alarms() []alarm.Alarm {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]alarm.Alarm(nil), s.alarms...)
}
func (s *source) Save(context.Context) error           { return nil }
func (s *source) Changed() <-chan struct{}             { return s.changed }
func (s *source) Notified() map[string]json.RawMessage { return s.kept }
func (s *source) KeepNotified(group string, record json.RawMessage) {
	if s.kept[group] = record; record == nil {
		delete(s.kept, group)
	}
}

func (s *source) set(alarms ...alarm.Alarm) {
	s.mu.Lock()
	s.alarms = alarms
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// lossOf is an alarm of a source.
func lossOf(name string) alarm.Alarm {
	labels := map[string]string{"alertname": "loss", "severity": "warning", "source": name, "destination": "z"}
	return alarm.Alarm{
		ID: alarm.Fingerprint(labels), Rule: "loss", Labels: labels, Annotations: map[string]string{"summary": name + " > z lost packets"},
		Summary: name + " > z lost packets", Began: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

func ended(a alarm.Alarm) alarm.Alarm {
	a.Ended, a.Ending = a.Began.Add(time.Minute), "loss is over"
	return a
}

// bench runs a Notifier with a receiver that a test answers for, on a clock of its own.
type bench struct {
	*source
	*Notifier
	mu       sync.Mutex
	messages []*Message
	err      error
}

// inBubble runs a test with the clock of a bubble.
func inBubble(t *testing.T, receiver Receiver, test func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		receiver.Name, receiver.Webhook.URL = "pager", "http://pager.example"
		receivers, err := Complete([]Receiver{receiver})
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{source: newSource()}
		b.Notifier = New(Options{Receivers: receivers, Alarms: b.source, URL: "https://noc.example", Log: slog.New(slog.DiscardHandler)})
		b.out[0].send = func(_ context.Context, m *Message, _ outbound.Addresses) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.messages = append(b.messages, m)
			return b.err
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- b.Run(ctx) }()
		test(t, b)
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// after lets time pass, and returns the messages since the last call.
func (b *bench) after(d time.Duration) []*Message {
	time.Sleep(d) // of the bubble
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	messages := b.messages
	b.messages = nil
	return messages
}

func (b *bench) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

func TestGroups(t *testing.T) {
	inBubble(t, Receiver{GroupBy: []string{"alertname"}}, func(t *testing.T, b *bench) {
		a, c := lossOf("a"), lossOf("c")
		b.set(a)
		if got := b.after(900 * time.Millisecond); len(got) != 0 {
			t.Fatalf("notified after %v, before group_wait", got)
		}
		b.set(a, c)
		got := b.after(200 * time.Millisecond)
		if len(got) != 1 || got[0].Status != "firing" || len(got[0].Alerts) != 2 || got[0].CommonLabels["destination"] != "z" || got[0].CommonLabels["source"] != "" {
			t.Fatalf("got %+v", got)
		}
		b.set(ended(a), c)
		if got := b.after(9 * time.Second); len(got) != 0 {
			t.Fatalf("notified before group_interval: %+v", got)
		}
		got = b.after(2 * time.Second)
		if len(got) != 1 || got[0].Status != "firing" || len(got[0].Alerts) != 2 || got[0].Alerts[1].Status != "resolved" || !got[0].Alerts[1].EndsAt.Equal(a.Began.Add(time.Minute)) {
			t.Fatalf("got %+v", got)
		}
		b.set(ended(a), ended(c))
		got = b.after(11 * time.Second)
		if len(got) != 1 || got[0].Status != "resolved" || len(got[0].Alerts) != 1 || got[0].Alerts[0].Annotations["ending"] != "loss is over" {
			t.Fatalf("got %+v", got)
		}
		if got := b.after(5 * time.Hour); len(got) != 0 || len(b.kept) != 0 || len(b.out[0].groups) != 0 {
			t.Errorf("got %+v, kept %v", got, b.kept)
		}
	})
}

func TestRepeats(t *testing.T) {
	inBubble(t, Receiver{RepeatInterval: time.Hour}, func(t *testing.T, b *bench) {
		a := lossOf("a")
		b.set(a)
		if got := b.after(2 * time.Hour); len(got) != 2 {
			t.Errorf("%d messages in two hours", len(got))
		}
		a.Acknowledged = &alarm.Acknowledgement{By: "ann"}
		b.set(a)
		if got := b.after(3 * time.Hour); len(got) != 0 {
			t.Errorf("an acknowledged alarm was repeated: %+v", got)
		}
		b.set(ended(a))
		if got := b.after(time.Minute); len(got) != 1 || got[0].Alerts[0].Annotations["acknowledged_by"] != "ann" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestSilencedAndOthers(t *testing.T) {
	inBubble(t, Receiver{Match: []string{"source=a"}}, func(t *testing.T, b *bench) {
		a := lossOf("a")
		a.SilencedBy = []string{"s"}
		b.set(a, lossOf("c"))
		if got := b.after(time.Minute); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
		a.SilencedBy = nil
		b.set(a)
		if got := b.after(time.Minute); len(got) != 1 || len(got[0].Alerts) != 1 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestRetries(t *testing.T) {
	inBubble(t, Receiver{}, func(t *testing.T, b *bench) {
		b.fail(io.ErrUnexpectedEOF)
		b.set(lossOf("a"))
		if got := b.after(10 * time.Minute); len(got) < 12 || len(got) > 20 { // 1, 2, 4 … 60, 60 s
			t.Errorf("%d attempts in 10 minutes", len(got))
		}
		if s := b.Stats()[0]; s.Failed == 0 || s.Waiting != 1 {
			t.Errorf("got %+v", s)
		}
		b.fail(nil)
		if got := b.after(2 * time.Minute); len(got) != 1 {
			t.Errorf("%d messages after the failure", len(got))
		}
		b.fail(errPermanent)
		b.set(lossOf("a"), lossOf("c"))
		if got := b.after(10 * time.Minute); len(got) != 1 {
			t.Errorf("a refused message was sent %d times", len(got))
		}
		if s := b.Stats()[0]; s.Sent != 1 || s.Refused != 1 || s.Waiting != 0 {
			t.Errorf("got %+v", s)
		}
	})
}

// TestGroupOfPair: alarms of one pair, of several rules and sessions, are one notification, and other pairs have theirs.
func TestGroupOfPair(t *testing.T) {
	inBubble(t, Receiver{}, func(t *testing.T, b *bench) {
		var alarms []alarm.Alarm
		for _, labels := range []map[string]string{
			{"alertname": "loss", "session": "one", "source": "a", "destination": "z"}, {"alertname": "loss", "session": "two", "source": "a", "destination": "z"},
			{"alertname": "slow", "session": "one", "source": "a", "destination": "z"}, {"alertname": "loss", "session": "one", "source": "c", "destination": "z"},
		} {
			alarms = append(alarms, alarm.Alarm{ID: alarm.Fingerprint(labels), Labels: labels})
		}
		b.set(alarms...)
		got := map[string]int{}
		for _, m := range b.after(time.Minute) {
			got[m.GroupKey] += len(m.Alerts)
		}
		if want := map[string]int{`{}/{receiver="pager"}:{destination="z", source="a"}`: 3, `{}/{receiver="pager"}:{destination="z", source="c"}`: 1}; !maps.Equal(got, want) {
			t.Errorf("notified of %v, want %v", got, want)
		}
	})
}

// TestTakeover: a server that comes to lead does not repeat what was sent, and sends the end.
func TestTakeover(t *testing.T) {
	a := lossOf("a")
	text, err := json.Marshal(record{At: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), Firing: []string{a.ID}}) // the time of the bubble
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b := &bench{source: newSource()}
		b.kept[`pager|{destination="z", source="a"}`] = text
		b.kept[`gone|{}`] = text
		b.source.alarms = []alarm.Alarm{a}
		receivers, err := Complete([]Receiver{{Name: "pager", Webhook: Webhook{URL: "http://pager.example"}}})
		if err != nil {
			t.Fatal(err)
		}
		b.Notifier = New(Options{Receivers: receivers, Alarms: b.source, Log: slog.New(slog.DiscardHandler)})
		b.out[0].send = func(_ context.Context, m *Message, _ outbound.Addresses) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.messages = append(b.messages, m)
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- b.Run(ctx) }()
		if got := b.after(time.Hour); len(got) != 0 {
			t.Errorf("got %+v", got)
		}
		b.set(ended(a))
		if got := b.after(time.Minute); len(got) != 1 || got[0].Status != "resolved" {
			t.Errorf("got %+v", got)
		}
		cancel()
		<-stopped
		if len(b.kept) != 0 {
			t.Errorf("kept %v", b.kept)
		}
	})
}

// TestWebhook: what a receiver of Alertmanager's webhooks gets.
func TestWebhook(t *testing.T) {
	status := http.StatusOK
	var header http.Header
	var got map[string]any
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header, got = r.Header.Clone(), nil
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
	}))
	defer hook.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := Webhook{URL: hook.URL + "/hook?key=s3cret", TokenFile: token}
	receivers, err := Complete([]Receiver{{Name: "pager", Webhook: w}})
	if err != nil {
		t.Fatal(err)
	}
	n := New(Options{Receivers: receivers, Alarms: newSource(), URL: "https://noc.example"})
	m := n.message(n.out[0], &members{group: &group{key: `{alertname="loss"}`, labels: map[string]string{"alertname": "loss"}}, firing: []alarm.Alarm{lossOf("a")}})
	if err := w.send(t.Context(), m, nil); err != nil {
		t.Fatal(err)
	}
	if header.Get("Authorization") != "Bearer s3cret" || header.Get("Content-Type") != "application/json" {
		t.Errorf("header %v", header)
	}
	alert, _ := got["alerts"].([]any)[0].(map[string]any)
	for name, want := range map[string]any{
		"version": "4", "status": "firing", "receiver": "pager", "groupKey": `{}/{receiver="pager"}:{alertname="loss"}`,
		"truncatedAlerts": 0.0, "externalURL": "https://noc.example",
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if alert["startsAt"] != "2026-03-01T12:00:00Z" || alert["endsAt"] != "0001-01-01T00:00:00Z" || alert["fingerprint"] != lossOf("a").ID || alert["status"] != "firing" {
		t.Errorf("alert %v", alert)
	}
	// A receiver that shows links has none rather than dead ones.
	bare := New(Options{Receivers: receivers, Alarms: newSource()})
	text, err := json.Marshal(bare.message(bare.out[0], &members{group: &group{}, firing: []alarm.Alarm{lossOf("a")}}))
	if plain := m.plain(); err != nil || strings.Contains(string(text), "URL") || !strings.Contains(plain, "https://noc.example/#/alarms") {
		t.Errorf("got %s, %v, and the e-mail\n%s", text, err, plain)
	}
	for code, permanent := range map[int]bool{302: true, 307: true, 400: true, 404: true, 429: false, 500: false, 503: false} {
		status = code
		err := w.send(t.Context(), m, nil)
		if err == nil || strings.Contains(err.Error(), errPermanent.Error()) != permanent {
			t.Errorf("status %d: %v", code, err)
		}
	}
	hook.Close()
	if err := w.send(t.Context(), m, nil); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("an error has the secret of the URL, or there is none: %v", err)
	}
}

func TestReceivers(t *testing.T) {
	hook := Webhook{URL: "http://h/x"}
	email := Email{To: []string{"noc@example.org"}, From: "p@example.org", Server: "mail:25"}
	with := func(change func(*Email)) Email {
		e := email
		change(&e)
		return e
	}
	for name, test := range map[string]struct {
		receiver Receiver
		want     string
	}{
		"webhook":        {Receiver{Name: "a", Webhook: hook}, ""},
		"email":          {Receiver{Name: "a", Email: email}, ""},
		"none":           {Receiver{Name: "a"}, "either webhook"},
		"both":           {Receiver{Name: "a", Webhook: hook, Email: email}, "either webhook"},
		"no name":        {Receiver{Webhook: hook}, "name"},
		"token in plain": {Receiver{Name: "a", Webhook: Webhook{URL: "http://noc.example/x", TokenFile: "/t"}}, "use https"},
		"user in plain":  {Receiver{Name: "a", Webhook: Webhook{URL: "http://ann:x@noc.example/"}}, "use https"},
		"token by TLS":   {Receiver{Name: "a", Webhook: Webhook{URL: "https://noc.example/x", TokenFile: "/t"}}, ""},
		"token at home":  {Receiver{Name: "a", Webhook: Webhook{URL: "http://127.0.0.1:9093/x", TokenFile: "/t"}}, ""},
		"scheme":         {Receiver{Name: "a", Webhook: Webhook{URL: "ftp://h"}}, "use http://"},
		"matcher":        {Receiver{Name: "a", Webhook: hook, Match: []string{"x"}}, "match"},
		"interval":       {Receiver{Name: "a", Webhook: hook, GroupInterval: time.Millisecond}, "group_interval"},
		"repeat":         {Receiver{Name: "a", Webhook: hook, RepeatInterval: time.Second}, "repeat_interval"},
		"no port":        {Receiver{Name: "a", Email: with(func(e *Email) { e.Server = "mail" })}, "HOST:PORT"},
		"nobody":         {Receiver{Name: "a", Email: with(func(e *Email) { e.To = nil })}, "addresses"},
		"no address":     {Receiver{Name: "a", Email: with(func(e *Email) { e.From = "x\r\ny" })}, "is not an address"},
		"password alone": {Receiver{Name: "a", Email: with(func(e *Email) { e.PasswordFile = "/p" })}, "belong together"},
		"clear password": {Receiver{Name: "a", Email: with(func(e *Email) { e.User, e.PasswordFile, e.TLS = "u", "/p", "none" })}, "requires tls"},
		"unknown TLS":    {Receiver{Name: "a", Email: with(func(e *Email) { e.TLS = "ssl" })}, "use starttls"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Complete([]Receiver{test.receiver})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
