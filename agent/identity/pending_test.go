package identity

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// keysAsked replaces the handler of the server: it answers as before, but calls answer
// first, which returns false to lose the answer; it records the keys of the requests.
func (n *noc) keysAsked(answer func(count int) bool) *[][]byte {
	keys := new([][]byte)
	n.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		var question enrolRequest
		if err == nil {
			err = json.Unmarshal(text, &question)
		}
		if err != nil {
			n.t.Error(err)
		}
		request, err := x509.ParseCertificateRequest(question.CertificateRequest)
		if err != nil {
			n.t.Error(err)
			return
		}
		*keys = append(*keys, request.RawSubjectPublicKeyInfo)
		if !answer(len(*keys)) {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		n.serve(w, r)
	})
	return keys
}

func (n *noc) sameKeys(t *testing.T, keys [][]byte, want int) {
	t.Helper()
	if len(keys) != want {
		t.Fatalf("%d requests, want %d", len(keys), want)
	}
	for _, key := range keys {
		if !bytes.Equal(key, keys[0]) {
			t.Error("a repeated request has another key: the server cannot recognise it")
		}
	}
}

// TestLostAnswer: requests whose answers are lost are repeated with the same key, to
// enrol and to renew, also by a new process.
func TestLostAnswer(t *testing.T) {
	n := newNOC(t)
	folder := t.TempDir()
	keys := n.keysAsked(func(count int) bool { return count >= 3 })
	for range 2 {
		if _, _, err := Enrol(t.Context(), n.options(folder, "good")); err == nil {
			t.Fatal("enrolled without an answer")
		}
	}
	i, _, err := Enrol(t.Context(), n.options(folder, "good"))
	if err != nil {
		t.Fatal(err)
	}
	n.sameKeys(t, *keys, 3)
	enrolled := (*keys)[0]

	keys = n.keysAsked(func(count int) bool { return count >= 3 })
	for range 2 {
		if err := i.Renew(t.Context()); err == nil {
			t.Fatal("renewed without an answer")
		}
	}
	if i, err = Open(folder); err != nil { // another process
		t.Fatal(err)
	}
	if err := i.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.sameKeys(t, *keys, 3)
	if bytes.Equal((*keys)[0], enrolled) {
		t.Error("the renewal did not change the key")
	}
	if err := i.Renew(t.Context()); err != nil || bytes.Equal((*keys)[3], (*keys)[0]) {
		t.Errorf("the renewal after it did not change the key: %v", err)
	}
}

// TestRenewalThatCannotBeStored: when the answer cannot be written, the agent keeps its
// certificate and repeats the request with the same key.
func TestRenewalThatCannotBeStored(t *testing.T) {
	n := newNOC(t)
	folder := t.TempDir()
	i, _, err := Enrol(t.Context(), n.options(folder, "good"))
	if err != nil {
		t.Fatal(err)
	}
	before, path := i.leaf(), filepath.Join(folder, fileName)
	// A file cannot replace a folder that is not empty.
	block := func() {
		if err := os.Rename(path, path+".kept"); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	unblock := func() {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".kept", path); err != nil {
			t.Fatal(err)
		}
	}
	keys := n.keysAsked(func(int) bool { return true })
	block()
	if err := i.Renew(t.Context()); err == nil {
		t.Fatal("no error")
	}
	if !i.leaf().Equal(before) {
		t.Error("the agent uses a certificate that is not stored")
	}
	unblock()
	if err := i.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.sameKeys(t, *keys, 2)
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 2 { // with its previous version
		t.Errorf("left %v, %v", entries, err)
	}
}

// TestKeyIsOnDiskBeforeTheRequest: without it, the server would issue a certificate for a
// key that a crash loses.
func TestKeyIsOnDiskBeforeTheRequest(t *testing.T) {
	n := newNOC(t)
	folder := t.TempDir()
	keys := n.keysAsked(func(int) bool {
		if _, err := os.Stat(filepath.Join(folder, pendingName)); err != nil {
			t.Error(err)
		}
		return true
	})
	if _, _, err := Enrol(t.Context(), n.options(folder, "good")); err != nil {
		t.Fatal(err)
	}
	// It cannot be stored: the server is not asked.
	if err := os.MkdirAll(filepath.Join(folder, pendingName, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	i, err := Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Renew(t.Context()); err == nil || len(*keys) != 1 {
		t.Errorf("got %v after %d requests", err, len(*keys))
	}
}

// No content of the file causes a crash, and none stops the agent from asking.
func FuzzPending(f *testing.F) {
	f.Add([]byte(`{"name":"a","server":"noc:1","key":"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"}`))
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(filepath.Join(folder, pendingName), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := prepare(folder, "a", "noc:1", ""); err != nil {
			t.Error(err)
		}
	})
}
