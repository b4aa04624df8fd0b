package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"pillion.dev/api"
)

// pagePolicy lets the page load what came with it and speak to this server, and
// nothing else: no other host, no script inside a document, no frame around it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const indexFile = "index.html"

// asset is a file of the page, as it is sent.
type asset struct {
	kind, tag   string
	plain, gzip []byte
}

// page holds the files of the web page in memory, by path.
type page map[string]asset

// newPage reads and compresses all files.
func newPage(files fs.FS) (page, error) {
	p := page{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		var packed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is good
		w.Write(content)                                           // a buffer does not fail
		w.Close()
		p[name] = asset{kind: mime.TypeByExtension(path.Ext(name)), tag: `"` + hex.EncodeToString(sum[:12]) + `"`, plain: content, gzip: packed.Bytes()}
		return nil
	})
	if err == nil && p[indexFile].plain == nil {
		err = errors.New("there is no " + indexFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	return p, nil
}

// ServeHTTP sends the file of the path, or says that it has not changed.
func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = indexFile
	}
	f, known := p[name]
	if !known {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the page can only be read", http.StatusMethodNotAllowed)
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", pagePolicy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-cache") // ask each time; the tag answers cheaply
	header.Set("Content-Type", f.kind)
	header.Set("Vary", "Accept-Encoding")
	content, tag := f.plain, f.tag
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		content, tag = f.gzip, strings.TrimSuffix(tag, `"`)+`-gzip"`
	}
	header.Set("ETag", tag)
	if strings.Contains(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Length", fmt.Sprint(len(content)))
	if r.Method != http.MethodHead {
		w.Write(content)
	}
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(api.OpenAPI)
}

// serveHealth answers 200 or 503, with the parts as JSON.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	parts, ok := s.health(r.Context())
	status := struct {
		Status string `json:"status"`
		Parts  []Part `json:"parts"`
	}{"ok", parts}
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		status.Status = "failing"
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	json.NewEncoder(w).Encode(status)
}
