package lab_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// alarmRules are for a test that cannot wait long for the end of alarms.
const alarmRules = `
alarms:
  - {name: lossy, on: loss, above: 5%, over: 2s, packets: 20, keep_firing_for: 2s, severity: critical, labels: {team: net}, sources: [a]}
  - {name: silence, on: silence, keep_firing_for: 2s, destinations: [b]}
  - {name: elsewhere, on: loss, above: 1%, sources: [b]}
notify:
  - name: hook
    match: [alertname=~"lossy|silence|elsewhere"]
    group_interval: 1s
    webhook: {url: "http://127.0.0.1:9099/hook"}
loss_event: {share: 0}
`

// pagerMessage is a message of Alertmanager's webhooks, as far as the test reads it.
type pagerMessage struct {
	Alerts []pagerAlert `json:"alerts"`
}

type pagerAlert struct {
	Status      string            `json:"status"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt"`
	EndsAt      time.Time         `json:"endsAt"`
}

// pager is a receiver of webhooks in the host of the server.
type pager struct {
	t        *testing.T
	mu       sync.Mutex
	messages []pagerMessage
}

func (b *serviceBed) pager(t *testing.T) *pager {
	t.Helper()
	h := &pager{t: t}
	var listener net.Listener
	b.do(b.server, func() (err error) {
		listener, err = net.Listen("tcp", "127.0.0.1:9099")
		return err
	})
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return h
}

func (h *pager) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var m pagerMessage
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		h.t.Error(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages = append(h.messages, m)
}

// waits waits for a message about a rule, and returns its alert.
func (h *pager) waits(rule, status string) (found pagerAlert) {
	h.t.Helper()
	eventually(h.t, fmt.Sprintf("a webhook about %s: %s", rule, status), func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for i, m := range h.messages {
			for _, a := range m.Alerts {
				if a.Labels["alertname"] == rule && a.Status == status {
					found, h.messages = a, h.messages[i+1:]
					return true
				}
			}
		}
		return false
	})
	return found
}

// TestAlarmsReachTheWebhook: injected loss, and the loss of everything, are notified of with the labels of the pair, and
// their ends.
func TestAlarmsReachTheWebhook(t *testing.T) {
	t.Parallel() // it mostly waits
	config := filepath.Join(t.TempDir(), "server.yaml")
	if err := os.WriteFile(config, []byte(alarmRules), 0o600); err != nil {
		t.Fatal(err)
	}
	b := service(t, strings.Replace(perfect, "service: {server: noc, ", fmt.Sprintf("service: {server: noc, options: [--config, %q], ", config), 1))
	h := b.pager(t)
	b.steady(secondIPv4, 2)
	b.running("s", "--from", "a", "--to", "b", "--trace=-1s")
	b.atLeast(some, "SELECT sum(packets) FROM flows")
	for _, row := range []struct {
		rule, severity string
		loss           float64
	}{{"lossy", "critical", 0.3}, {"silence", "warning", 1}} {
		began := time.Now()
		b.suffers(row.loss)
		a := h.waits(row.rule, "firing")
		t.Logf("%s: %v from the loss to the webhook: %s", row.rule, time.Since(began).Round(10*time.Millisecond), a.Annotations["summary"])
		if a.Labels["source"] != "a" || a.Labels["destination"] != "b" || a.Labels["session"] != "s" || a.Labels["severity"] != row.severity {
			t.Errorf("%s: labels %v", row.rule, a.Labels)
		}
		if row.rule == "lossy" && a.Labels["team"] != "net" {
			t.Errorf("labels %v", a.Labels)
		}
		b.suffers(0)
		if a := h.waits(row.rule, "resolved"); a.EndsAt.Before(a.StartsAt) {
			t.Errorf("%s: from %v to %v", row.rule, a.StartsAt, a.EndsAt)
		}
	}
	for _, m := range h.messages {
		for _, a := range m.Alerts {
			if a.Labels["alertname"] == "elsewhere" {
				t.Errorf("alarm of a pair that is not selected: %v", a.Labels)
			}
		}
	}
}
