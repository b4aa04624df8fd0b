// Package kubernetestest is an API server of Kubernetes for tests: it lists and watches pods, and has
// one node, with TLS and a bearer token.
package kubernetestest

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Node is the name of the node of the cluster.
const Node = "w1.example"

// Names of the files of clients.
const TokenFile, CAFile = "token", "ca.crt"

// API is an API server.
type API struct {
	http *httptest.Server
	// TokenFile and CAFile are for its clients.
	TokenFile, CAFile string

	mu    sync.Mutex
	token string
	pods  map[string]json.RawMessage
	// lines are what watches get, each with the version that it leads to; oldest is the first version from
	// which pods can be watched.
	lines           []line
	version, oldest int
	// lists are those that were begun, by the version that they show.
	lists    map[string][]json.RawMessage
	changed  chan struct{} // closed and replaced at each change
	dropped  chan struct{} // closed and replaced when connections of watches are cut
	answers  []http.HandlerFunc
	requests []url.Values
}

type line struct {
	version int
	text    string
}

// Start starts an API server that ends with the test.
func Start(t testing.TB) *API {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return Serve(t, listener, t.TempDir())
}

// Serve is Start with a listener on 127.0.0.1, and a folder for the files of clients.
func Serve(t testing.TB, listener net.Listener, folder string) *API {
	t.Helper()
	a := &API{pods: map[string]json.RawMessage{}, lists: map[string][]json.RawMessage{}, version: 100, oldest: 100, changed: make(chan struct{}), dropped: make(chan struct{})}
	a.http = httptest.NewUnstartedServer(a)
	a.http.Listener.Close() // on the loopback of the test itself
	a.http.Listener = listener
	a.http.Config.ErrorLog = log.New(io.Discard, "", 0)
	a.http.EnableHTTP2 = true
	a.http.StartTLS()
	t.Cleanup(func() {
		a.Drop()
		a.http.Close()
	})
	a.TokenFile, a.CAFile = filepath.Join(folder, TokenFile), filepath.Join(folder, CAFile)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.http.Certificate().Raw})
	if err := os.WriteFile(a.CAFile, certificate, 0o644); err != nil {
		t.Fatal(err)
	}
	a.Rotate(t, "secret-1")
	return a
}

// URL of the API.
func (a *API) URL() string { return a.http.URL }

// Rotate makes a token the only valid one, and puts it into the file.
func (a *API) Rotate(t testing.TB, token string) {
	t.Helper()
	if err := os.WriteFile(a.TokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = token
}

// Pod describes a pod in the form of the API.
func Pod(namespace, name, more string, addresses ...string) string {
	var ips []string
	for _, address := range addresses {
		ips = append(ips, fmt.Sprintf(`{"ip":%q}`, address))
	}
	return fmt.Sprintf(`{"kind":"Pod","metadata":{"namespace":%q,"name":%q,"creationTimestamp":"2026-11-27T05:00:00Z","resourceVersion":"VERSION"},`+
		`"spec":{"nodeName":%q%s},"status":{"phase":"Running","podIPs":[%s]}}`, namespace, name, Node, more, strings.Join(ips, ","))
}

// Put adds or changes a pod.
func (a *API) Put(key, pod string) { a.change("MODIFIED", key, pod) }

// Delete deletes a pod.
func (a *API) Delete(key string) {
	a.mu.Lock()
	pod := string(a.pods[key])
	a.mu.Unlock()
	a.change("DELETED", key, pod)
}

// Bookmark sends a bookmark.
func (a *API) Bookmark() {
	a.change("BOOKMARK", "", `{"kind":"Pod","metadata":{"resourceVersion":"VERSION"}}`)
}

func (a *API) change(kind, key, pod string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	pod = strings.ReplaceAll(pod, "VERSION", strconv.Itoa(a.version))
	switch kind {
	case "DELETED":
		delete(a.pods, key)
	case "MODIFIED":
		a.pods[key] = json.RawMessage(pod)
	}
	a.lines = append(a.lines, line{a.version, fmt.Sprintf(`{"type":%q,"object":%s}`, kind, pod)})
	a.wake()
}

// Send sends a line to watches as it is.
func (a *API) Send(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.lines = append(a.lines, line{a.version, text})
	a.wake()
}

func (a *API) wake() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// Compact forgets all versions but the current one, and what was sent before.
func (a *API) Compact() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	a.oldest, a.lines = a.version, nil
	clear(a.lists)
}

// Drop cuts the connections of watches.
func (a *API) Drop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.dropped)
	a.dropped = make(chan struct{})
}

// Answer lets the next request that has a valid token be answered like this.
func (a *API) Answer(answer http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers = append(a.answers, answer)
}

// Requests are the queries of all requests for pods so far.
func (a *API) Requests() []url.Values {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	valid := r.Header.Get("Authorization") == "Bearer "+a.token
	var answer http.HandlerFunc
	if valid && len(a.answers) > 0 {
		answer, a.answers = a.answers[0], a.answers[1:]
	}
	if r.URL.Path == "/api/v1/pods" {
		a.requests = append(a.requests, r.URL.Query())
	}
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case !valid:
		Fail(w, http.StatusUnauthorized, "Unauthorized")
	case answer != nil:
		answer(w, r)
	case r.URL.Path == "/api/v1/nodes/"+Node:
		fmt.Fprint(w, `{"kind":"Node","metadata":{"labels":{"topology.kubernetes.io/zone":"z1","kubernetes.io/os":"linux"}}}`)
	case r.URL.Path != "/api/v1/pods" || r.URL.Query().Get("fieldSelector") != "spec.nodeName="+Node:
		Fail(w, http.StatusForbidden, "forbidden: "+r.URL.String())
	case r.URL.Query().Get("watch") != "":
		a.watch(w, r)
	default:
		a.list(w, r)
	}
}

// Fail answers with a Status.
func Fail(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","code":%d,"message":%q}`, code, message)
}

// list answers with pages of two pods; all pages of a list show the version of the first.
func (a *API) list(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	version, after, continues := strings.Cut(r.URL.Query().Get("continue"), ":")
	from, _ := strconv.Atoi(after)
	if !continues {
		version = strconv.Itoa(a.version)
		var all []json.RawMessage
		for _, key := range slices.Sorted(maps.Keys(a.pods)) {
			all = append(all, a.pods[key])
		}
		a.lists[version] = all
	}
	all, known := a.lists[version]
	if !known {
		Fail(w, http.StatusGone, "the provided continue parameter is too old")
		return
	}
	to, next := min(from+2, len(all)), ""
	if to < len(all) {
		next = fmt.Sprintf("%s:%d", version, to)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": "PodList", "metadata": map[string]string{"resourceVersion": version, "continue": next}, "items": append([]json.RawMessage{}, all[min(from, to):to]...),
	})
}

func (a *API) watch(w http.ResponseWriter, r *http.Request) {
	version, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	a.mu.Lock()
	dropped, sent := a.dropped, len(a.lines)
	for sent > 0 && a.lines[sent-1].version > version {
		sent--
	}
	if version < a.oldest {
		a.mu.Unlock()
		fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}`)
		return
	}
	for {
		var texts []string
		for _, l := range a.lines[min(sent, len(a.lines)):] {
			texts = append(texts, l.text)
		}
		sent = len(a.lines)
		changed := a.changed
		a.mu.Unlock()
		for _, text := range texts {
			fmt.Fprintln(w, text)
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-dropped:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
			return
		}
		a.mu.Lock()
	}
}
