package kubernetes

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
	api "pillion.dev/internal/test/kubernetestest"
)

// patience is how long a condition may take on a busy machine.
const patience = hang.Limit

// journal is a log in memory.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// watched is a watcher of an API, and its last report of each address.
type watched struct {
	*Watcher
	t   *testing.T
	log *journal

	mu   sync.Mutex
	last map[string]string
}

// follow runs a watcher until the test ends.
func follow(t *testing.T, a *api.API) *watched {
	t.Helper()
	config, err := Config{Enabled: true, API: a.URL(), TokenFile: a.TokenFile, CAFile: a.CAFile}.Complete(api.Node)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{t: t, log: &journal{}, last: map[string]string{}}
	w.Watcher = &Watcher{
		Config: config, Node: api.Node, Token: func() ([]byte, error) { return os.ReadFile(a.TokenFile) }, Changed: w.changed,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		pause: func(ctx context.Context, wait time.Duration) {
			if wait == labelsEvery { // labels are read once
				<-ctx.Done()
			}
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.Run(ctx); close(done) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if strings.Contains(w.log.String(), "secret-") {
			t.Errorf("the log has a token: %s", w.log)
		}
	})
	return w
}

func (w *watched) changed(changes []Name) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range changes {
		w.last[c.Address.String()] = map[bool]string{true: c.Pod.Namespace + "/" + c.Pod.Name, false: "-"}[c.Held]
	}
}

// wait waits for the names of these addresses, and for a message in the log.
func (w *watched) wait(said string, want map[string]string) {
	w.t.Helper()
	w.until(func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		if fmt.Sprint(w.last) == fmt.Sprint(want) && strings.Contains(w.log.String(), said) {
			return ""
		}
		return fmt.Sprintf("names are %v, want %v; the log, without %q: %s", w.last, want, said, w.log)
	})
}

// until waits until a check finds no fault.
func (w *watched) until(check func() (fault string)) {
	w.t.Helper()
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(patience); ; <-ticks.C {
		fault := check()
		if fault == "" {
			return
		}
		if time.Now().After(end) {
			w.t.Fatal(fault)
		}
	}
}

// TestWatch: pods are listed in pages and followed; those without addresses of their own have no name.
func TestWatch(t *testing.T) {
	a := api.Start(t)
	a.Put("1", api.Pod("shop", "cart-0", "", "10.1.0.1", "fd00::1"))
	a.Put("2", api.Pod("kube-system", "proxy", `,"hostNetwork":true`, "192.0.2.1"))
	a.Put("3", api.Pod("shop", "db-0", "", "10.1.0.3"))
	a.Put("4", strings.Replace(api.Pod("shop", "job", "", "10.1.0.4"), "Running", "Succeeded", 1))
	a.Put("5", strings.Replace(api.Pod("shop", "elsewhere", "", "10.2.0.1"), api.Node, "w2.example", 1))
	a.Put("6", api.Pod("shop", "starting", ""))
	w := follow(t, a)
	want := map[string]string{"10.1.0.1": "shop/cart-0", "fd00::1": "shop/cart-0", "10.1.0.3": "shop/db-0"}
	w.wait("", want)
	a.Put("6", api.Pod("shop", "starting", "", "10.1.0.6"))
	want["10.1.0.6"] = "shop/starting"
	w.wait("", want)
	a.Bookmark()
	a.Delete("3")
	want["10.1.0.3"] = "-"
	w.wait("", want)
	a.Put("7", api.Pod("shop", "db-1", "", "10.1.0.3"))
	want["10.1.0.3"] = "shop/db-1"
	w.wait("", want)
	a.Put("6", strings.Replace(api.Pod("shop", "starting", "", "10.1.0.6"), "Running", "Failed", 1))
	want["10.1.0.6"] = "-"
	w.wait("", want)
	if n := len(w.Names()); n != 3 {
		t.Errorf("%d addresses are held: %v", n, w.Names())
	}
	w.until(func() string {
		if labels := w.NodeLabels(); len(labels) != 1 || labels["topology.kubernetes.io/zone"] != "z1" {
			return fmt.Sprintf("labels of the node: %v", labels)
		}
		return ""
	})
}

// TestWatchContinues: after a cut connection, a version that is too old, errors, and a new token.
func TestWatchContinues(t *testing.T) {
	a := api.Start(t)
	a.Put("1", api.Pod("shop", "a", "", "10.1.0.1"))
	w := follow(t, a)
	want := map[string]string{"10.1.0.1": "shop/a"}
	w.wait("", want)
	listed := func() (n int) {
		for _, query := range a.Requests() {
			if query.Get("watch") == "" {
				n++
			}
		}
		return n
	}
	a.Drop()
	a.Put("2", api.Pod("shop", "b", "", "10.1.0.2"))
	want["10.1.0.2"] = "shop/b"
	w.wait("", want)
	before := listed()
	a.Put("3", api.Pod("shop", "c", "", "10.1.0.3")) // and the watch goes on from there
	a.Compact()
	a.Drop()
	a.Put("4", api.Pod("shop", "d", "", "10.1.0.4"))
	want["10.1.0.3"], want["10.1.0.4"] = "shop/c", "shop/d"
	w.wait("", want)
	if listed() == before {
		t.Error("a version that is too old is not listed again")
	}
	for _, row := range []struct{ line, said string }{
		{`{"type":"MODIFIED","object":{"metadata":`, "unexpected end of JSON"},
		{`{"type":"MODIFIED","object":{"metadata":{"name":7}}}`, "cannot unmarshal number"},
		{`{"type":"MODIFIED"}`, "without an object"},
		{`{"type":"ERROR","object":{"code":500,"message":"etcd is away"}}`, "etcd is away"},
		{strings.Repeat("x", eventMax+1), "event of more than 4 MiB"},
	} {
		w.until(func() string {
			if strings.Contains(w.log.String(), row.said) {
				return ""
			}
			a.Send(row.line) // again: a list before the watch skips it
			return fmt.Sprintf("the log, without %q: %s", row.said, w.log)
		})
		w.wait(row.said, want)
	}
	a.Send(`{"type":"FUTURE","object":{}}`)
	a.Rotate(t, "secret-2")
	a.Compact()
	a.Drop()
	a.Delete("1")
	want["10.1.0.1"] = "-"
	w.wait("", want)
}

// TestAnswers: what the API may answer to a list gives a clear error, and is tried again.
func TestAnswers(t *testing.T) {
	text := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	for _, row := range []struct {
		name   string
		answer http.HandlerFunc
		said   string
	}{
		{"forbidden", func(w http.ResponseWriter, _ *http.Request) { api.Fail(w, 403, "pods is forbidden") }, "pods is forbidden"},
		{"no JSON", text("<html>"), "invalid character"},
		{"wrong type", text(`{"metadata":[]}`), "cannot unmarshal array"},
		{"no version", text(`{}`), "no resource version"},
		{"cut", text(`{"metadata":{"resourceVersion":"1"},"items":[{`), "unexpected EOF"},
		{"another content type", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/html") }, "not JSON"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://192.0.2.1/", http.StatusTemporaryRedirect)
		}, "status 307"},
		{"huge", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"items":[`)
			block := []byte(strings.Repeat(" ", 1<<20))
			for range pageMax>>20 + 1 {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, "more than 32 MiB"},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := api.Start(t)
			a.Put("1", api.Pod("shop", "a", "", "10.1.0.1"))
			a.Answer(row.answer) // to the list or to the request for labels
			a.Answer(row.answer)
			follow(t, a).wait(row.said, map[string]string{"10.1.0.1": "shop/a"})
		})
	}
}

// TestToken: without a token, or certificates, the error names the file; a token never is in a message.
func TestToken(t *testing.T) {
	a := api.Start(t)
	for content, want := range map[string]string{"": "no token", "secret-1\nsecret-2": "no token", "secret-other": "status 401"} {
		if err := os.WriteFile(a.TokenFile, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		follow(t, a).wait(want, map[string]string{})
	}
	if err := os.WriteFile(a.CAFile, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	follow(t, a).wait(a.CAFile+" has none in PEM", map[string]string{})
}

// TestLimits: pods beyond the limit are not named, and that is said once.
func TestLimits(t *testing.T) {
	a := api.Start(t)
	w := follow(t, a)
	var all []pod
	for i := range podsMax + 5 {
		p := pod{Pod: Pod{"n", fmt.Sprintf("p%04d", i)}}
		p.addresses = append(p.addresses, addressOf(t, fmt.Sprintf("10.1.%d.%d", i/256, i%256)), addressOf(t, fmt.Sprintf("fd00::%x", i+1)))
		all = append(all, p)
	}
	var n names
	if changes := n.replace(all); len(changes) != namesMax || n.beyond() != 5+podsMax {
		t.Errorf("%d names, %d beyond", len(changes), n.beyond())
	}
	w.wait("", map[string]string{})
}

// TestHolder: of two pods that state an address the one that was created later has it.
func TestHolder(t *testing.T) {
	address := addressOf(t, "10.1.0.1")
	of := func(name, created string) pod {
		p := pod{Pod: Pod{"n", name}, created: created}
		p.addresses = append(p.addresses, address)
		return p
	}
	old, young := of("z", "2026-11-27T05:00:00Z"), of("a", "2026-11-27T05:00:01Z")
	for _, list := range [][]pod{{old, young}, {young, old}} {
		var n names
		var got []Name
		for _, p := range list {
			got = append(got, n.set(p)...)
		}
		if last := got[len(got)-1]; last != (Name{address, young.Pod, true}) {
			t.Errorf("%v: the holder is %v", list, last)
		}
		if got := n.remove(young.Pod); !slices.Equal(got, []Name{{address, old.Pod, true}}) {
			t.Errorf("without it: %v", got)
		}
		if got := n.remove(old.Pod); !slices.Equal(got, []Name{{address, old.Pod, false}}) {
			t.Errorf("without both: %v", got)
		}
	}
}
